"""Operands of a predicate: columns and constants, read from the parsed tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from tailbit.base.errors import ColumnTypeError, UnknownColumnError
from tailbit.base.lazy import lazy
from tailbit.index.model import key_type_of_column
from tailbit.index.sql.refusals import INSTEAD, cast_instead, of_name, placed, refuse
from tailbit.index.sql.syntax.tree import Tree, WrittenConstant, first_of, second_of
from tailbit.index.values import literals
from tailbit.index.values.literals import Literal, NotRead
from tailbit.tables.model import Column, DataType
from tailbit.tables.schema import PRESENCE, Schema, arrow_type

if TYPE_CHECKING:
    from tailbit.index.values import datetimes
else:
    datetimes = lazy("tailbit.index.values.datetimes")

_TYPES = {
    **dict.fromkeys(("TINYINT", "BYTE"), "byte"),
    **dict.fromkeys(("SMALLINT", "SHORT"), "short"),
    **dict.fromkeys(("INT", "INTEGER"), "integer"),
    **dict.fromkeys(("BIGINT", "LONG"), "long"),
    **dict.fromkeys(("FLOAT", "REAL"), "float"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_LTZ"), "timestamp"),
    **{name: name.lower() for name in ("DOUBLE", "STRING", "BINARY", "BOOLEAN", "DATE", "TIMESTAMP_NTZ")},
}
_CALLED = {
    "element": "an element in brackets",
    "tuple": "several values in parentheses",
    "lambda": "a lambda",
    "field": "a field",
}
"""Name of a node in an error, where the node's own text does not serve."""
_ASKED_FOR = {
    "array": "it is asked for by array_contains(a, x), exists(a, x -> x > 1), size(a), a[0] or IS [NOT] NULL",
    "map": "it is asked for by m['k'], size(m) or IS [NOT] NULL",
    "struct": "its fields are asked for, as s.a, or IS [NOT] NULL",
}
_NULL_ALONE = "it can only be asked for IS [NOT] NULL"
"""How a column that does not compare is asked for."""


class _Refusing:
    """Context that turns an error about an expression into a refusal with its place."""

    def __init__(self, operands: OperandReader, expression: Tree, hint: str | None) -> None:
        self.operands, self.expression, self.hint = operands, expression, hint

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, wrong: BaseException | None, trace: object) -> None:
        if isinstance(wrong, (NotRead, ValueError, OverflowError)):
            hint = (wrong.hint if isinstance(wrong, NotRead) else None) or self.hint
            self.operands.refuse(str(wrong), self.expression, hint)


class OperandReader:
    """Converter of the leaves of one parsed predicate: names into columns, and constants into typed ones."""

    def __init__(self, text: str, schema: Schema, zone: str, table: str = "") -> None:
        self.text = text
        self.schema = schema
        self.zone = zone
        self.table = table

    def refuse(self, reason: str, expression: Tree | None = None, hint: str | None = None) -> NoReturn:
        """Raise a PredicateError at the place of an expression."""
        refuse(self.text, reason, None if expression is None else expression.start, hint)

    def refusing(self, expression: Tree, hint: str | None = None) -> _Refusing:
        """Turn errors about an unsupported or invalid expression into a PredicateError with its place."""
        return _Refusing(self, expression, hint)

    def constant(self, node: Tree) -> Literal:
        """Return a typed constant."""
        if node.constant is not None:
            return self._literal(node, node.constant)
        if node.kind == "null":
            return Literal(literals.VOID, None)
        if node.kind in ("true", "false"):
            return Literal(literals.BOOLEAN, node.kind == "true", True)
        self.unknown(node)

    def column(self, node: Tree) -> tuple[Column, tuple[str, ...]]:
        """Return the column of a name, and the parts of the name that lead into its values.

        The table's own name may qualify a column name. A struct with the table's name takes precedence.
        """
        try:
            return self.schema.reach(node.names)
        except UnknownColumnError as unknown:
            if len(node.names) > 1 and node.names[0].lower() == self.table.lower():
                return self.column(node._replace(names=node.names[1:]))
            fields, written = unknown.fields, self.text[node.start : node.end]
            meant = "" if fields["nearest"] else of_name(written)
            hint = f"Columns: {fields['columns']}.{meant}"
            details = {"place": placed(self.text, node.start), "at": node.start, "hint": hint}
            raise UnknownColumnError(**{**fields, **details}) from None

    def comparable(self, column: Column) -> Column:
        """Return the column if its values can be compared."""
        name, fields = column.type.name, {"column": column.label, "type": column.type.sql}
        if name in _ASKED_FOR:
            hint = "Such a value is not compared as a whole: ask for what it holds."
            raise ColumnTypeError(**fields, reason=_ASKED_FOR[name], hint=hint)
        try:
            key_type_of_column(column)
        except ColumnTypeError as wrong:
            hint = f"Write {column.label} IS NULL, or {column.label} IS NOT NULL."
            raise ColumnTypeError(**fields, reason=_NULL_ALONE, hint=hint) from wrong
        return column

    def asked_for_parts(self, column: Column) -> Column:
        """Return the column if it, or a part of its values, can be read."""
        if column.type.name == PRESENCE:
            return column
        if column.type.name in ("array", "map", "struct"):
            arrow_type(column.type, column.label)
            return column
        return self.comparable(column)

    def unknown(self, node: Tree) -> NoReturn:
        """Refuse an expression by its name."""
        name = _CALLED.get(node.kind) or node.text or node.kind
        verb = "are" if node.kind == "tuple" else "is"
        self.refuse(f"{name} {verb} not read", node, INSTEAD.get(name))

    def _literal(self, node: Tree, constant: WrittenConstant) -> Literal:
        with self.refusing(node):
            if constant.kind == "string":
                return Literal(literals.STRING, constant.text.encode(), True)
            if constant.kind == "interval":
                self.refuse("INTERVAL is not read here", node, INSTEAD["INTERVAL"])
            if constant.kind == "hex":
                return Literal(literals.BINARY, literals.hexadecimal(constant.text), True)
            number = literals.number(constant.text, constant.negative)
        return Literal(number.type, number.value) if constant.plus else number

    def interval(self, node: Tree) -> datetimes.Span | None:
        """Return the interval constant of an operand, in parentheses or not; None for other operands."""
        constant = bare(node).constant
        if constant is None or constant.kind != "interval":
            return None
        with self.refusing(node, INSTEAD["INTERVAL"]):
            return datetimes.span(constant.text)

    def cast_to(self, node: Tree) -> DataType:
        """Return the target type of a cast; `node`: of kind cast."""
        type_ = second_of(node)
        sizes = [size.constant for size in type_.items if size.constant is not None]
        if type_.text in ("DECIMAL", "DEC", "NUMERIC"):
            texts = [c.text.lstrip("0") or "0" for c in sizes if c.text.isdigit()]
            digits = [int(text) if len(text) <= 2 else literals.MAX_DIGITS + 1 for text in texts]
            precision, scale = ([*digits, 0] if len(digits) == 1 else digits or [10, 0])[:2]
            if (
                len(digits) == len(sizes) <= 2
                and 0 <= scale <= precision <= literals.MAX_DIGITS
                and precision
            ):
                return literals.decimal_type(precision, scale)
        elif type_.text in _TYPES and not sizes:
            return DataType(_TYPES[type_.text])
        self.refuse(f"a cast to {type_.text} is not read", node, cast_instead(type_.text))


def bare(node: Tree) -> Tree:
    """Strip the parentheses around an expression."""
    while node.kind == "parenthesis":
        node = first_of(node)
    return node
