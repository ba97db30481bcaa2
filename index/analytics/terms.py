"""Groups by columns and terms: recorded, counted, or computed from groups by the columns that terms read.

Where postings or partition values tell the rows per key of those columns, a term is computed once per key, or
per combination of keys, and no data file is read.

Worked example: facets of `lower(city)`, of which only `city` is indexed.

    rows by city      Rome 3   rome 1   Oslo 2
    lower(city)       rome     rome     oslo
    counted           rome 4   oslo 2
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pyarrow as pa

from tailbit.base.arrays import Mask
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.expression.indexed_term import IndexedTerm, sources_of, values_of
from tailbit.index.grouping import grouping
from tailbit.index.grouping.dictionary import Dictionary, coded
from tailbit.index.grouping.folding import FEW, Coded, added_up
from tailbit.index.grouping.groups import Groups
from tailbit.index.grouping.recorded import recorded_groups
from tailbit.index.grouping.rows import Rows, raise_first
from tailbit.index.keys import KEY_TYPES, decode_keys, is_textual
from tailbit.index.model import key_type_of_column
from tailbit.index.query.recorded_counts import RecordedCounts
from tailbit.index.query.selection import Selection
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.model import Column
from tailbit.tables.schema import arrow_type


def is_counted(spaces: Sequence[SpaceView], column: Column) -> bool:
    """Return whether postings or the log tell the rows per value of a column or term, in some row space."""
    return _has_keys(spaces, column) or _is_of_keys(spaces, column)


def _has_keys(spaces: Sequence[SpaceView], column: Column) -> bool:
    """Return whether a column or term has postings itself, or is a partition column."""
    return column.partition or any(column.id in s.columns for space in spaces for s in space.segments)


def _is_of_keys(spaces: Sequence[SpaceView], column: Column) -> bool:
    """Return whether a term without postings can be computed from the keys of the columns that it reads."""
    if not isinstance(column, IndexedTerm) or _has_keys(spaces, column):
        return False
    sources = sources_of([column])
    if not all(_has_values(source) and _has_keys(spaces, source) for source in sources):
        return False
    return len(sources) == 1 or math.prod(_keys(spaces, source) for source in sources) <= FEW


def _has_values(column: Column) -> bool:
    """Return whether the keys of a column hold its values as they are."""
    return column.type.name in KEY_TYPES or column.type.name == "decimal"


def _keys(spaces: Sequence[SpaceView], column: Column) -> int:
    """Estimate the number of keys of a column; 1 for a partition column."""
    segments = (s for space in spaces for s in space.segments if column.id in s.columns)
    return max((segment.weight(column.id)[0] for segment in segments), default=1)


def count_groups(
    selection: Selection,
    columns: Sequence[Column],
    recorded: RecordedCounts | None = None,
    ordered: bool = True,
) -> Groups:
    """Count the rows of a selection per combination of keys of columns and terms.

    `recorded`: the value counts of the index, if they describe this source. `ordered`: False if groups by one
    column may come in any order, which may save a sort.

    Raises:
        ColumnTypeError: a column's type has no keys (struct, array, map ...).
        EvaluationError: a term raises for a row.
    """
    for column in columns:
        key_type_of_column(column)
    groups = None if recorded is None else recorded_groups(selection, columns, recorded)
    if groups is not None:
        return groups
    spaces = selection.coverage.spaces
    terms = {c.id: c for c in columns if isinstance(c, IndexedTerm) and _is_of_keys(spaces, c)}
    if not terms:
        return grouping.count_groups(Rows.of(selection), columns, ordered=ordered)
    read = [source for c in columns for source in (sources_of([c]) if c.id in terms else [c])]
    sources = list({column.id: column for column in read}.values())
    groups = count_groups(selection, sources, recorded, ordered=False)
    by_id = {
        column.id: Coded(dictionary.keys, codes)
        for column, dictionary, codes in zip(sources, groups.keys, groups.codes, strict=True)
    }
    by_id |= {id_: _coded(selection, term, by_id) for id_, term in terms.items()}
    counted = added_up([by_id[column.id] for column in columns], groups.counts)
    dictionaries = [Dictionary(of.keys, []) for of in counted.columns]
    return Groups(columns, dictionaries, [of.codes for of in counted.columns], counted.counts, groups.steps)


def _coded(selection: Selection, term: IndexedTerm, by_id: dict[str, Coded]) -> Coded:
    """Compute the keys of a term, and the code of its key for each group of rows.

    `by_id`: keys and codes, by group, of the columns that the term reads. A term of one column is computed
    once per key of that column, a term of several columns once per group.
    """
    sources = [by_id[source.id] for source in sources_of([term])]
    alone = len(sources) == 1
    keys = [sources[0].keys] if alone else [pc.take(of.keys, arrow_array(of.codes)) for of in sources]
    values, raised = _values(term, keys)
    if raised is not None and (raised[sources[0].codes] if alone else raised).any():
        rows = Rows.of(selection)
        raise_first(rows.storage, list(rows.reads()), [term])
    term_keys, codes = coded(values, key_type_of_column(term))
    return Coded(term_keys, codes[sources[0].codes] if alone else codes)


def _values(term: IndexedTerm, keys: Sequence[pa.BinaryArray]) -> tuple[pa.Array, Mask | None]:
    """Compute a term for rows of keys; `keys`: an array for each column that the term reads, in order."""
    columns = {source.id: _decoded(of, source) for source, of in zip(sources_of([term]), keys, strict=True)}
    return values_of(term, columns, len(keys[0]))


def _decoded(keys: pa.BinaryArray, column: Column) -> pa.Array:
    key_type = key_type_of_column(column)
    if is_textual(key_type):
        return keys.view(arrow_type(column.type, column.label))
    return decode_keys(keys, key_type, column.type)
