"""Expressions as SQL text, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailbit.base.lazy import lazy
from tailbit.index.functions.tree import LAMBDAS, Call, Expression, Ref, columns_in
from tailbit.index.values.literals import STRING, WHOLE, Literal
from tailbit.tables.date_text import date_texts

if TYPE_CHECKING:
    from tailbit.index.functions import json_paths
else:
    json_paths = lazy("tailbit.index.functions.json_paths")

_INFIX = frozenset("+ - * / % div & | ^ = <> < <= > >= <=> like rlike and or".split())
_LONGEST = 400


def show(expression: Expression) -> str:
    """Render an expression as SQL text, shortened if it is long. Cost: one visit per distinct call."""
    return _shown(expression, {})


def _shown(e: Expression, texts: dict[int, str]) -> str:
    """Render an expression; shortening the parts first is exact, as only text beyond the limit is cut."""
    if isinstance(e, Ref):
        return e.column.label
    if isinstance(e, Literal):
        return _constant(e)
    if id(e) not in texts:
        text = _written_call(e, [_shown(arg, texts) for arg in e.args])
        texts[id(e)] = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
    return texts[id(e)]


def _written_call(e: Call, args: list[str]) -> str:
    if e.name in _INFIX:
        nested = [f"({a})" if _is_infix(arg) else a for a, arg in zip(args, e.args, strict=True)]
        return f" {e.name.upper()} ".join(nested)
    if e.name in ("cast", "try_cast"):
        return f"{e.name.upper()}({args[0]} AS {e.type.sql})"
    if e.name == "not":
        return f"NOT ({args[0]})"
    if e.name == "is null":
        return f"({args[0]}) IS NULL"
    if e.name == "in":
        return f"{args[0]} IN ({', '.join(args[1:] + ['NULL'] * bool(e.setting[0]))})"
    if e.name == "case":
        pairs = zip(args[:-1:2], args[1:-1:2], strict=True)
        return f"CASE {' '.join(f'WHEN {a} THEN {b}' for a, b in pairs)} ELSE {args[-1]} END"
    if e.name == "later":
        unit = str(e.setting[0]).upper().replace("MICROS", "MICROSECONDS")
        if unit == "ELAPSED":
            return f"dateadd(MICROSECOND, {e.setting[1]}, {args[0]})"
        return f"{args[0]} + INTERVAL {e.setting[1]} {unit}"
    if e.name == "difference":
        return f"unix_micros({args[0]}) - unix_micros({args[1]})"
    if e.name in LAMBDAS:
        return f"{e.name}({args[0]}, {_element_name(e)} -> {args[1]})"
    if e.name in ("element_at", "map value"):
        function = "element_at" if e.name == "element_at" and e.setting[0] else ""
        return f"{function}({args[0]}, {args[1]})" if function else f"{args[0]}[{args[1]}]"
    if e.name == "field":
        return f"{args[0]}.{_field_name(e)}"
    if e.name == "get_json_object":
        return f"{e.name}({args[0]}, {_constant(Literal(STRING, json_paths.written(e.setting).encode()))})"
    first = [repr(e.setting[0])] if e.name in ("date_trunc",) else []
    return f"{e.name}({', '.join([*first, *args])})"


def _element_name(e: Call) -> str:
    """Return the name of the element in a lambda (before `->`) if the body reads the element, else "x"."""
    named = [column.name[0] for column in columns_in(e.args[1]) if column.id == e.setting[0]]
    return named[0] if named else "x"


def _field_name(e: Call) -> str:
    type_ = e.args[0].type
    struct = type_ if type_.name == "struct" else type_.fields[0].type
    return struct.fields[int(e.setting[0])].name[-1]


def _is_infix(e: Expression) -> bool:
    return isinstance(e, Call) and e.name in _INFIX


_SHOWN = 40
"""Limit of characters of a shown constant."""


def _constant(literal: Literal) -> str:
    text = _written(literal)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 4]}...'"


def _written(literal: Literal) -> str:
    value, name = literal.value, literal.type.name
    if value is None:
        return "NULL"
    if isinstance(value, tuple):
        return f"array({', '.join(_constant(Literal(literal.type.fields[0].type, item)) for item in value)})"
    if isinstance(value, bytes):
        return (
            "'" + value.decode(errors="replace").replace("'", "''") + "'" if name == "string" else repr(value)
        )
    if isinstance(value, bool):
        return str(value).upper()
    if name == "decimal":
        digits = str(abs(int(value))).rjust(literal.type.scale + 1, "0")
        point = len(digits) - literal.type.scale
        return f"{'-' * (value < 0)}{digits[:point]}{'.' * bool(literal.type.scale)}{digits[point:]}"
    if name in WHOLE or name in ("float", "double"):
        return str(value)
    from tailbit.index.functions.vectors import from_canonical

    return f"{name} '{date_texts(from_canonical([value], literal.type))[0]}'"
