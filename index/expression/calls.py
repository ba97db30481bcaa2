"""Functions by the names that Spark has for them become calls; a name that is not known is refused."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Sequence

from tailbit.index.expression.build import Builder
from tailbit.index.expression.folded import NotRead, asked_twice, call, is_null, of_no_number
from tailbit.index.functions.dates import FORMATS, UNITS
from tailbit.index.functions.table import CAST_FUNCTIONS, FUNCTIONS, INTEGER, Function
from tailbit.index.functions.tree import Expression
from tailbit.index.values.literals import (
    BINARY,
    DATE,
    DOUBLE,
    LONG,
    NUMERIC,
    STRING,
    TIMESTAMP,
    WHOLE,
    Literal,
)
from tailbit.tables.model import DataType
from tailbit.tables.time_zones import fixed_offset


def function(b: Builder, name: str, args: Sequence[Expression]) -> Expression:
    """A function by the name that Spark has for it.

    Raises:
        NotRead: there is none of that name here; names the nearest.
    """
    check_known(name)
    if name in FUNCTIONS:
        return _plain(b, name, FUNCTIONS[name], args)
    if name in SHAPED:
        least, most, make = SHAPED[name]
        _count(name, args, least, most)
        return make(b, args)
    _count(name, args, 1, 1)
    return b.cast(args[0], CAST_FUNCTIONS[name])


def check_known(name: str) -> None:
    """Pass if there is a function of a name here.

    Raises:
        NotRead: there is none; says what to write instead, or names the nearest.
    """
    if name in FUNCTIONS or name in CAST_FUNCTIONS or name in SHAPED:
        return
    if name in _INSTEAD:
        raise NotRead(f"the function {name} is not read", _INSTEAD[name])
    near = difflib.get_close_matches(name, names(), n=3)
    listed = f" Nearest: {', '.join(near)}." if near else ""
    raise NotRead(f"the function {name} is not read", f"docs/functions.md names those that are.{listed}")


def _plain(b: Builder, name: str, function: Function, args: Sequence[Expression]) -> Expression:
    takes = function.takes
    _count(name, args, len(takes) if function.least < 0 else function.least, len(takes))
    given = [_taken(b, name, kind, arg) for kind, arg in zip(takes, args, strict=False)]
    return call(function.kernel, given, function.gives, (b.zone,) if function.zoned else ())


def _taken(b: Builder, name: str, kind: str, arg: Expression) -> Expression:
    """An argument as the kind that a function takes."""
    if kind == "textual":
        return arg if arg.type.name == "binary" else b.implicit(arg, STRING, name)
    if kind == "time":
        return arg if arg.type.name == "timestamp_ntz" else b.implicit(arg, TIMESTAMP, name)
    if kind == "days":
        if arg.type.name in ("byte", "short", "integer", "void"):
            return b.cast(arg, INTEGER)
        reason = f"{name} takes an integer number of days, not a {arg.type}"
        raise NotRead(of_no_number(reason, arg), "CAST it AS INT.")
    if kind == "floating":
        return arg if arg.type.name in ("float", "double") else b.implicit(arg, DOUBLE, name)
    return b.implicit(arg, DataType(kind), name)


def _count(name: str, args: Sequence[Expression], least: int, most: int) -> None:
    if not least <= len(args) <= most:
        wanted = str(least) if least == most else f"{least} to {most}" if most < _ANY else f"{least} or more"
        raise NotRead(f"{name} takes {wanted} arguments here, not {len(args)}")


_ANY = sys.maxsize
"""No limit of arguments."""


def names() -> list[str]:
    """All functions, by name."""
    return sorted({*FUNCTIONS, *CAST_FUNCTIONS, *SHAPED})


def _abs(b: Builder, args: Sequence[Expression]) -> Expression:
    if args[0].type.name not in NUMERIC:
        raise NotRead(of_no_number(f"abs takes a number, not a {args[0].type}", args[0]), "CAST it.")
    return call("abs", args, args[0].type)


def _digits(arg: Expression) -> int:
    if not isinstance(arg, Literal) or arg.type.name not in WHOLE or arg.value is None:
        raise NotRead("round takes a constant number of digits")
    return int(arg.value)


def _round(b: Builder, args: Sequence[Expression]) -> Expression:
    value, digits = args[0], _digits(args[1]) if len(args) > 1 else 0
    if value.type.name not in NUMERIC or abs(digits) > 300:
        reason = f"round of a {value.type} is not read"
        raise NotRead(reason if value.type.name in NUMERIC else of_no_number(reason, value), "CAST it.")
    type_ = value.type
    if type_.name == "float":
        raise NotRead("round of a float is not read", "CAST it AS DOUBLE.")
    if type_.name == "decimal":
        whole, scale = type_.precision - type_.scale + 1, min(type_.scale, max(digits, 0))
        precision = max(whole, -digits + 1) if digits < 0 else whole + scale
        type_ = DataType("decimal", min(precision, 38), scale)
    return call("round", [value], type_, (digits,))


def _rounding(name: str) -> Callable[[Builder, Sequence[Expression]], Expression]:
    def make(b: Builder, args: Sequence[Expression]) -> Expression:
        value = args[0]
        if value.type.name not in NUMERIC:
            raise NotRead(of_no_number(f"{name} takes a number, not a {value.type}", value), "CAST it.")
        if value.type.name == "decimal":
            precision = min(value.type.precision - value.type.scale + 1, 38)
            return call(name, [value], DataType("decimal", precision, 0), (0,))
        return call(name, [value], LONG, (0,))

    return make


def _concat(b: Builder, args: Sequence[Expression]) -> Expression:
    if any(arg.type == BINARY for arg in args):
        raise NotRead("concat of binary values is not read")
    texts = [b.implicit(arg, STRING, "concat") for arg in args]
    return texts[0] if len(texts) == 1 else call("concat", texts, STRING)


def _if(b: Builder, args: Sequence[Expression]) -> Expression:
    return b.case([(args[0], args[1])], args[2])


def _nullif(b: Builder, args: Sequence[Expression]) -> Expression:
    return b.case([(b.compare("=", asked_twice(args[0]), args[1]), Literal(args[0].type, None))], args[0])


def _nvl2(b: Builder, args: Sequence[Expression]) -> Expression:
    return b.case([(b.negate(is_null(args[0])), args[1])], args[2])


def _unit(arg: Expression, known: Sequence[str]) -> str:
    text = arg.value.decode().upper() if isinstance(arg, Literal) and isinstance(arg.value, bytes) else ""
    if UNITS.get(text) not in known:
        raise NotRead(
            f"a date cut to {text or 'what is no constant'} is not read", f"Units: {', '.join(known)}."
        )
    return UNITS[text]


def _date_trunc(b: Builder, args: Sequence[Expression]) -> Expression:
    unit = _unit(args[0], sorted(set(UNITS.values())))
    if fixed_offset(b.zone) is None:
        raise NotRead(
            f"date_trunc in zone {b.zone}, where clocks change, is not read", "Write trunc of a date."
        )
    return call("date_trunc", [b.implicit(args[1], TIMESTAMP, "date_trunc")], TIMESTAMP, (unit, b.zone))


def _trunc(b: Builder, args: Sequence[Expression]) -> Expression:
    unit = _unit(args[1], ("year", "quarter", "month", "week"))
    return call("trunc", [b.implicit(args[0], DATE, "trunc")], DATE, (unit,))


def _date_format(b: Builder, args: Sequence[Expression]) -> Expression:
    pattern = args[1]
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, bytes):
        raise NotRead("date_format takes a format that is a constant")
    text, parts, at = pattern.value.decode(), [], 0
    while at < len(text):
        run = len(text[at:]) - len(text[at:].lstrip(text[at]))
        part = text[at : at + run]
        if part not in FORMATS and (text[at].isalpha() or text[at] in "'[]{}#"):
            hint = f"A format is made of {', '.join(FORMATS)} and signs such as - / : . and blanks."
            raise NotRead(f"{part} in the format {text!r} is not read", hint)
        parts.append(part)
        at += run
    value = b.implicit(args[0], TIMESTAMP, "date_format")
    return call("date_format", [value], STRING, (*parts, b.zone))


def _part(b: Builder, args: Sequence[Expression]) -> Expression:
    name = (
        args[0].value.decode().lower()
        if isinstance(args[0], Literal) and isinstance(args[0].value, bytes)
        else ""
    )
    return extracted(b, name, args[1])


def _rlike(b: Builder, args: Sequence[Expression]) -> Expression:
    return b.like(args[0], args[1], name="rlike")


_SEARCHED = "Write contains, startswith or endswith; for a part at a place substr, or LIKE '_b%'."
_NOW = "Write the time as a constant, such as DATE'2026-01-31' or TIMESTAMP'2026-01-31 12:00:00'."
_INSTEAD = {
    **dict.fromkeys(("position", "locate", "instr", "charindex", "find_in_set"), _SEARCHED),
    **dict.fromkeys(("current_date", "curdate", "current_timestamp", "now", "localtimestamp"), _NOW),
    "btrim": "trim(x) takes blanks away; for other characters write x RLIKE '^a*bca*$'.",
    "concat_ws": "Write concat, or ||.",
    "decode": "Compare bytes with X'6162' or 'ab', of which Spark makes bytes.",
}
"""What to write in place of functions that are not read."""

_PARTS = {
    "year": "year", "years": "year", "y": "year", "yr": "year", "quarter": "quarter", "qtr": "quarter",
    "month": "month", "mon": "month", "months": "month", "week": "weekofyear", "weeks": "weekofyear",
    "day": "day", "d": "day", "days": "day", "dayofweek": "dayofweek", "dow": "dayofweek",
    "doy": "dayofyear", "hour": "hour", "h": "hour", "hours": "hour", "minute": "minute", "min": "minute",
    "m": "minute", "minutes": "minute",
}  # fmt: skip


def extracted(b: Builder, name: str, value: Expression) -> Expression:
    """EXTRACT(name FROM value)."""
    found = _PARTS.get(name.lower())
    if found is None:
        raise NotRead(
            f"EXTRACT of {name or 'what is no constant'} is not read", "Write second(x) for seconds."
        )
    return function(b, found, [value])


_Made = Callable[[Builder, Sequence[Expression]], Expression]
SHAPED: dict[str, tuple[int, int, _Made]] = {
    "abs": (1, 1, _abs),
    "round": (1, 2, _round),
    "floor": (1, 1, _rounding("floor")),
    "ceil": (1, 1, _rounding("ceil")),
    "ceiling": (1, 1, _rounding("ceil")),
    "negative": (1, 1, lambda b, args: b.negative(args[0])),
    "mod": (2, 2, lambda b, args: b.arithmetic("%", args[0], args[1])),
    "concat": (1, _ANY, _concat),
    "coalesce": (1, _ANY, lambda b, args: b.coalesce(args)),
    "nvl": (2, 2, lambda b, args: b.coalesce(args)),
    "ifnull": (2, 2, lambda b, args: b.coalesce(args)),
    "nvl2": (3, 3, _nvl2),
    "nullif": (2, 2, _nullif),
    "if": (3, 3, _if),
    "isnull": (1, 1, lambda b, args: is_null(args[0])),
    "isnotnull": (1, 1, lambda b, args: b.negate(is_null(args[0]))),
    "like": (2, 2, lambda b, args: b.like(args[0], args[1])),
    **dict.fromkeys(("rlike", "regexp", "regexp_like"), (2, 2, _rlike)),
    "date_trunc": (2, 2, _date_trunc),
    "trunc": (2, 2, _trunc),
    "date_format": (2, 2, _date_format),
    "date_part": (2, 2, _part),
}
"""Functions whose types depend on their arguments: least and most arguments, and what makes the call."""
