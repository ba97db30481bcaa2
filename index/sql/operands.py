"""Operands of a predicate: columns and constants, out of the parsed tree."""

from __future__ import annotations

from typing import Any, NoReturn

from tailbit.index.model import key_type_of_column
from tailbit.index.sql import literals
from tailbit.index.sql.casts import cast
from tailbit.index.sql.literals import WHOLE, Literal
from tailbit.index.sql.text import ParsedPredicate, WrittenConstant, refuse
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
_TYPED = ("date", "timestamp", "timestamp_ntz")
_PREFIXES = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ")
_LONGEST = max(map(len, _PREFIXES))
_SHOWN = 40


class OperandReader:
    """Turns leaves of one parsed predicate into columns and typed constants."""

    def __init__(self, parsed: ParsedPredicate, schema: Schema, zone: str) -> None:
        self.parsed = parsed
        self.schema = schema
        self.zone = zone

    def refuse(self, reason: str, at: Tree | None = None, hint: str | None = None) -> NoReturn:
        """Raise a PredicateError at the place of an expression."""
        refuse(self.parsed.text, reason, None if at is None else self.place(at), hint)

    def place(self, node: Tree) -> int | None:
        """Where an expression begins in the text: the first place that a part of it has; None without one."""
        known = []
        for part in node.walk():
            if type(part).__name__ == "Literal" and (constant := self.constant(part)):
                known.append(constant.at)
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
        if name == "Neg":
            return self._negative(node)
        if name in ("Cast", "TryCast"):
            return self._cast(node)
        self._unknown(node)

    def show(self, node: Tree) -> str:
        """A constant as text, for people; long ones are cut."""
        name = type(node).__name__
        constant = self.constant(node)
        if constant is not None:
            quoted = constant.text.replace("'", "''")
            text = f"'{quoted}'" if constant.kind == "string" else constant.text
            return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 4]}...'"
        if name == "Paren":
            return self.show(node.this)
        if name == "Neg":
            return f"-{self.show(node.this)}"
        if name in ("Cast", "TryCast"):
            return f"{self.type_of(node.args['to'])} {self.show(node.this)}"
        return str(node.this).upper() if name == "Boolean" else "NULL"

    def comparable(self, column: Column) -> Column:
        """The column, if its values can be compared.

        Raises:
            ColumnTypeError: they cannot.
        """
        key_type_of_column(column, reason="it can only be asked for IS [NOT] NULL")
        return column

    def _unknown(self, node: Tree) -> NoReturn:
        name = type(node).__name__
        shown = node.name if name == "Anonymous" else node.key.upper()
        self.refuse(f"{shown} is not read as part of a comparison", node)

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
            if constant.kind == "hex":
                return Literal(literals.BINARY, literals.hexadecimal(constant.text), True)
            found = literals.number(constant.text, negative)
        except ValueError as wrong:
            self.refuse(str(wrong), node)
        return Literal(found.type, found.value) if constant.plus else found

    def _negative(self, node: Tree) -> Literal:
        constant = self.constant(node.this)
        if constant is not None and constant.kind == "number" and not constant.plus:
            return self._literal(node.this, negative=True)
        found = self.read(node.this)
        if isinstance(found, Column) or found.type.name in ("string", "binary", "boolean", *_TYPED):
            self.refuse("a sign in front of something that is not a number", node)
        if found.value is None:
            return found
        assert isinstance(found.value, (int, float))
        value = -found.value + 0.0 if isinstance(found.value, float) else -found.value
        if found.type.name in WHOLE and value > WHOLE[found.type.name][1]:
            self.refuse(f"{value} is out of the range of {found.type}", node)
        return Literal(found.type, value)

    def _cast(self, node: Tree) -> Operand:
        if node.args.get("safe"):
            self.refuse("TRY_CAST is not read", node, "Write CAST, or NULL where the value does not fit.")
        to = self.type_of(node.args["to"])
        found = self.read(node.this)
        if isinstance(found, Column):
            if found.type == to:
                return found
            hint = "Compare the column itself, and cast the constant."
            self.refuse(f"CAST of a column to {to} is not read", node, hint)
        if type(node).__name__ == "Cast" and not self._is_typed_literal(node):
            self.refuse(f"{to} as a function or prefix is not read", node, "Write CAST(... AS ...).")
        try:
            return cast(found, to, self.zone)
        except (ValueError, OverflowError) as wrong:
            self.refuse(str(wrong), node)

    def _is_typed_literal(self, node: Tree) -> bool:
        """Whether a constant stands right behind the name of its type."""
        constant = self.constant(node.this)
        return constant is not None and word_before(self.parsed.text, constant.at).upper() in _PREFIXES

    def type_of(self, node: Tree) -> DataType:
        """The type that a cast names."""
        name = node.this.name if hasattr(node.this, "name") else str(node.this)
        sizes = [self.constant(size.this) for size in node.expressions]
        if name == "DECIMAL":
            digits = [int(c.text) for c in sizes if c is not None and c.text.isdigit()]
            precision, scale = ([*digits, 0] if len(digits) == 1 else digits or [10, 0])[:2]
            if 0 <= scale <= precision <= literals.MAX_DIGITS and precision:
                return literals.decimal_type(precision, scale)
        elif name in _TYPES and not sizes:
            return DataType(_TYPES[name])
        self.refuse(f"a cast to {name} is not read", node)


def word_before(text: str, end: int) -> str:
    """The word that ends before a place, blanks between them left out; cost: that of the blanks."""
    while end and text[end - 1].isspace():
        end -= 1
    start = end
    while start and end - start <= _LONGEST and (text[start - 1].isalnum() or text[start - 1] in "_`."):
        start -= 1
    return text[start:end]
