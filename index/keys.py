"""Canonical, order-preserving bytes of column values: the keys of postings.

Input: Arrow arrays or canonical Python values (bool; int for integers, days and microseconds; float; the
unscaled int of a decimal; bytes for strings and binary). Output: `pa.BinaryArray`, NULL staying null.

Invariant: for values a, b of one key type, a < b as Spark orders them if and only if key(a) < key(b) as
bytes, and a = b if and only if key(a) = key(b). NaN equals NaN and is the greatest; -0.0 equals 0.0. Only
strings and binary beyond `MAX_KEY` bytes are weaker: their keys are a prefix and a hash, equal values have
equal keys, and nothing more.

Keys of eight bytes are built from 64-bit integers in the order of the values.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.errors import ColumnTypeError
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, filled, numpy_of
from tailbit.tables.date_text import DAY_US
from tailbit.tables.model import DataType
from tailbit.tables.schema import arrow_type

Value = bool | int | float | bytes
"""A canonical value."""

SIGN = 1 << 63
"""The sign bit of a 64-bit integer."""

WORD_DIGITS = 18
"""Decimal digits that 64 bits always hold."""


Bytes = npt.NDArray[np.uint8]
MOST_BYTES = (1 << 31) - 1
"""Most bytes of texts in one array, whose offsets have 32 bits."""


def bytes_of(texts: pa.Array) -> tuple[Longs, Bytes]:
    """Return the offsets (first begin, then each end) and the bytes of texts. Cost: the bytes are a view.

    >>> places, data = bytes_of(pa.array(["ab", "", "c"]))
    >>> places.tolist(), data.tobytes()
    ([0, 2, 2, 3], b'abc')
    """
    _, offsets, data = texts.buffers()
    if not len(texts) or offsets is None:
        return np.zeros(len(texts) + 1, np.int64), np.zeros(0, np.uint8)
    ends = np.frombuffer(offsets, np.int32, len(texts) + 1, 4 * texts.offset).astype(np.int64)
    content = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return ends - ends[0], content[ends[0] : ends[-1]]


_BINARY = pa.binary()


def texts_of(
    offsets: npt.NDArray[np.integer],
    data: npt.NDArray[Any],
    null: Mask | None = None,
    type_: pa.DataType = _BINARY,
) -> pa.Array:
    """Return texts from offsets and bytes, NULL where `null`."""
    if data.nbytes > MOST_BYTES:
        raise OverflowError(f"{data.nbytes} bytes of texts in one array")
    valid = None
    if null is not None and null.any():
        valid = pa.py_buffer(np.packbits(~null, bitorder="little"))
    ends = pa.py_buffer(offsets.astype(np.int32, copy=False))
    buffers = [valid, ends, pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(type_, len(offsets) - 1, buffers)


def ordered_ints(values: pa.Array, key_type: str) -> Longs:
    """Map each value to an int64 such that integers compare as Spark compares the values; NULL becomes 0.

    The array keeps its order. `key_type`: boolean, an integer, a date or time type, or double. The caller
    masks the NULL entries, which look like a real 0.
    """
    if key_type == "double":
        floats = numpy_of(filled(pc.cast(values, pa.float64()), 0.0)) + 0.0
        floats[np.isnan(floats)] = np.nan
        bits = floats.view(np.int64)
        return np.where(bits < 0, bits ^ np.int64(SIGN - 1), bits)
    if key_type == "boolean":
        return numpy_of(filled(values, False)).astype(np.int64)
    if key_type in ("timestamp", "timestamp_ntz"):
        zone = "UTC" if key_type == "timestamp" else None
        values = pc.cast(values, pa.timestamp("us", zone), safe=False)
    elif key_type == "date":
        values = pc.cast(values, pa.int32())
    return numpy_of(filled(pc.cast(values, pa.int64()), 0)).astype(np.int64)


def ordered_int(value: Value, key_type: str) -> int:
    """Map one value to the integer that `ordered_ints` gives it; integers beyond 64 bits are clamped.

    `value`: not NULL; a float, a bool, or the integer of a whole number, of days or of microseconds.
    """
    if key_type == "double":
        number = math.nan if value != value else float(value) + 0.0
        (bits,) = struct.unpack(">q", struct.pack(">d", number))
        return int(bits ^ (SIGN - 1) if bits < 0 else bits)
    return max(-SIGN, min(SIGN - 1, int(value)))


def float_at(place: int) -> float:
    """Return the double that `ordered_int` maps to an integer."""
    (number,) = struct.unpack(">d", struct.pack(">q", place ^ (SIGN - 1) if place < 0 else place))
    return float(number)


def first_reached(reached: Callable[[int], bool], low: int, high: int) -> int:
    """Return the least integer from `low` to `high` for which `reached` is true; `high` + 1 if there is none.

    `reached`: a monotone condition: where it is true, it is true for all greater integers.

    >>> first_reached(lambda n: n * n >= 10, 0, 5)
    4
    """
    end = high + 1
    while low < end:
        middle = (low + end) // 2
        if reached(middle):
            end = middle
        else:
            low = middle + 1
    return low


MAX_KEY = 256
"""Bytes of a string or binary value that its key holds unchanged."""

TRUNCATED_KEY = MAX_KEY + 16
"""Length of the key of a longer value: its first `MAX_KEY` bytes and a 16-byte BLAKE2b hash of the whole
value."""

KeyRange = tuple[bytes | None, bool, bytes | None, bool]
"""(low, low is included, high, high is included) of stored keys; None is unbounded. NULL is in no range."""

NO_KEYS = pa.nulls(0, pa.binary())

KEY_TYPES = {
    "boolean": "boolean",
    "byte": "integer",
    "short": "integer",
    "integer": "integer",
    "long": "integer",
    "float": "double",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
}
"""The key type of each logical type whose key type does not depend on precision, scale or length."""

NO_ELEMENT, NULL_ELEMENT, ELEMENT = b"\x00", b"\x01", b"\x02"
"""Keys of an array column: for an empty array, for a NULL element, and the first byte of the key of an
element. A NULL array has the key null. So every row has a key, and has each of its keys once.
"""

_TEXTUAL = ("string", "binary")
_DECIMAL = re.compile(r"decimal\((\d+)\)")
_OF_ELEMENTS = re.compile(r"elements\((.+)\)")
_OF_PARTS = re.compile(r"tuple\((.+)\)")


def key_type_of(type_: DataType) -> str:
    """Return the key type of a logical type.

    The key type of a decimal depends on the scale alone, so that precision can widen.

    CHAR(n) has a key type for each n: once the column is a plain string, its values are read without the
    padding that their keys have. The key type of a tuple names the key types of its parts.

    Raises:
        ColumnTypeError: values of the type have no order-preserving key.
    """
    if type_.name == "decimal":
        return f"decimal({type_.scale})"
    if type_.char_length:
        return f"char({type_.char_length})"
    if type_.name == "tuple":
        return f"tuple({','.join(key_type_of(field.type) for field in type_.fields)})"
    key_type = KEY_TYPES.get(type_.name)
    if key_type is None:
        reason = "only columns of plain values are grouped, compared and indexed by their values"
        raise ColumnTypeError(column="", type=type_.sql, reason=reason)
    return key_type


def posting_type_of(type_: DataType) -> str:
    """Return the key type of a column's postings: that of its values, or `elements(...)` for an array."""
    if type_.name == "array":
        return f"elements({key_type_of(type_.fields[0].type)})"
    return key_type_of(type_)


def element_type(key_type: str) -> str | None:
    """Return the key type of the elements of an array key type; None for other key types."""
    match = _OF_ELEMENTS.fullmatch(key_type)
    return None if match is None else match.group(1)


def part_types(key_type: str) -> list[str] | None:
    """Return the key types of the parts of a tuple's key type; None for other key types."""
    match = _OF_PARTS.fullmatch(key_type)
    return None if match is None else match.group(1).split(",")


def mark_elements(keys: pa.BinaryArray) -> pa.BinaryArray:
    """Prefix keys of values with ELEMENT, which makes them keys of elements; null becomes NULL_ELEMENT."""
    return filled(pc.binary_join_element_wise(arrow_scalar(ELEMENT), keys, arrow_scalar(b"")), NULL_ELEMENT)


def element_keys(keys: pa.BinaryArray) -> pa.BinaryArray:
    """Convert keys of elements, which all begin with ELEMENT, to the keys of their values."""
    ends, data = bytes_of(keys)
    is_of_key = np.ones(len(data), dtype=np.bool_)
    is_of_key[ends[:-1]] = False
    return texts_of(ends - np.arange(len(ends)), data[is_of_key])


def scale_of(key_type: str) -> int | None:
    """Return the scale of a decimal key type; None for other key types."""
    match = _DECIMAL.fullmatch(key_type)
    return None if match is None else int(match.group(1))


def is_textual(key_type: str) -> bool:
    """Return whether keys are the bytes of texts or binary values, truncated if they are long."""
    return key_type in _TEXTUAL or key_type.startswith("char(")


def is_truncated(key: bytes | None) -> bool:
    """Return whether a string or binary key stands for every value with the same prefix and hash."""
    return key is not None and len(key) > MAX_KEY


def encode_array(values: pa.Array | pa.ChunkedArray, key_type: str) -> pa.BinaryArray:
    """Encode an array as keys; NULL stays null.

    Cost: a few vector operations; Python code runs once per distinct value longer than `MAX_KEY`.
    """
    if isinstance(values, pa.ChunkedArray):
        arrays = [encode_array(chunk, key_type) for chunk in values.chunks]
        return pa.concat_arrays(arrays) if arrays else arrow_array([], pa.binary())
    if pa.types.is_dictionary(values.type):
        return pc.take(encode_array(values.dictionary, key_type), values.indices)
    if is_textual(key_type):
        return _shortened(pc.cast(values, pa.binary()))
    if key_type == "boolean":
        return _fixed(values, numpy_of(filled(values, False), dtype=np.uint8), 1)
    scale = scale_of(key_type)
    if scale is not None:
        return _fixed(values, _decimal_keys(values, scale), 16)
    flipped = ordered_ints(values, key_type).view(np.uint64) ^ np.uint64(SIGN)
    return _fixed(values, flipped.astype(">u8"), 8)


def integer_keys(numbers: Longs) -> pa.BinaryArray:
    """Encode ordered integers as keys of eight bytes. The numbers are overwritten, not copied."""
    words = np.ascontiguousarray(numbers).view(np.uint64)
    words ^= np.uint64(SIGN)
    if sys.byteorder == "little":
        words.byteswap(inplace=True)
    return texts_of(np.arange(0, 8 * len(words) + 1, 8, dtype=np.int32), words)


def ordered_of(keys: pa.BinaryArray) -> pa.Int64Array:
    """Return keys of eight bytes as the integers that `integer_keys` encodes; null stays null."""
    return arrow_array(_integers(keys), mask=_nulls(keys))


def encode_value(value: Value, key_type: str) -> bytes:
    """Encode one canonical value as a key."""
    if isinstance(value, bytes):
        return _short(value)
    if key_type == "boolean":
        return b"\x01" if value else b"\x00"
    if scale_of(key_type) is not None:
        return (int(value) + (1 << 127)).to_bytes(16, "big")
    return (ordered_int(value, key_type) + SIGN).to_bytes(8, "big")


def decode_keys(keys: pa.BinaryArray, key_type: str, type_: DataType) -> pa.Array:
    """Decode keys to values, in the Arrow type of a logical type of that key type.

    Raises:
        ValueError: a key is truncated and does not hold its value.
    """
    target = arrow_type(type_, str(type_))
    if is_textual(key_type):
        if (pc.max(pc.binary_length(keys)).as_py() or 0) > MAX_KEY:
            raise ValueError("a truncated key does not hold its value")
        return keys.view(target)  # UTF-8 is not checked
    if key_type == "boolean":
        return pc.equal(keys, arrow_scalar(b"\x01"))
    if scale_of(key_type) is not None:
        return _decimals(keys, type_.precision, type_.scale)
    numbers = _integers(keys)
    if key_type == "double":
        bits = np.where(numbers < 0, numbers ^ np.int64(SIGN - 1), numbers)
        return pc.cast(arrow_array(bits.view(np.float64), mask=_nulls(keys)), target, safe=False)
    plain = arrow_array(numbers, mask=_nulls(keys))
    return pc.cast(pc.cast(plain, pa.int32()) if key_type == "date" else plain, target)


def widen_keys(keys: pa.BinaryArray, from_type: str, to_type: str) -> pa.BinaryArray:
    """Convert keys to those of the values after a type widening that tables allow; order and equality stay.

    Raises:
        ColumnTypeError: the types are not such a widening, or a value is beyond the wider type: a key type
            does not say how many digits its decimals have.
    """
    factor = widening_factor(from_type, to_type)
    if from_type == to_type:
        return keys
    try:
        return _widened(keys, from_type, to_type, factor)
    except pa.ArrowInvalid as beyond:
        reason = f"a key of type {from_type} is beyond it"
        raise ColumnTypeError(column="", type=to_type, reason=reason) from beyond


def _widened(keys: pa.BinaryArray, from_type: str, to_type: str, factor: int) -> pa.BinaryArray:
    inner, wide = element_type(from_type), element_type(to_type)
    if inner is not None and wide is not None:
        is_element = filled(pc.starts_with(keys, ELEMENT), False)
        widened = mark_elements(widen_keys(element_keys(pc.filter(keys, is_element)), inner, wide))
        return pc.replace_with_mask(keys, is_element, widened)
    source, scale = scale_of(from_type), scale_of(to_type)
    if source is not None and scale is not None:
        return encode_array(_rescaled(_decimals(keys, 38, source), scale), to_type)
    numbers = arrow_array(_integers(keys), mask=_nulls(keys))
    if to_type == "double":
        return encode_array(pc.cast(numbers, pa.float64(), safe=False), to_type)
    if scale is not None:
        return encode_array(_rescaled(pc.cast(numbers, pa.decimal128(19, 0)), scale), to_type)
    return encode_array(pc.cast(pc.multiply_checked(numbers, factor), pa.timestamp("us")), to_type)


def _rescaled(values: pa.Array, scale: int) -> pa.Array:
    """Return decimals of a larger scale; pyarrow.ArrowInvalid: one has more digits than there is room for."""
    ends = [end for end in (pc.min(values).as_py(), pc.max(values).as_py()) if end is not None]
    if any(abs(end) >= 10 ** (38 - scale) for end in ends):
        # Arrow's own check misses values that come out within the limit beyond 128 bits.
        raise pa.ArrowInvalid("a decimal has more than 38 digits")
    return pc.cast(values, pa.decimal128(38, scale))


def widening_factor(from_type: str, to_type: str) -> int:
    """Return the factor that turns a canonical value of a narrower key type into that of the wider type.

    Raises:
        ColumnTypeError: the types are not a widening.
    """
    inner, wide = element_type(from_type), element_type(to_type)
    if inner is not None and wide is not None:
        return widening_factor(inner, wide)
    source, scale = scale_of(from_type), scale_of(to_type)
    if from_type == to_type or (from_type, to_type) == ("integer", "double"):
        return 1
    if from_type == "date" and to_type == "timestamp_ntz":
        return DAY_US
    if from_type == "integer" and scale is not None:
        return int(10**scale)
    if source is not None and scale is not None and source <= scale:
        return int(10 ** (scale - source))
    raise ColumnTypeError(column="", type=to_type, reason=f"keys of type {from_type} do not widen to it")


def widens(from_type: str, to: str | DataType) -> bool:
    """Return whether `widen_keys` converts keys of one type to keys of another, or of a logical type.

    False for whole numbers promoted to float or double: rounding may give them the keys of other values.
    """
    if isinstance(to, DataType) and _rounds(from_type, to):
        return False
    try:
        return widening_factor(from_type, to if isinstance(to, str) else posting_type_of(to)) > 0
    except ColumnTypeError:
        return False


def _rounds(from_type: str, to: DataType) -> bool:
    value = to.fields[0].type if to.name == "array" else to
    return value.promoted and value.name in ("float", "double") and posting_type_of(to) != from_type


def widest(key_types: Iterable[str]) -> str | None:
    """Return the key type to which all others widen; None if there is none."""
    sorted_types = sorted(set(key_types))
    return next((wide for wide in sorted_types if all(widens(other, wide) for other in sorted_types)), None)


def _short(value: bytes) -> bytes:
    if len(value) <= MAX_KEY:
        return value
    return value[:MAX_KEY] + hashlib.blake2b(value, digest_size=TRUNCATED_KEY - MAX_KEY).digest()


def _shortened(values: pa.BinaryArray) -> pa.BinaryArray:
    long = filled(pc.greater(pc.binary_length(values), arrow_scalar(MAX_KEY)), False)
    if not pc.any(long).as_py():
        return values
    coded = pc.dictionary_encode(pc.filter(values, long))
    keys = arrow_array([_short(v) for v in coded.dictionary.to_pylist()], pa.binary())
    return pc.replace_with_mask(values, long, pc.take(keys, coded.indices))


def _nulls(values: pa.Array) -> Mask:
    return numpy_of(pc.is_null(values))


def _fixed(values: pa.Array, data: npt.NDArray[Any], width: int) -> pa.BinaryArray:
    """Return a binary array of fixed-width keys with the validity of `values`."""
    ends = np.arange(0, (len(values) + 1) * width, width, dtype=np.int32)
    return texts_of(ends, data, _nulls(values) if values.null_count else None)


def _decimal_keys(values: pa.Array, scale: int) -> npt.NDArray[Any]:
    words = decimal_words(values, scale)
    return np.column_stack([words[:, 1] ^ np.uint64(SIGN), words[:, 0]]).astype(">u8")


def decimal_longs(values: pa.Array, scale: int) -> tuple[Longs, Mask | None]:
    """Return decimals as unscaled integers of a scale, and which of them 64 bits hold; None if all.

    The integer of a NULL, or of a decimal that 64 bits do not hold, is arbitrary.
    """
    words = decimal_words(values, scale).view(np.int64)
    low = np.ascontiguousarray(words[:, 0])
    fit: Mask = words[:, 1] == low >> 63
    return low, None if fit.all() else fit


def decimal_words(values: pa.Array, scale: int | None = None) -> npt.NDArray[np.uint64]:
    """Return the low and high 64 bits of the unscaled integers of decimals, of a scale: uint64, rows by 2."""
    if scale is not None and not (pa.types.is_decimal128(values.type) and values.type.scale == scale):
        values = pc.cast(values, pa.decimal128(38, scale))
    if not len(values):
        return np.zeros((0, 2), dtype="<u8")
    words = np.frombuffer(values.buffers()[1], dtype="<u8")
    return words[2 * values.offset : 2 * (values.offset + len(values))].reshape(-1, 2)


def _decimals(keys: pa.BinaryArray, precision: int, scale: int) -> pa.Array:
    words = _words(keys, 16).reshape(-1, 2)
    pairs = np.column_stack([words[:, 1], words[:, 0] ^ np.uint64(SIGN)]).astype("<u8")
    return _typed(keys, np.ascontiguousarray(pairs), pa.decimal128(precision, scale))


def _integers(keys: pa.BinaryArray) -> Longs:
    flipped: npt.NDArray[np.uint64] = _words(keys, 8) ^ np.uint64(SIGN)
    return flipped.view(np.int64)


def _words(keys: pa.BinaryArray, width: int) -> npt.NDArray[np.uint64]:
    """Return keys of whole words as native 64-bit words; the words of a null key are 0."""
    dense = filled(keys, bytes(width))
    data = bytes_of(dense)[1]
    if len(data) != width * len(dense):
        raise ValueError(f"keys are not {width} bytes long")
    return np.frombuffer(data.tobytes(), dtype=">u8").astype(np.uint64)


def _typed(keys: pa.BinaryArray, data: npt.NDArray[Any], target: pa.DataType) -> pa.Array:
    valid = None
    if keys.null_count:
        valid = pa.py_buffer(np.packbits(~_nulls(keys), bitorder="little").tobytes())
    return pa.Array.from_buffers(target, len(keys), [valid, pa.py_buffer(data)], keys.null_count)
