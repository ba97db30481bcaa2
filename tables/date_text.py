"""Dates and times as text, for years of any size.

Arrow formats only the years -32767 to 32767 correctly: other years come out wrong or are missing. Spark's
dates and timestamps reach the year 294247 and further.
"""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa

from tailbit.tables import compute as pc
from tailbit.tables.arrow import filled, numpy_of

_ARROW_DAYS = 11_000_000
"""Days before and after 1970 within which Arrow formats dates correctly, rounded down."""
DAY_US = 86_400_000_000
"""Microseconds in a day of 24 hours."""

_LEAST = -(1 << 63)
"""The number that numpy reads as NaT (not a time)."""


def is_date_or_time(type_: pa.DataType) -> bool:
    """Return whether a type is a date or a timestamp, as `date_texts` formats them."""
    return bool(pa.types.is_date32(type_) or pa.types.is_timestamp(type_))


def within_arrow(values: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether Arrow itself formats all of these dates or times correctly."""
    days = pa.types.is_date32(values.type)
    bounds = pc.min_max(pc.cast(values, pa.int32() if days else pa.int64()))
    low, high = bounds["min"].as_py() or 0, bounds["max"].as_py() or 0
    most = _ARROW_DAYS * (1 if days else DAY_US)
    return -most <= low and high <= most


def date_texts(values: pa.Array) -> list[str | None]:
    """Format dates as `2026-01-31` and times as `2026-01-31 12:00:00.000000`, instants with a final `Z`.

    >>> date_texts(pa.array([0, None, 2**62], pa.timestamp("us", "UTC")))
    ['1970-01-01 00:00:00.000000Z', None, '148108-07-06 14:00:27.387904Z']
    """
    days = pa.types.is_date32(values.type)
    numbers = numpy_of(filled(pc.cast(values, pa.int32() if days else pa.int64()), 0)).astype(np.int64)
    least = np.flatnonzero(numbers == _LEAST)
    numbers[least] += 1
    texts = np.datetime_as_string(numbers.view(f"datetime64[{'D' if days else 'us'}]")).tolist()
    for row in least.tolist():
        texts[row] = f"{texts[row][:-1]}2"
    end = "" if days or values.type.tz is None else "Z"
    valid = pc.is_valid(values).to_pylist()
    return [_padded(t) + end if ok else None for t, ok in zip(texts, valid, strict=True)]


def text_since_1970(number: int, days: bool) -> str:
    """Format a number of days since 1970 as a date, or of microseconds as a time."""
    text = str(np.datetime64(number + (number == _LEAST), "D" if days else "us"))
    return _padded(f"{text[:-1]}2" if number == _LEAST else text)


def _padded(text: str) -> str:
    """Return a date or time from numpy with at least four digits of the year.

    Numpy counts a minus sign as one of these digits.
    """
    if text[0] != "-":
        return text.replace("T", " ")
    year, rest = text[1:].split("-", 1)
    return f"-{year.zfill(4)}-{rest.replace('T', ' ')}"


def show_time(timestamp_ms: int) -> str:
    """Format a time in ms since 1970 as ISO 8601 in UTC; beyond the calendar as a number of ms."""
    try:
        moment = datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.timezone.utc)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
