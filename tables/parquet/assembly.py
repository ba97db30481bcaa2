"""Parquet files assembled in memory from pages and chunks of data files, and decoded like any other.

pyarrow decodes whole column chunks only. A chunk is its pages in order, so a chunk of fewer pages is valid,
too: pages and chunks are copied unchanged, of one file or of many, and only dictionaries, masks and the
footer are written. The footer has a schema of its own, or that of a data file: then the decoder of data files
decodes the file to the same values of the same types. Columns whose pages hold the same rows share row
groups; the chunks of all other columns are empty there and never read. A mask column marks wanted rows in
packed booleans, cheaper to decode than any other: Polars then decodes the other columns at these rows alone.

Example: column a has pages of 3 rows, b of 4, and rows 1 and 7 of the row group are wanted.

    row          0  1  2  3  4  5  6  7  8
    wanted          x                 x
    pages of a   [0      ][1      ][2      ]     selected: 0 and 2, rows 0 1 2 6 7 8; wanted are 1 and 4
    pages of b   [0         ][1         ][2]     selected: 0 and 1, rows 0 to 7; wanted are 1 and 7
"""

from __future__ import annotations

import ctypes
import io
import os
import sys
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Ints, Longs
from tailbit.base.dataclass import dataclass
from tailbit.base.lazy import quickly_imported
from tailbit.tables.parquet.file import MAGIC
from tailbit.tables.parquet.layout import Chunk, Layout, Pages
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
from tailbit.tables.storage import Storage, at_once

if TYPE_CHECKING:
    from types import ModuleType

    from polars import DataFrame


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
    of = written_struct(_number_fields(values, _PLAIN))
    sizes = _number_fields(_DICTIONARY_PAGE, unpacked, len(packed))
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
    packed, of = compressed(raw, codec), written_struct(_number_fields(rows, encoding, _RLE, _RLE))
    sizes = _number_fields(_DATA_PAGE, len(raw), len(packed))
    return written_struct([*sizes, (5, STRUCT, of)]) + packed


def _number_fields(*values: int) -> list[tuple[int, int, bytes]]:
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


def written_end(schema: Layout | Sequence[bytes], groups: Sequence[bytes], rows: int) -> bytes:
    """Encode the end of a file of encoded row groups: the footer, its length and the magic bytes.

    `schema`: the leaves of the file, or the layout of a data file with the same schema.
    """
    more: list[tuple[int, int, bytes]] = []
    if isinstance(schema, Layout):
        head, metadata = schema.head, schema.metadata
        texts = [
            written_struct([(1, TEXT, written_text(key)), (2, TEXT, written_text(value))])
            for key, value in (metadata.metadata or {}).items()
        ]
        more = [(5, LIST, written_structs(texts)), (6, TEXT, written_text(metadata.created_by.encode()))]
    else:
        root = written_struct([(4, TEXT, written_text(b"rows")), (5, I32, written_int(len(schema)))])
        head = written_struct([(1, I32, written_int(1)), (2, LIST, written_structs([root, *schema]))])[:-1]
    fields = [(3, I64, written_int(rows)), (4, LIST, written_structs(groups)), *more]
    footer = head + written_struct(fields, before=2)
    return b"".join([footer, len(footer).to_bytes(4, "little"), MAGIC])


def pick(pages: Sequence[Pages], rows_of_groups: Sequence[Longs]) -> tuple[list[Longs], Longs]:
    """Return the numbers of the pages that hold wanted rows per row group, and the rows' places in the pages.

    `rows_of_groups`: ascending rows of each row group. The places count through the selected pages of all row
    groups (see the example of the module).
    """
    numbers, rows_in_pages, before = [], [], 0
    for pages_of_group, rows in zip(pages, rows_of_groups, strict=True):
        of_page = np.diff(np.searchsorted(rows, pages_of_group.firsts))
        here = np.flatnonzero(of_page)
        counts = pages_of_group.firsts[here + 1] - pages_of_group.firsts[here]
        shift = before + np.cumsum(counts) - counts - pages_of_group.firsts[here]
        rows_in_pages.append(rows + np.repeat(shift, of_page[here]))
        numbers.append(here)
        before += int(counts.sum())
    return numbers, np.concatenate(rows_in_pages)


def _absent_chunks(layout: Layout) -> dict[int, bytes]:
    """Return for each leaf of a data file an empty chunk, which must never be read."""
    schema = layout.metadata.schema
    return {leaf: _absent_chunk(str(schema.column(leaf).physical_type)) for leaf in range(len(schema))}


@lru_cache
def _absent_chunk(type_: str) -> bytes:
    return written_chunk(type_, "UNCOMPRESSED", 0, 0, 0, len(MAGIC), None)


_unset_bytes = ctypes.pythonapi.PyBytes_FromStringAndSize
"""An allocator of uninitialised bytes, all of which are overwritten: zeroing costs half as much as copying.

Source: Python/C API, Bytes Objects.
"""
_unset_bytes.restype = ctypes.py_object
_unset_bytes.argtypes = (ctypes.c_char_p, ctypes.c_ssize_t)


@dataclass(slots=True)
class _Piece:
    """Bytes and their offset in the assembled file: copied from a file at `start`, or `written`."""

    at: int
    size: int
    path: str
    start: int
    written: bytes | memoryview


class Assembly:
    """A Parquet file under assembly, with the schema of a data file if its `layout` is given.

    Chunks are added in the order of the columns, or, in a schema of a data file, for the leaves that are to
    be read. `done` or `excerpt` reads the pages and returns the file.
    """

    def __init__(self, layout: Layout | None = None) -> None:
        self._layout = layout
        self._absent = {} if layout is None else _absent_chunks(layout)
        self._size = len(MAGIC)
        self._pieces = [_Piece(0, len(MAGIC), "", 0, MAGIC)]
        self._chunks: dict[int, bytes] = {}
        self._row_groups: list[bytes] = []
        self._first, self._rows = self._size, 0

    def add_numbers(self, numbers: Ints, pages: Pages, codec: str, path: str) -> None:
        """Add an INT32 chunk: the data pages of a file's chunk, with `numbers` as its dictionary."""
        page, size = _number_page(numbers.astype("<i4", copy=False).tobytes(), codec)
        begin = self._size
        self._write(page)
        self._add_pages(pages, path, "INT32", codec, begin, size)

    def add_pages(self, chunk: Chunk, pages: Pages, path: str, leaf: int) -> None:
        """Add a chunk of a file cut to some of its pages, with its dictionary."""
        begin, size, dictionary = self._size, 0, pages.dictionary
        if dictionary is not None:
            self._copy(path, dictionary.start, dictionary.end - dictionary.start)
            size = dictionary.unpacked
        self._add_pages(pages, path, chunk.type, chunk.codec, begin, size, leaf)

    def add_chunk(self, chunk: Chunk, path: str) -> None:
        """Add a chunk of a file unchanged."""
        begin, (start, data, packed, unpacked, values, type_, codec, coded) = self._size, chunk
        self._copy(path, start, packed)
        self._end_chunk(type_, codec, values, unpacked, begin, begin + data, begin if coded else None)

    def add_written(
        self,
        type_: str,
        codec: str,
        rows: int,
        unpacked: int,
        data: Sequence[bytes | memoryview],
        dictionary: bytes = b"",
        leaf: int | None = None,
    ) -> None:
        """Add a chunk of pages that are given as bytes; `unpacked`: their decompressed bytes, about."""
        begin = self._size
        if dictionary:
            self._write(dictionary)
        pages = self._size
        for page in data:
            self._write(page)
        self._end_chunk(type_, codec, rows, unpacked, begin, pages, begin if dictionary else None, leaf)

    def add_mask(self, marked: Longs, rows: int) -> None:
        """Add a BOOLEAN chunk that is TRUE at the wanted rows."""
        mask = np.zeros(rows, bool)
        mask[marked] = True
        page = written_values(np.packbits(mask, bitorder="little").tobytes(), rows, nullable=False)
        self.add_written("BOOLEAN", "UNCOMPRESSED", rows, len(page), [page])

    def end_row_group(self, rows: int) -> int:
        """End a row group, which holds the chunks added since the last one; return its number."""
        chunks = list({**self._absent, **self._chunks}.values())
        self._row_groups.append(written_row_group(chunks, self._size - self._first, rows))
        self._chunks, self._first, self._rows = {}, self._size, self._rows + rows
        return len(self._row_groups) - 1

    def _add_pages(
        self,
        pages: Pages,
        path: str,
        type_: str,
        codec: str,
        begin: int,
        dictionary: int,
        leaf: int | None = None,
    ) -> None:
        """Add data pages behind a dictionary of `dictionary` decompressed bytes, which begins at `begin`."""
        data = self._size
        for start, end in zip(pages.starts.tolist(), pages.ends.tolist(), strict=True):
            self._copy(path, start, end - start)
        unpacked, rows = int(pages.unpacked.sum()) + dictionary, int(pages.firsts[-1])
        self._end_chunk(type_, codec, rows, unpacked, begin, data, begin if data > begin else None, leaf)

    def _end_chunk(
        self,
        type_: str,
        codec: str,
        values: int,
        unpacked: int,
        begin: int,
        data: int,
        dictionary: int | None,
        leaf: int | None = None,
    ) -> None:
        """Add the chunk of all bytes from `begin` on; `data`, `dictionary`: where their pages begin."""
        chunk = written_chunk(type_, codec, values, unpacked, self._size - begin, data, dictionary)
        self._chunks[len(self._chunks) if leaf is None else leaf] = chunk

    def _copy(self, path: str, start: int, size: int) -> None:
        """Plan to copy bytes of a file; bytes contiguous in both files become one piece."""
        if start < 0 or size < 0:
            raise ValueError(f"{size} bytes at {start} are none of {path}")
        last = self._pieces[-1]
        if last.path == path and last.start + last.size == start:
            last.size += size
        else:
            self._pieces.append(_Piece(self._size, size, path, start, b""))
        self._size += size

    def _write(self, data: bytes | memoryview) -> None:
        self._pieces.append(_Piece(self._size, len(data), "", 0, data))
        self._size += len(data)

    def done(self, storage: Storage, leaves: Sequence[bytes]) -> bytes:
        """Return the whole file, whose columns are `leaves`.

        Cost: one copy; the bytes are allocated once and read in place, from several remote files at a time.

        Raises:
            ValueError: a file ends too early.
            OSError, StorageError: a file cannot be read.
        """
        end = written_end(leaves, self._row_groups, self._rows)
        by_file = [list(pieces) for _, pieces in groupby(sorted(self._pieces, key=_file), key=_file)]
        whole = io.BytesIO(_unset_bytes(None, self._size + len(end)))
        with whole.getbuffer() as view:
            view[self._size :] = end
            for _ in at_once(storage, [partial(_copied, storage, view, pieces) for pieces in by_file]):
                pass
        return whole.getvalue()

    def excerpt(
        self, source: pa.NativeFile | None = None, leaves: Sequence[bytes] | None = None
    ) -> pa.Buffer:
        """Return the whole file in Arrow's own memory, which Arrow's threads may read.

        `source`: the only file of which pages are copied. `leaves`: the columns; None: those of the layout.

        Raises:
            ValueError, OSError: the file cannot be read, or ends too early.
        """
        schema = self._layout if leaves is None else leaves
        assert schema is not None
        end = written_end(schema, self._row_groups, self._rows)
        buffer = pa.allocate_buffer(self._size + len(end))
        view = memoryview(buffer).cast("B")
        view[self._size :] = end
        _fill(source, view, self._pieces)
        return buffer


@lru_cache(1 << 10)
def _number_page(raw: bytes, codec: str) -> tuple[bytes, int]:
    """Return a dictionary page of INT32, and the page's decompressed size."""
    packed = compressed(raw, codec)
    page = written_dictionary(len(raw) // 4, len(raw), packed)
    return page, len(page) + len(raw) - len(packed)


def _copied(storage: Storage, view: memoryview, pieces: Sequence[_Piece]) -> None:
    """Fill pieces that are all of one file, or all written."""
    if not pieces[0].path:
        _fill(None, view, pieces)
        return
    with storage.open(storage.resolve(pieces[0].path)) as source:
        _fill(source, view, pieces)


def _fill(source: pa.NativeFile | None, view: memoryview, pieces: Sequence[_Piece]) -> None:
    """Fill pieces of an assembled file, from a file or with what is written."""
    for piece in pieces:
        into = view[piece.at : piece.at + piece.size]
        if not piece.path:
            into[:] = piece.written
        elif source is not None:
            source.seek(piece.start)
            if source.readinto(into) != piece.size:
                raise ValueError(f"{piece.path} ends before byte {piece.start + piece.size}")


def _file(piece: _Piece) -> str:
    return piece.path


MASK = "wanted"
MASK_LEAF = written_leaf(MASK, "BOOLEAN", nullable=False)
"""The mask column as a leaf of the schema, always the last."""
CHECKED = frozenset(CODECS) - {"GZIP"}
"""Codecs for which Polars detects the same damage as pyarrow: it does not verify gzip's checksums."""
_OLDEST = 2
"""The oldest major version of Polars that has been tested."""

_forked = False


def _after_fork() -> None:
    global _forked
    _forked = "polars" in sys.modules


os.register_at_fork(after_in_child=_after_fork)


def polars() -> ModuleType | None:
    """Return the module polars; None if missing or too old, or in a fork of a process that had loaded it.

    In a forked process the threads of Polars are gone.
    """
    if _forked:
        return None
    try:
        library = quickly_imported("polars")
    except ImportError:
        return None
    return library if int(library.__version__.split(".")[0]) >= _OLDEST else None


def failures(library: ModuleType) -> tuple[type[BaseException], ...]:
    """Return the exceptions that Polars raises when it cannot read a file."""
    return library.exceptions.PolarsError, library.exceptions.PanicException


def wanted_rows(library: ModuleType, data: bytes) -> DataFrame:
    """Return all columns of a file except the mask, at the rows that the mask marks.

    Raises:
        PolarsError, PanicException: the file cannot be read.
    """
    scan = library.scan_parquet(data, use_statistics=False, glob=False, hive_partitioning=False)
    rows: DataFrame = scan.filter(library.col(MASK)).drop(MASK).collect()
    return rows
