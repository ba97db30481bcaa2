"""The text of a Column of pyspark: its tree in Spark's JVM, written as SQL; pyspark itself is not imported.

Spark's own text of an unresolved Column is no SQL: `>(i, 0)`.
"""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from tailbit.arguments.constants import constant_text
from tailbit.errors import UsageError
from tailbit.tables.date_text import date_texts

_INFIX = {
    "=": "=", "==": "=", "!=": "<>", "<>": "<>", "<=>": "<=>", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
    "and": "AND", "or": "OR", "&&": "AND", "||": "OR", "+": "+", "-": "-", "*": "*", "/": "/", "%": "%",
    "like": "LIKE", "ilike": "ILIKE", "rlike": "RLIKE", "div": "div",
}  # fmt: skip
_BEHIND = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}
_CONVERTER = "org.apache.spark.sql.classic.ColumnNodeToExpressionConverter$"
_SUFFIXES = {"tinyint": "Y", "smallint": "S", "int": "", "bigint": "L", "float": "F", "double": "D"}
_MOMENTS = {
    "date": ("DATE", pa.date32()),
    "timestamp": ("TIMESTAMP", pa.timestamp("us", "UTC")),
    "timestamp_ntz": ("TIMESTAMP_NTZ", pa.timestamp("us")),
}
"""By a type of Spark: the word before its constants, and the type of their numbers."""


def is_spark_column(value: Any) -> bool:
    """Whether a value is a Column of pyspark."""
    return type(value).__name__ == "Column" and type(value).__module__.startswith("pyspark.sql")


def column_text(column: Any) -> str:
    """A Column as SQL text.

    Raises:
        UsageError: a Column of Spark Connect, or one of other things than columns and constants.
    """
    made = getattr(column, "_jc", None)
    if made is None:
        reason = "a Column of Spark Connect has no text here"
        raise UsageError(reason=reason, hint="Give the condition as SQL text.")
    return _text(made.node())


def _text(node: Any) -> str:
    kind = node.getClass().getSimpleName()
    if kind == "Alias":
        return _text(node.child())
    if kind == "Literal":
        return _constant(node)
    if kind == "UnresolvedAttribute":
        return ".".join("`" + part.replace("`", "``") + "`" for part in _all(node.nameParts()))
    if kind == "Cast":
        mode = node.evalMode()
        word = "TRY_CAST" if mode.isDefined() and str(mode.get()) == "TRY" else "CAST"
        return f"{word}({_text(node.child())} AS {node.dataType().sql()})"
    if kind == "CaseWhenOtherwise":
        pairs = " ".join(f"WHEN {_text(b._1())} THEN {_text(b._2())}" for b in _all(node.branches()))
        other = node.otherwise()
        return f"CASE {pairs}{f' ELSE {_text(other.get())}' if other.isDefined() else ''} END"
    if kind == "UnresolvedFunction":
        return _call(str(node.functionName()), [_text(arg) for arg in _all(node.arguments())])
    raise UsageError(reason=f"a Column that holds {kind} is not read", hint="Give the condition as SQL text.")


def _constant(node: Any) -> str:
    """A constant, of the type and value that Spark itself makes of it; its own text of a node tells no types.

    Spark counts days and microseconds of UTC, whatever the session's time zone is.
    """
    converter = node.getClass().getClassLoader().loadClass(_CONVERTER).getField("MODULE$").get(None)
    literal = converter.apply(node)
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
    if lowered in _BEHIND:
        return f"({args[0]} {_BEHIND[lowered]})"
    if lowered in ("not", "!"):
        return f"(NOT {args[0]})"
    if lowered == "in":
        return f"({args[0]} IN ({', '.join(args[1:])}))" if len(args) > 1 else "FALSE"
    return f"{name}({', '.join(args)})"


def _all(items: Any) -> list[Any]:
    """The items of a sequence of Scala."""
    return [items.apply(n) for n in range(items.size())]
