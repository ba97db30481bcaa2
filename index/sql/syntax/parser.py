"""Parser of conditions by Spark's grammar: AND, OR and NOT, predicates such as IN and LIKE, and operators.

    condition:   NOT* value predicate?, and such conditions joined by AND and OR
    value:       sign* primary, and such values joined by arithmetic and comparisons
    predicate:   NOT? BETWEEN value AND value | NOT? IN (conditions) | NOT? RLIKE value
                 | NOT? LIKE (ANY | SOME | ALL) (conditions) | NOT? LIKE value (ESCAPE text)?
                 | IS NOT? (NULL | TRUE | FALSE | UNKNOWN) | IS NOT? DISTINCT FROM value

A value has one predicate at most, unless parentheses make it a value again.

    a = 1 + 2 * 3 IS NULL        the predicate IS NULL of the comparison a = (1 + (2 * 3))

Source: Spark 4.2, SqlBaseParser.g4, of which only what is read is written here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from tailbit.index.sql.refusals import OTHER_TABLE, refuse
from tailbit.index.sql.syntax.primary import PrimaryParser
from tailbit.index.sql.syntax.tokens import (
    BEHIND_A_VALUE,
    COMPARISONS,
    LIKE,
    ends_a_value,
    is_asked_for,
    tokens_of,
)
from tailbit.index.sql.syntax.tree import Listed, Tree

FLATTEN = "Flatten it: AND and OR take any number of conditions, IN any list."

_BINDING = {
    **dict.fromkeys(COMPARISONS, 1),
    "|": 2, "^": 3, "&": 4, "<<": 5, ">>": 5, ">>>": 5,
    "+": 6, "-": 6, "||": 6, "*": 7, "/": 7, "%": 7, "DIV": 7,
}  # fmt: skip
"""How tightly an operator binds its operands; all of them join to the left."""
_QUANTIFIERS = ("ANY", "SOME", "ALL")
_TRUTHS = ("NULL", "TRUE", "FALSE", "UNKNOWN")


@lru_cache(maxsize=512)
def parse_predicate(text: str) -> Tree:
    """Return the tree of a predicate in Spark's SQL."""
    try:
        return Parser(text, tokens_of(text)).whole()
    except RecursionError:
        refuse(text, "it is nested too deeply", hint=FLATTEN)


class Parser(PrimaryParser):
    """A recursive descent parser over the tokens of one text; each method consumes what its name says."""

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
