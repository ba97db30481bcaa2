"""The statistics of one file in the log: bounds of a column, number of rows.

Statistics only prune, and no answer needs them: those that cannot be read, or that contradict themselves, say
nothing and are no error. The bounds returned hold for every non-null row of the file, hidden or not: text
that may have been rounded is moved outwards, and where no safe bound can be had there is None. Wrong bounds
would prune rows away, so doubt always widens. Source: Delta protocol, Per-file Statistics.
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

from tailbit.tables.date_text import DAY_US
from tailbit.tables.model import Column, DataType, FileBounds
from tailbit.tables.partition_values import parse_micros

_NUM_RECORDS = re.compile(r'\s*\{\s*"numRecords"\s*:\s*(\d{1,18})\s*[,}]')

_DOUBLE_DIGITS = 15
"""A decimal of this many digits, or fewer, survives being written as a double."""

_DOUBLE_LOSS = Decimal("1e-14")
"""A longer decimal loses less than this part of its value: deltalake computes such statistics in doubles."""

_FINEST = 400
"""Most digits behind the point of a decimal statistic; the finest double has some 340."""

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
    """Return the bounds of a column; None where the statistics say nothing about it.

    Statistics of one column that contradict each other say nothing: a minimum above the maximum, a number
    that the type cannot hold, more NULLs than rows, bounds where every row is said to be NULL.
    """
    stats = parsed(stats_json) if stats_json else None
    if stats is None:
        return None
    rows = as_count(stats.get("numRecords"))
    nulls = as_count(_at(stats.get("nullCount"), column.physical))
    if stats.get("tightBounds") is False and nulls not in (0, rows):
        nulls = None
    ends = _at(stats.get("minValues"), column.physical), _at(stats.get("maxValues"), column.physical)
    low, high = _ends(column.type, *ends)
    if (
        nulls is not None
        and rows is not None
        and (nulls > rows or (nulls == rows and (low, high) != _NO_ENDS))
    ):
        nulls = None
    if low is None and high is None and nulls is None and rows is None:
        return None
    return FileBounds(low, high, nulls, rows)


_NO_ENDS = (None, None)


def _ends(type_: DataType, least: Any, greatest: Any) -> tuple[Any, Any]:
    """Return both bounds, rounded outwards; neither where they are in the wrong order or beyond the type."""
    values = _value(type_, least), _value(type_, greatest)
    if values[0] is not None and values[1] is not None and values[0] > values[1]:
        return _NO_ENDS
    width = _INTEGER_BITS.get(type_.name)
    if width and any(v is not None and not -(1 << width) <= v < 1 << width for v in values):
        return _NO_ENDS
    return _low(type_, values[0]), _high(type_, values[1])


_INTEGER_BITS = {"byte": 7, "short": 15, "integer": 31, "long": 63}


def num_records(stats: str | None) -> int | None:
    """Return the number of physical rows that statistics give; None where they give none.

    It is only a hint: the footer of the data file decides. Cost: parses only what it must.
    """
    if not stats:
        return None
    quick = _NUM_RECORDS.match(stats)
    if quick is not None:
        return int(quick.group(1))
    try:
        found = orjson.loads(stats)
    except ValueError:
        return None
    return as_count(found.get("numRecords")) if isinstance(found, dict) else None


def is_readable(stats_json: str) -> bool:
    """Return whether statistics are what they should be: an object whose row count, if any, is a count."""
    try:
        found = orjson.loads(stats_json)
    except ValueError:
        # What Java writes of floating point numbers, NaN and Infinity, is no JSON to this parser.
        found = parsed(stats_json)
    if not isinstance(found, dict):
        return False
    parts = [found.get(key) for key in ("minValues", "maxValues", "nullCount")]
    rows = found.get("numRecords")
    return (rows is None or as_count(rows) is not None) and all(
        part is None or isinstance(part, dict) for part in parts
    )


@lru_cache(maxsize=256)
def parsed(stats_json: str) -> Mapping[str, Any] | None:
    """Return statistics as an object; None where their text is none."""
    try:
        found = json.loads(stats_json, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _at(found: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    return found


def as_count(found: Any) -> int | None:
    """Return a number of rows; None for whatever is none, or takes more than 63 bits."""
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 1 << 63 else None


def _low(type_: DataType, value: Any) -> Any:
    """Return the lower bound. Text is cut before the first invalid UTF-8 byte: JSON cannot hold it."""
    if isinstance(value, Decimal):
        return value - _loss(type_, value)
    if isinstance(value, str):
        return value.partition(_REPLACED)[0]
    if isinstance(value, float):
        with np.errstate(over="ignore", under="ignore"):
            return min(value, float(np.float32(value)))
    return value


def _high(type_: DataType, value: Any) -> Any:
    """The upper bound; none for floating point, since some writers leave NaN, the greatest value, out.

    None for CHAR either: statistics are of values without the spaces that reading adds. Nor for a text with
    bytes that are no UTF-8.
    """
    if type_.name in ("float", "double") or type_.char_length:
        return None
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
    """Return a decimal bound; None far beyond the type.

    None beyond longs without a scale either: there deltalake writes the largest long instead.
    """
    if not isinstance(found, (int, Decimal)) or isinstance(found, bool):
        return None
    number = Decimal(found)
    if number.adjusted() > type_.precision or number.adjusted() < -_FINEST:
        return None
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
