"""The definitions that each data file of a table requires: this module alone decides them.

The planner, the plan of a batch, the filler, `status` and REBUILD call it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import ColumnTypeError, PredicateError, UnknownColumnError
from tailbit.index.model import Definition
from tailbit.index.predicate.tree import Node, columns_of
from tailbit.index.predicate.truth import judged
from tailbit.index.sql.bind import bind
from tailbit.index.sql.terms import indexed_columns_of, with_old_names
from tailbit.tables.model import Column
from tailbit.tables.schema import Schema

Partition = Mapping[str, str | None]
"""Physical name of a partition column to the log's text of its value in a file."""

_ONE_ROW = pa.table({"": pa.nulls(1)})


@dataclass(frozen=True)
class Requirements:
    """The definitions that the files of a table want, at one schema.

    `columns`: columns and terms that the table has values of; those of deferred definitions too, because
    files that have such a definition must be counted in it. `everywhere`: ids of the definitions that every
    file wants. `conditional`: ids of those that some partitions want, with their conditions on the partition.
    """

    columns: tuple[Column, ...]
    everywhere: tuple[str, ...]
    conditional: Mapping[str, Node]
    _ids_by_partition: dict[frozenset[tuple[str, str | None]], tuple[str, ...]] = field(
        default_factory=dict, compare=False
    )

    def of(self, partition: Partition) -> tuple[str, ...]:
        """Return the ids of the definitions that a file with these partition values wants.

        Cost: a condition is judged once per set of values.
        """
        if not self.conditional:
            return self.everywhere
        values = frozenset(partition.items())
        if values not in self._ids_by_partition:
            inside = (
                id_ for id_, node in self.conditional.items() if judged(node, _ONE_ROW, partition)[0][0]
            )
            self._ids_by_partition[values] = (*self.everywhere, *inside)
        return self._ids_by_partition[values]


def requirements_of(definitions: Iterable[Definition], schema: Schema) -> Requirements:
    """Return what files want at a schema.

    No file wants a deferred definition, one that reads a column that is gone or has another type, or one
    whose condition names a column that is no partition column of the schema.
    """
    definitions = tuple(definitions)
    columns = tuple(indexed_columns_of(definitions, schema))
    present = {column.id for column in columns}
    there = (d for d in definitions if d.id in present or not d.has_postings)
    ready = [d for d in there if not d.is_deferred]
    conditions = {d.id: _condition(d, schema) for d in ready if d.only}
    return Requirements(
        columns,
        tuple(d.id for d in ready if not d.only),
        {id_: node for id_, node in conditions.items() if node is not None},
    )


def _condition(definition: Definition, schema: Schema) -> Node | None:
    """Return a condition on partition columns; None if the schema lacks one of the columns that it names.

    A column that was renamed is the same column.
    """
    try:
        node = bind(definition.only, with_old_names(schema, definition.only_columns))
    except (PredicateError, UnknownColumnError, ColumnTypeError):
        return None
    return node if all(column.partition for column in columns_of(node)) else None
