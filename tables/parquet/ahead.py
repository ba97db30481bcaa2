"""Work is done on all cores, and its results come in the order in which it was given."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import TypeVar

T = TypeVar("T")

_MOST = 8
"""Threads that decode; more would wait for each other more than they decode."""
_AHEAD = 2
"""Threads beside those: while their pieces are read and put together, the cores decode others."""


def in_order(work: Iterable[Callable[[bool], T]]) -> Iterator[T]:
    """The results, in order; a piece a core and two more are begun before they are asked for, and one waits.

    Each piece is told whether it is the only one, and so may use all cores itself: it is then done in the
    caller's thread. Whoever stops asking stops the work that has not begun.
    """
    pieces = iter(work)
    begun = list(islice(pieces, 2))
    if len(begun) < 2:
        yield from (piece(True) for piece in begun)
        return
    threads = min(os.cpu_count() or 1, _MOST) + _AHEAD
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[T]] = deque()
        try:
            for piece in chain(begun, pieces):
                waiting.append(pool.submit(piece, False))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for left in waiting:
                left.cancel()
