"""Thrift's compact protocol, as far as Parquet's footers and page headers need it.

pyarrow does not show where pages lie and cannot write a footer alone, so footers and headers are read and
written here. Source: Thrift compact protocol; Parquet format, `parquet.thrift`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_TRUE, _FALSE, _BYTE, _I16, I32, I64, _DOUBLE, TEXT, LIST, _SET, _MAP, STRUCT = range(1, 13)
_LONG_LIST = 15
_DEEPEST = 64
"""Most levels of nested structs; Parquet has five."""


def read_struct(
    data: bytes, offset: int, until: int | None = None, depth: int = 0
) -> tuple[dict[int, Any], int]:
    """Read the struct at offset `offset`; return its fields by id, and the offset after the struct.

    `until`: a field id; reading stops before the first field of this or a higher id, and returns that offset.

    Structs are dicts, lists are lists, text is bytes.

    Raises:
        ValueError: the bytes are not a struct, or end within it.
    """
    if depth > _DEEPEST:
        raise ValueError("its structs are nested too deeply")
    fields: dict[int, Any] = {}
    number = 0
    while True:
        here, head, offset = offset, _byte(data, offset), offset + 1
        if not head:
            return fields, offset
        step, kind = head >> 4, head & 15
        if step:
            number += step
        else:
            raw, offset = _varint(data, offset)
            number = _unzigzag(raw)
        if until is not None and number >= until:
            return fields, here
        fields[number], offset = _value(data, offset, kind, depth)


def _value(data: bytes, offset: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, offset
    if kind == _BYTE:
        return _byte(data, offset), offset + 1
    if kind in (_I16, I32, I64):
        raw, offset = _varint(data, offset)
        return _unzigzag(raw), offset
    if kind == _DOUBLE:
        return data[offset : offset + 8], offset + 8
    if kind == TEXT:
        size, offset = _varint(data, offset)
        if offset + size > len(data):
            raise ValueError("a text ends beyond its bytes")
        return data[offset : offset + size], offset + size
    if kind in (LIST, _SET):
        return _list(data, offset, depth)
    if kind == STRUCT:
        return read_struct(data, offset, None, depth + 1)
    raise ValueError(f"it has a field of the unknown kind {kind}")


def _list(data: bytes, offset: int, depth: int) -> tuple[list[Any], int]:
    head, offset = _byte(data, offset), offset + 1
    size, kind = head >> 4, head & 15
    if size == _LONG_LIST:
        size, offset = _varint(data, offset)
    if size > len(data) - offset:
        raise ValueError("a list is longer than its bytes")
    items = []
    for _ in range(size):
        if kind in (_TRUE, _FALSE):
            item, offset = _byte(data, offset) == _TRUE, offset + 1
        else:
            item, offset = _value(data, offset, kind, depth)
        items.append(item)
    return items, offset


def _byte(data: bytes, offset: int) -> int:
    if offset >= len(data):
        raise ValueError("it ends too early")
    return data[offset]


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    out = shift = 0
    while True:
        byte = _byte(data, offset)
        offset += 1
        out |= (byte & 0x7F) << shift
        if byte < 0x80:
            return out, offset
        shift += 7
        if shift > 63:
            raise ValueError("a number is longer than 64 bits")


def _unzigzag(raw: int) -> int:
    return (raw >> 1) ^ -(raw & 1)


_BYTES = [bytes([number]) for number in range(256)]


def written_varint(number: int) -> bytes:
    """Encode a number of 0 or more, seven bits per byte."""
    if number < 0x80:
        return _BYTES[number]
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    if number < 0x20_0000:
        return bytes((number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80, number >> 14))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def written_int(number: int) -> bytes:
    """Encode an integer field: zigzag varint."""
    return written_varint(number << 1 if number >= 0 else (-number << 1) - 1)


def written_text(text: bytes) -> bytes:
    """Encode a text after its length."""
    return written_varint(len(text)) + text


def written_ints(numbers: Sequence[int]) -> bytes:
    """Encode a list of i32."""
    return _list_head(len(numbers), I32) + b"".join(map(written_int, numbers))


def written_texts(texts: Sequence[str]) -> bytes:
    """Encode a list of texts."""
    return _list_head(len(texts), TEXT) + b"".join(written_text(text.encode()) for text in texts)


def written_structs(structs: Sequence[bytes]) -> bytes:
    """Encode a list of structs."""
    return _list_head(len(structs), STRUCT) + b"".join(structs)


def _list_head(size: int, kind: int) -> bytes:
    """Encode the header of a list."""
    return bytes([size << 4 | kind]) if size < _LONG_LIST else bytes([0xF0 | kind]) + written_varint(size)


def written_struct(fields: Sequence[tuple[int, int, bytes]], before: int = 0) -> bytes:
    """Encode a struct of (id, kind, encoded value), with ids that ascend by less than 16.

    `before` is the id of the last field already written; with it the result is the end of a struct.
    """
    out: list[bytes] = []
    for number, kind, value in fields:
        out += [_BYTES[(number - before) << 4 | kind], value]
        before = number
    return b"".join(out) + b"\0"
