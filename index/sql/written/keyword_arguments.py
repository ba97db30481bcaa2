"""Calls whose arguments stand beside words: `substring(s FROM 2 FOR 3)` and `position('a' IN s)` get commas.

Source: Spark's SqlBaseParser.g4, `#substring` and `#position`.
"""

from __future__ import annotations

from typing import Any

Token = Any
"""A token of sqlglot."""

_SUBSTRINGS = ("SUBSTRING", "SUBSTR")
_BETWEEN = {**dict.fromkeys(_SUBSTRINGS, ("FROM", "FOR")), "POSITION": ("IN",)}
"""By function, the words between its arguments."""


def with_commas(tokens: list[Token], kinds: Any) -> list[Token]:
    """The tokens, with commas for the words that part arguments. Cost: a visit to each token."""
    calls: list[_Call] = []
    found: list[int] = []
    for at, token in enumerate(tokens):
        kind = token.token_type
        if kind in (kinds.L_PAREN, kinds.L_BRACKET):
            calls.append(_Call(tokens[at - 1].text.upper() if at and kind == kinds.L_PAREN else "", at))
        elif kind in (kinds.R_PAREN, kinds.R_BRACKET):
            found += calls.pop().words if calls else []
        elif calls:
            calls[-1].meet(at, kind.name, tokens[at - 1].token_type.name)
    out = list(tokens)
    for at in found:
        token = tokens[at]
        out[at] = type(token)(kinds.COMMA, ",", token.line, token.col, token.start, token.end, [])
    return out


class _Call:
    """What is between two parentheses: the words in it that stand where a comma could."""

    def __init__(self, name: str, opened: int) -> None:
        self.opened = opened
        self.wanted = list(_BETWEEN.get(name, ()))
        self.words: list[int] = []

    def meet(self, at: int, kind: str, before: str) -> None:
        """A token in no other parentheses; behind a comma in its place no word is one of these any more."""
        if not self.wanted or at == self.opened + 1 or (kind, before) == ("FROM", "DISTINCT"):
            return
        if kind == self.wanted[0]:
            self.words.append(at)
        if kind in (self.wanted[0], "COMMA"):
            self.wanted.pop(0)
