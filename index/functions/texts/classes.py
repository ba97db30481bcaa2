"""Character classes of Java's patterns: ranges of code points, rewritten for RE2.

Source: java.util.regex.Pattern, `clazz` and `range`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

Ranges = list[tuple[int, int]]
"""Ranges of code points, both ends included."""

PREDEFINED: dict[str, Ranges] = {
    "d": [(0x30, 0x39)],
    "w": [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)],
    "s": [(0x09, 0x0D), (0x20, 0x20)],
}
_LETTERS = ((0x41, 0x5A, 0x20), (0x61, 0x7A, -0x20))
"""The letters of ASCII, and how far away each is in its other case."""


class Item(NamedTuple):
    """An item of a class: a character, or the letter of a predefined class; `escaped`: after a backslash."""

    char: str
    escaped: bool = False
    predefined: bool = False


def shown(ranges: Ranges, negated: bool = False) -> str:
    """Return ranges of code points as a character class of RE2."""
    parts = (f"\\x{{{low:x}}}" + f"-\\x{{{high:x}}}" * (low < high) for low, high in ranges)
    return f"[{'^' * negated}{''.join(parts)}]"


def folded(ranges: Ranges) -> Ranges:
    """Add to ranges the other case of the ASCII letters in them."""
    other = [
        (max(low, first) + away, min(high, last) + away)
        for low, high in ranges
        for first, last, away in _LETTERS
        if max(low, first) <= min(high, last)
    ]
    return [*ranges, *other]


def members(items: Sequence[Item], refuse: Callable[[str], None]) -> Ranges:
    """Return the code points of the items of a class; `refuse` raises for an invalid item.

    A `-` makes a range between two characters; after a predefined class it stands for itself. Before a
    predefined class, and between characters in descending order, it is invalid.
    """
    ranges: Ranges = []
    at = 0
    while at < len(items):
        char, _, predefined = items[at]
        at += 1
        if predefined:
            ranges += PREDEFINED[char]
        elif items[at : at + 1] == [Item("-")] and at + 1 < len(items):
            end, _, wrong = items[at + 1]
            if wrong or end < char:
                refuse(f"the range {char}-{end}")
            ranges.append((ord(char), ord(end)))
            at += 2
        else:
            ranges.append((ord(char), ord(char)))
    return ranges
