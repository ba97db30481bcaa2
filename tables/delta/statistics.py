"""The statistics of one file in the log: column bounds and row count.

Statistics only prune and no answer depends on them: unreadable or contradictory statistics are ignored
without an error. The bounds returned hold for every non-null row of the file, hidden or not: text that may
have been truncated is widened, and a bound that cannot be made safe is None. Wrong bounds would prune
matching rows, so any doubt widens the bounds. Source: Delta protocol, Per-file Statistics.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import orjson

from tailbit.base.dataclass import dataclass
from tailbit.tables.date_text import DAY_US
from tailbit.tables.model import Column, DataType, FileBounds

_NUM_RECORDS = re.compile(r'\s*\{\s*"numRecords"\s*:\s*(\d{1,18})\s*[,}]')

_DOUBLE_DIGITS = 15
"""Decimals with at most this many digits survive being written as a double."""

_DOUBLE_LOSS = Decimal("1e-14")
"""Bound on the relative error of longer decimals: deltalake computes their statistics in doubles."""

_FINEST = 400
"""Most digits after the point of a decimal statistic; the smallest double has some 340."""

_LONG_END = (1 << 63) - 1

_MILLI = 999
"""Microseconds added to a maximum, because writers truncate timestamps to milliseconds."""

_REPLACED = "\ufffd"
"""The replacement character, which writers put into JSON for bytes that are not UTF-8."""


@dataclass(frozen=True, slots=True)
class DeltaStatistics:
    """The statistics of an add action: JSON text, parsed when a bound is first needed."""

    text: str

    def bounds(self, column: Column) -> FileBounds | None:
        """Return the bounds of a column, or None if the statistics say nothing about the column.

        Contradictory statistics of a column are ignored: a minimum above the maximum, a number outside the
        type's range, more NULLs than rows, bounds although every row is NULL.
        """
        stats = parsed(self.text) if column.type.name == "decimal" else _of_doubles(self.text)
        return None if stats is None else _bounds(stats, column)


def _bounds(stats: Mapping[str, Any], column: Column) -> FileBounds | None:
    rows = as_count(stats.get("numRecords"))
    nulls = as_count(_value_at(stats.get("nullCount"), column.physical))
    if stats.get("tightBounds") is False and nulls not in (0, rows):
        nulls = None
    ends = (
        _value_at(stats.get("minValues"), column.physical),
        _value_at(stats.get("maxValues"), column.physical),
    )
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
    """Return both bounds, widened; neither if they are in the wrong order or outside the type's range."""
    values = _value(type_, least), _value(type_, greatest)
    if values[0] is not None and values[1] is not None and values[0] > values[1]:
        return _NO_ENDS
    width = _INTEGER_BITS.get(type_.name)
    if width and any(v is not None and not -(1 << width) <= v < 1 << width for v in values):
        return _NO_ENDS
    return _low(type_, values[0]), _high(type_, values[1])


_INTEGER_BITS = {"byte": 7, "short": 15, "integer": 31, "long": 63}


def num_records(stats: str | None) -> int | None:
    """Return the number of physical rows according to the statistics, or None if they have no row count.

    The number is only a hint: the footer of the data file decides. Cost: parses JSON only if a regular
    expression does not match.
    """
    if not stats:
        return None
    quick = _NUM_RECORDS.match(stats)
    if quick is not None:
        return int(quick.group(1))
    try:
        parsed_stats = orjson.loads(stats)
    except ValueError:
        return None
    return as_count(parsed_stats.get("numRecords")) if isinstance(parsed_stats, dict) else None


def is_readable(stats_json: str) -> bool:
    """Return whether statistics are a well-formed object; a row count, if present, must be a valid count."""
    try:
        statistics = orjson.loads(stats_json)
    except ValueError:
        # Java writes floating point NaN and Infinity, which orjson rejects.
        statistics = parsed(stats_json)
    if not isinstance(statistics, dict):
        return False
    maps = [statistics.get(key) for key in ("minValues", "maxValues", "nullCount")]
    rows = statistics.get("numRecords")
    return (rows is None or as_count(rows) is not None) and all(
        map_ is None or isinstance(map_, dict) for map_ in maps
    )


@lru_cache(maxsize=256)
def parsed(stats_json: str) -> Mapping[str, Any] | None:
    """Parse statistics into a JSON object; None if the text is not a JSON object."""
    try:
        statistics = json.loads(stats_json, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None
    return statistics if isinstance(statistics, dict) else None


@lru_cache(maxsize=256)
def _of_doubles(stats_json: str) -> Mapping[str, Any] | None:
    """Parse statistics as `parsed` does in a tenth of the time, with doubles in place of decimals."""
    try:
        statistics = orjson.loads(stats_json)
    except ValueError:
        # What orjson rejects, Java may write: NaN and Infinity, and half of a character.
        return parsed(stats_json)
    return statistics if isinstance(statistics, dict) else None


def _value_at(node: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        node = node.get(step) if isinstance(node, dict) else None
    return node


def as_count(value: Any) -> int | None:
    """Return a value as a row count; None if the value is not an integer from 0 to 2^63 - 1."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else None


def _low(type_: DataType, value: Any) -> Any:
    """Return the lower bound. Text is cut before the first invalid UTF-8 byte, which JSON cannot hold."""
    if isinstance(value, Decimal):
        return value - _loss(type_, value)
    if isinstance(value, str):
        return value.partition(_REPLACED)[0]
    if isinstance(value, float):
        with np.errstate(over="ignore", under="ignore"):
            return min(value, float(np.float32(value)))
    return value


def _high(type_: DataType, value: Any) -> Any:
    """Return the upper bound, or None if no safe upper bound exists.

    No bound is safe for floating point (some writers ignore NaN, the greatest value), for CHAR (statistics
    lack the padding that readers add) and for text with bytes that are not UTF-8.
    """
    if type_.name in ("float", "double") or type_.char_length:
        return None
    if isinstance(value, Decimal):
        return value + _loss(type_, value)
    if isinstance(value, str) and _REPLACED in value:
        return None
    return value + _MILLI if value is not None and type_.name in ("timestamp", "timestamp_ntz") else value


def _loss(type_: DataType, value: Decimal) -> Decimal:
    """Return how far a decimal bound may be off."""
    return abs(value) * _DOUBLE_LOSS if type_.precision > _DOUBLE_DIGITS else Decimal(0)


def _is_text(text: str) -> bool:
    """Return whether a JSON string is valid text: a lone surrogate is not."""
    try:
        return bool(text.encode()) or not text
    except UnicodeEncodeError:
        return False


def _decimal(type_: DataType, value: Any) -> Decimal | None:
    """Return a decimal bound, or None if the number is far outside the type's range.

    For a type of scale 0, numbers at or beyond the range of a long give None too: deltalake writes the
    largest long in place of such numbers.
    """
    if not isinstance(value, (int, Decimal)) or isinstance(value, bool):
        return None
    number = Decimal(value)
    if number.adjusted() > type_.precision or number.adjusted() < -_FINEST:
        return None
    return number if type_.scale or abs(number) < _LONG_END else None


def _value(type_: DataType, raw: Any) -> Any:
    """Return a statistic as a canonical value; None if it is not a value of the type."""
    name = type_.name
    try:
        if name == "string":
            return raw if isinstance(raw, str) and _is_text(raw) else None
        if name in ("byte", "short", "integer", "long"):
            return raw if isinstance(raw, int) and not isinstance(raw, bool) else None
        if name in ("float", "double"):
            return _float(raw)
        if name == "decimal":
            return _decimal(type_, raw)
        if name in ("date", "timestamp", "timestamp_ntz") and isinstance(raw, str):
            from tailbit.tables.partition_values import parse_micros

            micros = parse_micros(raw, "UTC")
            return micros // DAY_US if name == "date" else micros
    except ValueError:
        return None
    return None


def _float(raw: Any) -> float | None:
    """Return a floating point bound: text such as "-Infinity" is parsed, NaN gives None."""
    if isinstance(raw, bool) or not isinstance(raw, (int, Decimal, str, float)):
        return None
    value = float(raw)
    return None if value != value else value
