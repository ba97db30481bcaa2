"""Text of others as a terminal may be given it: what would steer the terminal is spelled out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_STEERS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, ends of lines, marks that turn the direction of a text, and what is no character."""


def visible(text: str, lines: bool = False) -> str:
    r"""A text in which what steers a terminal is an escape, as Python writes it.

    `lines`: ends of lines stay, as in a message that points with a caret.

    >>> print(visible("a\x1b[2Jb\nc"))
    a\x1b[2Jb\nc
    """
    if text.isprintable():
        return text
    return _STEERS.sub(lambda found: _escape(found[0], lines), text)


_OF_LINES = ("reason", "remedy", "hint", "predicate", "place")
"""Fields of errors that may have several lines, as one that points with a caret; a path never has."""


def visible_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an error, as its message shows them."""
    return {
        name: visible(value) if isinstance(value, str) and name not in _OF_LINES else value
        for name, value in fields.items()
    }


def _escape(character: str, lines: bool) -> str:
    if lines and character == "\n":
        return character
    return character.encode("unicode_escape").decode("ascii")
