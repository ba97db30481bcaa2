"""Sums, extremes and averages by group: from the index where the columns have postings, else row by row.

With `carrier` and `dep_delay` indexed, rows are counted by pairs of keys; each pair adds its delay times its
number of rows, and no data file is read. If one of the columns has no postings, the data is read batch by
batch. Both ways give the same result: sums are exact, and a double is rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.index.analytics.aggregates import Totals, check_numeric, mean, total
from tailbit.index.analytics.streamed import reads_data
from tailbit.index.analytics.terms import count_groups
from tailbit.index.grouping.dictionary import coded, python_values
from tailbit.index.grouping.folding import unfold
from tailbit.index.grouping.rows import Rows, fetch_values
from tailbit.index.keys import decode_keys
from tailbit.index.model import key_type_of_column
from tailbit.index.query.selection import Selection
from tailbit.index.values.literals import FLOATING, WHOLE
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, numpy_of
from tailbit.tables.model import Column
from tailbit.tables.schema import arrow_type

_SAFE = 1 << 62
"""Sums below this bound stay within 64 bits while they are added up."""


class Measure(NamedTuple):
    """An aggregate of a column in each group: `sum`, `min`, `max` or `avg`."""

    function: str
    column: Column

    @property
    def name(self) -> str:
        """Return the column name that Spark gives the aggregate, such as `sum(dep_delay)`."""
        return f"{self.function}({self.column.label})"

    @property
    def arrow(self) -> pa.DataType:
        """Return the Arrow type of the type that Spark gives the aggregate."""
        own = self.column.type
        if self.function in ("min", "max"):
            return arrow_type(own, self.column.label)
        if own.name == "decimal":
            more, behind = (10, 0) if self.function == "sum" else (4, 4)
            return pa.decimal128(min(own.precision + more, 38), min(own.scale + behind, 38))
        return pa.int64() if own.name in WHOLE and self.function == "sum" else pa.float64()


@dataclass
class _Groups:
    """The groups, numbered in the order of their first row, with their values and row counts.

    `keys`: the keys of each group, by which ties are ordered; two keys may decode to the same text.
    """

    columns: Sequence[Column]
    numbers: dict[tuple[Any, ...], int] = field(default_factory=dict)
    counts: list[int] = field(default_factory=list)
    keys: list[list[bytes]] = field(default_factory=list)

    def add(self, keys: Sequence[pa.BinaryArray], codes: Sequence[Longs], counts: Longs) -> Longs:
        """Add rows by combination of keys; return the group number of each combination."""
        group_keys = [pc.take(part, arrow_array(at)) for part, at in zip(keys, codes, strict=True)]
        values = [
            _one_nan(python_values(part, key_type_of_column(column), column))
            for part, column in zip(group_keys, self.columns, strict=True)
        ]
        orders = [[b"" if key is None else b"1" + key for key in part.to_pylist()] for part in group_keys]
        numbers = np.zeros(len(counts), dtype=np.int64)
        combinations = zip(zip(*values, strict=True), zip(*orders, strict=True), counts.tolist(), strict=True)
        for at, (value, order, count) in enumerate(combinations):
            number = numbers[at] = self.numbers.setdefault(value, len(self.counts))
            if number == len(self.counts):
                self.counts.append(0)
                self.keys.append(list(order))
            self.counts[number] += count
        return numbers

    def in_order(self) -> list[int]:
        """Return the group numbers by falling count, ties in key order; NULL is least."""
        return sorted(range(len(self.counts)), key=lambda n: (-self.counts[n], self.keys[n]))


def _one_nan(values: list[Any]) -> list[Any]:
    """Replace each NaN by the same object, so that NaN equals itself as a key of a dict."""
    return [math.nan if isinstance(value, float) and value != value else value for value in values]


@dataclass
class _Column:
    """The aggregates of one column by group: totals, and the least and the greatest key."""

    column: Column
    summed: bool
    totals: dict[int, Totals] = field(default_factory=dict)
    ends: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)

    def add(self, keys: pa.BinaryArray, codes: Longs, groups: Longs, counts: Longs) -> None:
        """Add rows to groups: entry i is `counts[i]` rows of group `groups[i]` with key `keys[codes[i]]`.

        `keys`: distinct and ascending, NULL first.
        """
        if keys.null_count:
            present = codes > 0
            codes, groups, counts = codes[present], groups[present], counts[present]
        if not len(codes):
            return
        order = np.lexsort((codes, groups))
        codes, groups, counts = codes[order], groups[order], counts[order]
        starts = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
        stops = np.append(starts[1:], len(groups))
        self._add_ends(
            groups[starts],
            pc.take(keys, arrow_array(codes[starts])),
            pc.take(keys, arrow_array(codes[stops - 1])),
        )
        if self.summed:
            self._add_totals(groups, keys, codes, counts, starts, stops)

    def _add_ends(self, groups: Longs, least: pa.BinaryArray, most: pa.BinaryArray) -> None:
        pairs = zip(groups.tolist(), least.to_pylist(), most.to_pylist(), strict=True)
        for group, low, high in pairs:
            known = self.ends.get(group, (low, high))
            self.ends[group] = (min(known[0], low), max(known[1], high))

    def _add_totals(
        self, groups: Longs, keys: pa.BinaryArray, codes: Longs, counts: Longs, starts: Longs, stops: Longs
    ) -> None:
        first = int(keys.null_count > 0)
        values = decode_keys(keys.slice(first), key_type_of_column(self.column), self.column.type)
        rows = np.add.reduceat(counts, starts)
        sums: list[Any]
        numbers = _small_numbers(self.column, values, int(counts.sum()))
        if numbers is not None:
            sums = np.add.reduceat(numbers[codes - first] * counts, starts).tolist()
        else:
            row_values = pc.take(values, arrow_array(codes - first))
            spans = zip(starts.tolist(), stops.tolist(), strict=True)
            sums = [Totals.of(self.column, row_values.slice(a, b - a), counts[a:b]).sum for a, b in spans]
        for group, n, added in zip(groups[starts].tolist(), rows.tolist(), sums, strict=True):
            group_totals = Totals(self.column, n, added)
            self.totals[group] = self.totals[group] + group_totals if group in self.totals else group_totals

    def tell(self, function: str, groups: int) -> list[Any]:
        """Return an aggregate by group; None if all rows of a group are NULL."""
        if function in ("sum", "avg"):
            reduce = total if function == "sum" else mean
            return [reduce(self.totals[n]) if n in self.totals else None for n in range(groups)]
        end = int(function == "max")
        keys = [self.ends[n][end] if n in self.ends else None for n in range(groups)]
        values: list[Any] = python_values(
            arrow_array(keys, pa.binary()), key_type_of_column(self.column), self.column
        )
        return values


def measured(
    selection: Selection, by: Sequence[Column], measures: Sequence[Measure]
) -> tuple[list[tuple[Any, ...]], list[int], dict[Measure, list[Any]]]:
    """Return the groups by columns `by` (most frequent first), their row counts, and aggregates by group.

    Raises:
        ColumnTypeError: a sum or an average of a column that is not numeric, or a column without keys.
        AggregateError: a sum or an average is beyond its type.
    """
    columns = _columns(measures)
    rows, groups = Rows.of(selection), _Groups(by)
    if any(
        reads_data(selection, column)
        for column in (*by, *(measured_column.column for measured_column in columns))
    ):
        _read(rows, by, columns, groups)
    else:
        _counted(rows, by, columns, groups)
    order = groups.in_order()
    results = {m: _one(columns, m).tell(m.function, len(groups.counts)) for m in measures}
    keys = list(groups.numbers)
    return (
        [keys[n] for n in order],
        [groups.counts[n] for n in order],
        {measure: [values[n] for n in order] for measure, values in results.items()},
    )


def _columns(measures: Sequence[Measure]) -> list[_Column]:
    """Return each measured column once, after checking its type."""
    summed = {m.column.id for m in measures if m.function in ("sum", "avg")}
    for measure in measures:
        key_type_of_column(measure.column)
        if measure.function in ("sum", "avg"):
            check_numeric(measure.column, measure.function)
    return [_Column(c, c.id in summed) for c in {m.column.id: m.column for m in measures}.values()]


def _one(columns: Sequence[_Column], measure: Measure) -> _Column:
    return next(candidate for candidate in columns if candidate.column.id == measure.column.id)


def _counted(rows: Rows, by: Sequence[Column], columns: Sequence[_Column], groups: _Groups) -> None:
    """Aggregate from the index: count rows by the group's keys and the keys of one column at a time."""
    for at, measured_column in enumerate(columns):
        pairs = count_groups(rows, [*by, measured_column.column])
        if not len(pairs.counts):
            continue
        changes = np.any([np.diff(codes) != 0 for codes in pairs.codes[: len(by)]], axis=0)
        starts = np.append(0, np.flatnonzero(changes) + 1)
        counts = np.add.reduceat(pairs.counts, starts) * (at == 0)
        numbers = groups.add(
            pairs.keys[: len(by)], [codes[starts] for codes in pairs.codes[: len(by)]], counts
        )
        group_of_pair = np.repeat(numbers, np.diff(np.append(starts, len(pairs.counts))))
        measured_column.add(pairs.keys[-1], pairs.codes[-1], group_of_pair, pairs.counts)


def _read(rows: Rows, by: Sequence[Column], columns: Sequence[_Column], groups: _Groups) -> None:
    """Aggregate row by row, from the data files with matching rows. Cost: the columns are read there."""
    wanted = list({c.id: c for c in (*by, *(measured_column.column for measured_column in columns))}.values())
    for table in fetch_values(rows.storage, list(rows.reads()), wanted):
        if not table.num_rows:
            continue
        group_of_row = _numbered(table, by, groups)
        ones = np.ones(table.num_rows, dtype=np.int64)
        for measured_column in columns:
            keys, codes = coded(table[measured_column.column.id], key_type_of_column(measured_column.column))
            measured_column.add(keys, codes, group_of_row, ones)


def _numbered(table: pa.Table, by: Sequence[Column], groups: _Groups) -> Longs:
    """Return the group number of each row, and count the rows of the groups."""
    keys, codes = zip(*(coded(table[c.id], key_type_of_column(c)) for c in by), strict=True)
    sizes = [len(part) for part in keys]
    if math.prod(sizes) < _SAFE:
        folded = np.zeros(table.num_rows, dtype=np.int64)
        for part, size in zip(codes, sizes, strict=True):
            folded = folded * size + part
        some, group_of_row, counts = np.unique(folded, return_inverse=True, return_counts=True)
        combined = unfold(some, sizes)
    else:
        rows, group_of_row, counts = np.unique(
            np.stack(codes, 1), axis=0, return_inverse=True, return_counts=True
        )
        combined = [rows[:, n] for n in range(len(by))]
    return groups.add(keys, combined, counts)[group_of_row.ravel()]


def _small_numbers(column: Column, values: pa.Array, rows: int) -> Longs | None:
    """Return integers, or unscaled integers of decimals, if no sum of them exceeds 64 bits; else None."""
    if column.type.name in FLOATING or not len(values):
        return None
    if column.type.name in WHOLE:
        numbers = numpy_of(pc.cast(values, pa.int64()))
    else:
        words = np.frombuffer(values.buffers()[1], dtype=np.int64)
        pairs = words[2 * values.offset : 2 * (values.offset + len(values))].reshape(-1, 2)
        if not np.array_equal(pairs[:, 1], pairs[:, 0] >> 63):
            return None
        numbers = pairs[:, 0]
    most = max(abs(int(numbers.min())), abs(int(numbers.max())))
    return numbers if most * rows < _SAFE else None
