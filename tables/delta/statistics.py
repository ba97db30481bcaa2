"""Bounds of a column in one file, from the log's statistics.

The bounds returned hold for every non-null row of the file, hidden or not: text that may have been rounded is
moved outwards, and where no safe bound can be had there is None. Wrong bounds would prune rows away, so doubt
always widens. Source: Delta protocol, Per-file Statistics.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tailbit.errors import MalformedLogError
from tailbit.tables.model import Column, DataType
from tailbit.tables.partition_values import parse_micros

_DAY_US = 86_400_000_000
_DOUBLE_DIGITS = 15
"""A decimal of so many digits survives being written as a double."""

_DOUBLE_LOSS = Decimal("1e-14")
"""More than a longer one loses, as a part of its value: deltalake computes such statistics in doubles."""

_LONG_END = (1 << 63) - 1

_MILLI = 999
"""Writers cut timestamps to milliseconds: the maximum may be this many us later."""

_REPLACED = "\ufffd"
"""What stands in JSON for bytes that are no UTF-8."""


class Bounds(NamedTuple):
    """`min`, `max`: canonical values (int for integers, days and us; float; Decimal; str) or None.

    `null_count`: exact, None where unknown. `num_records`: physical rows, None where unknown.
    """

    min: Any
    max: Any
    null_count: int | None
    num_records: int | None


def min_max(stats_json: str | None, column: Column) -> Bounds | None:
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
    return Bounds(low, high, nulls, rows)


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
            return parse_micros(found, "UTC") // _DAY_US
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
