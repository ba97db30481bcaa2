"""Record of index damage noticed while answering a question; the data files are read instead."""

from __future__ import annotations

from collections.abc import Iterator

from tailbit.base.errors import CorruptIndexError


class Damages:
    """Damaged files of an index, each once, in the order in which they were noticed.

    Threads that share an answer may note damages concurrently: noting is atomic, and so is iterating.
    """

    def __init__(self, *damages: CorruptIndexError) -> None:
        self._by_text = {str(damage): damage for damage in damages}

    def note(self, damage: CorruptIndexError) -> None:
        """Add a damage, unless it was noted before."""
        self._by_text.setdefault(str(damage), damage)

    def __iter__(self) -> Iterator[CorruptIndexError]:
        return iter(list(self._by_text.values()))
