"""The text of a pyspark Column: its expression tree in Spark's JVM, written as SQL.

Spark's own text of an unresolved Column is not SQL: `>(i, 0)`. A column that is bound to a DataFrame is
referred to by name: Spark binds it by a number, and a Column does not say how its DataFrame computed that
column.
"""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from tailbit.arguments.constants import constant_text
from tailbit.errors import UsageError
from tailbit.tables.date_text import date_texts
from tailbit.wording import quoted

_INFIX = {
    "=": "=", "==": "=", "!=": "<>", "<>": "<>", "<=>": "<=>", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
    "and": "AND", "or": "OR", "+": "+", "-": "-", "*": "*", "/": "/", "%": "%",
    "like": "LIKE", "ilike": "ILIKE", "rlike": "RLIKE", "div": "div", "&": "&", "|": "|", "^": "^",
}  # fmt: skip
_BEHIND = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}
_REWRITTEN = {
    "equal_null": "({} <=> {})",
    **dict.fromkeys(("extract", "datepart"), "date_part({}, {})"),
}
"""Spark functions that have no name here, or compare more columns than the function here does."""
_CONVERTER = "org.apache.spark.sql.classic.ColumnNodeToExpressionConverter$"
_SUFFIXES = {"tinyint": "Y", "smallint": "S", "int": "", "bigint": "L", "float": "F", "double": "D"}
_MOMENTS = {
    "date": ("DATE", pa.date32()),
    "timestamp": ("TIMESTAMP", pa.timestamp("us", "UTC")),
    "timestamp_ntz": ("TIMESTAMP_NTZ", pa.timestamp("us")),
}
"""For each Spark type: the keyword of its constants, and the Arrow type of their numbers."""

_ELEMENTS = "Give the condition as SQL text: exists(tags, t -> t = 'a'), items.price, attrs['k']."
_NAMED = "Name each column: F.col('a') > 0."
_ROW = "A condition looks at one row: operators, constants and the functions of docs/functions.md."
_INSTEAD = {
    **dict.fromkeys(("UnresolvedExtractValue", "GetMapValue", "GetArrayItem"), _ELEMENTS),
    **dict.fromkeys(("GetArrayStructFields", "LambdaFunction", "UpdateFields"), _ELEMENTS),
    **dict.fromkeys(("UnresolvedStar", "UnresolvedRegex", "LazyExpression"), _NAMED),
    **dict.fromkeys(("Window", "PythonUDF", "PythonUDAF", "UnresolvedFunction"), _ROW),
    "SqlExpression": "Write the whole name in one: F.expr('a.b').",
    "SortOrder": "An order is given to read, order_by=['a DESC'].",
    "SubqueryExpression": "Ask the other table first, and give its values as a list: isin(1, 2).",
}
"""For each class of Spark node that is not supported: the replacement that the error suggests."""
_ALONE = "Call a function of docs/functions.md by its name alone, as in F.upper."


def is_spark_column(value: Any) -> bool:
    """Return whether a value is a pyspark Column."""
    return type(value).__name__ == "Column" and type(value).__module__.startswith("pyspark.sql")


def column_text(column: Any) -> str:
    """Return a Column as SQL text.

    Raises:
        UsageError: a Column of Spark Connect, or one with a part that has no equivalent here; names the part.
    """
    java_column = getattr(column, "_jc", None)
    if java_column is None:
        reason = "a Column of Spark Connect has no text here"
        raise UsageError(reason=reason, hint="Give the condition as SQL text.")
    try:
        return _Writer().text(java_column.node())
    except RecursionError:
        hint = "Join conditions with | and &, which nest as deep as one likes, and give values to isin."
        raise UsageError(reason="the Column is nested too deeply", hint=hint) from None


class _Writer:
    """The writer of one Column's nodes as SQL, with the DataFrame columns met so far."""

    def __init__(self) -> None:
        self.bound: dict[str, str] = {}

    def text(self, node: Any) -> str:
        """Return a Spark node and its descendants as SQL that stands as one operand."""
        kind = _kind(node)
        if kind == "Alias":
            return self.text(node.child())
        if kind == "Literal":
            return _constant(node)
        if kind == "SqlExpression":
            return _written(node)
        if kind == "Cast":
            mode = node.evalMode()
            word = "TRY_CAST" if mode.isDefined() and _kind(mode.get()) == "Try$" else "CAST"
            return f"{word}({self.text(node.child())} AS {node.dataType().sql()})"
        if kind == "CaseWhenOtherwise":
            pairs = " ".join(
                f"WHEN {self.text(b._1())} THEN {self.text(b._2())}" for b in _all(node.branches())
            )
            other = node.otherwise()
            return f"CASE {pairs}{f' ELSE {self.text(other.get())}' if other.isDefined() else ''} END"
        if kind == "UnresolvedFunction":
            if _is_link(node, ("and", "or")):
                return self._chain(node, str(node.functionName()))
            return _call(str(node.functionName()), [self.text(arg) for arg in _all(node.arguments())])
        if kind == "UnresolvedExtractValue" and not self._is_field(node):
            return f"{self.text(node.child())}[{self.text(node.extraction())}]"
        return quoted(*self.parts(node))

    def parts(self, node: Any) -> tuple[str, ...]:
        """Return the name parts of a column, or of a struct field, however the field is accessed."""
        kind = _kind(node)
        if kind == "UnresolvedAttribute":
            return tuple(map(str, _all(node.nameParts())))
        if kind == "ExpressionColumnNode":
            return self.parts(node.expression())
        if kind == "AttributeReference":
            self._bind(str(node.name()), str(node.exprId()))
            return (str(node.name()),)
        if kind == "Alias":
            return self.parts(node.child())
        if kind == "GetStructField":
            return (*self.parts(node.child()), str(node.extractFieldName()))
        if kind == "UnresolvedExtractValue" and _kind(node.extraction()) == "Literal":
            field = node.extraction().value()
            if isinstance(field, str):
                return (*self.parts(node.child()), field)
        raise _refusal(kind)

    def _is_field(self, node: Any) -> bool:
        """Return whether a node extracts a struct field or a map value by a text key."""
        if _kind(node) != "UnresolvedExtractValue":
            return _kind(node) in (
                "UnresolvedAttribute",
                "ExpressionColumnNode",
                "AttributeReference",
                "Alias",
            )
        is_text = _kind(node.extraction()) == "Literal" and isinstance(node.extraction().value(), str)
        return is_text and self._is_field(node.child())

    def _chain(self, node: Any, name: str) -> str:
        """Return the operands of a chain of AND or of OR, however long, joined without parentheses."""
        operands, rest = [], [node]
        while rest:
            at = rest.pop()
            if _is_link(at, (name,)):
                rest += reversed(_all(at.arguments()))
            else:
                operands.append(self.text(at))
        return f"({f' {name.upper()} '.join(operands)})"

    def _bind(self, name: str, number: str) -> None:
        if self.bound.setdefault(name.lower(), number) != number:
            reason = f"columns {name} of two DataFrames are in one Column, and a column is read by its name"
            raise UsageError(reason=reason, hint=f"Name the table's own as F.col({name!r}).")


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _is_link(node: Any, names: tuple[str, ...]) -> bool:
    if _kind(node) != "UnresolvedFunction" or str(node.functionName()) not in names:
        return False
    return int(node.arguments().size()) == 2


def _refusal(kind: str) -> UsageError:
    hint = _INSTEAD.get(kind, "Give the condition as SQL text.")
    return UsageError(reason=f"a Column that holds {kind} is not read", hint=hint)


def _written(node: Any) -> str:
    """Return the text of F.expr in parentheses; a text that could close them is refused.

    Raises:
        UsageError: Spark does not parse the text alone, or the text gives a name with AS.
    """
    from pyspark.errors import PySparkException

    sql = str(node.expression())
    try:
        parsed = _kind(_expression(node))
    except PySparkException as wrong:
        reason = f"Spark does not parse F.expr({sql!r}) ({wrong.getCondition()})"
        raise UsageError(reason=reason, hint="Give one whole condition or expression.") from wrong
    if parsed in ("Alias", "MultiAlias"):
        raise UsageError(reason=f"F.expr({sql!r}) gives a name with AS", hint="Leave the name out.")
    return f"({sql}\n)" if "--" in sql else f"({sql})"


def _expression(node: Any) -> Any:
    """Return the unresolved expression that Spark makes of a node."""
    converter = node.getClass().getClassLoader().loadClass(_CONVERTER).getField("MODULE$").get(None)
    return converter.apply(node)


def _constant(node: Any) -> str:
    """Return a constant with the type and value that Spark gives it.

    The node's own text does not say the type. Spark counts days and microseconds in UTC, whatever the
    session's time zone is.
    """
    literal = _expression(node)
    kind, value = str(literal.dataType().simpleString()), literal.value()
    if value is None:
        return "NULL" if kind == "void" else f"CAST(NULL AS {kind})"
    if kind in _MOMENTS:
        word, counted = _MOMENTS[kind]
        return f"{word}'{date_texts(pa.array([value], counted))[0]}'"
    if kind in _SUFFIXES:
        return f"{value!r}{_SUFFIXES[kind]}" if math.isfinite(value) else f"CAST('{value}' AS {kind})"
    if kind == "string":
        return constant_text(str(value.toString()))
    if kind.startswith("decimal"):
        return constant_text(value.toJavaBigDecimal())
    if kind in ("boolean", "binary"):
        return constant_text(value)
    hint = "Constants are numbers, texts, bytes, dates, timestamps, truth values and NULL."
    raise UsageError(reason=f"a constant of Spark's type {kind} is not read", hint=hint)


def _call(name: str, args: list[str]) -> str:
    lowered = name.lower()
    if lowered in _INFIX and len(args) == 2:
        return f"({args[0]} {_INFIX[lowered]} {args[1]})"
    if lowered in ("like", "ilike") and len(args) == 3:
        return f"({args[0]} {_INFIX[lowered]} {args[1]} ESCAPE {args[2]})"
    if len(args) == (shape := _REWRITTEN.get(lowered, "")).count("{}") > 0:
        return shape.format(*args)
    if lowered in _BEHIND:
        return f"({args[0]} {_BEHIND[lowered]})"
    if lowered in ("not", "!"):
        return f"(NOT {args[0]})"
    if lowered == "~":
        return f"(~{args[0]})"
    if lowered == "in":
        return f"({args[0]} IN ({', '.join(args[1:])}))" if len(args) > 1 else "FALSE"
    if not name.isidentifier():
        raise UsageError(reason=f"a Column that calls {name} is not read", hint=_ALONE)
    return f"{name}({', '.join(args)})"


def _all(items: Any) -> list[Any]:
    """Return the items of a Scala sequence."""
    return [items.apply(n) for n in range(items.size())]
