r"""Keys of tuples: the keys of two to four values, one after the other, in bytes that sort as the tuples do.

A part is a mark and the key of a value; NULL is a mark alone, and comes first. So no key is null as a whole.
A text that another part follows ends with a zero byte, and each zero byte within the text becomes the bytes
00 FF: no mark is FF, so a shorter text comes first. A long text or binary value is truncated as its single
key is: the key holds the whole value of every part unless the key of a part is truncated.

Worked example, of type tuple(string,boolean,string):

    ('ab', true, 'c\0d')     02 6162 00   02 01   02 630064
    ('a', NULL, '')          02 61 00     01      02
    (NULL, false, NULL)      01           02 00   01
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.index.keys import (
    ELEMENT,
    MAX_KEY,
    NULL_ELEMENT,
    bytes_of,
    is_textual,
    part_types,
    scale_of,
    texts_of,
)
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_scalar, filled, numpy_of
from tailbit.tables.model import Column, DataType

VALUE_MARK, NULL_PART, BEHIND = ELEMENT, NULL_ELEMENT, b"\x03"
"""The mark of a value, that of NULL, and a byte that is greater than any mark."""

END = b"\x00"
"""The end of a text that another part follows."""

_ZERO, _ESCAPED = b"\x00", b"\x00\xff"


def tuple_of(types: Sequence[DataType]) -> DataType:
    """Return the tuple type of some types; its fields are named 1, 2 and so on."""
    names = [(str(place),) for place in range(1, len(types) + 1)]
    fields = tuple(Column(name, name, type_) for name, type_ in zip(names, types, strict=True))
    return DataType("tuple", fields=fields)


def join_parts(fields: Sequence[pa.BinaryArray], key_type: str) -> pa.BinaryArray:
    """Join the keys of single values, one array per part, to keys of tuples."""
    types = types_of(key_type)
    pieces: list[pa.BinaryScalar | pa.BinaryArray] = []
    for place, (field, type_) in enumerate(zip(fields, types, strict=True), 1):
        pieces += _piece(field, place < len(types) and is_textual(type_))
    return pc.binary_join_element_wise(*pieces, arrow_scalar(b""))


def join_part(key: bytes | None, place: int, key_type: str) -> bytes:
    """Return the bytes that part number `place` (from 0) adds to a tuple's key; the key None means NULL."""
    types = types_of(key_type)
    if key is None:
        return NULL_PART
    if place + 1 < len(types) and is_textual(types[place]):
        return VALUE_MARK + escaped(key) + END
    return VALUE_MARK + key


def escaped(text: bytes) -> bytes:
    """Return a text as it stands in a key in front of another part."""
    return text.replace(_ZERO, _ESCAPED)


def unescaped(text: bytes) -> bytes:
    """Return the text of `escaped` bytes."""
    return text.replace(_ESCAPED, _ZERO)


def split_parts(keys: pa.BinaryArray, key_type: str) -> list[pa.BinaryArray]:
    """Split keys of tuples: one array of keys per part, null for NULL. Cost: some passes over the bytes."""
    types, out = types_of(key_type), []
    ends, data = bytes_of(keys)
    texts_end = _text_ends(data) if any(map(is_textual, types[:-1])) else ends[:0]
    begin = ends[:-1]
    for place, type_ in enumerate(types, 1):
        null, low = data[begin] == NULL_PART[0], begin + 1
        if not is_textual(type_):
            out.append(_fixed_slices(data, low, part_width(type_), null))
            begin = np.where(null, low, low + part_width(type_))
        elif place == len(types):
            out.append(_slices(data, low, ends[1:], null))
        else:
            high = np.where(null, low, texts_end[np.searchsorted(texts_end, low)])
            texts = _slices(data, low, high, null)
            out.append(pc.replace_substring(texts, pattern=_ESCAPED, replacement=_ZERO))
            begin = np.where(null, low, high + 1)
    return out


def truncated(keys: pa.BinaryArray, key_type: str) -> Mask | None:
    """Return the mask of the keys, of any key type, that do not hold their whole values; None if all do."""
    types = part_types(key_type)
    textual = is_textual(key_type) if types is None else any(map(is_textual, types))
    if not textual or (pc.max(pc.binary_length(keys)).as_py() or 0) <= MAX_KEY:
        return None
    if types is None:
        return _longer(keys)
    pairs = zip(split_parts(keys, key_type), types, strict=True)
    short: Mask = reduce(np.logical_or, [_longer(field) for field, type_ in pairs if is_textual(type_)])
    return short if short.any() else None


def types_of(key_type: str) -> list[str]:
    """Return the key types of the parts of a key type of tuples."""
    types = part_types(key_type)
    assert types is not None
    return types


def _longer(keys: pa.BinaryArray) -> Mask:
    """Return the mask of the keys that are longer than MAX_KEY, and so truncated."""
    return numpy_of(filled(pc.greater(pc.binary_length(keys), arrow_scalar(MAX_KEY)), False), dtype=bool)


def _piece(field: pa.BinaryArray, ends: bool) -> list[pa.BinaryScalar | pa.BinaryArray]:
    """Return the arrays and constants to join for a part; `ends`: whether it is a text that needs END."""
    whole = pc.replace_substring(field, pattern=_ZERO, replacement=_ESCAPED) if ends else field
    pieces = [arrow_scalar(VALUE_MARK), whole, *([arrow_scalar(END)] if ends else [])]
    if not field.null_count:
        return pieces
    return [filled(pc.binary_join_element_wise(*pieces, arrow_scalar(b"")), NULL_PART)]


def part_width(key_type: str) -> int:
    """Return the width in bytes of the keys of a type that is not textual."""
    return 1 if key_type == "boolean" else 8 if scale_of(key_type) is None else 16


def _text_ends(data: npt.NDArray[np.uint8]) -> Longs:
    """Return the places of zero bytes that FF does not follow, and the end of the data.

    The end of a text is the first of these places at or after its beginning.
    """
    zero = data == 0
    zero[:-1] &= data[1:] != 0xFF
    return np.append(np.flatnonzero(zero), len(data))


def _slices(data: npt.NDArray[np.uint8], low: Longs, high: Longs, null: Mask) -> pa.BinaryArray:
    """Return the bytes from `low` to `high`, for ascending slices with a byte between any two of them."""
    edges = np.zeros(len(data) + 1, dtype=np.int8)
    edges[low] += 1
    edges[high] -= 1
    data_of_slices = data[np.cumsum(edges[:-1], dtype=np.int8).view(np.bool_)]
    ends = np.zeros(len(low) + 1, dtype=np.int32)
    np.cumsum(high - low, out=ends[1:])
    return texts_of(ends, data_of_slices, null)


def _fixed_slices(data: npt.NDArray[np.uint8], low: Longs, width: int, null: Mask) -> pa.BinaryArray:
    """Return the `width` bytes from `low` on; where `null` holds, they may not be there."""
    if null.all():
        return pa.nulls(len(low), pa.binary())
    windows = np.lib.stride_tricks.sliding_window_view(data, width)
    data_of_slices = windows[np.minimum(low, len(windows) - 1)]
    return texts_of(np.arange(0, (len(low) + 1) * width, width, dtype=np.int32), data_of_slices, null)
