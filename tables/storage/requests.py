"""Requests to a store: at once where none needs the reply of another, and each name once within one look.

A question checks the newest commits in several places of the code. On local disk each check is a stat of a
microsecond; in an object store each would be a request. Within one look they are one request, and they agree.

On local disk a read is a system call, so pieces of work run one after the other in the caller's thread. In an
object store each waits for a reply: the time of many is that of few, if they wait together. So a bounded
number of them in the whole process is made at once.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Generic, TypeVar

from tailbit.tables.storage.store import Storage


class _Seen(threading.local):
    """The stats that this thread has seen in its current look; None outside of a look."""

    stats: dict[Any, Any] | None = None


SEEN = _Seen()


class one_look:
    """A context within which this thread sees each name of an object store in one state; costs nothing.

    A write within the look is seen, because it drops the earlier stats. A nested look is part of the outer
    one.
    """

    __slots__ = ("_outer",)

    def __enter__(self) -> None:
        self._outer = SEEN.stats
        if self._outer is None:
            SEEN.stats = {}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        SEEN.stats = self._outer


def forget() -> None:
    """Forget the stats seen so far, because they may have changed: the look goes on as a later one."""
    if SEEN.stats:
        SEEN.stats.clear()


T = TypeVar("T")

MOST = 64
"""Most pieces of work that wait for a store at the same time, however calls are nested."""

_IDLE_S = 0.2
"""Seconds that a thread waits for its next piece before it ends."""


def at_once(storage: Storage, work: Iterable[Callable[[], T]]) -> Iterator[T]:
    """Yield the results of pieces of work that read a store, in their order.

    In an object store up to `MOST` pieces run ahead of the caller, within the caller's look; on local disk
    each runs when its result is wanted. A piece may itself call `at_once`: a caller that waits for a piece
    that no thread has begun runs it itself. If the caller stops iterating, pieces that have not begun are
    cancelled. Memory: `MOST` results.
    """
    if not storage.remote:
        for piece in work:
            yield piece()
        return
    pieces = iter(work)
    begun = list(islice(pieces, 2))
    if len(begun) < 2:
        yield from (piece() for piece in begun)
        return
    yield from _THREADS.results(chain(begun, pieces), MOST - 1)


class _Piece(Generic[T]):
    """A piece of work; `_begun` is held from its begin on, `_done` is free after its end."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work, self._look = work, SEEN.stats
        self._error: BaseException | None = None
        self._begun, self._done = Lock(), Lock()
        self._done.acquire()

    def run(self) -> None:
        """Run the piece, unless another thread has begun it."""
        if not self._begun.acquire(blocking=False):
            return
        outer, SEEN.stats = SEEN.stats, self._look
        try:
            self._value = self._work()
        except BaseException as error:
            self._error = error
        finally:
            SEEN.stats = outer
            self._done.release()

    def result(self) -> T:
        """Return what the piece returns, or raise what it raises; run it here if no thread has begun it."""
        self.run()
        self._done.acquire()
        if self._error is not None:
            raise self._error
        return self._value

    def cancel(self) -> None:
        """Keep the piece from beginning, or wait until it ends."""
        if not self._begun.acquire(blocking=False):
            self._done.acquire()


class Threads:
    """At most `most` threads of all calls in progress, which run pieces of work in their order.

    They end with the last call, and so that a call which is abandoned keeps no process alive, also if no
    piece arrives for `_IDLE_S`. `is_daemon`: whether the process may end while they run a piece. An executor
    of the standard library would cost a first question the import of `logging`.
    """

    def __init__(self, most: int, is_daemon: bool) -> None:
        self._most, self._is_daemon = most, is_daemon
        self._lock = Lock()
        self._calls = self._threads = 0
        self._queue: SimpleQueue[_Piece[Any] | None] = SimpleQueue()

    def __enter__(self) -> None:
        with self._lock:
            self._calls += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._calls -= 1
            if self._calls:
                return
            with suppress(Empty):
                while True:
                    self._queue.get_nowait()
            for _ in range(self._threads):
                self._queue.put(None)
            self._threads, self._queue = 0, SimpleQueue()

    def results(self, work: Iterable[Callable[[], T]], ahead: int) -> Iterator[T]:
        """Yield the results of pieces of work in their order; `ahead`: how many run ahead of the caller."""
        waiting = deque[_Piece[T]]()
        with self:
            try:
                for piece in work:
                    waiting.append(self._started(piece))
                    if len(waiting) > ahead:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for begun in waiting:
                    begun.cancel()

    def _started(self, work: Callable[[], T]) -> _Piece[T]:
        """Return a piece of work that a thread runs as soon as one is free."""
        piece = _Piece(work)
        with self._lock:
            self._queue.put(piece)
            starts = self._threads < self._most
            self._threads += starts
            queue = self._queue
        if starts:
            Thread(target=self._run, args=(queue,), daemon=self._is_daemon).start()
        return piece

    def _run(self, queue: SimpleQueue[_Piece[Any] | None]) -> None:
        while True:
            with suppress(Empty):
                piece = queue.get(timeout=_IDLE_S)
                if piece is None:
                    return
                piece.run()
                continue
            with self._lock:
                if queue is not self._queue:
                    return
                if queue.empty():
                    self._threads -= 1
                    return


_THREADS = Threads(MOST, is_daemon=True)
