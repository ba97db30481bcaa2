"""Encoding of the column chunks, pages, row groups and footer of a Parquet file assembled in memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.tables.parquet.file import MAGIC
from tailbit.tables.parquet.thrift import (
    I32,
    I64,
    LIST,
    STRUCT,
    TEXT,
    written_int,
    written_ints,
    written_struct,
    written_structs,
    written_text,
    written_varint,
)

PHYSICAL_TYPES = {
    name: number
    for number, name in enumerate(
        ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
    )
}
CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6}
"""LZ4 is missing: pyarrow has one name for two codecs, so such chunks are read whole."""
_PLAIN, _RLE, _RLE_DICTIONARY = 0, 3, 8
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_LITERAL = 1 << 24
"""Longest Snappy literal whose length takes three bytes."""


def written_chunk(
    type_: str, codec: str, values: int, unpacked: int, packed: int, data: int, dictionary: int | None
) -> bytes:
    """Encode a column chunk for a footer.

    The path of the chunk is left empty: its place among the chunks identifies its leaf.
    """
    before = _before_offsets(type_, codec, values, unpacked, packed)
    if dictionary is None:
        return b"".join((before, _OFFSET, written_int(data), _ENDS))
    return b"".join((before, _OFFSET, written_int(data), _OFFSET, written_int(dictionary), _ENDS))


_OFFSET = bytes([9 - 7 << 4 | I64])
"""The header of an offset field, 9 or 11: each id is two higher than the last."""
_ENDS = b"\0\0"
"""The stop fields of the chunk's metadata and of the chunk."""
_BEFORE_META = written_struct([(2, I64, written_int(0)), (3, STRUCT, b"")])[:-1]


@lru_cache(1 << 12)
def _before_offsets(type_: str, codec: str, values: int, unpacked: int, packed: int) -> bytes:
    """Encode a chunk up to the page offsets, cached: a chunk that is read again only changes its offsets."""
    fields = [
        (1, I32, written_int(PHYSICAL_TYPES[type_])),
        (2, LIST, written_ints([_PLAIN, _RLE_DICTIONARY])),
        (3, LIST, b"\x08"),
        (4, I32, written_int(CODECS[codec])),
        (5, I64, written_int(values)),
        (6, I64, written_int(unpacked)),
        (7, I64, written_int(packed)),
    ]
    return _BEFORE_META + written_struct(fields)[:-1]


def written_row_group(chunks: Sequence[bytes], size: int, rows: int) -> bytes:
    """Encode a row group of encoded chunks."""
    return written_struct(
        [(1, LIST, written_structs(chunks)), (2, I64, written_int(size)), (3, I64, written_int(rows))]
    )


@lru_cache(1 << 12)
def written_leaf(
    name: str, type_: str, nullable: bool, length: int = 0, decimal: tuple[int, int] | None = None
) -> bytes:
    """Encode a leaf of a schema; the only logical type is `decimal`, given as precision and scale."""
    fields = [(1, I32, written_int(PHYSICAL_TYPES[type_]))]
    if length:
        fields.append((2, I32, written_int(length)))
    fields += [(3, I32, written_int(int(nullable))), (4, TEXT, written_text(name.encode()))]
    if decimal is not None:
        converted, (precision, scale) = 5, decimal
        fields += [(6, I32, written_int(converted)), (7, I32, written_int(scale))]
        fields.append((8, I32, written_int(precision)))
    return written_struct(fields)


def written_dictionary(values: int, unpacked: int, packed: bytes) -> bytes:
    """Encode a dictionary page of `values` values, header first."""
    of = written_struct(_numbers(values, _PLAIN))
    sizes = _numbers(_DICTIONARY_PAGE, unpacked, len(packed))
    return written_struct([*sizes, (7, STRUCT, of)]) + packed


def written_codes(codes: npt.NDArray[np.int64], nullable: bool, codec: str) -> bytes:
    """Encode a page of ascending dictionary codes without NULLs, of 1, 2 or 4 bytes each, header first."""
    rows, largest = len(codes), int(codes[-1]) if len(codes) else 0
    width = 1 if largest < 1 << 8 else 2 if largest < 1 << 16 else 4
    full = np.zeros(-(-rows // 8) * 8, dtype=f"<u{width}")
    full[:rows] = codes
    head = bytes([8 * width]) + written_varint(len(full) // 8 << 1 | 1)
    return _data_page(rows, nullable, _RLE_DICTIONARY, head + full.tobytes(), codec)


def written_values(values: bytes, rows: int, nullable: bool) -> bytes:
    """Encode a page of `rows` plain values without NULLs, uncompressed, header first."""
    return _data_page(rows, nullable, _PLAIN, values, "UNCOMPRESSED")


def _data_page(rows: int, nullable: bool, encoding: int, values: bytes, codec: str) -> bytes:
    there = written_varint(rows << 1) + b"\1"
    raw = len(there).to_bytes(4, "little") + there + values if nullable else values
    packed, of = compressed(raw, codec), written_struct(_numbers(rows, encoding, _RLE, _RLE))
    sizes = _numbers(_DATA_PAGE, len(raw), len(packed))
    return written_struct([*sizes, (5, STRUCT, of)]) + packed


def _numbers(*values: int) -> list[tuple[int, int, bytes]]:
    """Return the fields 1, 2, 3 ... of a struct that begins with numbers."""
    return [(number, I32, written_int(value)) for number, value in enumerate(values, 1)]


def compressed(data: bytes, codec: str) -> bytes:
    """Compress bytes for a page; Snappy as one literal, since the bytes are read only once.

    Source: Snappy's format description, literals of three bytes' length.
    """
    if codec == "UNCOMPRESSED":
        return data
    if codec == "SNAPPY" and 0 < len(data) <= _LITERAL:
        return b"".join([written_varint(len(data)), b"\xf8", (len(data) - 1).to_bytes(3, "little"), data])
    out: bytes = pa.compress(data, codec=codec.lower(), asbytes=True)
    return out


def written_end(leaves: Sequence[bytes], groups: Sequence[bytes], rows: int) -> bytes:
    """Encode the end of a file whose columns are `leaves`: the footer, its length and the magic bytes."""
    root = written_struct([(4, TEXT, written_text(b"rows")), (5, I32, written_int(len(leaves)))])
    footer = written_struct(
        [
            (1, I32, written_int(1)),
            (2, LIST, written_structs([root, *leaves])),
            (3, I64, written_int(rows)),
            (4, LIST, written_structs(groups)),
        ]
    )
    return ended(footer)


def ended(footer: bytes) -> bytes:
    """Append the length and the magic bytes to a footer."""
    return b"".join([footer, len(footer).to_bytes(4, "little"), MAGIC])
