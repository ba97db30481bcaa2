"""What a merge takes and gives: files of one size class go in, at most one file comes out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tailbit.index.model import IndexFile, NewClaim

FAN_IN = 8
"""Files of one size class that become one."""

_SMALLEST = 4096
"""Files smaller than 8 x this many bytes are all of size class 0."""


@dataclass(frozen=True)
class MergeGroup:
    """Index files of one kind that become one or vanish; of segments, all those of some row spaces."""

    kind: str
    inputs: tuple[str, ...]
    spaces: tuple[str, ...] = ()
    size_class: int = 0


@dataclass(frozen=True)
class Merged:
    """What a written merge puts in the place of its inputs, how claims move, and what the merge dropped.

    `forgotten`: names, as the kind understands them, of what is in no file any more.
    """

    files: tuple[IndexFile, ...]
    moved: tuple[NewClaim, ...] = ()
    forgotten: frozenset[str] = frozenset()


def size_class(size: int, members: int = 0) -> int:
    """The class of a file by its bytes, of a row space by its bytes or its files, whichever is higher."""
    return max((max(1, size // _SMALLEST).bit_length() - 1) // 3, (max(1, members).bit_length() - 1) // 3)


def due_by_size(kind: str, files: Iterable[IndexFile]) -> Iterator[MergeGroup]:
    """The size classes that have FAN_IN files or more."""
    classes: dict[int, list[str]] = {}
    for file in files:
        classes.setdefault(size_class(file.size), []).append(file.path)
    for number, paths in classes.items():
        if len(paths) >= FAN_IN:
            yield MergeGroup(kind, tuple(paths), size_class=number)
