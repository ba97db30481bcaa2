"""Assembly of a Parquet file in memory from column chunks of many files.

Pages are copied unchanged; only dictionaries, masks and the footer are written.
"""

from __future__ import annotations

import ctypes
import io
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import groupby

import numpy as np

from tailbit.base.arrays import Ints, Longs
from tailbit.base.dataclass import dataclass
from tailbit.tables.parquet.file import MAGIC
from tailbit.tables.parquet.layout import Chunk, Pages
from tailbit.tables.parquet.row_assembly.footer import (
    compressed,
    written_chunk,
    written_dictionary,
    written_end,
    written_row_group,
    written_values,
)
from tailbit.tables.storage import Storage, at_once

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
    written: bytes


class Assembly:
    """A Parquet file under assembly; `done` reads the pages and returns the file."""

    def __init__(self) -> None:
        self._size = len(MAGIC)
        self._pieces = [_Piece(0, len(MAGIC), "", 0, MAGIC)]
        self._chunks: list[bytes] = []
        self._row_groups: list[bytes] = []
        self._first, self._rows = self._size, 0

    def add_numbers(self, numbers: Ints, pages: Pages, codec: str, path: str) -> None:
        """Add an INT32 chunk: the data pages of a file's chunk, with `numbers` as its dictionary."""
        at, (page, size) = self._size, _numbers(numbers.astype("<i4", copy=False).tobytes(), codec)
        self._write(page)
        begun = self._size
        for start, end in zip(pages.starts.tolist(), pages.ends.tolist(), strict=True):
            self._copy(path, start, end - start)
        unpacked, rows = int(pages.unpacked.sum()) + size, int(pages.firsts[-1])
        self._chunks.append(written_chunk("INT32", codec, rows, unpacked, self._size - at, begun, at))

    def add_chunk(self, chunk: Chunk, path: str) -> None:
        """Add a chunk of a file unchanged."""
        at, (start, data, packed, unpacked, values, type_, codec, coded) = self._size, chunk
        self._copy(path, start, packed)
        dictionary = at if coded else None
        self._chunks.append(written_chunk(type_, codec, values, unpacked, packed, at + data, dictionary))

    def add_mask(self, wanted: Longs, rows: int) -> None:
        """Add a BOOLEAN chunk that is TRUE at the wanted rows."""
        mask = np.zeros(rows, bool)
        mask[wanted] = True
        at, page = (
            self._size,
            written_values(np.packbits(mask, bitorder="little").tobytes(), rows, nullable=False),
        )
        self._write(page)
        self._chunks.append(written_chunk("BOOLEAN", "UNCOMPRESSED", rows, len(page), len(page), at, None))

    def end_row_group(self, rows: int) -> None:
        """End a row group: it holds the chunks added since the last one."""
        self._row_groups.append(written_row_group(self._chunks, self._size - self._first, rows))
        self._chunks, self._first, self._rows = [], self._size, self._rows + rows

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

    def _write(self, data: bytes) -> None:
        self._pieces.append(_Piece(self._size, len(data), "", 0, data))
        self._size += len(data)

    def done(self, storage: Storage, leaves: Sequence[bytes]) -> bytes:
        """Return the whole file.

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
            for _ in at_once(storage, [partial(_fill, storage, view, pieces) for pieces in by_file]):
                pass
        return whole.getvalue()


@lru_cache(1 << 10)
def _numbers(raw: bytes, codec: str) -> tuple[bytes, int]:
    """Return a dictionary page of INT32, and the page's decompressed size."""
    packed = compressed(raw, codec)
    page = written_dictionary(len(raw) // 4, len(raw), packed)
    return page, len(page) + len(raw) - len(packed)


def _fill(storage: Storage, view: memoryview, pieces: Sequence[_Piece]) -> None:
    """Fill pieces of the assembled file; all pieces are copied from one file, or all are written."""
    path = pieces[0].path
    if not path:
        for piece in pieces:
            view[piece.at : piece.at + piece.size] = piece.written
        return
    with storage.open(storage.resolve(path)) as source:
        for piece in pieces:
            source.seek(piece.start)
            if source.readinto(view[piece.at : piece.at + piece.size]) != piece.size:
                raise ValueError(f"{path} ends before byte {piece.start + piece.size}")


def _file(piece: _Piece) -> str:
    return piece.path
