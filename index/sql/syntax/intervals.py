"""Intervals: what follows the word INTERVAL as one text, be it numbers with units or a string of these.

Source: Spark 4.2, SqlBaseParser.g4 `interval`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tailbit.base.lazy import lazy
from tailbit.index.sql.refusals import INSTEAD, refuse
from tailbit.index.sql.syntax.tokens import Token
from tailbit.index.sql.syntax.words import ends_a_value

if TYPE_CHECKING:
    from tailbit.index.sql import spans
else:
    spans = lazy("tailbit.index.sql.spans")


def interval_at(text: str, tokens: Sequence[Token], at: int) -> tuple[str, int] | None:
    """Return the text of the interval at a word INTERVAL and how many tokens it takes; None for a column.

        INTERVAL '1' DAY -2 HOURS       "1 DAY -2 HOURS", 6
        INTERVAL '1 day 2 hours'        "1 day 2 hours", 2
        interval - 1                    None: a column beside an operator

    Raises:
        PredicateError: the interval is written in an unsupported form.
    """
    parts: list[str] = []
    place = at + 1
    while (part := _part_at(tokens, place)) is not None:
        written, place = part
        parts.append(written)
    if not parts and tokens[place].kind == "string":
        parts, place = [tokens[place].text], place + 1
    elif not parts and (ends_a_value(tokens, place) or tokens[place].kind == "sign"):
        return None
    goes_on = tokens[place].kind in ("string", "number") or tokens[place].text == "TO"
    if not parts or goes_on:
        refuse(text, "such an INTERVAL is not read", tokens[at].start, INSTEAD["INTERVAL"])
    return " ".join(parts), place - at


def _part_at(tokens: Sequence[Token], at: int) -> tuple[str, int] | None:
    """Return a number with its unit as text, and the index of the next token; None if there is none."""
    signed = tokens[at].kind == "sign" and tokens[at].text in ("-", "+")
    sign, at = (tokens[at].text, at + 1) if signed else ("", at)
    if tokens[at].kind not in ("number", "string"):
        return None
    unit = tokens[at + 1]
    if unit.kind != "word" or unit.text not in spans.UNITS:
        return None
    return f"{sign}{tokens[at].text} {unit.text}", at + 2
