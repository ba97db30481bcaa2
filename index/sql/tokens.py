"""The tokens of a predicate: names, functions, constants and signs are told apart by what stands beside them.

One walk over the tokens of sqlglot makes others of them, which its parser takes for what they are to Spark.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from tailbit.index.sql.refusals import INSTEAD, refuse
from tailbit.index.sql.words import (
    ASKED,
    BEFORE_A_NAME,
    BEFORE_A_SIGN,
    BEHIND_A_FIELD,
    BEHIND_A_NAME,
    CAST_TYPES,
    COMPARED,
    LIKE,
    NO_FUNCTIONS,
    VALUES,
)
from tailbit.index.sql.written.intervals import written_lengths
from tailbit.index.values.literals import string

Token = Any
"""A token of sqlglot."""

_GAP = re.compile(
    r"(?:\s|--(?:[^\r\n\\]|\\(?![\r\n]))*(?=[\r\n]|$)|/\*(?!\+)(?:(?!/\*|\*/).)*\*/)*", re.DOTALL
)
"""What may stand between two tokens: blanks and comments that Spark and sqlglot end at the same place.

The three alternatives, any number of times in any order:

- `\\s`: a blank;
- `--`, then characters up to the end of the line: a line comment. A backslash must not be the last of them:
  Spark then goes on with the comment on the next line, sqlglot does not;
- `/*`, not followed by `+`, then characters up to `*/`: a block comment that is no hint. No `/*` may stand in
  it: Spark nests comments, so that the comment would end elsewhere.
"""

WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)

FUNCTION = "f__"
"""Before the place and the name of a function in the tree."""

Kind = Literal["number", "string", "hex", "interval"]


@dataclass(frozen=True, slots=True)
class WrittenConstant:
    """A constant of the text: a number as written, the value of a string, X'..' as written, or an interval.

    `plus`: a number with a plus sign in front, which to Spark is an operation on it.
    """

    kind: Kind
    text: str
    at: int
    plus: bool = False


_SIGNS_NOT_READ = {
    "~~": "Write LIKE, or ~(~x).",
    "~~*": "Write ILIKE.",
}
"""Signs that sqlglot takes for what Spark does not, and what to write instead."""

_CALLED = 2
"""Words of `IS NULL`."""


class TokenReader:
    """Walks the tokens once, moving constants into the side table."""

    def __init__(self, text: str, tokens: list[Token], kinds: Any) -> None:
        self.text = text
        self.tokens = tokens
        self.types = kinds
        self.constants: list[WrittenConstant] = []
        self.at = 0

    def read(self) -> list[Token]:
        """The tokens with indexes for constants."""
        self._check_gaps()
        out = []
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            kind = token.token_type
            if kind in (self.types.STRING, self.types.RAW_STRING):
                out.append(self._strings())
            elif kind == self.types.NUMBER:
                out.append(self._number(token.start))
            elif kind == self.types.DOT and self._is_number_ahead():
                self.at += 1
                out.append(self._number(token.start))
            elif kind == self.types.HEX_STRING:
                raw = self.text[token.start : token.end + 1]
                out.append(self._constant(WrittenConstant("hex", raw, token.start), token, token))
            elif kind == self.types.PLUS:
                out.append(self._signed(token))
            elif token.text in _SIGNS_NOT_READ:
                refuse(self.text, f"{token.text} is not read", token.start, _SIGNS_NOT_READ[token.text])
            elif self._is_name(token, out):
                out.append(self._name(token))
            elif kind == self.types.INTERVAL:
                out.append(self._interval(token))
            elif self._is_function(token, out):
                out.append(self._function(token))
            elif token.text.upper() == "IF" and self._is_word(token):
                refuse(self.text, "IF is not read", token.start, "Write if(condition, value, other).")
            elif token.text.upper() == "XOR" and self._is_word(token):
                refuse(self.text, "XOR is not Spark's", token.start, "Write a <> b of two conditions.")
            elif kind == self.types.UNKNOWN:
                out.append(self._word(token, token.text))
            elif kind in (self.types.ALIAS, self.types.DCOLON):
                out.append(self._before_a_type(token))
            else:
                out.append(token)
            self.at += 1
        return out

    def _check_gaps(self) -> None:
        end = 0
        for token in self.tokens:
            if token.start >= end:
                self._check_gap(end, token.start)
            end = max(end, token.end + 1)
        self._check_gap(end, len(self.text))

    def _check_gap(self, start: int, end: int) -> None:
        if not _GAP.fullmatch(self.text, start, end):
            refuse(self.text, "hints, nested and continued comments are not read", start)

    def _constant(self, constant: WrittenConstant, first: Token, last: Token, text: bool = False) -> Token:
        self.constants.append(constant)
        kind = self.types.STRING if text else self.types.NUMBER
        return type(first)(
            kind, str(len(self.constants) - 1), first.line, first.col, first.start, last.end, []
        )

    def _peek(self, ahead: int = 1) -> Token | None:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else None

    def _is_name(self, token: Token, before: list[Token]) -> bool:
        """Whether a word stands where only a column or field can: Spark reserves none of its keywords.

        `before`: the tokens read so far, so that a keyword that was read as a name is none any more.
        """
        if not self._is_word(token):
            return False
        leads = self._leads_a_name(before)
        word = self.text[token.start : token.end + 1].upper()
        is_field = bool(before) and before[-1].token_type == self.types.DOT
        if not leads or (word in VALUES and not is_field):
            return False
        if word == "NOT" and not is_field:
            return self._ends_a_name(COMPARED) or self._is_asked_for()
        return self._ends_a_name(BEHIND_A_NAME if word in NO_FUNCTIONS else BEHIND_A_FIELD)

    def _leads_a_name(self, before: list[Token]) -> bool:
        """Whether a column or field may stand behind these tokens; behind IS NOT only UNKNOWN does."""
        if not before:
            return True
        last, ahead = before[-1].token_type, before[-2].token_type if len(before) > 1 else None
        if last == self.types.FROM:
            return bool(ahead == self.types.DISTINCT)
        if last == self.types.NOT and ahead == self.types.IS:
            return False
        return last.name in BEFORE_A_NAME

    def _is_word(self, token: Token) -> bool:
        return WORD.fullmatch(self.text, token.start, token.end + 1) is not None

    def _ends_a_name(self, followers: frozenset[str]) -> bool:
        """Whether what follows the token at hand may follow a name; of NOT only NOT IN and NOT BETWEEN."""
        ahead = self._peek()
        if ahead is None:
            return followers is not COMPARED
        if ahead.token_type == self.types.NOT and followers is not COMPARED:
            behind = self.tokens[self.at + 2] if self.at + 2 < len(self.tokens) else None
            return behind is not None and behind.token_type.name in ("IN", "BETWEEN", *LIKE)
        return ahead.token_type.name in followers

    def _is_asked_for(self) -> bool:
        """Whether IS and what only it takes follow the token at hand, so that IS is no name.

        At the end of a text Spark takes `NOT IS NULL` for a condition `NOT IS` that is called NULL.
        """
        words = [token.text.upper() for token in self.tokens[self.at + 1 : self.at + 4]]
        is_called = len(words) == _CALLED and words[1] != "NOT"
        return not is_called and " ".join(words).replace("IS NOT ", "IS ", 1).startswith(ASKED)

    def _is_function(self, token: Token, before: list[Token]) -> bool:
        """Whether a word stands before a parenthesis and neither is a keyword nor names a type or field."""
        ahead = self._peek()
        if ahead is None or ahead.token_type != self.types.L_PAREN or not self._is_word(token):
            return False
        if before and before[-1].token_type in (self.types.ALIAS, self.types.DOT, self.types.DCOLON):
            return False
        word = token.text.upper()
        return word not in NO_FUNCTIONS and not (word == "TRIM" and self._holds_from())

    def _holds_from(self) -> bool:
        """Whether FROM stands in the parentheses behind the token at hand, and in no others within them."""
        depth = 0
        for token in self.tokens[self.at + 1 :]:
            kind = token.token_type
            depth += (kind == self.types.L_PAREN) - (kind == self.types.R_PAREN)
            if depth == 0 or (depth == 1 and kind == self.types.FROM):
                return bool(depth == 1)
        return False

    def _function(self, token: Token) -> Token:
        """The name of a function together with its place: sqlglot then makes nothing else of the call."""
        return self._word(token, f"{FUNCTION}{token.start}__{self.text[token.start : token.end + 1]}")

    def _word(self, token: Token, name: str) -> Token:
        """A word that is nothing but its text to sqlglot, which takes IS UNKNOWN for IS NULL."""
        return type(token)(self.types.VAR, name, token.line, token.col, token.start, token.end, [])

    def _name(self, token: Token) -> Token:
        raw = self.text[token.start : token.end + 1]
        kind = self.types.IDENTIFIER
        return type(token)(kind, raw, token.line, token.col, token.start, token.end, [])

    def _before_a_type(self, token: Token) -> Token:
        """AS or ::, if a type that is read follows: sqlglot gives other names a meaning of its own."""
        name, end = ([*self.tokens[self.at + 1 : self.at + 3], None, None])[:2]
        if name is not None and name.text.upper() in CAST_TYPES:
            ends = (self.types.R_PAREN, self.types.L_PAREN)
            if token.token_type == self.types.DCOLON or (end is not None and end.token_type in ends):
                return token
        shown = "" if name is None else name.text
        refuse(self.text, f"a cast to {shown} is not read", token.start)

    def _strings(self) -> Token:
        """One constant for a run of strings, which Spark joins; quotes that touch are one."""
        first = last = self.tokens[self.at]
        start, parts = first.start, []
        while (ahead := self._peek()) is not None and ahead.token_type in (
            self.types.STRING,
            self.types.RAW_STRING,
        ):
            touching = (
                ahead.start == last.end + 1 and ahead.token_type == last.token_type == self.types.STRING
            )
            if not touching or self.text[ahead.start] != self.text[start]:
                parts.append((start, last.end))
                start = ahead.start
            last = ahead
            self.at += 1
        parts.append((start, last.end))
        try:
            value = "".join(string(self.text[a : b + 1]) for a, b in parts)
            value.encode()
        except ValueError as wrong:
            refuse(self.text, f"a string that is not read: {wrong}", first.start)
        return self._constant(WrittenConstant("string", value, first.start), first, last, text=True)

    def _interval(self, first: Token) -> Token:
        text, count = written_lengths(self.tokens[self.at + 1 :], self.types)
        if not count:
            refuse(self.text, "such an INTERVAL is not read", first.start, INSTEAD["Interval"])
        self.at += count
        return self._constant(WrittenConstant("interval", text, first.start), first, self.tokens[self.at])

    def _is_number_ahead(self) -> bool:
        """Whether the dot at hand begins a number such as .5 rather than follows a name."""
        dot, ahead = self.tokens[self.at], self._peek()
        if ahead is None or ahead.token_type != self.types.NUMBER or ahead.start != dot.end + 1:
            return False
        before = self.text[dot.start - 1 : dot.start]
        return not (before.isalnum() or before in ("_", "`", ")", "]", '"', "'")) or not before

    def _number(self, start: int, plus: bool = False) -> Token:
        """One constant for a number and its suffix, which sqlglot made a cast at the same place."""
        token = self.tokens[self.at]
        ahead = self._peek()
        if ahead is not None and ahead.token_type == self.types.DCOLON and ahead.start == token.start:
            self.at += 2
        raw = self.text[start : token.end + 1]
        return self._constant(WrittenConstant("number", raw, start, plus), token, token)

    def _signed(self, plus: Token) -> Token:
        """A number behind a plus sign, or the sign itself between two operands."""
        before = self.tokens[self.at - 1] if self.at else None
        if before is not None and before.token_type.name not in BEFORE_A_SIGN:
            return plus
        self.at += 1
        ahead = self.tokens[self.at] if self.at < len(self.tokens) else None
        if ahead is None or ahead.token_type != self.types.NUMBER:
            refuse(self.text, "a plus sign in front of something that is not a number", plus.start)
        return self._number(ahead.start, plus=True)
