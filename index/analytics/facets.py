"""Matching rows per value of one column or of several, as Python values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import UsageError
from tailbit.base.lazy import lazy
from tailbit.base.wording import counted
from tailbit.index.analytics.terms import count_groups, key_counts
from tailbit.index.grouping.dictionary import all_texts, python_values
from tailbit.index.grouping.key_counts import KeyCounts
from tailbit.index.grouping.rows import Rows
from tailbit.index.keys import is_textual
from tailbit.index.query.recorded_counts import RecordedCounts
from tailbit.index.query.selection import Selection
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.model import Column

if TYPE_CHECKING:
    from tailbit.index.grouping import tuples
    from tailbit.index.grouping.groups import GroupCounts
else:
    tuples = lazy("tailbit.index.grouping.tuples")

K = TypeVar("K")


def as_facets(key_counts: KeyCounts) -> dict[Any, int]:
    """Return the counts by value, most frequent first; keys that decode to the same text are added up."""
    order = key_counts.most_frequent()
    listed, counts = key_counts.values(), key_counts.counts[order].tolist()
    values = [listed[place] for place in order.tolist()]
    return _summed(values, counts)


def most_frequent(key_counts: KeyCounts, n: int) -> dict[Any, int]:
    """Return the first `n` of the facets.

    Cost: `n` keys are decoded; all keys, if two of them may decode to the same text.
    """
    if is_textual(key_counts.key_type) and not all_texts(key_counts.keys):
        return dict(list(as_facets(key_counts).items())[:n])
    places = key_counts.most_frequent(n)
    values = python_values(
        pc.take(key_counts.keys, arrow_array(places)), key_counts.key_type, key_counts.column
    )
    return dict(zip(values, key_counts.counts[places].tolist(), strict=True))


def group_counts(
    selection: Selection, columns: Sequence[Column], recorded: RecordedCounts | None
) -> GroupCounts:
    """Count the rows of a selection per combination of keys of some columns.

    `recorded`: the value counts of the index, if they describe this source.

    Raises:
        ColumnTypeError: a column's type has no keys (struct, array, map ...).
    """
    groups = None
    if recorded is not None and recorded.of_tuples:
        groups = tuples.recorded_groups(selection, columns, recorded)
    return groups or count_groups(Rows.of(selection), columns)


def group_facets(
    selection: Selection, columns: Sequence[Column], recorded: RecordedCounts | None
) -> dict[tuple[Any, ...], int]:
    """Return the number of matching rows by tuple of values, most frequent first, ties by key order.

    Raises:
        ColumnTypeError: a column's type has no keys (struct, array, map ...).
    """
    groups = group_counts(selection, columns, recorded)
    order = np.argsort(-groups.counts, kind="stable")
    listed = [
        map(values.__getitem__, codes[order].tolist())
        for values, codes in zip(groups.values(), groups.codes, strict=True)
    ]
    counts = groups.counts[order].tolist()
    return _summed(list(zip(*listed, strict=True)), counts)


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


def steps_of(
    selection: Selection, columns: Sequence[Column], recorded: RecordedCounts | None
) -> list[dict[str, Any]]:
    """Return how the facets of some columns are counted, step by step. Cost: counts them."""
    counted_rows = (
        key_counts(selection, columns[0], recorded)
        if len(columns) == 1
        else group_counts(selection, columns, recorded)
    )
    return [step.account() for step in counted_rows.steps]


def count_distinct(
    selection: Selection, columns: Sequence[Column], recorded: RecordedCounts | None = None
) -> int:
    """Return the number of distinct combinations of values without a NULL.

    Raises:
        ColumnTypeError: a column's type has no keys (struct, array, map ...).
    """
    groups = group_counts(selection, columns, recorded)
    present = np.ones(len(groups.counts), dtype=np.bool_)
    for keys, codes in zip(groups.keys, groups.codes, strict=True):
        if keys.null_count:
            present &= codes != 0
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
        left = len(self.rows) - _SHOWN
        return "\n".join([*shown, *([f"and {counted(left, 'more row')}"] if left > 0 else [])])

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


def crosstab(
    selection: Selection, rows: Column, columns: Column, recorded: RecordedCounts | None = None
) -> Crosstab:
    """Return the matching rows by the values of two columns.

    Raises:
        ColumnTypeError: a column's type has no keys (struct, array, map ...).
        UsageError: there would be more than MOST_CELLS cells.
    """
    groups = group_counts(selection, [rows, columns], recorded)
    (row_values, column_values), (at_row, at_column) = groups.values(), groups.codes
    rows_at, columns_at = np.unique(at_row), np.unique(at_column)
    if len(rows_at) * len(columns_at) > MOST_CELLS:
        reason = f"the cross-tab has {counted(len(rows_at), 'row')} and {counted(len(columns_at), 'column')}"
        raise UsageError(reason=reason, hint="Narrow the predicate, or ask for facets of both columns.")
    counts = np.zeros((len(rows_at), len(columns_at)), dtype=np.int64)
    counts[np.searchsorted(rows_at, at_row), np.searchsorted(columns_at, at_column)] = groups.counts
    return Crosstab(
        [row_values[at] for at in rows_at.tolist()],
        [column_values[at] for at in columns_at.tolist()],
        counts,
        rows.label,
        columns.label,
    )


MOST_CELLS = 10_000_000
"""Most cells of a cross-tab; a larger one is refused."""
