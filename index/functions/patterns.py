"""LIKE, ILIKE and RLIKE: a pattern becomes an RE2 pattern that matches what Java's does.

A pattern of RLIKE is supported only if both engines are known to agree on it; others are refused. Classes of
characters become ranges of code points. Source: java.util.regex.Pattern, `clazz` and `range`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from tailbit.index.values.literals import NotRead

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
    classes = (f"\\x{{{low:x}}}" + f"-\\x{{{high:x}}}" * (low < high) for low, high in ranges)
    return f"[{'^' * negated}{''.join(classes)}]"


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
    index = 0
    while index < len(items):
        char, _, predefined = items[index]
        index += 1
        if predefined:
            ranges += PREDEFINED[char]
        elif items[index : index + 1] == [Item("-")] and index + 1 < len(items):
            end, _, wrong = items[index + 1]
            if wrong or end < char:
                refuse(f"the range {char}-{end}")
            ranges.append((ord(char), ord(end)))
            index += 2
        else:
            ranges.append((ord(char), ord(char)))
    return ranges


BREAKS = r"\n\r\x{85}\x{2028}\x{2029}"
"""Line terminators to Java: no dot matches them, and `$` matches before the last of them."""

END = "\\z"
"""The translation of `$`; such a pattern is also tried on the text without its last break (`LAST_BREAK`)."""

LAST_BREAK = rf"(?:\r\n|[{BREAKS}])\z"
"""The line terminator at the end of a text; `\r\n` is one, and nothing matches between the two."""

_PLAIN_ESCAPES = frozenset(r".*+?()[]{}|^$\/-_ ,:;'\"#@!%&=<>~`")
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_FOLDED = "(?i)"
_QUANTIFIER = re.compile(r"[*+?]|\{\d{1,3}(?:,\d{0,3})?\}", re.ASCII)


def like_tokens(pattern: str, escape: str) -> list[tuple[str, bool]]:
    """Split a pattern of LIKE into (character, whether it is a wildcard)."""
    out: list[tuple[str, bool]] = []
    index = 0
    while index < len(pattern):
        char = pattern[index]
        if char == escape:
            index += 1
            if index == len(pattern):
                raise NotRead(f"the pattern {pattern!r} ends in its escape (INVALID_FORMAT in Spark)")
            if pattern[index] not in (escape, "_", "%"):
                raise NotRead(
                    f"{escape}{pattern[index]} in the pattern {pattern!r} (INVALID_FORMAT in Spark)"
                )
            out.append((pattern[index], False))
        else:
            out.append((char, char in "_%"))
        index += 1
    return out


def like_prefix(pattern: str, escape: str) -> tuple[str, str] | None:
    """Return (text, "%") of a pattern `text%`, (text, "") of one without wildcards, None of others."""
    tokens = like_tokens(pattern, escape)
    wild = [n for n, (_, is_wild) in enumerate(tokens) if is_wild]
    text = "".join(char for char, is_wild in tokens if not is_wild)
    if not wild:
        return text, ""
    if wild == [len(tokens) - 1] and tokens[-1][0] == "%":
        return text, "%"
    return None


def like_parts(pattern: str, escape: str) -> tuple[str, str, str] | None:
    """Return the parts of a pattern `a%b` as (a, b, ""), of `%c%` as ("", "", c); None for other patterns.

    Each part may be empty. Spark compares the bytes for such patterns, whether they are UTF-8 or not.
    """
    pieces = [""]
    for char, is_wild in like_tokens(pattern, escape):
        if is_wild and char == "_":
            return None
        if is_wild:
            pieces.append("")
        else:
            pieces[-1] += char
    if len(pieces) == 2:
        return pieces[0], pieces[1], ""
    return ("", "", pieces[1]) if len(pieces) == 3 and not pieces[0] and not pieces[2] else None


@lru_cache(maxsize=256)
def like_regex(pattern: str, escape: str) -> str:
    """Translate a pattern of LIKE to an RE2 pattern that matches a whole text."""
    pieces = []
    for char, is_wild in like_tokens(pattern, escape):
        pieces.append({"_": ".", "%": ".*"}[char] if is_wild else _quoted(char))
    return f"(?s)\\A(?:{''.join(pieces)})\\z"


def _quoted(char: str) -> str:
    return char if char.isalnum() else f"\\x{{{ord(char):x}}}"


@lru_cache(maxsize=256)
def java_regex(pattern: str) -> str:
    """Translate a pattern of RLIKE to an RE2 pattern that is found in the same texts; see `END`."""
    return JavaRegex(pattern).read()


def python_regex(regex: str, end: str = "\\Z") -> str:
    """Translate an RE2 pattern that `JavaRegex` wrote to one of Python; `end` stands for `END`."""
    plain = re.sub(r"\\x\{([0-9a-f]+)\}", lambda char: f"\\U{int(char[1], 16):08x}", regex)
    return plain.replace(END, end)


class JavaRegex:
    """A translator of a Java pattern, in one pass; a leading `(?i)` is for ASCII letters only, as in Java."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.out: list[str] = []
        self.depth = 0
        self.folded = pattern.startswith(_FOLDED)
        self.at = len(_FOLDED) if self.folded else 0

    def read(self) -> str:
        """Return the RE2 pattern."""
        repeatable = False
        while self.at < len(self.pattern):
            repeatable = self._step(repeatable)
        if self.depth:
            self._refuse("(")
        regex = "".join(self.out)
        try:
            re.compile(python_regex(regex))
        except re.error as wrong:
            raise NotRead(f"the pattern {self.pattern!r} is not read: {wrong}") from wrong
        return regex

    def _refuse(self, construct: str) -> None:
        hint = (
            "LIKE, contains, startswith and endswith take any text; docs/functions.md says what RLIKE takes."
        )
        if construct.startswith("(?i"):
            hint = "Write (?i) at the beginning of the pattern, or ILIKE."
        raise NotRead(f"{construct} in the pattern {self.pattern!r} is not read", hint)

    def _step(self, repeatable: bool) -> bool:
        """Translate one element of the pattern; return whether a quantifier may follow."""
        char = self.pattern[self.at]
        if char in "*+?{":
            return self._quantifier(repeatable)
        self.at += 1
        if char == "\\":
            self.out.append(self._escape())
        elif char == "[":
            self.out.append(self._class())
        elif char == "(":
            return self._open()
        elif char == ")":
            self.depth -= 1
            if self.depth < 0:
                self._refuse(")")
            self.out.append(")")
        elif char == ".":
            self.out.append(f"[^{BREAKS}]")
        elif char in "^$|":
            return self._anchor(char)
        elif char in "]}":
            self._refuse(char)
        else:
            self.out.append(self._literal(char))
        return True

    def _anchor(self, char: str) -> bool:
        if char == "^":
            self.out.append("\\A")
        elif char == "|":
            self.out.append("|")
        else:
            if self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
                self._refuse("$ before the end")
            if self.depth:
                self._refuse("$ in a group")
            self.out.append(END)
        return False

    def _open(self) -> bool:
        if self.pattern.startswith("?", self.at):
            if not self.pattern.startswith("?:", self.at):
                self._refuse(self.pattern[self.at - 1 : self.at + 2])
            self.at += 2
        self.depth += 1
        self.out.append("(?:")
        return False

    def _quantifier(self, repeatable: bool) -> bool:
        quantifier = _QUANTIFIER.match(self.pattern, self.at)
        if quantifier is None or not repeatable:
            self._refuse(self.pattern[self.at])
        assert quantifier is not None
        self.at = quantifier.end()
        if self.pattern.startswith("+", self.at):
            self._refuse(f"{quantifier.group()}+")
        lazy = self.pattern.startswith("?", self.at)
        self.at += lazy
        self.out.append(quantifier.group() + "?" * lazy)
        return False

    def _escaped(self) -> Item:
        if self.at == len(self.pattern):
            self._refuse("\\ at the end")
        char = self.pattern[self.at]
        self.at += 1
        if char.lower() in PREDEFINED:
            return Item(char, True, True)
        if char not in _PLAIN_ESCAPES and char not in _CONTROLS:
            self._refuse(f"\\{char}")
        return Item(_CONTROLS.get(char, char), True)

    def _escape(self) -> str:
        char, _, predefined = self._escaped()
        return shown(PREDEFINED[char.lower()], char.isupper()) if predefined else _quoted(char)

    def _literal(self, char: str) -> str:
        letter = self.folded and char.isascii() and char.isalpha()
        return f"[{char.lower()}{char.upper()}]" if letter else _quoted(char)

    def _class(self) -> str:
        """Translate a class of characters, ranges and escapes, without nested classes."""
        negated = self.pattern.startswith("^", self.at)
        self.at += negated
        items: list[Item] = []
        while not self.pattern.startswith("]", self.at):
            if self.at >= len(self.pattern):
                self._refuse("[")
            char = self.pattern[self.at]
            self.at += 1
            item = Item(char)
            if char == "\\":
                item = self._escaped()
                if item.predefined and item.char.isupper():
                    self._refuse("a negated class in a class")
            elif char in "[&^":
                self._refuse(f"{char} in a class")
            items.append(item)
        self.at += 1
        if not items:
            self._refuse("[]")
        ranges = members(items, self._refuse)
        return shown(folded(ranges) if self.folded else ranges, negated)
