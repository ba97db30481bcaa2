"""The rows of a data block, of Avro or Parquet, as a Parquet file in memory, made once.

A Parquet block is one already. Of an Avro block, polars decodes rows of plain columns; fastavro decodes all
others and takes five times as long. Dates and times are read as the integers that store them. Source: Hudi
technical specification, Log format; Avro, Binary encoding and Object container files.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import orjson
import pyarrow as pa

from tailbit.base.errors import ColumnTypeError, LogBlockError, MalformedLogError, UnsupportedFeatureError
from tailbit.tables.cache import Cache, share
from tailbit.tables.hudi.instants import damage_of_avro
from tailbit.tables.hudi.log_files.blocks import BlockType, Header, LogBlock, list_blocks, read_span
from tailbit.tables.hudi.schema import parse_schema
from tailbit.tables.parquet.file import arrow_buffer, open_parquet
from tailbit.tables.schema import declared_arrow_type
from tailbit.tables.storage import Stat, Storage

_PLAIN = frozenset(("boolean", "int", "long", "float", "double", "string", "bytes"))
_TIMES = ("timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros")
_AS_STORED = frozenset(("date", "uuid", *_TIMES))
"""Logical types whose values are read as the number, text or bytes that store them."""
_SYNC = bytes(16)


def is_plain(root: Any) -> bool:
    """Return whether polars decodes the records exactly: all columns are plain, or plain or null."""
    return all(_is_plain(field["type"]) for field in root["fields"])


def _is_plain(type_: Any) -> bool:
    if isinstance(type_, list):
        others = [member for member in type_ if member != "null"]
        return len(type_) == 2 and len(others) == 1 and type_[0] == "null" and _is_plain(others[0])
    if isinstance(type_, dict):
        logical, stored = type_.get("logicalType"), type_.get("type")
        return logical == "decimal" or (logical in (None, *_AS_STORED) and _is_plain(stored))
    return type_ in _PLAIN


def decode_plain(records: list[memoryview], root: Any) -> pa.Table:
    """Decode records of plain columns by polars, which reads an Avro file of one block."""
    import polars as pl

    schema = orjson.dumps(numbered(root))
    header = [_long(2), _text(b"avro.schema"), _text(schema), _text(b"avro.codec"), _text(b"null"), _long(0)]
    size = sum(map(len, records))
    block: list[bytes | memoryview] = [_long(len(records)), _long(size), *records, _SYNC] if records else []
    file = b"".join([b"Obj\x01", *header, _SYNC, *block])
    try:
        return pl.read_avro(io.BytesIO(file)).to_arrow(compat_level=pl.CompatLevel.oldest())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as wrong:
        raise ValueError(str(wrong)) from wrong


def numbered(type_: Any) -> Any:
    """Return a schema in which dates, times and UUIDs have only the type that stores them."""
    if isinstance(type_, list):
        return [numbered(member) for member in type_]
    if not isinstance(type_, dict):
        return type_
    dropped = "logicalType" if type_.get("logicalType") in _AS_STORED else ""
    return {name: numbered(part) for name, part in type_.items() if name != dropped}


def _long(number: int) -> bytes:
    """Return a number in Avro's encoding; it must not be negative."""
    number, out = number << 1, bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _text(text: bytes) -> bytes:
    return _long(len(text)) + text


_TWO, _ONE = struct.Struct(">ii"), struct.Struct(">i")
_VERSIONS = (1, 2, 3)
"""The versions of the content of an Avro block that begin with the number of records."""
_PIECE = 8 << 20
"""Bytes of records that are decoded at once."""


def read_pieces(storage: Storage, path: str, block: LogBlock) -> Iterator[pa.Table]:
    """Yield the rows of a data block in their order, with the columns that the block's writer knew.

    There is at least one piece, which may be empty. Memory: the content of the block, and a piece.
    """
    content = read_span(storage, path, block.content, block.offset)
    if block.type is BlockType.PARQUET:
        yield _damage_named(path, block, lambda: _parquet(content))
        return
    if block.type is not BlockType.AVRO:
        raise refused_block(storage, block, f"log blocks of type {block.type.name}")
    schema = schema_of(storage, path, block)
    pieces = _pieces(content)
    try:
        wanted = _damage_named(path, block, lambda: _arrow_schema(schema, path))
        while (records := _damage_named(path, block, lambda: next(pieces, None))) is not None:
            yield _damage_named(path, block, partial(_avro, records, orjson.loads(schema), wanted))
    except ColumnTypeError as wrong:
        kind = f"a column of type {wrong.fields['type']} in log blocks of Avro ({wrong.fields['column']})"
        raise refused_block(storage, block, kind) from wrong


def read_parquet(storage: Storage, path: str, block: LogBlock) -> pa.Buffer | None:
    """Return the content of a Parquet block as it is; None for a block of another type."""
    if block.type is not BlockType.PARQUET:
        return None
    return arrow_buffer([read_span(storage, path, block.content, block.offset)])


def schema_of(storage: Storage, path: str, block: LogBlock) -> str:
    """Return the Avro schema in the header of a data block."""
    span = block.places.get(Header.SCHEMA)
    if span is None:
        raise LogBlockError(file=path, offset=block.offset, reason="it has no schema")
    text = read_span(storage, path, span, block.offset)
    return str(_damage_named(path, block, text.decode))


def refused_block(storage: Storage, block: LogBlock, feature: str) -> UnsupportedFeatureError:
    """Return the error for a block of a kind that is not read."""
    hint = "Compact the table's log files (CALL run_compaction), or copy the rows to a COPY_ON_WRITE table."
    return UnsupportedFeatureError(path=storage.root, version=block.instant, feature=feature, hint=hint)


def _damage_named(path: str, block: LogBlock, decode: Callable[[], Any]) -> Any:
    """Decode bytes that have been read; an error names the block."""
    try:
        return decode()
    except (*damage_of_avro(), MalformedLogError, OSError, pa.ArrowException) as wrong:
        reason = f"its content cannot be decoded: {wrong!r}"
        raise LogBlockError(file=path, offset=block.offset, reason=reason) from wrong


def _parquet(content: bytes) -> pa.Table:
    with open_parquet(pa.BufferReader(arrow_buffer([content]))) as file:
        return file.read()


def _avro(records: list[memoryview], root: Any, wanted: pa.Schema) -> pa.Table:
    table = decode_plain(records, root) if is_plain(root) else _by_fastavro(records, root, wanted)
    if table.num_rows != len(records):
        raise ValueError(f"{table.num_rows} of {len(records)} rows can be read")
    return table.select(wanted.names).cast(wanted)


def _pieces(content: bytes) -> Iterator[list[memoryview]]:
    """Yield the records of an Avro block, some megabytes at a time; one empty list if it has none."""
    piece: list[memoryview] = []
    size = 0
    for record in records_in(content):
        piece.append(record)
        size += len(record)
        if size >= _PIECE:
            yield piece
            piece, size = [], 0
    if piece or len(content) == _TWO.size:
        yield piece


def records_in(content: bytes) -> Iterator[memoryview]:
    """Yield the bytes of each record of a block of Avro."""
    version, count = _TWO.unpack_from(content)
    view = memoryview(content)
    if version not in _VERSIONS or count < 0:
        raise ValueError(f"it has version {version} and {count} records")
    at = _TWO.size
    for _ in range(count):
        (size,) = _ONE.unpack_from(content, at)
        at += _ONE.size
        if size < 0 or at + size > len(content):
            raise ValueError(f"a record of {size} bytes goes beyond the end")
        yield view[at : at + size]
        at += size
    if at != len(content):
        raise ValueError(f"{len(content) - at} bytes follow the last record")


def _arrow_schema(schema: str, path: str) -> pa.Schema:
    columns = parse_schema(schema, path, with_meta=False).columns
    return pa.schema([pa.field(c.name[0], declared_arrow_type(c), c.nullable) for c in columns])


def _by_fastavro(records: list[memoryview], root: Any, wanted: pa.Schema) -> pa.Table:
    import fastavro

    schema = fastavro.parse_schema(numbered(root))
    rows: list[Any] = []
    for record in records:
        source = io.BytesIO(record)
        rows.append(fastavro.schemaless_reader(source, schema, None))
        if source.tell() != len(record):
            raise ValueError("bytes follow the last column of a record")
    columns = [pa.array([_value(row[f.name], f.type) for row in rows], f.type) for f in wanted]
    return pa.table(columns, wanted)


def _value(value: Any, type_: pa.DataType) -> Any:
    """Return a decoded value in the form that Arrow takes: a map as a list of pairs."""
    if value is None:
        return None
    if pa.types.is_struct(type_):
        return {field.name: _value(value[field.name], field.type) for field in type_}
    if pa.types.is_list(type_):
        return [_value(item, type_.value_type) for item in value]
    if pa.types.is_map(type_):
        return [(key, _value(item, type_.item_type)) for key, item in value.items()]
    return value


_CONTENTS: Cache[tuple[Storage, str, Stat, int], pa.Buffer] = Cache(share(1 / 64))
"""Blocks as Parquet files, by storage, log file, state of that file, and number of the block."""


def block_of(storage: Storage, path: str, number: int) -> LogBlock:
    """Return a block of a log file by its number."""
    blocks = list_blocks(storage, path)
    if number >= len(blocks):
        raise LogBlockError(
            file=path, offset=0, reason=f"it has {len(blocks)} blocks, and no number {number}"
        )
    return blocks[number]


def block_parquet(storage: Storage, path: str, number: int) -> pa.Buffer:
    """Return the rows of a data block as a Parquet file with the columns that the block holds.

    Memory: the block's content, some megabytes of its rows, and the file.
    """
    name, stat = storage.locate(path)
    if stat is None:
        raise FileNotFoundError(path)

    def load() -> tuple[pa.Buffer, int]:
        block = block_of(storage, path, number)
        data = read_parquet(storage, path, block)
        if data is None:
            data = as_parquet(read_pieces(storage, path, block))
        return data, data.size

    return _CONTENTS.get((storage, name, stat, number), load)


def as_parquet(pieces: Iterable[pa.Table]) -> pa.Buffer:
    """Return rows as a Parquet file; there is at least one piece."""
    import pyarrow.parquet as pq

    sink, rest = pa.BufferOutputStream(), iter(pieces)
    first = next(rest)
    options = {"store_schema": False, "compression": "zstd", "compression_level": 1}
    with pq.ParquetWriter(sink, first.schema, **options) as writer:
        for piece in chain([first], rest):
            writer.write_table(piece)
    return sink.getvalue()
