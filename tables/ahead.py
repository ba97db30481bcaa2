"""Work is done on all cores, and its results come in the order in which it was given.

Threads are imported where they are started: most first questions of a process need none.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice, pairwise
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

_MOST = 8
"""Threads that decode; more would wait for each other more than they decode."""
_AHEAD = 2
"""Threads beside those: while their pieces are read and put together, the cores decode others."""


def shared_out(work: Sequence[T], sizes: Sequence[int], least: int) -> Iterator[Sequence[T]]:
    """Work in parts of neighbours: one for each core, but none of a size under `least`, if not all of it.

    >>> list(shared_out("abcd", [5, 5, 5, 5], least=40))
    ['abcd']
    """
    ends = list(accumulate(sizes, initial=0))
    parts = max(1, min(os.cpu_count() or 1, ends[-1] // least))
    cuts = [bisect_left(ends, ends[-1] * part / parts) for part in range(parts)]
    for low, high in pairwise([*cuts, len(work)]):
        if low < high:
            yield work[low:high]


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
    from concurrent.futures import ThreadPoolExecutor

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
