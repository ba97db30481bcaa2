"""Statistics of a data file as Delta writers put them into the log."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa


def statistics(rows: pa.Table) -> dict[str, Any]:
    """Statistics as Delta writes them: no NaN, timestamps in milliseconds, long texts cut."""
    low, high, nulls = _bounds({name: rows[name].combine_chunks() for name in rows.column_names})
    return {"numRecords": len(rows), "minValues": low, "maxValues": high, "nullCount": nulls}


def _bounds(columns: Mapping[str, pa.Array]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for name, values in columns.items():
        if pa.types.is_struct(values.type):
            inner = {f.name: part for f, part in zip(values.type, values.flatten(), strict=True)}
            low[name], high[name], nulls[name] = _bounds(inner)
            continue
        nulls[name] = values.null_count
        if pa.types.is_nested(values.type):
            continue
        known = [v for v in values.to_pylist() if v is not None and v == v]
        if known and not isinstance(known[0], (bool, bytes)):
            low[name], high[name] = _shown(min(known), False), _shown(max(known), True)
    return low, high, nulls


def _shown(value: Any, upper: bool) -> Any:
    if isinstance(value, datetime.datetime):
        return value.isoformat(timespec="milliseconds")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, Decimal):  # As deltalake writes it, which loses digits; Spark writes all of them.
        return float(value)
    if isinstance(value, str) and len(value) > 32:
        return value[:32] + "\U0010ffff" * upper
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return value
