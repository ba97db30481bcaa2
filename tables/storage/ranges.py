"""An object read at any place: what is read together is fetched together.

The end of a Parquet file holds its footer and page indexes, so the first request brings the end; a read
brings what lies behind it too, since the pages of a lookup lie side by side.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from typing import Any

from tailbit.tables.storage.door import Entry, Stat, refuse_oversized

TAIL = 64 << 10
"""Bytes of the end that come with the size. A smaller object is had in one request."""

AHEAD, FAR_AHEAD = 256 << 10, 8 << 20
"""Bytes that are fetched beyond what is known, at least: on a network they cost less than a second request.
Where a read goes on from what was fetched last it is twice as many as then, up to the second number."""

_KEPT = 4

Fetch = Callable[[int, int], bytes]


class Ranges(io.RawIOBase):
    """A file over ranges of an object; keeps the few that were fetched last. One thread reads at a time.

    Memory: `_KEPT` times what is fetched at once.
    """

    def __init__(self, size: int, tail: bytes, fetch: Fetch) -> None:
        self._size, self._fetch, self._at = size, fetch, 0
        self._ahead, self._newest = AHEAD, (size, b"")
        self._parts = [(size - len(tail), tail)]

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """At most `size` bytes from here; fewer at the end."""
        end = self._size if size is None or size < 0 else min(self._size, self._at + size)
        if end <= self._at:
            return b""
        start, part = self._part(self._at, end)
        data = part[self._at - start : end - start]
        self._at += len(data)
        return data

    def _part(self, start: int, end: int) -> tuple[int, bytes]:
        """A kept range that holds these bytes, else one that is fetched now."""
        for at, kept in self._parts:
            if at <= start and end <= at + len(kept):
                return at, kept
        held = self._begun(start)
        self._ahead = AHEAD if held is None else min(2 * self._ahead, FAR_AHEAD)
        known = held or b""
        last = min(self._size, max(end, start + len(known) + self._ahead))
        self._newest = start, known + self._fetch(start + len(known), last)
        self._parts = [self._newest, *self._parts[: _KEPT - 1]]
        return self._newest

    def _begun(self, start: int) -> bytes | None:
        """What is known from a place on, where that lies in what was fetched last or right behind it."""
        at, kept = self._newest
        return kept[start - at :] if at <= start <= at + len(kept) else None


def end_of(reply: Any) -> tuple[int, str, bytes]:
    """Size, tag and last bytes, of obstore's answer to a request for the end of an object."""
    return int(reply.meta["size"]), tag_of(reply.meta), bytes(reply.bytes())


def whole(reply: Any, rel: str, limit: int) -> bytes:
    """All bytes, of obstore's answer to a request for an object; its size comes before them.

    Raises:
        MalformedLogError: it has more than `limit`.
    """
    refuse_oversized(rel, int(reply.meta["size"]), limit)
    return bytes(reply.bytes())


def tag_of(meta: Any) -> str:
    """By what a later request knows that an object is still the same."""
    return meta["e_tag"] or meta["version"] or ""


def entry_of(meta: Any) -> Entry:
    """A listed object, of obstore's answer."""
    return Entry(_name(meta), int(meta["size"]), _seconds(meta) * 1000)


def _name(meta: Any) -> str:
    name: str = meta["path"].rpartition("/")[2]
    return name


def stat_of(meta: Any) -> Stat:
    """The state of an object: listed or asked for, with quotes or without, it is the same."""
    tag = tag_of(meta).removeprefix("W/").strip('"')
    return Stat(int(meta["size"]), _seconds(meta) * 1_000_000_000, zlib.crc32(tag.encode()))


def _seconds(meta: Any) -> int:
    """Modification time in whole seconds since 1970: some stores tell less than that in a list only."""
    return int(meta["last_modified"].timestamp())
