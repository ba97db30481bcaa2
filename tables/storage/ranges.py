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
        found = part[self._at - start : end - start]
        self._at += len(found)
        return found

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


def end_of(found: Any) -> tuple[int, str, bytes]:
    """Size, tag and last bytes, of obstore's answer to a request for the end of an object."""
    return int(found.meta["size"]), tag_of(found.meta), bytes(found.bytes())


def whole(found: Any, rel: str, limit: int) -> bytes:
    """All bytes, of obstore's answer to a request for an object; its size comes before them.

    Raises:
        MalformedLogError: it has more than `limit`.
    """
    refuse_oversized(rel, int(found.meta["size"]), limit)
    return bytes(found.bytes())


def tag_of(found: Any) -> str:
    """By what a later request knows that an object is still the same."""
    return found["e_tag"] or found["version"] or ""


def entry_of(found: Any) -> Entry:
    """A listed object, of obstore's answer."""
    return Entry(_name(found), int(found["size"]), _seconds(found) * 1000)


def _name(found: Any) -> str:
    name: str = found["path"].rpartition("/")[2]
    return name


def stat_of(found: Any) -> Stat:
    """The state of an object: listed or asked for, with quotes or without, it is the same."""
    tag = tag_of(found).removeprefix("W/").strip('"')
    return Stat(int(found["size"]), _seconds(found) * 1_000_000_000, zlib.crc32(tag.encode()))


def _seconds(found: Any) -> int:
    """Modification time in whole seconds since 1970: some stores tell less than that in a list only."""
    return int(found["last_modified"].timestamp())
