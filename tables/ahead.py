"""Run work on all cores and yield the results in the order of the work."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain, islice, pairwise
from typing import TypeVar

from tailbit.tables.storage.requests import Threads

T = TypeVar("T")

_MOST = 8
"""Most threads that decode; with more, they wait for each other longer than they decode."""
_AHEAD = 2
"""Extra threads: while the caller reads and assembles the results of some pieces, the cores decode others."""


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
    alike = (partial(piece, False) for piece in chain(begun, pieces))
    yield from Threads(most, is_daemon=False).results(alike, most)
