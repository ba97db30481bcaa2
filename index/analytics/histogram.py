"""Rows counted in bins of a column's values, and by parts of its dates and times."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from tailbit.arrays import Longs
from tailbit.errors import ColumnTypeError, UsageError
from tailbit.index.grouping.key_counts import KeyCounts
from tailbit.index.keys import decode_keys
from tailbit.index.values.literals import NUMERIC
from tailbit.tables.date_text import DAY_US, date_texts
from tailbit.tables.zones.arrays import offsets_kept, offsets_of_instants, offsets_of_starts

MOST_BINS = 100_000

_ULPS_A_BIN = 1000
"""Edges are doubles where a bin is wider than 1,000 steps from a double to the next one."""
_EXACT = Context(prec=50)
"""More digits than tell any two edges apart."""

_UNITS = {"year": "Y", "month": "M", "day": "D", "hour": "h", "minute": "m", "second": "s"}
PARTS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
"""The units that dates and times are cut to; dates only to days."""


@dataclass(frozen=True)
class Bin:
    """The rows from `low` on, below `high`; in the last bin `high` belongs too."""

    low: Any
    high: Any
    count: int


def histogram(found: KeyCounts, bins: int | Sequence[Any]) -> list[Bin]:
    """Counted rows in bins between rising edges, or in a number of bins of one width from least to greatest.

    NULL, NaN and what lies beyond the edges are in no bin. Cost: a binary search an edge.

    Raises:
        UsageError: edges that do not rise or cannot be compared with the values, or too many or no bins.
        ColumnTypeError: bins of one width of a column that is no number.
    """
    values, counts = _ordered(found)
    edges = _even(found, values, bins) if isinstance(bins, int) else list(bins)
    if not edges and isinstance(bins, int):
        return []
    try:
        rising = all(low < high for low, high in itertools.pairwise(edges))
        at = [bisect_left(values, edge) for edge in edges[:-1]]
        at += [bisect_right(values, edge) for edge in edges[-1:]]
    except TypeError as unlike:
        hint = f"Give edges of the column's type, {found.column.type}."
        raise UsageError(reason=f"edges and values do not compare: {unlike}", hint=hint) from unlike
    if len(edges) < 2 or not rising:
        raise UsageError(reason="the edges of the bins do not rise", hint="Give two or more rising edges.")
    sums = np.concatenate([[0], np.cumsum(counts)])
    return [
        Bin(low, high, int(sums[b] - sums[a]))
        for low, high, a, b in zip(edges[:-1], edges[1:], at[:-1], at[1:], strict=True)
    ]


def _ordered(found: KeyCounts) -> tuple[list[Any], Longs]:
    """Values in order and their counts, without NULL and NaN."""
    values, counts = found.values(), found.counts
    first = int(found.nulls > 0)
    last = len(values) - int(bool(values) and isinstance(values[-1], float) and math.isnan(values[-1]))
    return values[first:last], counts[first:last]


def _even(found: KeyCounts, values: list[Any], bins: int) -> list[Any]:
    """The edges of bins of one width; the first and the last are the least and the greatest value."""
    if not 0 < bins <= MOST_BINS:
        raise UsageError(reason=f"{bins} bins", hint=f"Ask for 1 to {MOST_BINS:,} bins.")
    if found.column.type.name not in NUMERIC:
        reason = "bins of one width are made of numbers"
        hint = "Give the edges of the bins, or ask for the parts of the dates."
        raise ColumnTypeError(
            column=found.column.label, type=str(found.column.type), reason=reason, hint=hint
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
    """A number above another: greater by one, where its type can tell them apart."""
    if isinstance(value, float):
        return max(value + 1, math.nextafter(value, math.inf))
    return _EXACT.add(value, 1) if isinstance(value, Decimal) else value + 1


def _in_digits(edge: Fraction) -> Decimal:
    """An edge between numbers that are too near to each other for doubles."""
    return _EXACT.divide(Decimal(edge.numerator), Decimal(edge.denominator))


def by_part(found: KeyCounts, part: str, zone: str) -> dict[Any, int]:
    """Counted rows by the year, month, ... of a date or time: its beginning to rows, in order; NULL is first.

    Weeks begin on Monday, as Spark's date_trunc has them. Times are cut in `zone`. Cost: vectors over the
    distinct values.

    Raises:
        ColumnTypeError: the column is no date or time, or a date is to be cut to less than a day.
        UsageError: no such part.
    """
    name = found.column.type.name
    if part not in PARTS:
        raise UsageError(reason=f"no part of a date is named {part!r}", hint=f"Parts: {', '.join(PARTS)}.")
    within = name in ("timestamp", "timestamp_ntz") or (name == "date" and part in PARTS[:5])
    if not within:
        reason = f"a date has no {part}" if name == "date" else "only dates and times have such parts"
        hint = (
            f"Ask for {', '.join(PARTS[:5])}." if name == "date" else "Name a date or time, or use histogram."
        )
        raise ColumnTypeError(column=found.column.label, type=name, reason=reason, hint=hint)
    first = int(found.nulls > 0)
    values = decode_keys(found.keys.slice(first), found.key_type, found.column.type)
    numbers = np.asarray(values.cast(pa.int32() if name == "date" else pa.int64())).astype(np.int64)
    local = numbers + offsets_of_instants(numbers, zone) if name == "timestamp" else numbers
    begins = _begins(local, part, days=name == "date")
    if name == "timestamp":
        begins = _instants(numbers, local, begins, part, zone)
    places, at = np.unique(begins, return_inverse=True)
    counts = np.bincount(at, weights=found.counts[first:], minlength=len(places)).astype(np.int64)
    out: dict[Any, int] = {None: found.nulls} if found.nulls else {}
    width = pa.array(places).cast(pa.int32()) if name == "date" else pa.array(places)
    return out | dict(zip(_python(width.cast(values.type)), counts.tolist(), strict=True))


def _begins(local: Longs, part: str, days: bool) -> Longs:
    """The beginning of the part that each day or microsecond since 1970 is in."""
    unit = "D" if days else "us"
    if part == "week":
        # 1 January 1970 was a Thursday.
        whole = local if days else local // DAY_US
        monday = whole - (whole + 3) % 7
        return monday if days else monday * DAY_US
    moments = local.view(f"datetime64[{unit}]")
    if part == "quarter":
        months = moments.astype("datetime64[M]").astype(np.int64)
        cut = (months - months % 3).view("datetime64[M]")
    else:
        cut = moments.astype(f"datetime64[{_UNITS[part]}]")
    found: Longs = cut.astype(f"datetime64[{unit}]").astype(np.int64)
    return found


def _instants(instants: Longs, local: Longs, begins: Longs, part: str, zone: str) -> Longs:
    """The instants of local beginnings.

    A day begins when its clocks first show it; within a day, the offset of the time itself is kept where the
    clocks went back. Source: Java 17, LocalDate.atStartOfDay and ZonedDateTime.truncatedTo.
    """
    if part in PARTS[:5]:
        return begins - offsets_of_starts(begins, zone)
    return begins - offsets_kept(begins, local - instants, zone)


def _python(values: pa.Array) -> list[Any]:
    try:
        found: list[Any] = values.to_pylist()
    except (OverflowError, ValueError):
        found = date_texts(values)
    return found
