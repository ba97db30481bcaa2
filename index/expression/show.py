"""Expressions as SQL text, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailbit.base.lazy import lazy
from tailbit.index.functions.tree import LAMBDAS, Call, Expression, Ref, columns_in
from tailbit.index.values.literals import STRING, WHOLE, Literal
from tailbit.tables.date_text import text_since_1970

if TYPE_CHECKING:
    from tailbit.index.functions import json_paths
else:
    json_paths = lazy("tailbit.index.functions.json_paths")

_INFIX = frozenset("+ - * / % div & | ^ = <> < <= > >= <=> like rlike and or".split())
_CONNECTIVES = frozenset(("and", "or"))
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
        inner = e.args[0] if e.name == "not" else None
        name, call = ("<>", inner) if isinstance(inner, Call) and inner.name == "=" else (e.name, e)
        args = call.args[:1] if name == "in" else call.args
        text = _written_call(name, call, [_shown(arg, texts) for arg in args])
        texts[id(e)] = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
    return texts[id(e)]


def _written_call(name: str, e: Call, args: list[str]) -> str:
    if name in _INFIX:
        binding = _CONNECTIVES if name in _CONNECTIVES else _INFIX
        nested = [f"({a})" if _is_infix(arg, binding) else a for a, arg in zip(args, e.args, strict=True)]
        return f" {name.upper()} ".join(nested)
    if e.name in ("cast", "try_cast"):
        return f"{e.name.upper()}({args[0]} AS {e.type.sql})"
    if e.name == "not":
        return f"NOT ({args[0]})"
    if e.name == "is null":
        return f"{args[0]} IS NULL" if isinstance(e.args[0], Ref) else f"({args[0]}) IS NULL"
    if e.name == "in":
        assert isinstance(e.args[1], Literal)
        return f"{args[0]} IN ({', '.join([*_items(e.args[1]), *['NULL'] * bool(e.setting[0])])})"
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


def _items(listed: Literal) -> list[str]:
    """Return the first constants of a list, and dots if it has more."""
    assert isinstance(listed.value, tuple)
    type_, values = listed.type.fields[0].type, listed.value
    first = [_constant(Literal(type_, value)) for value in values[:_ITEMS]]
    return [*first, *["..."] * (len(values) > _ITEMS)]


def _is_infix(e: Expression, binding: frozenset[str]) -> bool:
    return isinstance(e, Call) and e.name in binding


_ITEMS = 8
"""Number of a list's constants that are shown."""


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
        return f"array({', '.join(_items(literal))})"
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
    text = text_since_1970(int(value), name == "date")
    return f"{name} '{text}{'Z' * (name == 'timestamp')}'"
