"""Rows counted in bins of a column's values, and by parts of its dates and times."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import ColumnTypeError, UsageError
from tailbit.index.functions.dates import STEPS, first_day
from tailbit.index.grouping.dictionary import python_or_texts
from tailbit.index.grouping.grouping import Groups
from tailbit.index.keys import decode_keys
from tailbit.index.values.literals import NUMERIC
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, numpy_of
from tailbit.tables.date_text import DAY_US
from tailbit.tables.zones import offsets_kept, offsets_of_instants, offsets_of_starts

MOST_BINS = 100_000

_ULPS_A_BIN = 1000
"""Edges are doubles where a bin is wider than 1,000 steps from a double to the next one."""
_EXACT = Context(prec=50)
"""Enough decimal digits to distinguish any two edges."""

UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
"""The units to which dates and times are truncated; dates only to days."""


@dataclass(frozen=True)
class Bin:
    """The rows from `low` (inclusive) to `high` (exclusive; inclusive in the last bin)."""

    low: Any
    high: Any
    count: int


def histogram(groups: Groups, bins: int | Sequence[Any]) -> list[Bin]:
    """Count rows in bins, between rising edges or in a number of bins of equal width.

    Bins of equal width span the least to the greatest value. NULL, NaN and values beyond the edges are in no
    bin. Cost: one binary search per edge.

    Raises:
        UsageError: the edges do not ascend or cannot be compared with the values, or there are too many
            or no bins.
        ColumnTypeError: a number of bins for a column that is not numeric.
    """
    values, counts = _ordered(groups)
    edges = _even(groups, values, bins) if isinstance(bins, int) else list(bins)
    if not edges and isinstance(bins, int):
        return []
    try:
        rising = all(low < high for low, high in itertools.pairwise(edges))
        indexes = [bisect_left(values, edge) for edge in edges[:-1]]
        indexes += [bisect_right(values, edge) for edge in edges[-1:]]
    except TypeError as unlike:
        hint = f"Give edges of the column's type, {groups.columns[0].type.sql}."
        raise UsageError(reason=f"edges and values do not compare: {unlike}", hint=hint) from unlike
    if len(edges) < 2 or not rising:
        raise UsageError(reason="the edges of the bins do not rise", hint="Give two or more rising edges.")
    sums = np.concatenate([[0], np.cumsum(counts)])
    return [
        Bin(low, high, int(sums[b] - sums[a]))
        for low, high, a, b in zip(edges[:-1], edges[1:], indexes[:-1], indexes[1:], strict=True)
    ]


def _ordered(groups: Groups) -> tuple[list[Any], Longs]:
    """Return the values in order and their counts, without NULL and NaN."""
    values, counts = groups.values_of(), groups.counts
    first = int(groups.nulls > 0)
    last = len(values) - int(bool(values) and isinstance(values[-1], float) and math.isnan(values[-1]))
    return values[first:last], counts[first:last]


def _even(groups: Groups, values: list[Any], bins: int) -> list[Any]:
    """Return the edges of bins of equal width; the outer edges are the least and the greatest value."""
    if not 0 < bins <= MOST_BINS:
        raise UsageError(reason=f"{bins} bins", hint=f"Ask for 1 to {MOST_BINS:,} bins.")
    if groups.columns[0].type.name not in NUMERIC:
        reason = "bins of one width are made of numbers"
        hint = "Give the edges of the bins, or ask for the parts of the dates."
        raise ColumnTypeError(
            column=groups.columns[0].label, type=groups.columns[0].type.sql, reason=reason, hint=hint
        )
    finite = [value for value in (values[:2] + values[-2:]) if math.isfinite(value)]
    if not finite:
        return []
    low, high = min(finite), max(finite)
    if low == high:
        return [low, _above(low)]
    width = (Fraction(high) - Fraction(low)) / bins
    fine = width > _ULPS_A_BIN * Fraction(math.ulp(float(max(abs(low), abs(high)))))
    inner = (Fraction(low) + width * n for n in range(1, bins))
    return [low, *(float(edge) if fine else _in_digits(edge) for edge in inner), high]


def _above(value: Any) -> Any:
    """Return the number plus one, or the next number of its type if adding one changes nothing."""
    if isinstance(value, float):
        return max(value + 1, math.nextafter(value, math.inf))
    return _EXACT.add(value, 1) if isinstance(value, Decimal) else value + 1


def _in_digits(edge: Fraction) -> Decimal:
    """Return an edge as a decimal, between numbers that are too close to each other for doubles."""
    return _EXACT.divide(Decimal(edge.numerator), Decimal(edge.denominator))


def by_unit(groups: Groups, unit: str, zone: str) -> dict[Any, int]:
    """Map the start of each year, month or other unit `unit` of a date or time to its rows; NULL is first.

    Weeks start on Monday, as in Spark's date_trunc. Times are truncated in `zone`. Cost: vectors over the
    distinct values.

    Raises:
        ColumnTypeError: the column is no date or time, or a date is to be cut to less than a day.
        UsageError: there is no such unit.
    """
    name = groups.columns[0].type.name
    if unit not in UNITS:
        raise UsageError(reason=f"no part of a date is named {unit!r}", hint=f"Parts: {', '.join(UNITS)}.")
    within = name in ("timestamp", "timestamp_ntz") or (name == "date" and unit in UNITS[:5])
    if not within:
        reason = f"a date has no {unit}" if name == "date" else "only dates and times have such parts"
        hint = (
            f"Ask for {', '.join(UNITS[:5])}." if name == "date" else "Name a date or time, or use histogram."
        )
        raise ColumnTypeError(column=groups.columns[0].label, type=name, reason=reason, hint=hint)
    first = int(groups.nulls > 0)
    values = decode_keys(groups.keys_of().slice(first), groups.key_type(), groups.columns[0].type)
    numbers = numpy_of(pc.cast(values, pa.int32() if name == "date" else pa.int64()), np.int64)
    local = numbers + offsets_of_instants(numbers, zone) if name == "timestamp" else numbers
    if unit in STEPS:
        begins = local if name == "date" else local - local % STEPS[unit]
    else:
        size = 1 if name == "date" else DAY_US
        begins = first_day(local // size, unit) * size
    if name == "timestamp":
        begins = _instants(numbers, local, begins, unit, zone)
    starts, start_numbers = np.unique(begins, return_inverse=True)
    counts = np.bincount(start_numbers, weights=groups.counts[first:], minlength=len(starts)).astype(np.int64)
    out: dict[Any, int] = {None: groups.nulls} if groups.nulls else {}
    width = arrow_array(starts, pa.int32() if name == "date" else pa.int64())
    return out | dict(zip(python_or_texts(pc.cast(width, values.type)), counts.tolist(), strict=True))


def _instants(instants: Longs, local: Longs, begins: Longs, unit: str, zone: str) -> Longs:
    """Convert local starts of units to instants.

    A day starts at the first instant that its date has; within a day, where the clocks were set back, the UTC
    offset of the original time is kept. Source: Java 17, LocalDate.atStartOfDay and
    ZonedDateTime.truncatedTo.
    """
    if unit in UNITS[:5]:
        return begins - offsets_of_starts(begins, zone)
    return begins - offsets_kept(begins, local - instants, zone)
