"""The statistics of one file in a manifest: bounds and counts by field id, and the partition tuple as bounds.

Statistics only prune: what is in doubt is no bound. Source: Iceberg specification, Data File Fields;
Partition Transforms; Appendix D, Bound serialization.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

from tailbit.base.dataclass import dataclass
from tailbit.tables.date_text import DAY_US
from tailbit.tables.iceberg.avro import decoded
from tailbit.tables.model import UUID, Column, DataType, FileBounds

_TRUNCATE = re.compile(r"truncate\[(\d+)\]")
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_TIMES = ("timestamp", "timestamp_ntz")
_HOUR_US = DAY_US // 24
_NO_NAN = ("float", "double")
_LAST_CHARACTER, _SURROGATES = 0x10FFFF, range(0xD800, 0xE000)


class Range(NamedTuple):
    """The least and the greatest value that may be; None where there is no bound."""

    low: Any
    high: Any


_ANY = Range(None, None)


@dataclass(frozen=True, slots=True)
class IcebergStatistics:
    """The statistics of a manifest's entry, as `manifests.STATS` has them."""

    stats: Mapping[str, Any]

    def bounds(self, column: Column) -> FileBounds | None:
        """Return the bounds of a column; of what lies within lists and maps there are none.

        Bounds that contradict each other are ignored.
        """
        if len(column.field_ids) != len(column.physical) or column.type.fields:
            return None
        id_, rows = column.field_ids[-1], self.stats["rows"]
        nulls = _count(self._of("nulls", id_)) if len(column.field_ids) == 1 else None
        stored = _ordered(self._stored(column.type, id_))
        low, high = stored
        for field in self.stats["partition"] or ():
            if field["source"] != id_ or field["transform"] == "void":
                continue
            if field["value"] is None and not field["transform"].startswith(("bucket", "unknown")):
                nulls = rows if nulls is None and len(column.field_ids) == 1 else nulls
            elif field["value"] is not None:
                least, greatest = _ordered(partition_range(column.type, field["transform"], field["value"]))
                low = least if low is None or (least is not None and least > low) else low
                high = greatest if high is None or (greatest is not None and greatest < high) else high
        if low is not None and high is not None and low > high:
            low, high = stored
        if nulls is not None and (nulls > rows or (nulls == rows and (low is not None or high is not None))):
            nulls = None
        return FileBounds(low, high, nulls, rows)

    def _stored(self, type_: DataType, id_: int) -> Range:
        if type_.name == "boolean" or type_.raw == UUID:
            # Some releases sorted UUIDs as two signed numbers.
            return _ANY
        low, high = (self._of(name, id_) for name in ("lower", "upper"))
        if type_.name in _NO_NAN and self._of("nans", id_) != 0:
            high = None
        return Range(*(None if end is None else decoded(type_, end) for end in (low, high)))

    def _of(self, name: str, id_: int) -> Any:
        return next((entry["value"] for entry in self.stats[name] or () if entry["key"] == id_), None)


def _ordered(range_: Range) -> Range:
    """Return a range, or none if its ends are in the wrong order."""
    return _ANY if None not in range_ and range_.low > range_.high else range_


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def partition_range(type_: DataType, transform: str, data: bytes) -> Range:
    """Return what source values a partition value may stand for.

    Some releases rounded times before 1970 towards it, so a range that ends there begins one step earlier.
    """
    if transform == "identity":
        value = decoded(type_, data)
        return _ANY if type_.name == "boolean" else Range(value, value)
    truncated = _TRUNCATE.fullmatch(transform)
    if truncated is not None:
        return _truncated(type_, int(truncated[1]), decoded(type_, data))
    if transform not in ("year", "month", "day", "hour"):
        return _ANY
    step = int.from_bytes(data, "little", signed=True)
    first = step - (step <= 0)
    if transform == "hour":
        return Range(first * _HOUR_US, (step + 1) * _HOUR_US - 1) if type_.name in _TIMES else _ANY
    try:
        low, end = _first_day(transform, first), _first_day(transform, step + 1)
    except (ValueError, OverflowError):
        return _ANY
    if type_.name == "date":
        return Range(low, end - 1)
    return Range(low * DAY_US, end * DAY_US - 1) if type_.name in _TIMES else _ANY


def _first_day(unit: str, step: int) -> int:
    """Return the first day of a day, month or year, all counted from 1970."""
    if unit == "day":
        return step
    years, months = (step, 0) if unit == "year" else divmod(step, 12)
    return date(1970 + years, 1 + months, 1).toordinal() - _EPOCH_DAY


def _truncated(type_: DataType, width: int, value: Any) -> Range:
    if type_.name in ("integer", "long") and isinstance(value, int):
        return Range(value, value + width - 1)
    if isinstance(value, Decimal):
        return Range(value, value + Decimal(f"{width - 1}E{-type_.scale}"))
    if isinstance(value, str):
        return Range(value, value if len(value) < width else _after_all(value))
    return _ANY


def _after_all(prefix: str) -> str | None:
    """Return a text that no text with a prefix exceeds; None if there is none."""
    for end in range(len(prefix) - 1, -1, -1):
        following = ord(prefix[end]) + 1
        if following <= _LAST_CHARACTER:
            return prefix[:end] + chr(_SURROGATES.stop if following in _SURROGATES else following)
    return None
