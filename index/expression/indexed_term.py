"""An indexed expression as a column: its values have postings, keys, counts and codes like those of a column.

Only code that reads data files must know the difference: it reads the columns of the expression, and
evaluates the expression on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.lazy import lazy
from tailbit.index.functions.tree import Call, Expression, Ref, columns_in, key_of
from tailbit.index.tuple_keys import tuple_of
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, decoded, filled, numpy_of
from tailbit.tables.model import Column

if TYPE_CHECKING:
    from tailbit.index.expression import evaluate as evaluation
else:
    evaluation = lazy("tailbit.index.expression.evaluate")


@dataclass(frozen=True, slots=True)
class IndexedTerm(Column):
    """The values of a deterministic expression over the columns of one row.

    `physical`: the id of the index definition that the term belongs to, `#` and hexadecimal digits. `name`:
    the text of the expression.
    """

    expression: Expression = field(kw_only=True)

    @property
    def id(self) -> str:
        """The id of the definition; no column has it, because a `#` in a column's id stands in backticks."""
        return self.physical[0]

    @property
    def label(self) -> str:
        """The text of the expression."""
        return self.name[0]

    @property
    def key(self) -> str:
        """Return the key of the expression, which equal expressions share."""
        return key_of(self.expression)


def indexed_term(id_: str, text: str, expression: Expression) -> IndexedTerm:
    """Return the term of an expression under the id of its definition; `text` is shown to people."""
    return IndexedTerm((text,), (id_,), expression.type, expression=expression)


@dataclass(frozen=True, slots=True)
class IndexedTuple(IndexedTerm):
    """The tuples of the values of two to four columns or terms (`parts`) of one row."""

    parts: tuple[Column, ...] = field(kw_only=True)


def indexed_tuple(id_: str, texts: Sequence[str], expressions: Sequence[Expression]) -> IndexedTuple:
    """Return the tuple of some expressions under the id of its definition; `texts` are shown to people."""
    type_ = tuple_of([expression.type for expression in expressions])
    columns = tuple(
        expression.column if isinstance(expression, Ref) else indexed_term(f"{id_}.{n}", text, expression)
        for n, (text, expression) in enumerate(zip(texts, expressions, strict=True), 1)
    )
    whole = Call("tuple", tuple(expressions), type_)
    return IndexedTuple((", ".join(texts),), (id_,), type_, expression=whole, parts=columns)


def sources_of(columns: Iterable[Column]) -> list[Column]:
    """Return the columns of the table that some columns and terms read, each once, in order of mention."""
    read = (columns_in(c.expression) if isinstance(c, IndexedTerm) else (c,) for c in columns)
    return list({column.id: column for several in read for column in several}.values())


def with_terms(table: pa.Table, columns: Sequence[Column]) -> tuple[pa.Table, dict[str, Mask]]:
    """Compute the terms among some columns over a table of the columns that they read, named by id.

    Returns: the table with a column for each term, NULL where the term raises; and for each term that raises,
    by id, the mask of the rows where it does.
    """
    raising: dict[str, Mask] = {}
    for term in columns:
        if isinstance(term, IndexedTerm):
            read = {column.id: table[column.id].combine_chunks() for column in sources_of([term])}
            values, raised = values_of(term, read, table.num_rows)
            table = table.append_column(term.id, values)
            if raised is not None:
                raising[term.id] = raised
    return table, raising


CallCaches = Callable[[str], "evaluation.CallCache"]
"""Function from a name to a cache of calls: "" for those over rows, a column's id for its distinct values."""


def values_of(
    term: IndexedTerm, columns: Mapping[str, pa.Array], rows: int, caches: CallCaches | None = None
) -> tuple[pa.Array, Mask | None]:
    """Return a term's values, NULL where it raises, and the mask of rows that raise, None if there are none.

    `columns`: by column id, the values of the columns that the term reads. A term of one dictionary-coded
    column is computed per distinct value, and stays coded. `caches`: caches for the same rows.
    """
    if isinstance(term, IndexedTuple):
        return _of_parts(term, columns, rows, caches)
    coded = next(iter(columns.values())) if len(columns) == 1 else None
    if coded is not None and pa.types.is_dictionary(coded.type):
        return _of_coded(term, next(iter(columns)), coded, caches)
    plain = {id_: decoded(values) for id_, values in columns.items()}
    outcome = evaluation.evaluate(term.expression, plain, rows, None if caches is None else caches(""))
    return outcome.values, outcome.failed if outcome.raised is not None and outcome.raised.any() else None


def _of_parts(
    term: IndexedTuple, columns: Mapping[str, pa.Array], rows: int, caches: CallCaches | None
) -> tuple[pa.StructArray, Mask | None]:
    """Compute the parts of a tuple, each by itself; the tuple raises where any part does."""
    values: list[pa.Array] = []
    raised: list[Mask] = []
    for part in term.parts:
        if isinstance(part, IndexedTerm):
            own = {column.id: columns[column.id] for column in sources_of([part])}
            part_values, raising = values_of(part, own, rows, caches)
            raised += [] if raising is None else [raising]
        else:
            part_values = columns[part.id]
        values.append(part_values)
    names = [part.name[0] for part in term.type.fields]
    return pa.StructArray.from_arrays(values, names), reduce(np.logical_or, raised) if raised else None


def _of_coded(
    term: IndexedTerm, id_: str, coded: pa.DictionaryArray, caches: CallCaches | None
) -> tuple[pa.Array, Mask | None]:
    distinct = pa.concat_arrays([coded.dictionary, pa.nulls(1, coded.dictionary.type)])
    own_cache = None if caches is None else caches(id_)
    of_values: CallCaches | None = None if own_cache is None else lambda _: own_cache
    values, raised = values_of(term, {id_: distinct}, len(distinct), of_values)
    codes = numpy_of(filled(coded.indices, len(distinct) - 1), dtype=np.int64)
    own = pc.dictionary_encode(values)
    return (
        pa.DictionaryArray.from_arrays(pc.take(own.indices, arrow_array(codes)), own.dictionary),
        None if raised is None or not raised[codes].any() else raised[codes],
    )
