"""Random access to an object: ranges that are read together are fetched together.

The end of a Parquet file holds its footer and page indexes, so the first request fetches the end; a read also
fetches the bytes behind it, since the pages of a lookup are adjacent.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from typing import Any, TypeAlias

from tailbit.tables.storage.door import Entry, Stat, refuse_oversized

TAIL = 64 << 10
"""Bytes of the end that are fetched with the size. A smaller object takes one request."""

AHEAD, FAR_AHEAD = 256 << 10, 8 << 20
"""Least read-ahead in bytes: on a network it costs less than a second request. If a read continues the last
fetch, the read-ahead doubles, up to the second number."""

_KEPT = 4

Fetch = Callable[[int, int], bytes]

End: TypeAlias = tuple[int, str, bytes]
"""Size, tag and last bytes of an object."""


class Ranges(io.RawIOBase):
    """A file over byte ranges of an object; the last `_KEPT` fetched ranges are cached.

    One thread reads at a time.

    Memory: `_KEPT` fetched ranges.
    """

    def __init__(self, size: int, tail: bytes, fetch: Fetch) -> None:
        self._size, self._fetch, self._at = size, fetch, 0
        self._ahead, self._newest = AHEAD, (size, b"")
        self._parts = [(size - len(tail), tail)]

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to an offset."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Read at most `size` bytes from the current offset; fewer at the end."""
        end = self._size if size is None or size < 0 else min(self._size, self._at + size)
        if end <= self._at:
            return b""
        start, part = self._part(self._at, end)
        data = part[self._at - start : end - start]
        self._at += len(data)
        return data

    def _part(self, start: int, end: int) -> tuple[int, bytes]:
        """Return a kept range that holds these bytes, else fetch one."""
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
        """Return the newest fetched bytes from `start` on; None if `start` is not in or right after them."""
        at, kept = self._newest
        return kept[start - at :] if at <= start <= at + len(kept) else None


def end_of(reply: Any) -> End:
    """Return size, tag and last bytes from obstore's reply to a request for the end of an object."""
    return int(reply.meta["size"]), tag_of(reply.meta), bytes(reply.bytes())


def whole(reply: Any, rel: str, limit: int) -> bytes:
    """Return all bytes from obstore's reply to a request for an object; the reply's size is checked first.

    Raises:
        MalformedLogError: the object has more than `limit` bytes.
    """
    refuse_oversized(rel, int(reply.meta["size"]), limit)
    return bytes(reply.bytes())


def tag_of(meta: Any) -> str:
    """Return the tag or version by which a later request recognises the same object."""
    return meta["e_tag"] or meta["version"] or ""


def entry_of(meta: Any) -> Entry:
    """Return a listed object from obstore's metadata."""
    return Entry(_name(meta), int(meta["size"]), _seconds(meta) * 1000)


def _name(meta: Any) -> str:
    name: str = meta["path"].rpartition("/")[2]
    return name


def stat_of(meta: Any) -> Stat:
    """Return an object's stat, equal whether listed or requested, with a quoted tag or not."""
    tag = tag_of(meta).removeprefix("W/").strip('"')
    return Stat(int(meta["size"]), _seconds(meta) * 1_000_000_000, zlib.crc32(tag.encode()))


def _seconds(meta: Any) -> int:
    """Return the modification time in whole seconds since 1970: some stores list no finer times."""
    return int(meta["last_modified"].timestamp())
