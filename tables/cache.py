"""Bounded caches with least-recently-used eviction, shared by threads.

All caches of a process share one limit, 1 GiB unless the environment variable TAILBIT_MEMORY sets another
(`512MB`, `4GiB`, or bytes); each cache has a fixed share of the limit, whatever questions came before.
"""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from tailbit.base.errors import UsageError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


VARIABLE, DEFAULT = "TAILBIT_MEMORY", 1 << 30

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)


def memory() -> int:
    """Return the bytes that the caches of this process may hold together.

    Raises:
        UsageError: TAILBIT_MEMORY is not a size.
    """
    given = os.environ.get(VARIABLE, "").strip()
    if not given:
        return DEFAULT
    size = size_of(given)
    if size is None:
        raise UsageError(
            reason=f"{VARIABLE} is {given!r}, which is no size", hint="Write it as 512MB, 4GiB, or in bytes."
        )
    return size


def size_of(text: str) -> int | None:
    """Return the bytes that a text such as `512MB`, `4GiB` or `1000` means; None if it is not a size."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    number, unit, binary = match.groups()
    return int(float(number) * (1024 if binary else 1000) ** " KMGT".index(unit.upper() or " "))


def share(of: float) -> int:
    """Return the bytes that one cache may hold: the fraction `of` of `memory`."""
    return int(memory() * of)


HANDLES_BYTES = share(1 / 64)
"""Bytes of tables or indexes that a worker process keeps open."""


class Cache(Generic[K, V]):
    """A cache of values by key, bounded by the sum of their sizes; a value without a size counts 1.

    The newest value stays, however large. `dropped` is called with each evicted value.
    """

    def __init__(self, limit: int, dropped: Callable[[V], object] | None = None) -> None:
        self._limit, self._size = limit, 0
        self._dropped = dropped
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K, load: Callable[[], tuple[V, int]]) -> V:
        """Return the cached value of a key, else the value that `load` returns with its size.

        Two threads may both load the same key.
        """
        held = self.cached(key)
        if held is not None:
            return held
        value, size = load()
        return self.hold(key, value, size)

    def cached(self, key: K) -> V | None:
        """Return the cached value of a key and mark it as just used; None if the key is not cached."""
        with self._lock:
            held = self._entries.get(key)
            if held is None:
                return None
            self._entries.move_to_end(key)
            return held[0]

    def hold(self, key: K, value: V, size: int = 1) -> V:
        """Cache a value, unless another thread has cached the key first; return `value`."""
        gone: list[V] = []
        with self._lock:
            if key not in self._entries:
                self._entries[key] = (value, size)
                self._size += size
            while self._size > self._limit and len(self._entries) > 1:
                _, (oldest, size_of_oldest) = self._entries.popitem(last=False)
                self._size -= size_of_oldest
                gone.append(oldest)
        if self._dropped is not None:
            for oldest in gone:
                self._dropped(oldest)
        return value

    def take(self, key: K) -> V | None:
        """Drop a key and return its value, which nobody else has then; None if the key is not cached."""
        with self._lock:
            held = self._entries.pop(key, None)
            if held is None:
                return None
            self._size -= held[1]
            return held[0]

    def items(self) -> list[tuple[K, V]]:
        """Return all entries, least recently used first, without marking any as used."""
        with self._lock:
            return [(key, value) for key, (value, _) in self._entries.items()]

    def size(self, keys: Callable[[K], bool]) -> int:
        """Return the total size of the entries whose key `keys` accepts. Cost: a pass over all keys."""
        with self._lock:
            return sum(size for key, (_, size) in self._entries.items() if keys(key))

    def clear(self) -> None:
        """Drop all entries: the next question reads again."""
        with self._lock:
            self._entries.clear()
            self._size = 0

    def forget(self, keys: Callable[[K], bool]) -> None:
        """Drop the entries whose key `keys` accepts. Cost: a pass over all keys."""
        with self._lock:
            for key in [key for key in self._entries if keys(key)]:
                self._size -= self._entries.pop(key)[1]
