"""What was read from files, kept in memory up to a number of bytes; threads share it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Cache:
    """What was read, by key; the least recently used goes first, bounded by the bytes given with each."""

    def __init__(self, limit: int) -> None:
        self._limit, self._size = limit, 0
        self._held: OrderedDict[tuple[str, object], tuple[object, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, object], load: Callable[[], tuple[T, int]]) -> T:
        """What is held under a key, else what `load` returns with its bytes; two threads may load one key."""
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
                return found[0]  # type: ignore[return-value]
        value, size = load()
        with self._lock:
            if key not in self._held:
                self._held[key] = (value, size)
                self._size += size
            while self._size > self._limit and len(self._held) > 1:
                self._size -= self._held.popitem(last=False)[1][1]
        return value

    def clear(self) -> None:
        """Hold nothing: the next question reads from disk."""
        with self._lock:
            self._held.clear()
            self._size = 0

    def forget(self, name: str) -> None:
        """Free what is held under keys that begin with a name. Cost: a pass over all keys."""
        with self._lock:
            for key in [key for key in self._held if key[0] == name]:
                self._size -= self._held.pop(key)[1]
