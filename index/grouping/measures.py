"""Sums, extremes and averages, by group or of all rows: by keys of columns with postings, else by data.

Sums and averages, exact, in Spark's result types. The sum of integers is a BIGINT, and the sum of decimals
has ten more digits; Spark raises for a larger sum, and so does this module. Spark adds row by row, so Spark
may raise for an intermediate sum although the total fits, and rounds doubles at each step; here only the
total is checked, and a double is rounded once.

Source: Spark 4.2, Sum.scala, Average.scala and DecimalAggregates of Optimizer.scala.

With `carrier` and `dep_delay` indexed, rows are counted by pairs of keys; each pair adds its delay times its
number of rows, and no data file is read. If one of the columns has no postings, the data is read batch by
batch; of all rows together, values are added up and never counted, which would take twenty times as long.
Both ways give the same result: sums are exact, and a double is rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import AggregateError, ColumnTypeError, CorruptIndexError
from tailbit.index.grouping.dictionary import coded, full_keys, python_values, unfold
from tailbit.index.grouping.facets import count_groups, is_counted
from tailbit.index.grouping.grouping import Groups
from tailbit.index.grouping.rows import Rows, fetch_values
from tailbit.index.keys import (
    decimal_longs,
    decimal_words,
    decode_keys,
    encode_value,
    integer_keys,
    ordered_ints,
)
from tailbit.index.model import key_type_of_column
from tailbit.index.predicate.tree import Constant
from tailbit.index.query.recorded_counts import RecordedCounts
from tailbit.index.query.selection import Selection
from tailbit.index.values.literals import FLOATING, NUMERIC, WHOLE
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, numpy_of
from tailbit.tables.model import Column, DataType
from tailbit.tables.schema import arrow_type

_LONG = 1 << 63
_MOST_DIGITS = 38
_EXACT = 1 << 53
"""Largest bound below which every integer is exactly a double."""

_BY_DOUBLE = 11
"""Spark averages decimals of up to this many digits as doubles."""


@dataclass(frozen=True)
class Totals:
    """The number of values of a column that are not NULL, and their exact sum.

    `sum`: an int for integers; the unscaled int for decimals; for floats a Fraction, or the infinity or NaN
    that the sum is if a value is not finite.
    """

    column: Column
    rows: int
    sum: int | Fraction | float

    @classmethod
    def of(cls, column: Column, values: pa.Array, counts: Longs | None = None) -> Totals:
        """Return the totals of non-NULL values, each repeated `counts` times (once if None)."""
        times = np.ones(len(values), dtype=np.int64) if counts is None else counts
        floating = column.type.name in FLOATING
        exact_sum = _float_sum(values, times) if floating else _whole_sum(values, times)
        return cls(column, int(times.sum()), exact_sum)

    def __add__(self, other: Totals) -> Totals:
        sums = (self.sum, other.sum)
        # A sum is a float where a value is infinite or NaN: finite values no longer matter.
        floats = [of for of in sums if isinstance(of, float)]
        return Totals(self.column, self.rows + other.rows, sum(floats) if floats else sum(sums))


def check_numeric(column: Column, function: str) -> None:
    """Check that a column is numeric.

    Raises:
        ColumnTypeError: the column is of no numeric type.
    """
    if column.type.name not in NUMERIC:
        reason = f"{function} takes integers, floats and decimals"
        hint = "Ask for min, max or the facets."
        raise ColumnTypeError(column=column.label, type=column.type.sql, reason=reason, hint=hint)


def total(column_totals: Totals) -> int | float | Decimal | None:
    """Return the sum of a column; None if all values are NULL.

    Raises:
        AggregateError: the sum is beyond the type that Spark gives it.
    """
    type_, whole = column_totals.column.type, column_totals.sum
    if not column_totals.rows:
        return None
    if not isinstance(whole, int):
        return _rounded(whole, 1)
    if type_.name in WHOLE:
        if not -_LONG <= whole < _LONG:
            raise _overflow(column_totals, "sum", f"{whole} is beyond BIGINT")
        return whole
    _check_digits(column_totals, "sum", whole, type_)
    return Decimal(whole).scaleb(-type_.scale, _WIDE)


def mean(column_totals: Totals) -> float | Decimal | None:
    """Return the average of a column; None if all values are NULL."""
    type_, whole = column_totals.column.type, column_totals.sum
    if not column_totals.rows:
        return None
    if not isinstance(whole, int):
        return _rounded(whole, column_totals.rows)
    if type_.name in WHOLE:
        return _rounded(Fraction(whole), column_totals.rows)
    _check_digits(column_totals, "avg", whole, type_)
    return _decimal_mean(column_totals, whole, column_totals.rows, type_)


def _decimal_mean(column_totals: Totals, whole: int, rows: int, type_: DataType) -> Decimal:
    """Return the average as a decimal with four more fractional digits, rounded half up as Spark does.

    Source: DecimalType.bounded cuts precision and scale at 38; adjustPrecisionScale does not apply here.
    """
    scale = min(type_.scale + 4, _MOST_DIGITS)
    if type_.precision <= _BY_DOUBLE and abs(whole) < _EXACT:
        exact = Decimal(repr(float(whole) / rows / math.pow(10.0, type_.scale)))
    else:
        digits = abs(whole) * 10 ** (_MOST_DIGITS - type_.scale)
        quotient, rest = divmod(digits, rows)
        quotient += 2 * rest >= rows
        exact = Decimal(-quotient if whole < 0 else quotient).scaleb(-_MOST_DIGITS, _WIDE)
    out = exact.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _WIDE)
    if len(out.as_tuple().digits) > min(type_.precision + 4, _MOST_DIGITS):
        raise _overflow(column_totals, "avg", f"{out} has too many digits")
    return out


_WIDE = Context(prec=200)


def _overflow(column_totals: Totals, function: str, reason: str) -> AggregateError:
    return AggregateError(function=function, column=column_totals.column.label, reason=reason)


def _check_digits(column_totals: Totals, function: str, whole: int, type_: DataType) -> None:
    digits = min(type_.precision + 10, _MOST_DIGITS)
    if abs(whole) >= 10**digits:
        raise _overflow(column_totals, function, f"the sum has more than {digits} digits")


def _whole_sum(values: pa.Array, counts: Longs) -> int:
    """Return the sum of integers, or of the unscaled integers of decimals."""
    if pa.types.is_decimal128(values.type):
        words = decimal_words(values)
        return (_dot(words[:, 1].view(np.int64), counts) << 64) + _dot(words[:, 0], counts)
    return _dot(numpy_of(pc.cast(values, pa.int64())), counts)


_FEW = 1 << 31
"""Products of fewer rows than this with half a number fit into 64 bits together."""


def _dot(numbers: npt.NDArray[Any], counts: Longs) -> int:
    """Return the exact sum of products of integers of 64 bits, signed or not, with counts of rows."""
    if int(counts.sum()) >= _FEW:
        return sum(n * count for n, count in zip(numbers.tolist(), counts.tolist(), strict=True))
    low = (numbers & numbers.dtype.type(0xFFFFFFFF)).astype(np.int64) @ counts
    high = (numbers >> numbers.dtype.type(32)).astype(np.int64) @ counts
    return (int(high) << 32) + int(low)


def _float_sum(values: pa.Array, counts: Longs) -> Fraction | float:
    """Return the exact sum of doubles; the infinity or NaN of the sum if a value is not finite."""
    numbers = numpy_of(pc.cast(values, pa.float64()))
    finite = np.isfinite(numbers)
    if not finite.all():
        return float(sum(numbers[~finite].tolist()))
    mantissas, exponents = np.frexp(numbers)
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    sums = Fraction(0)
    for exponent in np.unique(exponents).tolist():
        of_exponent = exponents == exponent
        sums += Fraction(_dot(whole[of_exponent], counts[of_exponent])) * Fraction(2) ** (exponent - 53)
    return sums


def _rounded(exact: Fraction | float, rows: int) -> float:
    """Return the double nearest to `exact / rows`; an infinity beyond the range of doubles."""
    if isinstance(exact, float):
        return exact
    try:
        return float(exact / rows)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


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
        group_keys = [
            pc.take(column_keys, arrow_array(column_codes))
            for column_keys, column_codes in zip(keys, codes, strict=True)
        ]
        values = [
            _one_nan(python_values(column_keys, key_type_of_column(column), column))
            for column_keys, column in zip(group_keys, self.columns, strict=True)
        ]
        orders = [
            [b"" if key is None else b"1" + key for key in column_keys.to_pylist()]
            for column_keys in group_keys
        ]
        numbers = np.zeros(len(counts), dtype=np.int64)
        combinations = zip(zip(*values, strict=True), zip(*orders, strict=True), counts.tolist(), strict=True)
        for place, (value, order, count) in enumerate(combinations):
            number = numbers[place] = self.numbers.setdefault(value, len(self.counts))
            if number == len(self.counts):
                self.counts.append(0)
                self.keys.append(list(order))
            self.counts[number] += count
        return numbers

    def join(self, other: _Groups) -> list[int]:
        """Add the groups of other rows; return the number here of each."""
        numbers = []
        for value, count, keys in zip(other.numbers, other.counts, other.keys, strict=True):
            # NaN of another process is another object.
            number = self.numbers.setdefault(tuple(_one_nan(list(value))), len(self.counts))
            if number == len(self.counts):
                self.counts.append(0)
                self.keys.append(keys)
            self.counts[number] += count
            numbers.append(number)
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
    bounded: bool
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
        for ends in zip(groups.tolist(), least.to_pylist(), most.to_pylist(), strict=True):
            self.widen(*ends)

    def widen(self, group: int, low: bytes, high: bytes) -> None:
        """Take two keys of a group into account for its extremes."""
        least, most = self.ends.get(group, (low, high))
        self.ends[group] = (min(least, low), max(most, high))

    def add_groups(self, groups: Groups) -> None:
        """Add groups by the column alone as rows of the first group."""
        first, codes = int(groups.nulls > 0), groups.codes[0]
        if len(codes) == first:
            return
        if self.bounded:
            ends = pc.take(groups.keys[0].keys, arrow_array(codes[[first, -1]]))
            self.widen(0, *ends.to_pylist())
        if self.summed:
            values = decode_keys(groups.keys_of().slice(first), groups.key_type(), self.column.type)
            self.totals[0] = Totals.of(self.column, values, groups.counts[first:])

    def add_values(self, values: pa.Array) -> None:
        """Add values of the first group that are not NULL, of which no key is made but for the extremes."""
        if not len(values):
            return
        if self.summed:
            added = Totals.of(self.column, values)
            self.totals[0] = self.totals[0] + added if 0 in self.totals else added
        if self.bounded:
            ends = full_keys(_ends(values, self.column), key_type_of_column(self.column))
            self.widen(0, *ends.to_pylist())

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

    def join(self, other: _Column, numbers: Sequence[int]) -> None:
        """Add the aggregates of other rows; `numbers`: the number here of each of their groups."""
        for group, totals in other.totals.items():
            number = numbers[group]
            self.totals[number] = self.totals[number] + totals if number in self.totals else totals
        for group, ends in other.ends.items():
            self.widen(numbers[group], *ends)

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


@dataclass
class Aggregates:
    """Aggregates of some rows by group, or of all of them as one group; those of other rows can be added."""

    groups: _Groups
    columns: Sequence[_Column]

    @classmethod
    def none(cls, by: Sequence[Column], measures: Sequence[Measure]) -> Aggregates:
        """Return the aggregates of no rows."""
        return cls(_Groups(by), _columns(measures))

    def add(self, other: Aggregates) -> None:
        """Add aggregates of other rows, by the same columns; `other` may come from another process."""
        numbers = self.groups.join(other.groups) if self.groups.columns else [0]
        for own, theirs in zip(self.columns, other.columns, strict=True):
            own.join(theirs, numbers)

    def of_all(self, measure: Measure) -> Any:
        """Return an aggregate of all rows; None if there is no value that is not NULL."""
        return _column_of(self.columns, measure).tell(measure.function, 1)[0]

    def by_group(
        self, measures: Sequence[Measure]
    ) -> tuple[list[tuple[Any, ...]], list[int], dict[Measure, list[Any]]]:
        """Return the groups (most frequent first), their row counts, and aggregates by group."""
        groups, order = self.groups, self.groups.in_order()
        results = {m: _column_of(self.columns, m).tell(m.function, len(groups.counts)) for m in measures}
        keys = list(groups.numbers)
        return (
            [keys[n] for n in order],
            [groups.counts[n] for n in order],
            {measure: [values[n] for n in order] for measure, values in results.items()},
        )


def aggregated(
    selection: Selection,
    by: Sequence[Column],
    measures: Sequence[Measure],
    recorded: RecordedCounts | None = None,
) -> Aggregates:
    """Return the aggregates of a selection by the groups of columns `by`; without any, of all its rows.

    `recorded`: the value counts of the index, if they describe this source. Cost: a column without postings
    is read at the rows; extremes of the whole table are read only in files whose statistics leave open
    whether they hold an extreme.
    """
    aggregates = Aggregates.none(by, measures)
    columns, groups, spaces = aggregates.columns, aggregates.groups, selection.coverage.spaces
    if not by:
        for of in columns:
            if is_counted(spaces, of.column):
                of.add_groups(count_groups(selection, [of.column], recorded))
            else:
                _read_whole(selection, of)
    elif all(is_counted(spaces, column) for column in (*by, *(of.column for of in columns))):
        _counted(selection, recorded, by, columns, groups)
    else:
        _read(Rows.of(selection), by, columns, groups)
    return aggregates


@dataclass(frozen=True)
class Summary:
    """The statistics of a column over some rows; `sum` and `avg` are None if the column is not numeric."""

    rows: int
    nulls: int
    distinct: int
    min: Any
    max: Any
    sum: int | float | Decimal | None
    avg: float | Decimal | None


def summary(groups: Groups) -> Summary:
    """Return the statistics of a column, from its groups."""
    (column,) = groups.columns
    numeric = column.type.name in NUMERIC
    aggregates = _Column(column, summed=numeric, bounded=True)
    aggregates.add_groups(groups)
    return Summary(
        rows=int(groups.counts.sum()),
        nulls=groups.nulls,
        distinct=len(groups.counts) - (groups.nulls > 0),
        min=aggregates.tell("min", 1)[0],
        max=aggregates.tell("max", 1)[0],
        sum=aggregates.tell("sum", 1)[0] if numeric else None,
        avg=aggregates.tell("avg", 1)[0] if numeric else None,
    )


def _columns(measures: Sequence[Measure]) -> list[_Column]:
    """Return each measured column once, after checking its type."""
    summed = {m.column.id for m in measures if m.function in ("sum", "avg")}
    bounded = {m.column.id for m in measures if m.function in ("min", "max")}
    for measure in measures:
        key_type_of_column(measure.column)
        if measure.function in ("sum", "avg"):
            check_numeric(measure.column, measure.function)
    columns = {m.column.id: m.column for m in measures}
    return [_Column(column, id_ in summed, id_ in bounded) for id_, column in columns.items()]


def _column_of(columns: Sequence[_Column], measure: Measure) -> _Column:
    return next(candidate for candidate in columns if candidate.column.id == measure.column.id)


def _counted(
    selection: Selection,
    recorded: RecordedCounts | None,
    by: Sequence[Column],
    columns: Sequence[_Column],
    groups: _Groups,
) -> None:
    """Aggregate from the index: count rows by the group's keys and the keys of one column at a time."""
    for number, measured_column in enumerate(columns):
        pairs = count_groups(selection, [*by, measured_column.column], recorded)
        if not len(pairs.counts):
            continue
        *group_codes, codes = pairs.codes
        changes = np.any([np.diff(of_column) != 0 for of_column in group_codes], axis=0)
        starts = np.append(0, np.flatnonzero(changes) + 1)
        counts = np.add.reduceat(pairs.counts, starts) * (number == 0)
        *group_keys, keys = (dictionary.keys for dictionary in pairs.keys)
        numbers = groups.add(group_keys, [of_column[starts] for of_column in group_codes], counts)
        group_of_pair = np.repeat(numbers, np.diff(np.append(starts, len(codes))))
        measured_column.add(keys, codes, group_of_pair, pairs.counts)


def _read(rows: Rows, by: Sequence[Column], columns: Sequence[_Column], groups: _Groups) -> None:
    """Aggregate row by row, from the data files with matching rows. Cost: the columns are read there."""
    read = list({c.id: c for c in (*by, *(of.column for of in columns))}.values())
    for table in fetch_values(rows.storage, list(rows.reads()), read):
        if not table.num_rows:
            continue
        group_of_row = _numbered(table, by, groups)
        ones = np.ones(table.num_rows, dtype=np.int64)
        for measured_column in columns:
            keys, codes = coded(table[measured_column.column.id], key_type_of_column(measured_column.column))
            measured_column.add(keys, codes, group_of_row, ones)


def _read_whole(selection: Selection, aggregates: _Column) -> None:
    """Aggregate all rows from data; extremes only in files whose statistics say too little."""
    column, numbers = aggregates.column, None
    if not aggregates.summed and selection.node == Constant(True):
        ends, numbers = _stated_ends(selection, column)
        if ends is not None:
            aggregates.widen(0, *ends)
        if not numbers and numbers is not None:
            return
    rows = Rows.of(selection)
    reads = list(rows.reads())
    if numbers is not None:
        paths = {selection.snapshot.files[number].path for number in numbers}
        reads = [read for read in reads if read[0].path in paths]
    for table in fetch_values(rows.storage, reads, [column]):
        for chunk in table[column.id].chunks:
            aggregates.add_values(pc.drop_null(chunk))


def _stated_ends(selection: Selection, column: Column) -> tuple[tuple[bytes, bytes] | None, set[int] | None]:
    """Return the keys of the extremes that statistics state, and the numbers of files to read (None: all)."""
    try:
        stated_by_space = [(space, space.stated(column)) for space, _ in selection.bounds]
    except CorruptIndexError as damage:
        selection.damages.note(damage)
        return None, None
    described = [(space, of_space) for space, of_space in stated_by_space if of_space is not None]
    if not described:
        return None, None
    exact = [of_space for _, of_space in described if (of_space.tight & of_space.bounded).any()]
    low = min((int(s.low[s.tight & s.bounded].min()) for s in exact), default=None)
    high = max((int(s.high[s.tight & s.bounded].max()) for s in exact), default=None)
    unsure = {int(n) for n in selection.to_scan}
    unsure |= {
        int(n) for space, of_space in stated_by_space if of_space is None for n in space.files.tolist()
    }
    for space, s in described:
        done = s.tight
        if low is not None and high is not None:
            done = done | (s.bounded & (s.low >= low) & (s.high <= high))
        unsure |= set(space.files[~done].tolist())
    if low is None or high is None:
        return None, unsure
    key_type = key_type_of_column(column)
    return (encode_value(low, key_type), encode_value(high, key_type)), unsure


def _ends(values: pa.Array, column: Column) -> pa.Array:
    """Return the least and the greatest of at least one value, in Spark's order."""
    if column.type.name in FLOATING:
        numbers = ordered_ints(values, "double")
        ends = np.array([numbers.min(), numbers.max()])
        return decode_keys(integer_keys(ends), "double", column.type)
    bounds = pc.min_max(values)
    ends = pa.concat_arrays([pa.repeat(bounds["min"], 1), pa.repeat(bounds["max"], 1)])
    return pc.cast(ends, arrow_type(column.type, column.label))


def _numbered(table: pa.Table, by: Sequence[Column], groups: _Groups) -> Longs:
    """Return the group number of each row, and count the rows of the groups."""
    keys, codes = zip(*(coded(table[c.id], key_type_of_column(c)) for c in by), strict=True)
    sizes = [len(column_codes) for column_codes in keys]
    if math.prod(sizes) < _SAFE:
        folded = np.zeros(table.num_rows, dtype=np.int64)
        for column_codes, size in zip(codes, sizes, strict=True):
            folded = folded * size + column_codes
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
        numbers, fit = decimal_longs(values, values.type.scale)
        if fit is not None:
            return None
    most = max(abs(int(numbers.min())), abs(int(numbers.max())))
    return numbers if most * rows < _SAFE else None
