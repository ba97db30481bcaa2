"""Where a predicate leaves Spark's grammar: sqlglot reads more than Spark does, and this asks the tokens.

    condition: NOT* value predicate?, and such conditions joined by AND and OR
    value:     sign* primary, and such values joined by arithmetic and comparisons
    predicate: NOT? BETWEEN value AND value | NOT? IN (conditions) | NOT? RLIKE value
               | NOT? LIKE (ANY | SOME | ALL) (conditions) | NOT? LIKE value (ESCAPE text)?
               | IS NOT? (NULL | TRUE | FALSE | UNKNOWN) | IS NOT? DISTINCT FROM value

A value has one predicate at most, and is none unless parentheses make it one. How tightly operators bind is
not judged here. Source: Spark's SqlBaseParser.g4, of which only what is read is written here.
"""

from __future__ import annotations

from typing import Any

from tailbit.index.sql.words import ARITHMETIC, COMPARED, ENDS, LIKE, NO_FUNCTIONS, SIGNS, TYPED, VALUES

_OPERATORS = COMPARED | ARITHMETIC
_TIGHTER = LIKE | frozenset("LT LTE GT GTE NOT IN BETWEEN".split())
"""What sqlglot binds more tightly than <=>, in parentheses of its own, and Spark does not."""
_CONSTANTS = frozenset("NUMBER STRING HEX_STRING".split())
_WORDS = NO_FUNCTIONS - frozenset("EXTRACT CAST TRY_CAST LIKE ILIKE RLIKE REGEXP".split())
NEVER_AGAIN = frozenset("NOT IS IN BETWEEN ISNULL NOTNULL COMMA R_PAREN EQ NEQ".split()) | LIKE
"""Tokens that Spark does not parse where this leaves its grammar; others may begin what is only not read."""


class _Left(Exception):
    """The grammar is left at the token at hand."""


def fault_of(tokens: list[Any]) -> int | None:
    """The number of the first token outside of the grammar, or of all where one is missing; None: none is."""
    walk = _Walk(tokens)
    try:
        walk.condition()
    except _Left:
        return walk.at
    return None if walk.at == len(tokens) else walk.at


class _Walk:
    """One walk over the tokens; every method takes what it is named for or leaves the grammar."""

    def __init__(self, tokens: list[Any]) -> None:
        self.kinds = [token.token_type.name for token in tokens]
        self.texts = [token.text for token in tokens]
        self.at = 0

    def condition(self) -> None:
        """Conditions joined by AND and OR."""
        while True:
            while self._takes("NOT"):
                pass
            self._value()
            self._predicate()
            if not self._takes("AND", "OR"):
                return

    def _kind(self) -> str:
        return self.kinds[self.at] if self.at < len(self.kinds) else ""

    def _word(self) -> str:
        """The word at hand in capitals; nothing for names in backticks and constants."""
        plain = self.at < len(self.kinds) and self._kind() not in (*_CONSTANTS, "IDENTIFIER")
        return self.texts[self.at].upper() if plain else ""

    def _takes(self, *kinds: str) -> bool:
        found = self._kind() in kinds
        self.at += found
        return found

    def _says(self, *words: str) -> bool:
        found = self._word() in words
        self.at += found
        return found

    def _needs(self, found: bool) -> None:
        if not found:
            raise _Left

    def _value(self) -> None:
        safe = None
        while True:
            while self._takes(*SIGNS):
                pass
            self._primary()
            kind = self._kind()
            if safe is not None and kind in _TIGHTER:
                self.at = safe
                raise _Left
            if kind not in _OPERATORS:
                return
            safe = self.at if kind == "NULLSAFE_EQ" else safe
            self.at += 1

    def _predicate(self) -> None:
        if self._takes("IS"):
            self._negated()
            if self._takes("DISTINCT"):
                self._needs(self._takes("FROM"))
                self._value()
            else:
                self._needs(self._says("NULL", "TRUE", "FALSE", "UNKNOWN"))
            return
        negated = self._negated()
        if self._takes("BETWEEN"):
            self._value()
            self._needs(self._takes("AND"))
            self._value()
        elif self._takes("IN"):
            self._listed()
        elif self._kind() in LIKE:
            self._like()
        elif negated:
            self.at -= 1
            raise _Left

    def _negated(self) -> bool:
        """Whether NOT stands here, for which Spark takes no ! between a value and its predicate."""
        self._needs(self._kind() != "NOT" or self._word() == "NOT")
        return self._takes("NOT")

    def _like(self) -> None:
        plain = self._kind() != "RLIKE"
        self.at += 1
        if plain and self._says("ANY", "SOME", "ALL"):
            self._listed()
            return
        self._value()
        if plain and self._takes("ESCAPE"):
            self._needs(self._takes("STRING"))

    def _listed(self) -> None:
        """Conditions in parentheses, one at least."""
        self._needs(self._takes("L_PAREN"))
        self.condition()
        while self._takes("COMMA"):
            self.condition()
        self._needs(self._takes("R_PAREN"))

    def _primary(self) -> None:
        if self._kind() == "L_PAREN":
            self._listed()
        elif self._takes(*_CONSTANTS) or self._says(*VALUES):
            pass
        elif self._word() in TYPED and self.kinds[self.at + 1 : self.at + 2] == ["STRING"]:
            self.at += 2
        elif self._says("CASE"):
            self._case()
        elif self._is_called("CAST", "TRY_CAST"):
            self._cast()
        elif self._is_called("EXTRACT"):
            self._extract()
        elif self._is_called("TRIM"):
            self._trim()
        else:
            self._name()
        while self._kind() in ("DOT", "DCOLON", "L_BRACKET"):
            if self._takes("DOT"):
                self._name()
            elif self._takes("L_BRACKET"):
                self._value()
                self._needs(self._takes("R_BRACKET"))
            else:
                self.at += 1
                self._type()

    def _is_called(self, *words: str) -> bool:
        if self.kinds[self.at + 1 : self.at + 2] != ["L_PAREN"] or not self._says(*words):
            return False
        self.at += 1
        return True

    def _case(self) -> None:
        if self._word() != "WHEN":
            self.condition()
        self._needs(self._word() == "WHEN")
        while self._says("WHEN"):
            self.condition()
            self._needs(self._says("THEN"))
            self.condition()
        if self._says("ELSE"):
            self.condition()
        self._needs(self._says("END"))

    def _cast(self) -> None:
        self.condition()
        self._needs(self._takes("ALIAS"))
        self._type()
        self._needs(self._takes("R_PAREN"))

    def _type(self) -> None:
        self._name(called=False)
        if self._takes("L_PAREN"):
            self._needs(self._takes("NUMBER"))
            if self._takes("COMMA"):
                self._needs(self._takes("NUMBER"))
            self._needs(self._takes("R_PAREN"))

    def _extract(self) -> None:
        self._name(called=False)
        self._needs(self._takes("FROM"))
        self._value()
        self._needs(self._takes("R_PAREN"))

    def _trim(self) -> None:
        self._says(*ENDS)
        if not self._takes("FROM"):
            self._value()
            self._needs(self._takes("FROM"))
        self._value()
        self._needs(self._takes("R_PAREN"))

    def _name(self, called: bool = True) -> None:
        """A column, field or type, or a function and its arguments."""
        word = self._word()
        if self._kind() != "IDENTIFIER" and (not word.isidentifier() or word in _WORDS):
            raise _Left
        self.at += 1
        if called and self._takes("L_PAREN") and not self._takes("R_PAREN"):
            self.at -= 1
            self._listed()
