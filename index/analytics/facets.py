"""Matching rows per value of one column or of several, as Python values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import UsageError
from tailbit.base.wording import counted
from tailbit.index.grouping.dictionary import all_texts, python_values
from tailbit.index.grouping.groups import Groups
from tailbit.index.keys import is_textual
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array

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
    places = groups.most_frequent(n)
    values = python_values(pc.take(keys, arrow_array(places)), groups.key_type(), column)
    return dict(zip(values, groups.counts[places].tolist(), strict=True))


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
