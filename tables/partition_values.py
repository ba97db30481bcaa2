"""Partition values: the log's text parsed into typed values.

NULL is JSON null or a missing key. An empty text is the empty string for string and binary columns and NULL
for all others, as Spark reads it. Timestamps without an offset are in the writer's time zone, which
`Column.zone` gives, since the log does not record it. Folder names are never parsed. A text that is no value
of the type, and a day that there is not, raise ValueError. Source: Delta protocol, Partition Value
Serialization.
"""

from __future__ import annotations

import re
from datetime import date
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import lru_cache
from typing import Any

import pyarrow as pa

from tailbit.base.errors import MalformedLogError
from tailbit.base.wording import with_article
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.date_text import DAY_US
from tailbit.tables.model import Column, DataType
from tailbit.tables.schema import arrow_type
from tailbit.tables.zones import to_instant

_WHOLE = r"\s*[+-]?\d{1,20}\s*"
_TIME = (
    r"([+-]?\d{4,7})-(\d{1,2})-(\d{1,2})"
    r"(?:[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?"
    r"\s*(Z|UTC|GMT|[+-]\d{2}:?\d{2}(?::\d{2})?)?"
)
_WORDS = {"true": True, "false": False}
_EXACT = Context(prec=150, traps=[Inexact, InvalidOperation])
_CYCLE_DAYS = 146_097
"""Days of 400 years, after which the calendar repeats."""
_EPOCH = date(1970, 1, 1).toordinal()


def partition_array(column: Column, text: str | None, n: int) -> pa.Array:
    """Return the value of a partition column, `n` times, in the column's logical Arrow type.

    A time without an offset is in the column's zone.
    """
    return pa.repeat(_scalar(column.type, column.id, column.label, text, column.zone), n)


@lru_cache(maxsize=4096)
def _scalar(type_: DataType, id_: str, label: str, text: str | None, zone: str) -> pa.Scalar:
    arrow = arrow_type(type_, label)
    try:
        value = None if text is None else parse_partition_text(type_, text, zone)
        if value is not None and type_.name in ("date", "timestamp", "timestamp_ntz"):
            width = pa.int32() if type_.name == "date" else pa.int64()
            return pc.cast(arrow_array([value], width), arrow)[0]
        return arrow_array([value], arrow)[0]
    except (ValueError, OverflowError, InvalidOperation, pa.ArrowException) as wrong:
        raise MalformedLogError(
            file="a commit",
            reason=f"partition value {text!r} of column {label} is not {with_article(type_.sql)}",
        ) from wrong


def parse_partition_text(type_: DataType, text: str, zone: str) -> Any:
    """Parse a partition text to days, microseconds or another Python value; None for an empty text."""
    name = type_.name
    if name.startswith("string"):
        return text.ljust(type_.char_length)
    if name == "binary":
        return text.encode()
    if not text:
        return None
    if name in ("byte", "short", "integer", "long"):
        if not re.fullmatch(_WHOLE, text):
            raise ValueError(text)
        return int(text)
    if name in ("float", "double"):
        return float(text)
    if name == "boolean":
        return _WORDS[text.strip().lower()] if text.strip().lower() in _WORDS else _no(text)
    if name == "decimal":
        return _decimal(text, type_.scale)
    if name == "date":
        return parse_micros(text, None) // DAY_US
    if name == "timestamp":
        return parse_micros(text, zone)
    if name == "timestamp_ntz":
        return parse_micros(text, None)
    return _no(text)


def _no(text: str) -> Any:
    raise ValueError(text)


def _decimal(text: str, scale: int) -> Decimal:
    """Return the exact decimal; refuse a text with more digits than the scale holds, rather than round it."""
    value = Decimal(text.strip())
    if not value.is_finite():
        raise ValueError(text)
    try:
        return value.quantize(Decimal((0, (1,), -scale)), context=_EXACT)
    except (Inexact, InvalidOperation):
        raise ValueError(text) from None


def parse_micros(text: str, zone: str | None) -> int:
    """Return the microseconds since 1970 of a date or time text; years of any length, finer digits truncated.

    `zone` is the time zone of a text without an offset; None reads every text as a zone-less time and refuses
    an offset.
    """
    match = re.fullmatch(_TIME, text.strip())
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute, second = (int(g or 0) for g in match.groups()[:6])
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(text)
    part = int((match.group(7) or "0").ljust(6, "0")[:6])
    local = days_of(year, month, day) * DAY_US + ((hour * 60 + minute) * 60 + second) * 1_000_000 + part
    offset = match.group(8)
    if zone is None:
        return local if offset is None else _no(text)
    if offset is None:
        return to_instant(local, zone)
    return local - _offset_us(offset)


def _offset_us(offset: str) -> int:
    if offset in ("Z", "UTC", "GMT"):
        return 0
    digits = offset[1:].replace(":", "").ljust(6, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:4]) * 60 + int(digits[4:6])
    return (seconds if offset[0] == "+" else -seconds) * 1_000_000


def days_of(year: int, month: int, day: int) -> int:
    """Return the days since 1970 in the proleptic Gregorian calendar, for years of any size."""
    cycles, year_of_cycle = divmod(year, 400)
    day_of_cycle = date(year_of_cycle + 400, month, day).toordinal()
    return day_of_cycle + (cycles - 1) * _CYCLE_DAYS - _EPOCH
