"""Substitution of a condition's parameters: `?` by place and `:name` by name, each with a constant's text.

A value never becomes part of the grammar: a marker is filled only where an operand stands, and only if no
neighbour of the marker could join the constant, so that one operand remains one operand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tailbit.base.wording import counted, did_you_mean
from tailbit.index.sql.refusals import refuse
from tailbit.index.sql.syntax.tokens import COMPARISONS, Token, tokens_of

_SIGNS_BEFORE = COMPARISONS | frozenset("+ - * / % & | ^ || ( , [ ! ~".split())
_WORDS_BEFORE = frozenset(
    "AND OR NOT BETWEEN LIKE ILIKE RLIKE REGEXP CASE WHEN THEN ELSE ESCAPE FROM DIV".split()
)

_BY_NAME = "Name the value, as in :country, or give the values as a list."
_PLACE = "Put it where a constant would stand: n > ?, name IN (?, ?), name LIKE :pattern."


class _Marker(NamedTuple):
    """Where a marker begins and ends in the text, and its name; "" for a question mark."""

    start: int
    end: int
    name: str


def filled(text: str, values: Sequence[str] | Mapping[str, str]) -> str:
    """Fill the markers of a condition with the texts of constants, by place or by name.

    >>> filled("country = ? AND n > ?", ["'DE'", "3"])
    "country =  'DE'  AND n >  3 "
    """
    markers = list(_markers(text, values))
    _check_all_used(text, values, markers)
    pieces, end = [], 0
    for number, marker in enumerate(markers):
        constant = values[marker.name] if isinstance(values, Mapping) else values[number]
        pieces += [text[end : marker.start], " ", constant, " "]
        end = marker.end
    return "".join([*pieces, text[end:]])


def _markers(text: str, values: Sequence[str] | Mapping[str, str]) -> Iterator[_Marker]:
    """Yield the markers of a text; each must stand where an operand can."""
    tokens = tokens_of(text)
    for number, token in enumerate(tokens):
        if token.kind != "sign" or token.text not in ("?", ":"):
            continue
        ahead = tokens[number + 1]
        if token.text == "?":
            marker, behind = _Marker(token.start, token.end, ""), ahead
            if isinstance(values, Mapping):
                refuse(text, "a ? stands beside values that are given by name", token.start, _BY_NAME)
        else:
            marker = _named(text, token, ahead, values)
            behind = tokens[number + 2]
        if (number and not _precedes_an_operand(tokens[number - 1])) or _grows_together(behind):
            refuse(text, "a parameter stands where no value can", token.start, _PLACE)
        yield marker


def _precedes_an_operand(token: Token) -> bool:
    among = {"sign": _SIGNS_BEFORE, "word": _WORDS_BEFORE}.get(token.kind, frozenset())
    return token.text in among


def _grows_together(token: Token) -> bool:
    """Return whether a token would join a constant before it: strings join, a parenthesis makes a call."""
    return token.kind == "string" or (token.kind == "sign" and token.text == "(")


def _named(text: str, colon: Token, ahead: Token, values: Sequence[str] | Mapping[str, str]) -> _Marker:
    if ahead.kind not in ("word", "number") or ahead.start != colon.end:
        refuse(text, "a colon has no name behind it", colon.start, "Write a parameter as :name.")
    name = text[ahead.start : ahead.end]
    if not isinstance(values, Mapping):
        hint = f'Give the values by name: {{"{name}": ...}}, or write ? for each value of a list.'
        refuse(text, f":{name} stands beside values that are given as a list", colon.start, hint)
    if name not in values:
        given = f"Given are {', '.join(values)}." if values else "None is given."
        refuse(text, f"no value is given for :{name}", colon.start, f"{given}{did_you_mean(name, values)}")
    return _Marker(colon.start, ahead.end, name)


def _check_all_used(text: str, values: Sequence[str] | Mapping[str, str], markers: Sequence[_Marker]) -> None:
    if isinstance(values, Mapping):
        names = {marker.name for marker in markers}
        unused = next((name for name in values if name not in names), None)
        if unused is not None:
            hint = f"Write :{unused} where the value belongs, or leave the value out."
            refuse(text, f"a value is given for :{unused}, which is not in the condition", None, hint)
    elif len(values) != len(markers):
        given = counted(len(values), "value")
        reason = f"the number of values differs from the number of ?: {given} for {len(markers)} ?"
        start = markers[len(values)].start if len(markers) > len(values) else None
        refuse(text, reason, start, "Give one value for each ?, in order.")
