"""Parser of conditions by Spark's grammar: AND, OR and NOT, predicates such as IN and LIKE, and operators.

    condition:   NOT* value predicate?, and such conditions joined by AND and OR
    value:       sign* primary, and such values joined by arithmetic and comparisons
    primary:     a constant, a column, a call, or a form with a syntax of its own, such as CAST and TRIM
    predicate:   NOT? BETWEEN value AND value | NOT? IN (conditions) | NOT? RLIKE value
                 | NOT? LIKE (ANY | SOME | ALL) (conditions) | NOT? LIKE value (ESCAPE text)?
                 | IS NOT? (NULL | TRUE | FALSE | UNKNOWN) | IS NOT? DISTINCT FROM value

A value has one predicate at most, unless parentheses make it a value again.

    a = 1 + 2 * 3 IS NULL        the predicate IS NULL of the comparison a = (1 + (2 * 3))

Source: Spark 4.2, SqlBaseParser.g4, of which only what is read is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn

from tailbit.base.lazy import lazy
from tailbit.index.sql.refusals import INSTEAD, OTHER_TABLE, cast_instead, refuse
from tailbit.index.sql.syntax.tokens import (
    BEHIND_A_VALUE,
    COMPARISONS,
    CONSTANTS,
    ENDS,
    LIKE,
    LIKE_FUNCTIONS,
    NO_FUNCTIONS,
    TYPED,
    Token,
    ends_a_value,
    is_asked_for,
    tokens_of,
)
from tailbit.index.sql.syntax.tree import Listed, Tree, WrittenConstant

if TYPE_CHECKING:
    from tailbit.index.values import datetimes
else:
    datetimes = lazy("tailbit.index.values.datetimes")

_WORDS_BETWEEN = {"SUBSTRING": ("FROM", "FOR"), "SUBSTR": ("FROM", "FOR"), "POSITION": ("IN",)}
"""By function, the words that may stand between its arguments in place of commas."""
_SIZES = 2
"""Limit of the numbers behind a type's name: the digits of a decimal, and its digits behind the point."""
_QUERIES = ("SELECT", "WITH", "VALUES", "FROM", "TABLE")
_BINDING = {
    **dict.fromkeys(COMPARISONS, 1),
    "|": 2, "^": 3, "&": 4, "<<": 5, ">>": 5, ">>>": 5,
    "+": 6, "-": 6, "||": 6, "*": 7, "/": 7, "%": 7, "DIV": 7,
}  # fmt: skip
"""How tightly an operator binds its operands; all of them join to the left."""
_QUANTIFIERS = ("ANY", "SOME", "ALL")
_TRUTHS = ("NULL", "TRUE", "FALSE", "UNKNOWN")


MOST_LETTERS = 20_000
"""Letters of a text whose tree is cached: that of a list of ten thousand keys takes ten megabytes."""


def parse_predicate(text: str) -> Tree:
    """Return the tree of a predicate in Spark's SQL; those of short texts are cached."""
    return _parsed(text) if len(text) <= MOST_LETTERS else _parsed.__wrapped__(text)


@lru_cache(maxsize=512)
def _parsed(text: str) -> Tree:
    try:
        return Parser(text, tokens_of(text)).whole()
    except RecursionError:
        refuse(text, "it is nested too deeply", hint=FLATTEN)


class Parser:
    """A recursive descent parser over the tokens of one text; each method consumes what its name says."""

    def __init__(self, text: str, tokens: list[Token], start: int = 0) -> None:
        self.text = text
        self.tokens = tokens
        self.position = start
        self.last_end = 0
        """Where the last token that was taken ends."""

    @property
    def token(self) -> Token:
        """Return the current token."""
        return self.tokens[self.position]

    @property
    def word(self) -> str:
        """Return the current word in capitals; empty if the token is no word."""
        token = self.tokens[self.position]
        return token.text if token.kind == "word" else ""

    def advance(self) -> Token:
        """Return the current token, and move to the next."""
        token = self.tokens[self.position]
        self.last_end = token.end
        self.position += 1
        return token

    def is_sign(self, sign: str) -> bool:
        """Return whether the current token is a given sign."""
        token = self.tokens[self.position]
        return token.kind == "sign" and token.text == sign

    def takes_sign(self, sign: str) -> bool:
        """Take a sign if it is the current token; return whether it was."""
        return self.is_sign(sign) and bool(self.advance())

    def takes_word(self, word: str) -> bool:
        """Take a word if it is the current token; return whether it was."""
        return self.word == word and bool(self.advance())

    def needs_sign(self, sign: str) -> None:
        """Take a sign; refuse the text if it is not the current token."""
        if not self.takes_sign(sign):
            self.stop()

    def needs_word(self, word: str) -> None:
        """Take a word; refuse the text if it is not the current token."""
        if not self.takes_word(word):
            self.stop()

    def stop(self, token: Token | None = None) -> NoReturn:
        """Refuse the text from a token on, by default the current one."""
        # Imported here, since only refusals need it.
        from tailbit.index.sql.syntax.hints import stopped

        place = self.position if token is None else self.tokens.index(token)
        reason, start, hint = stopped(self.text, self.tokens, place)
        refuse(self.text, f"{reason} (PARSE_SYNTAX_ERROR in Spark)", start, hint)

    def listed(self) -> tuple[Tree, ...]:
        """Take conditions in parentheses, one at least."""
        self.needs_sign("(")
        items = [self.condition()]
        while self.takes_sign(","):
            items.append(self.condition())
        self.needs_sign(")")
        return tuple(items)

    def begins_query(self, index: int) -> bool:
        """Return whether a query begins at a token."""
        token, ahead = self.tokens[index], self.tokens[min(index + 1, len(self.tokens) - 1)]
        return (
            token.kind == "word"
            and token.text in _QUERIES
            and not ends_a_value(self.tokens, index + 1)
            and (ahead.kind != "sign" or ahead.text == "*")
        )

    def whole(self) -> Tree:
        """Return the tree of a text that is one condition."""
        if self.token.kind == "end":
            refuse(self.text, "it is empty")
        tree = self.condition()
        if self.token.kind != "end":
            self.stop()
        return tree

    def condition(self) -> Tree:
        """Take conditions joined by OR, which binds less tightly than AND."""
        return self._chain("OR", self._conjunction)

    def _conjunction(self) -> Tree:
        return self._chain("AND", self._negation)

    def _chain(self, word: str, operand: Callable[[], Tree]) -> Tree:
        operands = [operand()]
        while self.takes_word(word):
            operands.append(operand())
        if len(operands) == 1:
            return operands[0]
        return Tree(word.lower(), operands[0].start, self.last_end, items=tuple(operands))

    def _negation(self) -> Tree:
        start = self.token.start
        if not self.takes_sign("!"):
            if self.word != "NOT" or self._not_is_a_column():
                return self._predicate(self.value())
            self.advance()
        inner = self._negation()
        return Tree("not", start, self.last_end, inner)

    def _not_is_a_column(self) -> bool:
        """Return whether NOT, the current token, is the name of a column: `NOT = 1`, `NOT IS NULL`."""
        ahead = self.tokens[self.position + 1]
        is_operator = ahead.kind == "sign" and (ahead.text in COMPARISONS or ahead.text in BEHIND_A_VALUE)
        return is_operator or is_asked_for(self.tokens, self.position + 1)

    def value(self, least: int = 1) -> Tree:
        """Take operators that bind as tightly as `least` or more, and their operands."""
        first = self._signed()
        while (binding := _BINDING.get(operator := self._operator(), 0)) >= least:
            for _ in range(len(operator) if operator in (">>", "<<", ">>>") else 1):
                self.advance()
            second = self.value(binding + 1)
            kind = "compare" if operator in COMPARISONS else "arithmetic"
            first = Tree(kind, first.start, self.last_end, first, second, text=operator)
        return first

    def _operator(self) -> str:
        """Return the operator at the current token; adjacent signs `< <` form a shift, as in Spark."""
        if self.token.kind == "word":
            return self.token.text
        if self.token.kind != "sign":
            return ""
        for shift in (">>>", "<<", ">>"):
            if self.text.startswith(shift, self.token.start):
                return shift
        return self.token.text

    def _signed(self) -> Tree:
        """Take a primary with the signs before it; a minus sign before a number is part of the number."""
        start = self.token.start
        sign = self.token.text if self.token.kind == "sign" else ""
        if sign not in ("-", "+", "~"):
            return self.primary()
        if self.tokens[self.position + 1].kind == "number" and sign == "-":
            return self.primary()
        self.advance()
        if sign == "+":
            if self.token.kind != "number":
                refuse(self.text, "a plus sign in front of something that is not a number", start)
            return self.primary(plus=True)
        inner = self._signed()
        return Tree("negative" if sign == "-" else "invert", start, self.last_end, inner)

    def _predicate(self, value: Tree) -> Tree:
        """Take the predicate after a value, such as IN (...), if there is one."""
        start = value.start
        if self.takes_word("IS"):
            return self._is(value)
        negated = self._negated()
        if self.takes_word("BETWEEN"):
            if self.word in ("SYMMETRIC", "ASYMMETRIC") and not ends_a_value(self.tokens, self.position + 1):
                self.stop()
            low = self.value()
            self.needs_word("AND")
            high = self.value()
            return Tree("between", start, self.last_end, value, items=(low, high), negated=negated)
        if self.takes_word("IN"):
            return self._in(value, negated)
        if self.word in LIKE:
            return self._like(value, negated)
        if negated:
            self.stop(self.tokens[self.position - 1])
        return value

    def _negated(self) -> bool:
        if self.token.text == "!" and self.token.kind == "sign":
            reason = "! is no NOT behind a value (SYNTAX_DISCONTINUED.BANG_EQUALS_NOT in Spark)"
            refuse(self.text, reason, self.token.start, "Write NOT IN, NOT LIKE, or <> for unequal.")
        return self.takes_word("NOT")

    def _is(self, value: Tree) -> Tree:
        negated = self._negated()
        if self.takes_word("DISTINCT"):
            self.needs_word("FROM")
            other = self.value()
            same = Tree("compare", value.start, self.last_end, value, other, text="<=>")
            return same if negated else Tree("not", value.start, self.last_end, same)
        if self.word not in _TRUTHS:
            self.stop()
        return Tree("is", value.start, self.token.end, value, text=self.advance().text, negated=negated)

    def _in(self, value: Tree, negated: bool) -> Tree:
        if not self.is_sign("("):
            # Imported here, since only refusals need it.
            from tailbit.index.sql.syntax.hints import listed_instead

            start, reason = self.token.start, "IN takes a list of values in parentheses"
            refuse(self.text, reason, start, listed_instead(self.text, start))
        if self.begins_query(self.position + 1):
            refuse(self.text, "IN takes a list of values, not a query", self.token.start, OTHER_TABLE)
        return Tree("in", value.start, self.last_end, value, items=self._values(), negated=negated)

    def _values(self) -> Listed:
        """Take values in parentheses, one at least; those that are alike without the grammar."""
        self.needs_sign("(")
        listed = Listed(lambda start: Parser(self.text, self.tokens, start).condition())
        while True:
            count = listed.takes(self.tokens, self.position)
            if count:
                self.position += count
            else:
                begin = self.position
                listed.add(self.condition(), self.tokens[begin : self.position])
            if not self.takes_sign(","):
                break
        self.needs_sign(")")
        return listed

    def _like(self, value: Tree, negated: bool) -> Tree:
        name = LIKE[self.advance().text]
        if name != "RLIKE" and self.word in _QUANTIFIERS:
            quantifier = "ALL" if self.advance().text == "ALL" else "ANY"
            patterns = self.listed()
            return Tree(
                "like", value.start, self.last_end, value, items=patterns, text=name,
                negated=negated, quantifier=quantifier,
            )  # fmt: skip
        pattern, escape = self.value(), None
        if name != "RLIKE" and self.takes_word("ESCAPE"):
            if self.token.kind != "string":
                self.stop()
            escape = self.constant()
        return Tree(
            "like", value.start, self.last_end, value, pattern, text=name, negated=negated, escape=escape
        )

    def primary(self, plus: bool = False) -> Tree:
        """Take a value without operators, and the casts, indexes and fields behind it."""
        base = self._base(plus)
        while True:
            if self.takes_sign("::"):
                type_ = self._type()
                base = Tree("cast", base.start, self.last_end, base, type_, text="::")
            elif self.takes_sign("["):
                index = self.value()
                self.needs_sign("]")
                base = Tree("element", base.start, self.last_end, base, index)
            elif self.takes_sign("."):
                names = (self._field(),)
                if base.kind in ("column", "field"):
                    base = base._replace(end=self.last_end, names=base.names + names)
                else:
                    base = Tree("field", base.start, self.last_end, base, names=names)
            elif self.word == "COLLATE":
                refuse(
                    self.text,
                    "COLLATE is not read",
                    self.token.start,
                    "Write lower(x) = 'a', or x ILIKE 'a'.",
                )
            else:
                return base

    def _base(self, plus: bool) -> Tree:
        token = self.token
        if token.kind in ("number", "string") or self.is_sign("-"):
            return self.constant(plus)
        if token.kind == "name":
            return self._name()
        if token.kind == "word":
            return self._word()
        if self.is_sign("("):
            return self._parenthesis()
        if self.is_sign("*"):
            self._refuse_star()
        self.stop()

    def _refuse_star(self) -> NoReturn:
        from tailbit.index.sql.syntax.hints import COUNTING

        counts = [token.text for token in self.tokens[max(0, self.position - 2) : self.position]] == [
            "COUNT",
            "(",
        ]
        hint = COUNTING if counts else "Name a column."
        if self.position and self.text[self.token.start - 1] == "*":
            refuse(self.text, "** is no operator here", self.token.start - 1, "Write n * n for n ** 2.")
        refuse(self.text, "* is not a value", self.token.start, hint)

    def constant(self, plus: bool = False) -> Tree:
        """Take a number with its sign, or a run of strings, which Spark joins."""
        start = self.token.start
        negative = self.takes_sign("-")
        first = self.advance()
        if first.kind == "number":
            constant = WrittenConstant("number", first.text, negative, plus)
            return Tree("constant", start, self.last_end, constant=constant)
        texts = [first.text]
        while self.token.kind == "string":
            texts.append(self.advance().text)
        return Tree("constant", start, self.last_end, constant=WrittenConstant("string", "".join(texts)))

    def _name(self) -> Tree:
        """Take the name of a column, the argument of a lambda, or a function in backticks."""
        start, text = self.token.start, self._field()
        if self.is_sign("("):
            return self._call(start, text)
        if self.takes_sign("->"):
            body = self.condition()
            return Tree("lambda", start, self.last_end, body, names=(text,))
        return Tree("column", start, self.last_end, names=(text,))

    def _field(self) -> str:
        """Take a name: any word, or one in backticks."""
        token = self.token
        if token.kind not in ("word", "name"):
            self.stop()
        self.advance()
        return self.text[token.start : token.end] if token.kind == "word" else token.text

    def _word(self) -> Tree:
        token, ahead = self.token, self.tokens[self.position + 1]
        if token.text in CONSTANTS:
            self.advance()
            return Tree(CONSTANTS[token.text], token.start, token.end)
        if ahead.kind == "string" and token.text not in ("INTERVAL", "CASE"):
            return self._typed()
        if token.text == "INTERVAL":
            return self._interval()
        if token.text == "CASE" and (
            ahead.text == "WHEN" or not ends_a_value(self.tokens, self.position + 1)
        ):
            return self._case()
        if ahead.kind == "sign" and ahead.text == "(":
            return self._called()
        if token.text in NO_FUNCTIONS and not ends_a_value(self.tokens, self.position + 1):
            self.stop()
        return self._name()

    def _interval(self) -> Tree:
        match = interval_at(self.text, self.tokens, self.position)
        if match is None:
            return self._name()
        start, (text, count) = self.token.start, match
        for _ in range(count):
            self.advance()
        return Tree("constant", start, self.last_end, constant=WrittenConstant("interval", text))

    def _typed(self) -> Tree:
        """Take a type and the string behind it, as in DATE'2026-01-31' and X'1F'."""
        token = self.advance()
        value = self.constant()
        assert value.constant is not None
        if token.text == "X":
            constant = WrittenConstant("hex", f"X'{value.constant.text}'")
            return Tree("constant", token.start, self.last_end, constant=constant)
        if token.text not in TYPED:
            hint = "Write only the quotes, as in 'UA'; of another type CAST('1' AS INT)."
            refuse(self.text, f"{token.text} before a constant is not read", token.start, hint)
        type_ = Tree("type", token.start, token.end, text=token.text)
        return Tree("cast", token.start, self.last_end, value, type_, text=token.text)

    def _parenthesis(self) -> Tree:
        start = self.advance().start
        if self.begins_query(self.position):
            refuse(self.text, "a query in parentheses is not read", start, "Ask the other table first.")
        items = [self.condition()]
        while self.takes_sign(","):
            items.append(self.condition())
        self.needs_sign(")")
        named = all(item.kind == "column" and len(item.names) == 1 for item in items)
        if len(items) > 1 and named and self.is_sign("->"):
            self.advance()
            body = self.condition()
            return Tree("lambda", start, self.last_end, body, names=tuple(item.names[0] for item in items))
        if len(items) > 1:
            return Tree("tuple", start, self.last_end, items=tuple(items))
        return Tree("parenthesis", start, self.last_end, items[0])

    def _case(self) -> Tree:
        start = self.advance().start
        operand = None if self.word == "WHEN" else self.condition()
        branches: list[Tree] = []
        while self.takes_word("WHEN"):
            branches.append(self.condition())
            self.needs_word("THEN")
            branches.append(self.condition())
        if not branches:
            self.stop()
        other = self.condition() if self.takes_word("ELSE") else None
        self.needs_word("END")
        return Tree("case", start, self.last_end, operand, other, items=tuple(branches))

    def _called(self) -> Tree:
        """Take a word and the parentheses behind it."""
        word = self.word
        if word in ("CAST", "TRY_CAST"):
            return self._cast()
        if word == "EXTRACT":
            return self._extract()
        if word == "TRIM" and self._holds_from():
            return self._trim()
        if word == "EXISTS" and self.begins_query(self.position + 2):
            refuse(self.text, "EXISTS of a query is not read", self.token.start, OTHER_TABLE)
        if word in NO_FUNCTIONS and word not in LIKE:
            self.stop()
        start, name = self.token.start, self._field()
        return self._call(start, name)

    def _call(self, start: int, name: str) -> Tree:
        before = self.position
        self.advance()
        items: tuple[Tree, ...] | None = None
        if name.upper() in _WORDS_BETWEEN:
            items = self._parted_by_words(_WORDS_BETWEEN[name.upper()])
        if items is None:
            self.position = before
            items = () if self._takes_nothing() else self.listed()
        if name.lower() in LIKE_FUNCTIONS:
            return self._like_of(start, name.lower(), items)
        return Tree("call", start, self.last_end, text=name, items=items)

    def _like_of(self, start: int, name: str, items: tuple[Tree, ...]) -> Tree:
        """Return the operator node equal to a pattern function: `rlike(s, 'a')` is `s RLIKE 'a'`."""
        operator = LIKE_FUNCTIONS[name]
        if len(items) not in ((2,) if operator == "RLIKE" else (2, 3)):
            refuse(self.text, f"{name} takes 2 arguments, not {len(items)} (WRONG_NUM_ARGS in Spark)", start)
        escape = items[2] if len(items) > 2 else None
        return Tree("like", start, self.last_end, items[0], items[1], text=operator, escape=escape)

    def _takes_nothing(self) -> bool:
        """Take empty parentheses if they come next; return whether they did."""
        ahead = self.tokens[self.position + 1]
        return ahead.kind == "sign" and ahead.text == ")" and bool(self.advance() and self.advance())

    def _parted_by_words(self, words: tuple[str, ...]) -> tuple[Tree, ...] | None:
        """Take arguments with words between them: `substring(s FROM 1 FOR 2)`; None without such words."""
        if self.is_sign(")"):
            return None
        items, worded = [self.value()], False
        for word in words:
            by_word = self.takes_word(word)
            if not by_word and not self.takes_sign(","):
                break
            worded = worded or by_word
            items.append(self.value())
        if not worded:
            return None
        self.needs_sign(")")
        return tuple(items)

    def _cast(self) -> Tree:
        word = self.advance()
        self.advance()
        operand = self.condition()
        self.needs_word("AS")
        type_ = self._type()
        if self.token.kind == "word":
            refuse(
                self.text,
                f"a cast to {type_.text} {self.word} is not read",
                type_.start,
                cast_instead(type_.text),
            )
        self.needs_sign(")")
        return Tree("cast", word.start, self.last_end, operand, type_, text=word.text)

    def _type(self) -> Tree:
        start = self.token.start
        items: list[Tree] = []
        if self.token.kind not in ("word", "name"):
            self.stop()
        name = self._field().upper()
        if self.takes_sign("("):
            while self.token.kind == "number" and len(items) < _SIZES:
                items.append(self.constant())
                if len(items) == _SIZES or not self.takes_sign(","):
                    break
            self.needs_sign(")")
        return Tree("type", start, self.last_end, text=name, items=tuple(items))

    def _extract(self) -> Tree:
        start = self.advance().start
        self.advance()
        field = self._field()
        self.needs_word("FROM")
        source = self.value()
        self.needs_sign(")")
        return Tree("extract", start, self.last_end, source, text=field)

    def _holds_from(self) -> bool:
        """Return whether FROM stands directly in the parentheses after the current word."""
        depth = 0
        for token in self.tokens[self.position + 1 :]:
            if token.kind == "sign":
                depth += (token.text == "(") - (token.text == ")")
            if depth == 0 or (depth == 1 and token.kind == "word" and token.text == "FROM"):
                return depth == 1
        return False

    def _trim(self) -> Tree:
        start = self.advance().start
        self.advance()
        side = self.advance().text if self.word in ENDS else "BOTH"
        characters = None if self.word == "FROM" else self.value()
        self.needs_word("FROM")
        source = self.value()
        self.needs_sign(")")
        return Tree("trim", start, self.last_end, source, characters, text=side)


def interval_at(text: str, tokens: Sequence[Token], index: int) -> tuple[str, int] | None:
    """Return the text of the interval at a word INTERVAL and how many tokens it takes; None for a column.

    INTERVAL '1' DAY -2 HOURS       "1 DAY -2 HOURS", 6
    INTERVAL '1 day 2 hours'        "1 day 2 hours", 2
    interval - 1                    None: a column beside an operator
    """
    units: list[str] = []
    place = index + 1
    while (unit := _part_at(tokens, place)) is not None:
        written, place = unit
        units.append(written)
    if not units and tokens[place].kind == "string":
        units, place = [tokens[place].text], place + 1
    elif not units and (ends_a_value(tokens, place) or tokens[place].kind == "sign"):
        return None
    goes_on = tokens[place].kind in ("string", "number") or tokens[place].text == "TO"
    if not units or goes_on:
        refuse(text, "such an INTERVAL is not read", tokens[index].start, INSTEAD["INTERVAL"])
    return " ".join(units), place - index


def _part_at(tokens: Sequence[Token], index: int) -> tuple[str, int] | None:
    """Return a number with its unit as text, and the index of the next token; None if there is none."""
    signed = tokens[index].kind == "sign" and tokens[index].text in ("-", "+")
    sign, index = (tokens[index].text, index + 1) if signed else ("", index)
    if tokens[index].kind not in ("number", "string"):
        return None
    unit = tokens[index + 1]
    if unit.kind != "word" or unit.text not in datetimes.UNITS:
        return None
    return f"{sign}{tokens[index].text} {unit.text}", index + 2


FLATTEN = "Flatten it: AND and OR take any number of conditions, IN any list."
