"""A predicate that is refused, with the place in its text."""

from __future__ import annotations

from typing import NoReturn

from tailbit.errors import PredicateError

_LIST = "Ask the other table first, and give its values as a list: IN (1, 2)."
INSTEAD = {
    "INTERVAL": "Add it to a date or time, or take it from one: ts >= now() - INTERVAL 1 DAY 6 HOURS. "
    "A column of that name stands in backticks.",
    "<<": "Write x * 4 for x << 2.",
    ">>": "Write x div 4 for x >> 2, of numbers from 0 on.",
    "a tuple": "Write the columns one by one: (a = 1 AND b = 2) OR (a = 3 AND b = 4).",
    "an element in brackets": "A field of a struct is written a.b; elements of arrays and maps "
    "are not read, but for split(s, ',')[0].",
}
"""What to write in place of an expression that is not read, by what a refusal calls it."""


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
