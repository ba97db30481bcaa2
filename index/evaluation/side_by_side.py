"""Evaluation of several row spaces, in parallel if two or more have much to read, else one after the other.

Reading and decoding one row space needs nothing of the others. For cached postings, starting threads would
cost more than the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from tailbit.base.errors import CorruptIndexError
from tailbit.index.evaluation.key_selection import keys_of
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.predicate.tree import Leaf, Node, nodes_of
from tailbit.tables.ahead import in_order
from tailbit.tables.model import Column
from tailbit.tables.storage import Storage, at_once

S = TypeVar("S")
T = TypeVar("T")

_WORTH_A_THREAD = 3 << 19
"""Bytes of postings, before compression, whose decoding takes some ten times as long as starting a thread."""


def each_space(
    spaces: Sequence[S],
    work: Callable[[S], T],
    unread: Callable[[S], int],
    views: Sequence[SpaceView] = (),
) -> Iterator[T | CorruptIndexError]:
    """Return the results of `work` for each row space, in order, or the index damage met there.

    `S`: a row space and further input of `work`; `views`: these row spaces. `unread`: bytes of postings that
    `work` has to read. An object store is asked for what several row spaces have to read at once.
    """
    if len(spaces) > 1:
        afar = remote_of(views)
        if afar is not None:
            return at_once(afar, [partial(_tried, work, space) for space in spaces])
        if _is_much(map(unread, spaces)):
            return in_order(partial(_tried, work, space) for space in spaces)
    return map(partial(_tried, work), spaces)


def remote_of(views: Sequence[SpaceView]) -> Storage | None:
    """Return the object store of the segments of row spaces; None if they are on local disk."""
    stores = (segment.storage for view in views[:1] for segment in view.segments[:1])
    return next((storage for storage in stores if storage.remote), None)


def _tried(work: Callable[[S], T], space: S, alone: bool = True) -> T | CorruptIndexError:
    try:
        return work(space)
    except CorruptIndexError as damage:
        return damage


def _is_much(sizes: Iterable[int]) -> bool:
    """Return whether two of the sizes are worth a thread each. Cost: stops at the second such size."""
    much = 0
    for size in sizes:
        much += size >= _WORTH_A_THREAD
        if much > 1:
            return True
    return False


def unread_of(columns: Sequence[Column], space: SpaceView) -> int:
    """Return the bytes of postings of some columns that are not cached; 0 if a column has sparse keys.

    Grouping by a column with sparse keys reads the data or makes codes, which uses all cores by itself.
    """
    unread = 0
    try:
        for column in columns:
            for segment in space.serving(column):
                if segment.sparse_positions(column.id):
                    return 0
                unread += segment.unread(column.id)
    except CorruptIndexError:
        return 0
    return unread


def unread_by(node: Node, space: SpaceView) -> int:
    """Return the bytes of postings to read for the one-column conditions of a predicate."""
    leaves = [
        condition
        for condition in nodes_of(node)
        if isinstance(condition, Leaf) and not condition.column.partition
    ]
    try:
        return sum(
            keys_of(leaf.column, leaf.true, segment)[0].unread()
            for leaf in leaves
            for segment in space.serving(leaf.column)
        )
    except CorruptIndexError:
        return 0
