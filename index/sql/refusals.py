"""A predicate that is refused, with the place in its text."""

from __future__ import annotations

from typing import NoReturn

from tailbit.errors import PredicateError


def refuse(text: str, reason: str, at: int | None = None, hint: str | None = None) -> NoReturn:
    """Raise a PredicateError with the place in the text (characters from 1) and what to write instead."""
    place = "" if at is None else f" at character {at + 1}{_pointed(text, at)}"
    fields = {"hint": hint} if hint else {}
    raise PredicateError(predicate=text, reason=f"{reason}{place}", **fields)


_BESIDE = 60
"""Characters of a line that are shown on either side of a place."""


def _pointed(text: str, at: int) -> str:
    """The line of a place, and below it a caret; a long line is cut."""
    start = max(text.rfind("\n", 0, at) + 1, at - _BESIDE)
    end = text.find("\n", at)
    line = text[start : min(len(text) if end < 0 else end, at + _BESIDE)]
    blanks = "".join("\t" if char == "\t" else " " for char in line[: at - start])
    return f"\n    {line}\n    {blanks}^"
