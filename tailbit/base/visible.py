"""Foreign text made safe for a terminal: control characters are escaped."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_STEERS = "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
"""Control characters, line ends, marks that change the direction of text, and code points without character.
"""


def visible(text: str, lines: bool = False) -> str:
    r"""Return a text with control characters escaped, as Python writes them.

    `lines`: ends of lines stay, as in a message that points with a caret.

    >>> print(visible("a\x1b[2Jb\nc"))
    a\x1b[2Jb\nc
    """
    if text.isprintable():
        return text
    return re.sub(_STEERS, lambda match: _escape(match[0], lines), text)


_OF_LINES = ("reason", "remedy", "hint", "predicate", "statement", "place", "problems")
"""Fields of errors that may have several lines, for example to point with a caret; paths have one line."""


def visible_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an error with control characters escaped."""
    return {
        name: visible(value) if isinstance(value, str) and name not in _OF_LINES else value
        for name, value in fields.items()
    }


def _escape(character: str, lines: bool) -> str:
    if lines and character == "\n":
        return character
    return character.encode("unicode_escape").decode("ascii")
