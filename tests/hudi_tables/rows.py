"""Rows that the tables of most kinds hold: few values, NULLs in every column but the keys."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

SCHEMA = (
    "id bigint, ts bigint, part string, city string, qty int, price decimal(10,2), day date, at timestamp"
)
START = datetime(2024, 3, 1, tzinfo=timezone.utc)
CITIES = ("Oslo", "Lima", "Pune", "Kyiv", "Zürich")
PARTS = ("p0", "p1", "p2")


def order(key: int, ts: int) -> tuple[Any, ...]:
    """Return the row of a key as of an ordering value: its partition depends on the key alone."""
    mixed = key * 31 + ts * 7
    return (
        key,
        ts,
        PARTS[key % len(PARTS)],
        None if mixed % 6 == 0 else CITIES[mixed % len(CITIES)],
        None if mixed % 7 == 0 else mixed % 4,
        None if mixed % 11 == 0 else Decimal(mixed % 50) / 4,
        None if mixed % 13 == 0 else date(2024, 1, 1) + timedelta(days=mixed % 9),
        None if mixed % 5 == 0 else START + timedelta(hours=mixed % 30, microseconds=mixed),
    )


def orders(keys: Iterable[int], ts: int) -> list[tuple[Any, ...]]:
    """Return the rows of keys as of one ordering value."""
    return [order(key, ts) for key in keys]
