"""Matches of a Java pattern and their groups: regexp_extract and regexp_replace.

A pattern is supported if Python finds the same matches by the same rules; `?` is the only quantifier that may
follow a group. Texts with a character beyond U+FFFF get NOT_READ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

from tailbit.index.functions.texts.at_once import constant_text, empty_where
from tailbit.index.functions.texts.buffers import bytes_of
from tailbit.index.functions.texts.patterns import END, JavaRegex, python_regex
from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import NOT_READ, Raised, Vector, by_parts, code, per_distinct
from tailbit.index.values.literals import STRING
from tailbit.index.values.refusals import NotRead
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.schema import arrow_type

_DOLLAR = r"(?:(?=\r\n\Z)|(?<!\r)(?=\n\Z)|(?=[\r\x85\u2028\u2029]\Z)|\Z)"
"""A Python pattern for Java's `$`: the end of the text, or the place before its last line terminator."""


@lru_cache(maxsize=256)
def groups_of(pattern: str) -> re.Pattern[str]:
    """Translate a Java pattern to one of Python.

    Raises:
        NotRead: the pattern may match differently in Python.
    """
    return re.compile(python_regex(_Groups(pattern).read(), _DOLLAR))


class _Groups(JavaRegex):
    """A translator that keeps the groups of a pattern."""

    def _open(self) -> bool:
        captures = not self.pattern.startswith("?", self.at)
        super()._open()
        if captures:
            self.out[-1] = "("
        return False

    def _quantifier(self, repeatable: bool) -> bool:
        if self.out and self.out[-1] == ")" and self.pattern[self.at] != "?":
            self._refuse(f"){self.pattern[self.at]}")
        return super()._quantifier(repeatable)


class _OneGroup(_Groups):
    """A translator that keeps one group of a pattern and names it, as Arrow requires; group 0 is the match.

    `alike`: whether RE2 surely matches as Python does, which it may not with `$` or an optional group.
    """

    def __init__(self, pattern: str, group: int) -> None:
        super().__init__(pattern)
        self.group, self.groups, self.alike = group, 0, True

    def read(self) -> str:
        regex = super().read()
        self.alike = self.alike and END not in regex
        return regex if self.group else f"(?P<{_GROUP}>{regex})"

    def _open(self) -> bool:
        repeatable = super()._open()
        if self.out[-1] == "(":
            self.groups += 1
            self.out[-1] = f"(?P<{_GROUP}>" if self.groups == self.group else "(?:"
        return repeatable

    def _quantifier(self, repeatable: bool) -> bool:
        self.alike = self.alike and self.out[-1:] != [")"]
        return super()._quantifier(repeatable)


_GROUP = "wanted"


@lru_cache(maxsize=256)
def _re2_of_group(pattern: str, group: int) -> str | None:
    """Return an RE2 pattern that finds the same text for a group; None if it may find another."""
    group_regex = _OneGroup(pattern, group)
    regex = group_regex.read()
    return regex if group_regex.alike and _compiles(regex) else None


def _compiles(regex: str) -> bool:
    """Return whether RE2 accepts a pattern; it refuses patterns that exceed its memory limit."""
    try:
        pc.match_substring_regex(arrow_array([""]), regex)
    except pa.ArrowInvalid:
        return False
    return True


def extracted(call: Call, args: list[pa.Array]) -> Vector:
    """Compute regexp_extract: a group of the first match, empty without a match; the setting is the group."""
    group = int(call.setting[0])
    regex = _re2_of_group(constant_text(call, 1) or "", group)
    if regex is not None:
        return within_16_bits(call, args[0], lambda texts: Vector(_extracted(texts, regex)))

    return each_found(call, args[0], partial(_group, group))


def _group(group: int, text: str, pattern: re.Pattern[str]) -> bytes:
    match = pattern.search(text)
    return b"" if match is None else (match[group] or "").encode()


def _extracted(texts: pa.Array, regex: str) -> pa.Array:
    return empty_where(texts, pc.struct_field(pc.extract_regex(texts, pattern=regex), [0]))


def substituted(call: Call, args: list[pa.Array]) -> Vector:
    """Compute regexp_replace: replace all matches by a text; the setting is its parts, groups as numbers."""
    pattern = constant_text(call, 1) or ""
    if _re2_of_group(pattern, 0) is not None:
        parts = [f"\\{part}" if isinstance(part, int) else part.replace("\\", r"\\") for part in call.setting]
        regex, by = _Groups(pattern).read(), "".join(map(str, parts))
        return within_16_bits(
            call, args[0], lambda texts: Vector(pc.replace_substring_regex(texts, regex, by))
        )
    return each_found(call, args[0], partial(_substituted, call.setting))


def _substituted(parts: Sequence[object], text: str, pattern: re.Pattern[str]) -> bytes:
    if all(isinstance(part, str) for part in parts):
        return pattern.sub("".join(map(str, parts)).replace("\\", r"\\"), text).encode()

    def by(match: re.Match[str]) -> str:
        return "".join(match[part] or "" if isinstance(part, int) else str(part) for part in parts)

    return pattern.sub(by, text).encode()


def within_16_bits(call: Call, texts: pa.Array, apply: Callable[[pa.Array], Vector]) -> Vector:
    """Apply a function to texts; those with a character beyond U+FFFF, two in Java, get NOT_READ."""
    data = bytes_of(texts)[1]
    if not len(data) or int(data.max()) < _BEYOND_16_BITS:
        return apply(texts)
    beyond = pc.match_substring_regex(texts, r"[\x{10000}-\x{10ffff}]")
    return by_parts(texts, pc.invert(beyond), apply, lambda others: _not_read(call, others))


_BEYOND_16_BITS = 0xF0
"""From here on the first byte of a character beyond U+FFFF; no other byte of UTF-8 is as large."""


def _not_read(call: Call, texts: pa.Array) -> Vector:
    null = np.ones(len(texts), np.bool_)
    return Vector(pa.nulls(len(texts), arrow_type(call.type, str(call.type))), code(NOT_READ, null))


def each_found(call: Call, texts: pa.Array, apply: Callable[[str, re.Pattern[str]], Any]) -> Vector:
    """Apply a function to each distinct text and the compiled pattern of a call."""
    pattern = constant_text(call, 1)
    assert pattern is not None
    compiled = groups_of(pattern)

    def of(text: bytes) -> Any:
        chars = text.decode()
        if not text.isascii() and max(chars) > "\uffff":
            raise Raised(NOT_READ)
        return apply(chars, compiled)

    return per_distinct([texts], [STRING], call.type, of)


_REFERENCE = re.compile(r"\\(.)|\$([0-9])(?![0-9])|([^\\$]+)", re.DOTALL)


def replacement(text: str, groups: int) -> Sequence[str | int]:
    """Split a replacement into texts and group numbers.

    Raises:
        NotRead: a `$` or backslash stands before something other than a group or a character.
    """
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        reference = _REFERENCE.match(text, at)
        if reference is None or (reference[2] and int(reference[2]) > groups):
            raise NotRead(f"the replacement {text!r} is not read", "$1 stands for a group, \\\\$ for a $.")
        parts.append(int(reference[2]) if reference[2] else reference[1] or reference[3])
        at = reference.end()
    return parts
