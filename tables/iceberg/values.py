"""Single values in the metadata: of partitions, bounds and defaults.

Source: Iceberg specification, Appendix D, Single-value serialization.
"""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

from tailbit.tables.model import DataType

_TIMES = ("timestamp", "timestamp_ntz")
_WHOLE = ("integer", "long", "date", *_TIMES)
_DAY_US = 86_400_000_000


def encoded(value: Any) -> bytes | None:
    """Return a value of a partition in one form for all types it may have been promoted from.

    Numbers have eight bytes, so a tuple is the same in manifests of before and after a promotion; dates, as
    bytes of their own, have four.
    """
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return b"\x01" if value else b"\x00"
    if isinstance(value, int):
        return struct.pack("<q", value)
    return struct.pack("<d", value) if isinstance(value, float) else str(value).encode()


def decoded(type_: DataType, data: bytes) -> Any:
    r"""Return the canonical value of stored bytes, as `FileBounds` holds it; None if it cannot be told.

    The bytes may be of a narrower type, which the column had when they were written.

    >>> decoded(DataType("long"), b"\x02\x00\x00\x00")
    2
    """
    name = type_.name
    if name in _WHOLE:
        number = int.from_bytes(data, "little", signed=True) if len(data) in (4, 8) else None
        # A time of four bytes is a date, which the column held before it was promoted.
        return number * _DAY_US if number is not None and len(data) == 4 and name in _TIMES else number
    if name in ("float", "double"):
        if len(data) not in (4, 8):
            return None
        (value,) = struct.unpack("<f" if len(data) == 4 else "<d", data)
        return None if value != value else value
    if name == "decimal":
        unscaled = int.from_bytes(data, "big", signed=True)
        return Decimal(f"{unscaled}E{-type_.scale}") if 0 < len(data) <= 16 else None
    if name == "boolean":
        return data != b"\x00" if len(data) == 1 else None
    if name == "string":
        try:
            return data.decode()
        except UnicodeDecodeError:
            return None
    return None
