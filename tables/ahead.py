"""Run work on all cores and yield the results in the order of the work."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, chain, islice, pairwise
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Generic, TypeVar

from tailbit.tables.storage.requests import SEEN

T = TypeVar("T")

_MOST = 8
"""Most threads that decode; with more, they wait for each other longer than they decode."""
_AHEAD = 2
"""Extra threads: while the caller reads and assembles the results of some pieces, the cores decode others."""
_IDLE_S = 0.2
"""Seconds that a thread waits for its next piece before it ends."""


def shared_out(work: Sequence[T], sizes: Sequence[int], least: int) -> Iterator[Sequence[T]]:
    """Yield the work as consecutive parts of similar size: at most one per core, on average at least `least`.

    `sizes`: the size of each item of the work. Work smaller than twice `least` is one part.

    >>> list(shared_out("abcd", [5, 5, 5, 5], least=40))
    ['abcd']
    """
    ends = list(accumulate(sizes, initial=0))
    most = ends[-1] // least
    # The number of cores is a system call, which costs more than most small work is worth.
    parts = min(os.cpu_count() or 1, most) if most > 1 else 1
    cuts = [bisect_left(ends, ends[-1] * part / parts) for part in range(parts)]
    for low, high in pairwise([*cuts, len(work)]):
        if low < high:
            yield work[low:high]


def in_order(work: Iterable[Callable[[bool], T]]) -> Iterator[T]:
    """Yield the results of pieces of work in their order; as many pieces run ahead as there are threads.

    A piece is called with True if it is the only one: it then runs in the caller's thread and may use all
    cores itself. If the caller stops iterating, the pieces that have not begun are cancelled.
    """
    pieces = iter(work)
    begun = list(islice(pieces, 2))
    if len(begun) < 2:
        yield from (piece(True) for piece in begun)
        return
    most = min(os.cpu_count() or 1, _MOST) + _AHEAD
    threads, waiting = _Threads(most), deque[_Piece[T]]()
    try:
        for piece in chain(begun, pieces):
            waiting.append(threads.started(piece))
            if len(waiting) > most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for running in islice(waiting, len(waiting) - threads.end()):
            running.done.acquire()


class _Piece(Generic[T]):
    """A piece of work; `done` is a lock that is free once a thread has run the piece."""

    def __init__(self, work: Callable[[bool], T]) -> None:
        self._work, self._look = work, SEEN.stats
        self._error: BaseException | None = None
        self.done = Lock()
        self.done.acquire()

    def run(self) -> None:
        """Run the work in this thread, within the look of the thread that made the piece."""
        SEEN.stats = self._look
        try:
            self._value = self._work(False)
        except BaseException as error:
            self._error = error
        finally:
            self.done.release()

    def result(self) -> T:
        """Wait for the piece; return what it returned, or raise what it raised."""
        self.done.acquire()
        if self._error is not None:
            raise self._error
        return self._value


class _Threads:
    """At most `most` threads that run pieces in their order.

    A thread ends if no piece arrives for `_IDLE_S`, so an iteration that is abandoned keeps no process alive.
    An executor of the standard library would cost a first question the import of `logging`.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._running = 0
        self._left: SimpleQueue[_Piece[Any] | None] = SimpleQueue()

    def started(self, work: Callable[[bool], T]) -> _Piece[T]:
        """Return a piece of work that a thread will run."""
        piece = _Piece(work)
        with self._lock:
            self._left.put(piece)
            starts = self._running < self._most
            self._running += starts
        if starts:
            Thread(target=self._run).start()
        return piece

    def end(self) -> int:
        """End the threads after their present pieces; return the number of pieces that have not begun."""
        cancelled = 0
        with suppress(Empty):
            while True:
                self._left.get_nowait()
                cancelled += 1
        for _ in range(self._running):
            self._left.put(None)
        return cancelled

    def _run(self) -> None:
        while True:
            with suppress(Empty):
                piece = self._left.get(timeout=_IDLE_S)
                if piece is None:
                    return
                piece.run()
                continue
            with self._lock:
                if self._left.empty():
                    self._running -= 1
                    return
