"""What a pattern of Java finds in a text, and its groups: regexp_extract and regexp_replace.

A pattern of RLIKE is read here where Python finds the same and in the same way; a group is repeated once at
most. A text with a character beyond U+FFFF is not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from tailbit.index.functions.texts.at_once import constant_text
from tailbit.index.functions.texts.patterns import JavaRegex, Unread, python_regex
from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import NOT_READ, Raised, Vector, per_distinct
from tailbit.index.values.literals import STRING

_DOLLAR = r"(?:(?=\r\n\Z)|(?<!\r)(?=\n\Z)|(?=[\r\x85\u2028\u2029]\Z)|\Z)"
"""What `$` is to Java: the end, or the last line terminator before it."""


@lru_cache(maxsize=256)
def groups_of(pattern: str) -> re.Pattern[str]:
    """A pattern of Java as one of Python.

    Raises:
        Unread: it holds something that is not known to find the same.
    """
    return re.compile(python_regex(_Groups(pattern).read(), _DOLLAR))


class _Groups(JavaRegex):
    """A pattern whose groups are kept."""

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


def extracted(call: Call, args: list[pa.Array]) -> Vector:
    """regexp_extract: a group of what is found first; an empty text where nothing is. The setting: which."""
    group = int(call.setting[0])

    def apply(text: str, pattern: re.Pattern[str]) -> bytes:
        found = pattern.search(text)
        return b"" if found is None else (found[group] or "").encode()

    return each_found(call, args[0], apply)


def substituted(call: Call, args: list[pa.Array]) -> Vector:
    """regexp_replace: a text in place of all that is found; the setting is its parts, groups as numbers."""
    if all(isinstance(part, str) for part in call.setting):
        always = "".join(map(str, call.setting)).replace("\\", r"\\")
        return each_found(call, args[0], lambda text, pattern: pattern.sub(always, text).encode())

    def parts(found: re.Match[str]) -> str:
        return "".join(str(part) if isinstance(part, str) else found[part] or "" for part in call.setting)

    return each_found(call, args[0], lambda text, pattern: pattern.sub(parts, text).encode())


def each_found(call: Call, texts: pa.Array, apply: Callable[[str, re.Pattern[str]], Any]) -> Vector:
    """A function of each text and the pattern of a call."""
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
    """What takes the place of what is found: texts, and the numbers of groups.

    Raises:
        Unread: a `$` or backslash stands before something else than a group or a character.
    """
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        found = _REFERENCE.match(text, at)
        if found is None or (found[2] and int(found[2]) > groups):
            raise Unread(f"the replacement {text!r} is not read", "$1 stands for a group, \\\\$ for a $.")
        parts.append(int(found[2]) if found[2] else found[1] or found[3])
        at = found.end()
    return parts
