"""Texts as one buffer of bytes and the offsets where they begin and end, for functions done by numpy.

Bytes of a NULL may have any value: functions change them like others, and the entry stays NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.index.functions.vectors import nulls_of

Bytes = npt.NDArray[np.uint8]
MOST_BYTES = (1 << 31) - 1
"""Most bytes of texts in one array, whose offsets have 32 bits."""


def bytes_of(texts: pa.Array) -> tuple[Longs, Bytes]:
    """Return the offsets (first begin, then each end) and the bytes of texts. Cost: the bytes are a view.

    >>> places, data = bytes_of(pa.array(["ab", "", "c"]))
    >>> places.tolist(), data.tobytes()
    ([0, 2, 2, 3], b'abc')
    """
    _, places, data = texts.buffers()
    if not len(texts) or places is None:
        return np.zeros(len(texts) + 1, np.int64), np.zeros(0, np.uint8)
    ends = np.frombuffer(places, np.int32, len(texts) + 1, 4 * texts.offset).astype(np.int64)
    held = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return ends - ends[0], held[ends[0] : ends[-1]]


def texts_of(places: npt.NDArray[np.integer], data: Bytes, null: Mask, type_: Any = None) -> pa.Array:
    """Return texts from offsets and bytes, NULL where `null`; `type_` is string by default.

    Raises:
        OverflowError: the bytes are more than an array holds.
    """
    if len(data) > MOST_BYTES:
        raise OverflowError(f"{len(data)} bytes of texts in one array")
    valid = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
    buffers = [valid, pa.py_buffer(places.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(type_ or pa.string(), len(null), buffers)


def _hex_table(form: bytes) -> npt.NDArray[np.uint16]:
    return np.frombuffer(b"".join(form % n for n in range(256)), np.uint16)


HEX_OF_BYTE = _hex_table(b"%02X")
"""The two hexadecimal digits of each byte, as a 16-bit word in memory order."""
_LOWER_HEX_OF_BYTE = _hex_table(b"%02x")


def hex_of_bytes(values: pa.Array, capitals: bool = True) -> pa.Array:
    """Return the bytes of texts or binary values as hexadecimal text."""
    places, data = bytes_of(values)
    table = HEX_OF_BYTE if capitals else _LOWER_HEX_OF_BYTE
    return texts_of(2 * places, table[data].view(np.uint8), nulls_of(values))


def bytes_replaced(texts: pa.Array, by: Sequence[int | None]) -> pa.Array:
    """Replace each byte b of each text by the byte `by[b]`; remove the byte if `by[b]` is None.

    `by`: 256 entries.
    """
    places, data = bytes_of(texts)
    changed = np.array([b or 0 for b in by], np.uint8)[data]
    if None in by:
        kept = np.array([b is not None for b in by])[data]
        before = np.zeros(len(data) + 1, np.int64)
        np.cumsum(kept, out=before[1:])
        places, changed = before[places], changed[kept]
    return texts_of(places, changed, nulls_of(texts))
