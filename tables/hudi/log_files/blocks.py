"""The blocks of a log file: the type of each block, the instant that wrote it, and the place of its content.

A block is `#HUDI#`, its size, the version of the format, a type, headers, the content with its size, footers,
and the size again; numbers are big-endian. A block is torn, since its writer died, if its sizes contradict
each other, or if neither another block nor the end of the file follows. After a torn block, the next one is
found by its magic bytes. Source: Hudi technical specification, Log format; HoodieLogFileReader.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from enum import IntEnum
from functools import lru_cache, partial

from pyroaring import BitMap64

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import LogBlockError
from tailbit.tables.cache import Cache
from tailbit.tables.storage import Stat, Storage, at_once

MAGIC = b"#HUDI#"
_FIRST, _LAST = struct.Struct(">qiii"), struct.Struct(">q")
_ENTRY, _COUNT = struct.Struct(">ii"), struct.Struct(">i")
FORMAT = 1
"""The version of the format of log files."""
AHEAD = 1 << 14
"""Number of bytes read at once in search of headers."""
WHOLE = 1 << 18
"""Size in bytes up to which a log file is read in one piece, since each piece may be a request."""
_MOST_HEADERS = 64
_LARGEST_TEXT = 64
"""Size in bytes up to which a header is cached (instants, flags); larger headers are read on demand."""
_LARGEST_POSITIONS = 1 << 12
"""Size in bytes up to which a header of positions is cached."""


class BlockType(IntEnum):
    """The type of a block. `TORN` is a block that its writer did not finish."""

    COMMAND = 0
    DELETE = 1
    TORN = 2
    AVRO = 3
    HFILE = 4
    PARQUET = 5
    CDC = 6


class Header(IntEnum):
    """The headers of a block by their numbers."""

    INSTANT = 0
    TARGET = 1
    SCHEMA = 2
    COMMAND = 3
    COMPACTED = 4
    POSITIONS = 5
    IDENTIFIER = 6
    PARTIAL = 7
    BASE_INSTANT = 8


@dataclass(frozen=True, slots=True)
class Span:
    """A range of bytes of a file."""

    offset: int
    length: int

    def of(self, data: bytes) -> bytes:
        """Return the range of the bytes of the whole file."""
        return data[self.offset : self.offset + self.length]


@dataclass(frozen=True, slots=True)
class LogBlock:
    """A block of a log file. `number`: its index in the file, from 0. `offset`: the offset of its first byte.

    `texts`: the values of short headers; `places`: where each header lies. Of a torn block, both have only
    the headers that could be read, `content` is empty, and `damage` says what is wrong.
    """

    number: int
    offset: int
    type: BlockType
    content: Span
    texts: Mapping[int, str] = field(repr=False)
    places: Mapping[int, Span] = field(repr=False)
    damage: str = ""

    @property
    def instant(self) -> str:
        """The requested time of the instant that wrote the block; empty if a torn block does not tell."""
        return self.texts.get(Header.INSTANT, "")

    @property
    def is_partial(self) -> bool:
        """Whether the rows hold only some columns; the other columns keep the values of the row before."""
        return self.texts.get(Header.PARTIAL, "").lower() == "true"

    def rows_of(self, base: str | None) -> BitMap64 | None:
        """Return the rows that the block's records belong to, of the base file that instant `base` wrote.

        None if the headers do not give rows of that base file, or if the header is too long to be cached:
        then the keys of the records decide.
        """
        text = self.texts.get(Header.POSITIONS)
        if base is None or text is None or self.texts.get(Header.BASE_INSTANT) != base:
            return None
        try:
            return _positions(text) or None
        except (ValueError, IndexError, MemoryError):
            return None

    @property
    def undoes(self) -> str:
        """The requested time of the instant whose blocks this block rolls back; empty for other blocks."""
        return self.texts.get(Header.TARGET, "") if self.type is BlockType.COMMAND else ""


@lru_cache(512)
def _positions(text: str) -> BitMap64:
    return BitMap64.deserialize(base64.b64decode(text))


_BLOCKS: Cache[tuple[Storage, str, Stat], tuple[LogBlock, ...]] = Cache(20_000)
"""Blocks by log file and its state; the size of an entry in the cache is its number of blocks."""


def list_blocks(storage: Storage, path: str) -> tuple[LogBlock, ...]:
    """Return the blocks of a log file in order; an empty file has none.

    Cost: a stat. If this process does not know the file in this state: one read of a small file, or else a
    few reads of kilobytes per block.
    """
    name, stat = storage.locate(path)
    if stat is None:
        raise FileNotFoundError(path)

    def load() -> tuple[tuple[LogBlock, ...], int]:
        blocks = tuple(_blocks(_Bytes(storage, name, stat.size, path)))
        return blocks, 1 + len(blocks)

    return _BLOCKS.get((storage, name, stat), load)


def blocks_in(storage: Storage, path: str, data: bytes) -> Iterator[LogBlock]:
    """Yield the blocks of a file that was read whole."""
    return _blocks(_Bytes(storage, path, len(data), path, 0, data))


def look_ahead(storage: Storage, paths: Sequence[str]) -> None:
    """List the blocks of log files at once if the store is remote, so that `list_blocks` has them cached.

    A missing or damaged file is passed over: `list_blocks` raises the error when it is called.
    """

    def look(path: str) -> None:
        with suppress(FileNotFoundError, LogBlockError):
            list_blocks(storage, path)

    if storage.remote and len(paths) > 1:
        for _ in at_once(storage, [partial(look, path) for path in paths]):
            pass


def read_span(storage: Storage, path: str, span: Span, offset: int) -> bytes:
    """Read a part of a log file, within the block that begins at `offset`."""
    data = storage.read_range(storage.resolve(path), span.offset, span.length) if span.length else b""
    if len(data) != span.length:
        raise LogBlockError(file=path, offset=offset, reason="the file has become shorter")
    return data


@dataclass
class _Bytes:
    """The bytes of a log file, read ahead. `name`: the path in its store; `path`: the path in errors."""

    storage: Storage
    name: str
    size: int
    path: str
    _start: int = 0
    _window: bytes = b""

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`; fewer if the file ends before."""
        begin = offset - self._start
        if begin < 0 or begin + length > len(self._window):
            if not 0 <= offset < self.size:
                return b""
            is_small = self.size <= WHOLE
            self._start = 0 if is_small else offset
            ahead = self.size if is_small else max(length, AHEAD)
            self._window = self.storage.read_range(self.name, self._start, ahead)
            begin = offset - self._start
        return self._window[begin : begin + length]

    def find(self, pattern: bytes, start: int) -> int:
        """Return the offset of the next occurrence from `start`; the size of the file if there is none."""
        while start < self.size:
            window = self.storage.read_range(self.name, start, 1 << 20)
            index = window.find(pattern)
            if index >= 0:
                return start + index
            if len(window) < len(pattern):
                break
            start += len(window) - len(pattern) + 1
        return self.size


def _blocks(data: _Bytes) -> Iterator[LogBlock]:
    offset, number = 0, 0
    if data.read(0, len(MAGIC)) != MAGIC[: data.size]:
        raise LogBlockError(file=data.path, offset=0, reason="no block begins here")
    while offset < data.size:
        block, offset = _block(data, number, offset)
        number += 1
        yield block


def _block(data: _Bytes, number: int, offset: int) -> tuple[LogBlock, int]:
    """Return the block at an offset, and the offset of the next one."""
    headers, end = _Headers(), None
    try:
        first = _unpacked(data, _FIRST, offset + len(MAGIC), data.size)
        end = _end(data, offset, first[0])
        content = _content(data, headers, offset, end)
        kind = _type(first)
        return LogBlock(number, offset, kind, content, headers.texts, headers.places), end
    except ValueError as wrong:
        torn = (BlockType.TORN, Span(offset, 0), headers.texts, headers.places, str(wrong))
        if end is None:
            _keep_headers(data, headers, offset)
            end = data.find(MAGIC, offset + len(MAGIC))
        return LogBlock(number, offset, *torn), end


@dataclass
class _Headers:
    """The headers of a block as far as they could be read."""

    texts: dict[int, str] = field(default_factory=dict)
    places: dict[int, Span] = field(default_factory=dict)

    def read(self, data: _Bytes, offset: int, count: int, end: int) -> int:
        """Read `count` headers that begin at an offset; return the offset at which they end.

        Raises:
            ValueError: the headers go beyond `end`, or a short header is no text.
        """
        if not 0 <= count <= _MOST_HEADERS:
            raise ValueError(f"it has {count} headers")
        for _ in range(count):
            key, length = _unpacked(data, _ENTRY, offset, end)
            offset += _ENTRY.size
            if length < 0 or offset + length > end:
                raise ValueError(f"header {key} of {length} bytes goes beyond the end")
            self.places[key] = Span(offset, length)
            if key == Header.POSITIONS and length <= _LARGEST_POSITIONS:
                self.texts[key] = data.read(offset, length).decode("latin-1")
            elif length <= _LARGEST_TEXT:
                self.texts[key] = data.read(offset, length).decode()
            offset += length
        return offset


def _end(data: _Bytes, offset: int, size: int) -> int:
    """Return the offset at which a block of some size ends."""
    end = offset + len(MAGIC) + _LAST.size + size
    if size < _FIRST.size or end > data.size:
        raise ValueError(f"its {size} bytes go beyond the end of the file")
    if _unpacked(data, _LAST, end - _LAST.size, end)[0] != size + len(MAGIC):
        raise ValueError("the sizes at both ends differ")
    if data.read(end, len(MAGIC)) != MAGIC[: data.size - end]:
        raise ValueError("no block and no end of the file follows")
    return end


def _content(data: _Bytes, headers: _Headers, offset: int, end: int) -> Span:
    """Read the headers of a block and return where its content lies."""
    start = offset + len(MAGIC)
    count = _unpacked(data, _FIRST, start, end)[3]
    headers_end = headers.read(data, start + _FIRST.size, count, end)
    content = Span(headers_end + _LAST.size, _unpacked(data, _LAST, headers_end, end)[0])
    behind = content.offset + content.length
    if content.length < 0 or behind > end:
        raise ValueError(f"its content of {content.length} bytes goes beyond the end")
    footers = _unpacked(data, _COUNT, behind, end)[0]
    if _Headers().read(data, behind + _COUNT.size, footers, end) + _LAST.size != end:
        raise ValueError("headers, content and footers do not fill it")
    return content


def _type(first: tuple[int, ...]) -> BlockType:
    """Return the type of a block."""
    _, version, kind, _ = first
    if version != FORMAT:
        raise ValueError(f"it has version {version} of the format of log files")
    if kind == BlockType.TORN:
        raise ValueError("its writer marked it as damaged")
    return BlockType(kind)


def _keep_headers(data: _Bytes, headers: _Headers, offset: int) -> None:
    """Read those headers of a torn block that are readable."""
    with suppress(ValueError):
        start = offset + len(MAGIC)
        headers.read(data, start + _FIRST.size, _unpacked(data, _FIRST, start, data.size)[3], data.size)


def _unpacked(data: _Bytes, form: struct.Struct, offset: int, end: int) -> tuple[int, ...]:
    """Return the numbers at an offset."""
    packed = data.read(offset, form.size) if offset + form.size <= end else b""
    if len(packed) < form.size:
        raise ValueError(f"it ends at byte {offset}")
    return form.unpack(packed)
