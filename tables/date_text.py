"""Dates and times as text, for years of any size.

Arrow's own spelling ends at the years -32767 and 32767: beyond them it gives another year, or none.
Spark's dates and timestamps go on to the year 294247 and further.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailbit.tables.arrow import filled, numpy_of

_ARROW_DAYS = 11_000_000
"""Days from 1970, either way, up to which Arrow spells a date right, and some more."""
DAY_US = 86_400_000_000
"""Microseconds of a day of 24 hours."""

_LEAST = -(1 << 63)
"""What numpy takes for no time at all."""


def is_date_or_time(type_: pa.DataType) -> bool:
    """Whether values are dates or times, as `date_texts` spells them."""
    return bool(pa.types.is_date32(type_) or pa.types.is_timestamp(type_))


def within_arrow(values: pa.Array | pa.ChunkedArray) -> bool:
    """Whether Arrow itself spells each of some dates or times right."""
    days = pa.types.is_date32(values.type)
    bounds = pc.min_max(values.cast(pa.int32() if days else pa.int64()))
    low, high = bounds["min"].as_py() or 0, bounds["max"].as_py() or 0
    most = _ARROW_DAYS * (1 if days else DAY_US)
    return -most <= low and high <= most


def date_texts(values: pa.Array) -> list[str | None]:
    """Dates as `2026-01-31`, times as `2026-01-31 12:00:00.000000`, with `Z` where they are instants.

    >>> date_texts(pa.array([0, None, 2**62], pa.timestamp("us", "UTC")))
    ['1970-01-01 00:00:00.000000Z', None, '148108-07-06 14:00:27.387904Z']
    """
    days = pa.types.is_date32(values.type)
    numbers = numpy_of(filled(values.cast(pa.int32() if days else pa.int64()), 0)).astype(np.int64)
    least = np.flatnonzero(numbers == _LEAST)
    numbers[least] += 1
    texts = np.datetime_as_string(numbers.view(f"datetime64[{'D' if days else 'us'}]")).tolist()
    for row in least.tolist():
        texts[row] = f"{texts[row][:-1]}2"
    end = "" if days or values.type.tz is None else "Z"
    valid = values.is_valid().to_pylist()
    return [_padded(t) + end if ok else None for t, ok in zip(texts, valid, strict=True)]


def _padded(text: str) -> str:
    """A date or time of numpy, the year in four digits at least; numpy counts the sign as one of them."""
    if text[0] != "-":
        return text.replace("T", " ")
    year, rest = text[1:].split("-", 1)
    return f"-{year.zfill(4)}-{rest.replace('T', ' ')}"
