"""Variants that a writer shredded into columns of their own, put together again.

A shredded variant has a column `typed_value` beside `value`: of a plain type, of a list of such pairs, or of
a struct with such a pair for each field. What does not fit its type stays in `value`, and so do the fields of
an object that have no column. Source: Parquet specification, Variant Encoding; Variant Shredding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, decoded

NULL = b"\0"
"""The variant that is NULL, which is a value: a variant may be missing, too."""

_Read = Callable[[int, Sequence[str]], bytes | None]
"""Returns the value in a row, of a dictionary of field names; None where it is missing."""

_PRIMITIVE, _SHORT, _OBJECT, _ARRAY = range(4)
_TRUE, _FALSE, _BINARY, _STRING = 1, 2, 15, 16
_MAX_SHORT = 64
_OF_DECIMALS = ((9, 8, 4), (18, 9, 8), (38, 10, 16))
"""The most digits, the type and the bytes of a number."""
_TEXTS = (pa.string(), pa.large_string(), pa.string_view())
_BYTES = (pa.binary(), pa.large_binary(), pa.binary_view())
_FIXED = {
    pa.int8(): 3,
    pa.int16(): 4,
    pa.int32(): 5,
    pa.int64(): 6,
    pa.float64(): 7,
    pa.date32(): 11,
    pa.timestamp("us", "UTC"): 12,
    pa.timestamp("us"): 13,
    pa.float32(): 14,
    pa.time64("us"): 17,
    pa.timestamp("ns", "UTC"): 18,
    pa.timestamp("ns"): 19,
    pa.binary(16): 20,
}
"""The types of values whose bytes are those that Arrow holds."""


def unshredded(stored: pa.StructArray) -> pa.Array:
    """Return the values of variants as bytes, each in its row's dictionary; `stored`: metadata and a pair.

    Cost: a pass over the rows in Python, some microseconds for each field.

    Raises:
        ValueError: bytes or columns that no variant has.
        IndexError, KeyError: a dictionary that lacks a name.
        pyarrow.ArrowException: a column of a type that cannot be read.
    """
    dictionaries: dict[bytes, list[str]] = {}
    read, out = _reader(stored), list[bytes | None]()
    is_there = pc.is_valid(stored).to_pylist()
    for row, metadata in enumerate(_columns(stored)["metadata"].to_pylist()):
        if not is_there[row]:
            out.append(None)
            continue
        if metadata is None:
            raise ValueError("a variant has no metadata")
        if metadata not in dictionaries:
            dictionaries[metadata] = _names(metadata)
        # Where both parts are missing, which is wrong, readers have to take NULL.
        out.append(read(row, dictionaries[metadata]) or NULL)
    return arrow_array(out, pa.binary())


def _columns(group: pa.StructArray) -> dict[str, pa.Array]:
    return {group.type.field(i).name: group.field(i) for i in range(group.type.num_fields)}


def _reader(group: pa.StructArray) -> _Read:
    """Return what reads the value of a pair."""
    columns = _columns(group)
    value, typed = columns.get("value"), columns.get("typed_value")
    values = [None] * len(group) if value is None else value.to_pylist()
    if typed is None:
        return lambda row, names: values[row]
    typed = decoded(typed.storage if isinstance(typed, pa.ExtensionArray) else typed)
    is_typed = pc.is_valid(typed).to_pylist()
    if pa.types.is_struct(typed.type):
        read = _object_reader(typed, values)
    elif pa.types.is_list(typed.type) or pa.types.is_large_list(typed.type):
        read = _array_reader(typed)
    else:
        plain = _plain(typed, is_typed)
        return lambda row, names: plain[row] if is_typed[row] else values[row]
    return lambda row, names: read(row, names) if is_typed[row] else values[row]


def _object_reader(typed: pa.StructArray, values: Sequence[bytes | None]) -> _Read:
    fields = {name: _reader(pair) for name, pair in _columns(typed).items()}

    def read(row: int, names: Sequence[str]) -> bytes:
        unshredded_fields = values[row]
        whole = {} if unshredded_fields is None else _fields(unshredded_fields, names)
        shredded = {name: field(row, names) for name, field in fields.items()}
        whole.update((name, value) for name, value in shredded.items() if value is not None)
        return _object(whole, {name: id_ for id_, name in enumerate(names)})

    return read


def _array_reader(typed: pa.ListArray) -> _Read:
    element, offsets = _reader(typed.values), typed.offsets.to_pylist()

    def read(row: int, names: Sequence[str]) -> bytes:
        elements = [element(n, names) or NULL for n in range(offsets[row], offsets[row + 1])]
        starts, width = _starts(elements)
        is_large = len(elements) > 0xFF
        header = _ARRAY | (width - 1 | is_large << 2) << 2
        return b"".join([bytes([header]), _size(len(elements), is_large), starts, *elements])

    return read


def _plain(typed: pa.Array, is_typed: Sequence[bool]) -> Sequence[bytes]:
    """Return values of a plain type as variants; what stands for NULL has no meaning."""
    if pa.types.is_boolean(typed.type):
        return [bytes([(_TRUE if value else _FALSE) << 2]) for value in typed.to_pylist()]
    if typed.type in _TEXTS or typed.type in _BYTES:
        is_text = typed.type in _TEXTS
        return [_sized(value or b"", is_text) for value in pc.cast(typed, pa.binary()).to_pylist()]
    if not any(is_typed):
        return [NULL] * len(typed)
    is_instant = pa.types.is_timestamp(typed.type) and typed.type.tz is not None
    type_ = pa.timestamp(typed.type.unit, "UTC") if is_instant else typed.type
    number, count, scale = _FIXED.get(type_, 0), 0, b""
    if pa.types.is_decimal(type_):
        sizes = ((name, size) for most, name, size in _OF_DECIMALS if type_.precision <= most)
        number, count = next(sizes, (0, 0))
        scale = bytes([type_.scale])
    if not number:
        raise ValueError(f"{typed.type} is no type of a variant")
    width = typed.type.bit_width // 8
    data = np.frombuffer(typed.buffers()[1], np.uint8)[typed.offset * width :]
    header = bytes([number << 2]) + scale
    return [
        header + row.tobytes() for row in data[: len(typed) * width].reshape(-1, width)[:, : count or width]
    ]


def _sized(value: bytes, is_text: bool) -> bytes:
    if is_text and len(value) < _MAX_SHORT:
        return bytes([_SHORT | len(value) << 2]) + value
    return bytes([(_STRING if is_text else _BINARY) << 2]) + len(value).to_bytes(4, "little") + value


def _object(fields: Mapping[str, bytes], ids: Mapping[str, int]) -> bytes:
    """Return an object; its fields are in the order of their names."""
    named = sorted(fields, key=str.encode)
    numbers, values = [ids[name] for name in named], [fields[name] for name in named]
    starts, width = _starts(values)
    id_width, is_large = _width(max(numbers, default=0)), len(values) > 0xFF
    header = _OBJECT | (width - 1 | (id_width - 1) << 2 | is_large << 4) << 2
    written = [number.to_bytes(id_width, "little") for number in numbers]
    return b"".join([bytes([header]), _size(len(values), is_large), *written, starts, *values])


def _size(count: int, is_large: bool) -> bytes:
    return count.to_bytes(4 if is_large else 1, "little")


def _width(number: int) -> int:
    return max(1, -(-number.bit_length() // 8))


def _starts(values: Sequence[bytes]) -> tuple[bytes, int]:
    """Return where each of some values begins, and where the last one ends; the bytes of each number."""
    ends = [0, *np.cumsum([len(value) for value in values], dtype=np.int64).tolist()]
    width = _width(ends[-1])
    return b"".join(end.to_bytes(width, "little") for end in ends), width


def _numbers(data: bytes, begin: int, width: int, count: int) -> list[int]:
    if begin + width * count > len(data):
        raise ValueError("a variant is cut short")
    return [int.from_bytes(data[n : n + width], "little") for n in range(begin, begin + width * count, width)]


def _names(metadata: bytes) -> list[str]:
    """Return the field names of a dictionary."""
    width = (metadata[0] >> 6) + 1
    (count,) = _numbers(metadata, 1, width, 1)
    offsets = _numbers(metadata, 1 + width, width, count + 1)
    texts = metadata[1 + width * (count + 2) :]
    if max(offsets) > len(texts):
        raise ValueError("a variant is cut short")
    return [texts[begin:end].decode() for begin, end in pairwise(offsets)]


def _fields(value: bytes, names: Sequence[str]) -> dict[str, bytes]:
    """Return the fields of an object by name."""
    if not value or value[0] & 3 != _OBJECT:
        raise ValueError("fields are shredded of what is no object")
    header = value[0] >> 2
    width, id_width, count_width = (header & 3) + 1, (header >> 2 & 3) + 1, 4 if header >> 4 & 1 else 1
    (count,) = _numbers(value, 1, count_width, 1)
    behind_ids = 1 + count_width + id_width * count
    ids = _numbers(value, 1 + count_width, id_width, count)
    offsets = _numbers(value, behind_ids, width, count + 1)
    values = value[behind_ids + width * (count + 1) :]
    if max(offsets) > len(values):
        raise ValueError("a variant is cut short")
    # Values may lie in any order: each ends where the next one begins.
    ends = dict(pairwise(sorted(offsets)))
    begins = zip(ids, offsets[:-1], strict=True)
    return {names[id_]: values[begin : ends[begin]] for id_, begin in begins}
