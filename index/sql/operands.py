"""Operands of a predicate: columns and constants, out of the parsed tree."""

from __future__ import annotations

from typing import Any, NoReturn

from tailbit.index.model import key_type_of_column
from tailbit.index.sql.refusals import INSTEAD, refuse
from tailbit.index.sql.text import ParsedPredicate
from tailbit.index.sql.tokens import FUNCTION, WrittenConstant
from tailbit.index.sql.words import TYPED
from tailbit.index.sql.written.intervals import Span, span
from tailbit.index.values import literals
from tailbit.index.values.literals import Literal
from tailbit.tables.model import Column, DataType
from tailbit.tables.schema import Schema

Operand = Column | Literal
Tree = Any
"""A node of sqlglot."""

_TYPES = {
    "TINYINT": "byte",
    "SMALLINT": "short",
    "INT": "integer",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "TEXT": "string",
    "BINARY": "binary",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMPTZ": "timestamp",
    "TIMESTAMPLTZ": "timestamp",
    "TIMESTAMPNTZ": "timestamp_ntz",
}
_LONGEST = max(map(len, TYPED))


class OperandReader:
    """Turns leaves of one parsed predicate into columns and typed constants."""

    def __init__(self, parsed: ParsedPredicate, schema: Schema, zone: str) -> None:
        self.parsed = parsed
        self.schema = schema
        self.zone = zone

    def refuse(self, reason: str, at: Tree | None = None, hint: str | None = None) -> NoReturn:
        """Raise a PredicateError at the place of an expression."""
        refuse(self.parsed.text, reason, None if at is None else self.place(at), hint)

    def refuse_at(self, reason: str, at: int, hint: str | None = None) -> NoReturn:
        """Raise a PredicateError at a place of the text."""
        refuse(self.parsed.text, reason, at, hint)

    def place(self, node: Tree) -> int | None:
        """Where an expression begins in the text: the first place that a part of it has; None without one."""
        known = []
        for part in node.walk():
            if type(part).__name__ == "Literal" and (constant := self.constant(part)):
                known.append(constant.at)
            elif type(part).__name__ == "Anonymous" and (called := function_of(part)) is not None:
                known.append(called[0])
            elif (start := part.meta.get("start")) is not None:
                known.append(int(start))
        return min(known, default=None)

    def constant(self, node: Tree) -> WrittenConstant | None:
        """The constant behind a literal of the tree."""
        return self.parsed.constants[int(node.this)] if type(node).__name__ == "Literal" else None

    def read(self, node: Tree) -> Operand:
        """A column or a typed constant.

        Raises:
            PredicateError: neither; names the construct.
            UnknownColumnError: no such column.
        """
        name = type(node).__name__
        if name == "Paren":
            return self.read(node.this)
        if name in ("Column", "Dot"):
            return self.schema.resolve(self._parts(node))
        if name == "Literal":
            return self._literal(node)
        if name == "Null":
            return Literal(literals.VOID, None)
        if name == "Boolean":
            return Literal(literals.BOOLEAN, bool(node.this), True)
        self.unknown(node)

    def comparable(self, column: Column) -> Column:
        """The column, if its values can be compared.

        Raises:
            ColumnTypeError: they cannot.
        """
        key_type_of_column(column, reason="it can only be asked for IS [NOT] NULL")
        return column

    def unknown(self, node: Tree) -> NoReturn:
        """Refuse an expression by its name."""
        self.refuse(f"{node.key.upper()} is not read", node, INSTEAD.get(type(node).__name__))

    def _parts(self, node: Tree) -> tuple[str, ...]:
        if type(node).__name__ == "Dot":
            return (*self._parts(node.this), *self._parts(node.expression))
        parts = node.parts if type(node).__name__ == "Column" else [node]
        if any(type(part).__name__ != "Identifier" for part in parts):
            self.refuse(f"{type(node.this).__name__} is not a column", node)
        return tuple(part.name for part in parts)

    def _literal(self, node: Tree, negative: bool = False) -> Literal:
        constant = self.constant(node)
        assert constant is not None
        try:
            if constant.kind == "string":
                return Literal(literals.STRING, constant.text.encode(), True)
            if constant.kind == "interval":
                self.refuse("INTERVAL is not read here", node, INSTEAD["Interval"])
            if constant.kind == "hex":
                return Literal(literals.BINARY, literals.hexadecimal(constant.text), True)
            found = literals.number(constant.text, negative)
        except ValueError as wrong:
            self.refuse(str(wrong), node)
        return Literal(found.type, found.value) if constant.plus else found

    def negative_number(self, node: Tree) -> Literal | None:
        """The constant of a number behind a minus sign; None where the sign is an operation.

        Raises:
            PredicateError: `-1::INT`, where the sign is part of the number to Spark, but not to sqlglot.
        """
        inner = self.constant(node.this.this) if type(node.this).__name__ == "TryCast" else None
        if inner is not None and self.parsed.text[: inner.at].rstrip().endswith("-"):
            self.refuse("a sign before a number and :: is not read", node, "Write (-1)::INT.")
        constant = self.constant(node.this)
        if constant is not None and constant.kind == "number" and not constant.plus:
            return self._literal(node.this, negative=True)
        return None

    def interval(self, node: Tree) -> Span | None:
        """The constant of type interval that an operand is, in parentheses or not; None for others.

        Raises:
            PredicateError: it is written in a way that is not read.
        """
        constant = self.constant(bare(node))
        if constant is None or constant.kind != "interval":
            return None
        try:
            return span(constant.text)
        except ValueError as wrong:
            self.refuse(str(wrong), node, INSTEAD["Interval"])

    def cast_to(self, node: Tree) -> DataType:
        """The type that a cast gives, which is written as CAST or TRY_CAST, or before a string."""
        to = self.type_of(node.args["to"])
        if type(node).__name__ == "Cast" and not self._is_typed_literal(node):
            self.refuse(f"{to} as a function or prefix is not read", node, "Write CAST(... AS ...).")
        return to

    def _is_typed_literal(self, node: Tree) -> bool:
        """Whether a constant stands right behind the name of its type."""
        constant = self.constant(node.this)
        return constant is not None and word_before(self.parsed.text, constant.at).upper() in TYPED

    def type_of(self, node: Tree) -> DataType:
        """The type that a cast names."""
        name = node.this.name if hasattr(node.this, "name") else str(node.this)
        sizes = [self.constant(size.this) for size in node.expressions]
        if name == "DECIMAL":
            texts = [c.text.lstrip("0") or "0" for c in sizes if c and c.text.isdigit() and not c.plus]
            digits = [int(text) if len(text) <= 2 else literals.MAX_DIGITS + 1 for text in texts]
            precision, scale = ([*digits, 0] if len(digits) == 1 else digits or [10, 0])[:2]
            if len(digits) == len(sizes) and 0 <= scale <= precision <= literals.MAX_DIGITS and precision:
                return literals.decimal_type(precision, scale)
        elif name in _TYPES and not sizes:
            return DataType(_TYPES[name])
        self.refuse(f"a cast to {name} is not read", node)


def bare(node: Tree) -> Tree:
    """An expression without the parentheses around it."""
    while type(node).__name__ == "Paren":
        node = node.this
    return node


def function_of(node: Tree) -> tuple[int, str] | None:
    """The place and name of the function that a call names; None where it names none."""
    text = str(node.this)
    if not text.startswith(FUNCTION):
        return None
    place, _, name = text.removeprefix(FUNCTION).partition("__")
    return int(place), name


def word_before(text: str, end: int) -> str:
    """The word that ends before a place, blanks between them left out; cost: that of the blanks."""
    while end and text[end - 1].isspace():
        end -= 1
    start = end
    while start and end - start <= _LONGEST and (text[start - 1].isalnum() or text[start - 1] in "_`."):
        start -= 1
    return text[start:end]
