"""Column chunks, row groups and the footer of a Parquet file that is put together in memory."""

from __future__ import annotations

from collections.abc import Sequence

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
)

MAGIC = b"PAR1"
PHYSICAL_TYPES = {
    name: number
    for number, name in enumerate(
        ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
    )
}
CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6}
"""LZ4 is two codecs of one name to pyarrow: such chunks are read whole."""
_PLAIN, _RLE, _RLE_DICTIONARY = 0, 3, 8


def written_chunk(
    type_: str, codec: str, values: int, unpacked: int, packed: int, data: int, dictionary: int | None
) -> bytes:
    """A column chunk as a footer holds it; its name is its place in the schema, so the path is left empty."""
    meta = [
        (1, I32, written_int(PHYSICAL_TYPES[type_])),
        (2, LIST, written_ints([_PLAIN, _RLE_DICTIONARY])),
        (3, LIST, b"\x08"),
        (4, I32, written_int(CODECS[codec])),
        (5, I64, written_int(values)),
        (6, I64, written_int(unpacked)),
        (7, I64, written_int(packed)),
        (9, I64, written_int(data)),
    ]
    if dictionary is not None:
        meta.append((11, I64, written_int(dictionary)))
    return written_struct([(2, I64, written_int(0)), (3, STRUCT, written_struct(meta))])


def written_row_group(chunks: Sequence[bytes], size: int, rows: int) -> bytes:
    """A row group of written chunks."""
    return written_struct(
        [(1, LIST, written_structs(chunks)), (2, I64, written_int(size)), (3, I64, written_int(rows))]
    )


def written_leaf(
    name: str, type_: str, nullable: bool, length: int = 0, decimal: tuple[int, int] | None = None
) -> bytes:
    """A leaf of a schema; of logical types only decimals (precision and scale) are named."""
    fields = [(1, I32, written_int(PHYSICAL_TYPES[type_]))]
    if length:
        fields.append((2, I32, written_int(length)))
    fields += [(3, I32, written_int(int(nullable))), (4, TEXT, written_text(name.encode()))]
    if decimal is not None:
        converted, (precision, scale) = 5, decimal
        fields += [(6, I32, written_int(converted)), (7, I32, written_int(scale))]
        fields.append((8, I32, written_int(precision)))
    return written_struct(fields)


def written_bits(bits: bytes, rows: int) -> bytes:
    """A page of packed booleans without NULLs, its header before it."""
    values = [(1, rows), (2, _PLAIN), (3, _RLE), (4, _RLE)]
    data = written_struct([(number, I32, written_int(value)) for number, value in values])
    sizes = [(1, 0), (2, len(bits)), (3, len(bits))]
    return written_struct([*((n, I32, written_int(v)) for n, v in sizes), (5, STRUCT, data)]) + bits


def written_end(leaves: Sequence[bytes], groups: Sequence[bytes], rows: int) -> bytes:
    """The end of a file whose columns are `leaves`: its footer, the footer's length and the mark."""
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
    """A footer with its length and the mark behind it."""
    return b"".join([footer, len(footer).to_bytes(4, "little"), MAGIC])
