"""Values from the dictionaries of column chunks, decoded to the table's types like all stored values.

The needed values are assembled as a small Parquet file with the data file's own schema, so that the decoder
of data files decodes them to the same values. Values of fixed width are selected from the dictionary pages
and become one page; texts stay in their dictionary pages, each followed by a page of the wanted codes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.tables.model import Column
from tailbit.tables.parquet.data_file import file_in_memory, read_columns
from tailbit.tables.parquet.file import MAGIC, arrow_buffer
from tailbit.tables.parquet.layout import DictionaryPage, Layout
from tailbit.tables.parquet.row_assembly.excerpt import absent_chunks, written_footer
from tailbit.tables.parquet.row_assembly.footer import (
    ended,
    written_chunk,
    written_codes,
    written_row_group,
    written_values,
)
from tailbit.tables.storage import Storage

_DTYPES = {4: "u4", 8: "u8"}
"""Numbers are selected five times as fast as bytes of the same width."""
_WIDTHS = {"INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}


class Used(NamedTuple):
    """The used codes of a chunk's dictionary, ascending, with the file, dictionary page and codec."""

    path: str
    page: DictionaryPage
    codec: str
    codes: Longs


class _Chunk(NamedTuple):
    """A chunk to be written: a dictionary page or nothing, a data page, and the codec of both."""

    rows: int
    unpacked: int
    codec: str
    dictionary: bytes
    data: bytes


def values_of(
    storage: Storage, layout: Layout, leaf: int, column: Column, wanted: Sequence[Used]
) -> pa.Array:
    """Decode the values of the used codes of one leaf, chunk by chunk; all files have the schema of `layout`.

    Raises:
        DataFileError, LegacyCalendarError, ColumnTypeError: a value cannot be decoded (see `read_columns`).
        ValueError: a dictionary has fewer values than its header says, or its page ends too early.
    """
    described = layout.metadata.schema.column(leaf)
    physical, nullable = str(described.physical_type), bool(described.max_definition_level)
    width = described.length if physical == "FIXED_LEN_BYTE_ARRAY" else _WIDTHS.get(physical)
    with_pages = _pages(storage, wanted)
    chunks = [_picked(with_pages, width, nullable)] if width else list(_coded(with_pages, nullable))
    data = _file(layout, leaf, physical, chunks)
    file = file_in_memory(data, wanted[0].path if wanted else "", layout.tree, {})
    values = read_columns(file, [column])[column.id]
    return pa.concat_arrays([pa.nulls(0, values.type), *values.chunks])


def _pages(storage: Storage, wanted: Sequence[Used]) -> Iterator[tuple[Used, bytes]]:
    """Yield the dictionary page of each chunk, header included."""
    for path, some in groupby(wanted, lambda group: group.path):
        with storage.open(storage.resolve(path)) as source:
            for group in some:
                page = source.read_at(group.page.end - group.page.start, group.page.start)
                if len(page) != group.page.end - group.page.start:
                    raise ValueError(f"it ends before byte {group.page.end}")
                yield group, page


def _picked(pages: Iterator[tuple[Used, bytes]], width: int, nullable: bool) -> _Chunk:
    """Select the values of all codes, which have a fixed width, into one chunk."""
    parts, rows = [], 0
    for group, page in pages:
        head = group.page.body - group.page.start
        body = page[head:]
        if group.codec != "UNCOMPRESSED":
            size = group.page.unpacked - head
            body = pa.decompress(body, decompressed_size=size, codec=group.codec.lower())
        if len(body) != group.page.values * width:
            raise ValueError(f"a dictionary of {group.page.values} values has {len(body)} bytes")
        parts.append(np.frombuffer(body, dtype=_DTYPES.get(width, f"V{width}")).take(group.codes).tobytes())
        rows += len(group.codes)
    data = written_values(b"".join(parts), rows, nullable)
    return _Chunk(rows, len(data), "UNCOMPRESSED", b"", data)


def _coded(pages: Iterator[tuple[Used, bytes]], nullable: bool) -> Iterator[_Chunk]:
    for group, page in pages:
        data, rows = written_codes(group.codes, nullable, group.codec), len(group.codes)
        yield _Chunk(rows, group.page.unpacked + 64 + 4 * rows, group.codec, page, data)


def _file(layout: Layout, leaf: int, physical: str, chunks: Sequence[_Chunk]) -> pa.Buffer:
    """Assemble chunks of one leaf, a row group each, as a file with the schema of a data file."""
    absent, parts, at, groups = absent_chunks(layout), [MAGIC], len(MAGIC), []
    before, after = absent[:leaf], absent[leaf + 1 :]
    for piece in chunks:
        start, size = at + len(piece.dictionary), len(piece.dictionary) + len(piece.data)
        sizes = (piece.rows, piece.unpacked, size, start)
        chunk = written_chunk(physical, piece.codec, *sizes, at if piece.dictionary else None)
        groups.append(written_row_group([*before, chunk, *after], size, piece.rows))
        parts += [piece.dictionary, piece.data]
        at += size
    footer = written_footer(layout, groups, sum(piece.rows for piece in chunks))
    return arrow_buffer([*parts, ended(footer)])
