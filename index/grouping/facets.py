"""Matching rows per value of columns and terms: recorded, counted, or computed from the columns of terms.

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
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import UsageError
from tailbit.base.wording import counted
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.expression.indexed_term import IndexedTerm, sources_of, values_of
from tailbit.index.grouping import grouping
from tailbit.index.grouping.dictionary import (
    FEW,
    Coded,
    Dictionary,
    added_up,
    all_texts,
    coded,
    python_values,
)
from tailbit.index.grouping.grouping import Groups, recorded_groups
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


K = TypeVar("K")


def as_facets(groups: Groups) -> dict[Any, int]:
    """Return the counts by value, or by tuple of values, most frequent first, ties by key order.

    Keys that decode to the same text are added up.
    """
    order = groups.most_frequent()
    listed = [
        [values[code] for code in codes[order].tolist()]
        for values, codes in zip(map(groups.values, range(len(groups.columns))), groups.codes, strict=True)
    ]
    values = listed[0] if len(listed) == 1 else list(zip(*listed, strict=True))
    return _summed(values, groups.counts[order].tolist())


def most_frequent(groups: Groups, n: int) -> dict[Any, int]:
    """Return the first `n` of the facets of one column.

    Cost: `n` keys are decoded; all keys, if two of them may decode to the same text.
    """
    (column,), keys = groups.columns, groups.keys_of()
    if is_textual(groups.key_type()) and not all_texts(keys):
        return dict(list(as_facets(groups).items())[:n])
    numbers = groups.most_frequent(n)
    values = python_values(pc.take(keys, arrow_array(numbers)), groups.key_type(), column)
    return dict(zip(values, groups.counts[numbers].tolist(), strict=True))


def _summed(values: Sequence[K], counts: Sequence[int]) -> dict[K, int]:
    """Map values to row counts, in the given order; counts of equal values are added up.

    Two keys may decode to the same value.
    """
    out = dict(zip(values, counts, strict=True))
    if len(out) < len(values):
        out = {}
        for value, n in zip(values, counts, strict=True):
            out[value] = out.get(value, 0) + n
    return out


def count_distinct(groups: Groups) -> int:
    """Return the number of groups without a NULL."""
    present = np.ones(len(groups.counts), dtype=np.bool_)
    for dictionary, codes in zip(groups.keys, groups.codes, strict=True):
        if dictionary.keys.null_count:
            present &= codes != dictionary.null_place
    return int(np.count_nonzero(present))


@dataclass(frozen=True, eq=False, repr=False)
class Crosstab:
    """Rows by the values of two columns: `counts[i, j]` belongs to `rows[i]` and `columns[j]`.

    The values of both columns are in order; None stands for NULL and comes first. `row_name`, `column_name`:
    names of the two columns.
    """

    rows: list[Any]
    columns: list[Any]
    counts: npt.NDArray[np.int64]
    row_name: str = ""
    column_name: str = ""

    def __repr__(self) -> str:
        """Return the table as text, a line per value; a large table is cut."""
        names = [f"{self.row_name} / {self.column_name}", *map(str, self.columns[:_SHOWN])]
        cut = len(self.columns) > _SHOWN
        lines = [[*names, *(["..."] if cut else [])]]
        for value, counts in zip(self.rows[:_SHOWN], self.counts[:_SHOWN, :_SHOWN].tolist(), strict=True):
            lines.append([str(value), *map(str, counts), *(["..."] if cut else [])])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        shown = [
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
        ]
        hidden = len(self.rows) - _SHOWN
        return "\n".join([*shown, *([f"and {counted(hidden, 'more row')}"] if hidden > 0 else [])])

    def to_pandas(self) -> Any:
        """Return the counts as a pandas DataFrame, with the values as index and columns.

        Raises:
            UsageError: pandas is not installed.
        """
        try:
            import pandas
        except ModuleNotFoundError:
            raise UsageError(
                reason="pandas is not installed", hint="Install it: pip install pandas."
            ) from None
        index = pandas.Index(self.rows, name=self.row_name, dtype=object)
        columns = pandas.Index(self.columns, name=self.column_name, dtype=object)
        return pandas.DataFrame(self.counts, index=index, columns=columns)


_SHOWN = 20
"""Most rows and columns of a cross-tab that `repr` shows."""


def crosstab(groups: Groups) -> Crosstab:
    """Return groups by two columns as a matrix.

    Raises:
        UsageError: there would be more than MOST_CELLS cells.
    """
    (rows, columns), (row_codes, column_codes) = groups.columns, groups.codes
    used_rows, used_columns = np.unique(row_codes), np.unique(column_codes)
    if len(used_rows) * len(used_columns) > MOST_CELLS:
        reason = (
            f"the cross-tab has {counted(len(used_rows), 'row')} and {counted(len(used_columns), 'column')}"
        )
        raise UsageError(reason=reason, hint="Narrow the predicate, or ask for facets of both columns.")
    counts = np.zeros((len(used_rows), len(used_columns)), dtype=np.int64)
    counts[np.searchsorted(used_rows, row_codes), np.searchsorted(used_columns, column_codes)] = groups.counts
    row_values, column_values = groups.values(0), groups.values(1)
    return Crosstab(
        [row_values[code] for code in used_rows.tolist()],
        [column_values[code] for code in used_columns.tolist()],
        counts,
        rows.label,
        columns.label,
    )


MOST_CELLS = 10_000_000
"""Most cells of a cross-tab; a larger one is refused."""
