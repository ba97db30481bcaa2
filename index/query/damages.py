"""What of an index was found damaged while a question was answered; the data was read instead."""

from __future__ import annotations

from collections.abc import Iterator

from tailbit.errors import CorruptIndexError


class Damages:
    """Damaged files of an index, each once, in the order in which they were found.

    Threads that share an answer may note damages at the same time: a note is one step, and so is the look at
    all of them.
    """

    def __init__(self, *damages: CorruptIndexError) -> None:
        self._by_text = {str(damage): damage for damage in damages}

    def note(self, damage: CorruptIndexError) -> None:
        """Add a damage that is not noted yet."""
        self._by_text.setdefault(str(damage), damage)

    def __iter__(self) -> Iterator[CorruptIndexError]:
        return iter(list(self._by_text.values()))
