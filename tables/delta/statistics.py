"""The statistics of one file in the log: bounds of a column, number of rows.

The bounds returned hold for every non-null row of the file, hidden or not: text that may have been rounded is
moved outwards, and where no safe bound can be had there is None. Wrong bounds would prune rows away, so doubt
always widens. Source: Delta protocol, Per-file Statistics.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import orjson

from tailbit.errors import MalformedLogError
from tailbit.tables.date_text import DAY_US
from tailbit.tables.model import Column, DataType, FileBounds
from tailbit.tables.partition_values import parse_micros

_NUM_RECORDS = re.compile(r'\s*\{\s*"numRecords"\s*:\s*(\d{1,18})\s*[,}]')

_DOUBLE_DIGITS = 15
"""A decimal of this many digits, or fewer, survives being written as a double."""

_DOUBLE_LOSS = Decimal("1e-14")
"""A longer decimal loses less than this part of its value: deltalake computes such statistics in doubles."""

_LONG_END = (1 << 63) - 1

_MILLI = 999
"""Writers cut timestamps to milliseconds: the maximum may be this many us later."""

_REPLACED = "\ufffd"
"""What stands in JSON for bytes that are no UTF-8."""


@dataclass(frozen=True, slots=True)
class DeltaStatistics:
    """The statistics of an add action: their JSON text, parsed when a bound is asked for."""

    text: str

    def bounds(self, column: Column) -> FileBounds | None:
        """The bounds of a column. See `min_max`."""
        return min_max(self.text, column)


def min_max(stats_json: str | None, column: Column) -> FileBounds | None:
    """The bounds of a column; None where the statistics say nothing about it.

    Raises:
        MalformedLogError: statistics that are not JSON.
    """
    if not stats_json:
        return None
    stats = _parsed(stats_json)
    rows = _count(stats.get("numRecords"))
    nulls = _count(_at(stats.get("nullCount"), column.physical))
    if stats.get("tightBounds") is False and nulls not in (0, rows):
        nulls = None
    low = _low(column.type, _at(stats.get("minValues"), column.physical))
    high = _high(column.type, _at(stats.get("maxValues"), column.physical))
    if low is None and high is None and nulls is None and rows is None:
        return None
    return FileBounds(low, high, nulls, rows)


def num_records(stats: str | None, file: str) -> int | None:
    """The number of physical rows that statistics give; None where they do not. Parses only what it must."""
    if not stats:
        return None
    quick = _NUM_RECORDS.match(stats)
    if quick is not None:
        return int(quick.group(1))
    try:
        found = orjson.loads(stats)
    except ValueError as wrong:
        raise MalformedLogError(
            file=file, reason=f"the statistics of an add are not JSON: {wrong}"
        ) from wrong
    count = found.get("numRecords") if isinstance(found, dict) else None
    if count is None:
        return None
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count < 2**63:
        raise MalformedLogError(file=file, reason=f"numRecords {count!r} is not a count")
    return count


@lru_cache(maxsize=256)
def _parsed(stats_json: str) -> Mapping[str, Any]:
    try:
        found = json.loads(stats_json, parse_float=Decimal)
    except (ValueError, RecursionError) as wrong:
        raise MalformedLogError(file="statistics", reason=f"they are not JSON: {wrong}") from wrong
    return found if isinstance(found, dict) else {}


def _at(found: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    return found


def _count(found: Any) -> int | None:
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None


def _low(type_: DataType, found: Any) -> Any:
    """The lower bound; of a text what comes before bytes that are no UTF-8, which JSON cannot hold."""
    value = _value(type_, found)
    if isinstance(value, Decimal):
        return value - _loss(type_, value)
    if isinstance(value, str):
        return value.partition(_REPLACED)[0]
    if isinstance(value, float):
        with np.errstate(over="ignore", under="ignore"):
            return min(value, float(np.float32(value)))
    return value


def _high(type_: DataType, found: Any) -> Any:
    """The upper bound; none for floating point, since some writers leave NaN, the greatest value, out.

    None for CHAR either: statistics are of values without the spaces that reading adds. Nor for a text with
    bytes that are no UTF-8.
    """
    if type_.name in ("float", "double") or type_.char_length:
        return None
    value = _value(type_, found)
    if isinstance(value, Decimal):
        return value + _loss(type_, value)
    if isinstance(value, str) and _REPLACED in value:
        return None
    return value + _MILLI if value is not None and type_.name in ("timestamp", "timestamp_ntz") else value


def _loss(type_: DataType, value: Decimal) -> Decimal:
    """How far a decimal bound may be off."""
    return abs(value) * _DOUBLE_LOSS if type_.precision > _DOUBLE_DIGITS else Decimal(0)


def _is_text(found: str) -> bool:
    """Whether a JSON text is one at all: half a surrogate pair is none."""
    try:
        return bool(found.encode()) or not found
    except UnicodeEncodeError:
        return False


def _decimal(type_: DataType, found: Any) -> Decimal | None:
    """A decimal bound; None beyond longs without a scale: there deltalake writes the largest long instead."""
    if not isinstance(found, (int, Decimal)) or isinstance(found, bool):
        return None
    number = Decimal(found)
    return number if type_.scale or abs(number) < _LONG_END else None


def _value(type_: DataType, found: Any) -> Any:
    """A statistic as a canonical value; None where it is not one of the type."""
    name = type_.name
    try:
        if name == "string":
            return found if isinstance(found, str) and _is_text(found) else None
        if name in ("byte", "short", "integer", "long"):
            return found if isinstance(found, int) and not isinstance(found, bool) else None
        if name in ("float", "double"):
            return _float(found)
        if name == "decimal":
            return _decimal(type_, found)
        if name == "date" and isinstance(found, str):
            return parse_micros(found, "UTC") // DAY_US
        if name in ("timestamp", "timestamp_ntz") and isinstance(found, str):
            return parse_micros(found, "UTC")
    except ValueError:
        return None
    return None


def _float(found: Any) -> float | None:
    """A floating point minimum; text such as "-Infinity" included, NaN is no bound."""
    if isinstance(found, bool) or not isinstance(found, (int, Decimal, str, float)):
        return None
    value = float(found)
    return None if value != value else value
