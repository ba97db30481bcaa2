"""Inputs and results of a merge: a group of index files of one kind, and the files that replace them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tailbit.base.dataclass import dataclass
from tailbit.index.model import IndexFile, NewClaim

FAN_IN = 8
"""Least number of files of one size class that are merged."""

_SMALLEST = 4096
"""Files smaller than 8 x this many bytes are all of size class 0."""


@dataclass(frozen=True)
class MergeGroup:
    """Index files of one kind that are merged or dropped together.

    Segments come as all segments of some row spaces.
    """

    kind: str
    inputs: tuple[str, ...]
    spaces: tuple[str, ...] = ()
    size_class: int = 0


@dataclass(frozen=True)
class Merged:
    """The result of a merge: the files that replace its inputs, the moved claims, and what the merge dropped.

    `forgotten`: ids of which the merge dropped all rows: of column statistics and Bloom filters the hashes of
    data file footers, of hidden rows their ids.
    """

    files: tuple[IndexFile, ...]
    moved: tuple[NewClaim, ...] = ()
    forgotten: frozenset[str] = frozenset()


def size_class(size: int, members: int = 0) -> int:
    """Return the size class of a file by bytes, or of a row space by bytes or file count (the higher)."""
    return max((max(1, size // _SMALLEST).bit_length() - 1) // 3, (max(1, members).bit_length() - 1) // 3)


def due_at_once(kind: str, files: Iterable[IndexFile]) -> Iterator[MergeGroup]:
    """Yield all files, if there are any, as one group."""
    if paths := tuple(file.path for file in files):
        yield MergeGroup(kind, paths)


def due_by_size(kind: str, files: Iterable[IndexFile]) -> Iterator[MergeGroup]:
    """Yield the size classes that have FAN_IN files or more."""
    classes: dict[int, list[str]] = {}
    for file in files:
        classes.setdefault(size_class(file.size), []).append(file.path)
    for number, paths in classes.items():
        if len(paths) >= FAN_IN:
            yield MergeGroup(kind, tuple(paths), size_class=number)
