"""Texts of common forms are cast by Arrow, which parses these forms as Spark does."""

from __future__ import annotations

import pyarrow as pa

from tailbit.index.functions.vectors import Vector
from tailbit.tables import compute as pc
from tailbit.tables.model import DataType
from tailbit.tables.schema import arrow_type
from tailbit.tables.zones.times import fixed_offset

_DIGITS = {"byte": 2, "short": 4, "integer": 9, "long": 18}
"""Numbers of digits that always fit in a type."""
_DAY = r"(?:[1-9]\d{3}|0[1-9]\d{2}|00[1-9]\d|000[1-9])-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])"
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?"


def usual(to: DataType, zone: str) -> str | None:
    """Return a pattern of texts that Arrow casts to a type as Spark does; None if there is none."""
    if to.name in _DIGITS:
        return rf"^-?\d{{1,{_DIGITS[to.name]}}}$"
    if to.name in ("float", "double"):
        return r"^-?\d{1,15}(?:\.\d{1,15})?$"
    if to.name == "decimal":
        return (
            rf"^-?\d{{1,{to.precision - to.scale}}}{_behind(to.scale)}$" if to.precision > to.scale else None
        )
    if to.name == "date":
        return rf"^{_DAY}$"
    if to.name == "timestamp_ntz" or (to.name == "timestamp" and fixed_offset(zone) == 0):
        return rf"^{_DAY}[ T]{_TIME}$"
    return None


def _behind(scale: int) -> str:
    return rf"(?:\.\d{{1,{scale}}})?" if scale else ""


def read(texts: pa.Array, to: DataType) -> Vector:
    """Cast texts that match the pattern of `usual` to a type."""
    target = arrow_type(to, str(to))
    if pa.types.is_timestamp(target):
        return Vector(pc.cast(pc.cast(texts, pa.timestamp("us")), target))
    return Vector(pc.cast(texts, target))
