"""Builders of the calls of functions whose types depend on their arguments, except for dates and times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tailbit.base.wording import with_article
from tailbit.index.expression.build import Builder
from tailbit.index.expression.folded import (
    ASSOCIATED,
    asked_twice,
    associated,
    call,
    no_number,
    of_no_number,
    referred,
)
from tailbit.index.functions.tree import Expression
from tailbit.index.values.literals import BINARY, DOUBLE, INTEGER, LONG, NUMERIC, STRING, VOID, WHOLE, Literal
from tailbit.index.values.refusals import NotRead, mismatch
from tailbit.tables.model import DataType

Make = Callable[[Builder, Sequence[Expression]], Expression]


def absolute(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build abs."""
    if args[0].type.name not in NUMERIC:
        raise no_number("abs", args[0])
    return call("abs", args, args[0].type)


def _of_void(b: Builder, value: Expression) -> Expression:
    return b.cast(value, DOUBLE) if value.type == VOID else value


def whole_constant(arg: Expression, reason: str) -> int:
    """Return the integer of a constant argument; `reason`: the error for other arguments."""
    if not isinstance(arg, Literal) or arg.type.name not in WHOLE or not isinstance(arg.value, int):
        raise NotRead(reason)
    return arg.value


def rounded(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build round."""
    value = _of_void(b, args[0])
    digits = whole_constant(args[1], "round takes a constant number of digits") if len(args) > 1 else 0
    if value.type.name not in NUMERIC or abs(digits) > 300:
        reason = f"round of {with_article(value.type.sql)} is not read"
        raise NotRead(reason if value.type.name in NUMERIC else of_no_number(reason, value), "CAST it.")
    type_ = value.type
    if type_.name == "float":
        raise NotRead("round of a float is not read", "CAST it AS DOUBLE.")
    if type_.name == "decimal":
        whole, scale = type_.precision - type_.scale + 1, min(type_.scale, max(digits, 0))
        precision = max(whole, -digits + 1) if digits < 0 else whole + scale
        type_ = DataType("decimal", min(precision, 38), scale)
    return call("round", [value], type_, (digits,))


def whole(name: str, b: Builder, args: Sequence[Expression]) -> Expression:
    """Build floor or ceil."""
    value = _of_void(b, args[0])
    if value.type.name not in NUMERIC:
        raise no_number(name, value)
    if value.type.name == "decimal":
        precision = min(value.type.precision - value.type.scale + 1, 38)
        return call(name, [value], DataType("decimal", precision, 0), (0,))
    return call(name, [value], LONG, (0,))


def joined(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build concat."""
    if any(arg.type == BINARY for arg in args):
        raise NotRead("concat of binary values is not read")
    texts = [b.implicit(arg, STRING, "concat") for arg in args]
    return texts[0] if len(texts) == 1 else call("concat", texts, STRING)


def null_if(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build nullif(a, b): NULL if a equals b, else a."""
    return b.case([(b.compare("=", asked_twice(args[0]), args[1]), Literal(args[0].type, None))], args[0])


def positive(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build the unary plus of a number."""
    value = args[0]
    if value.type.name == "string":
        return b.cast(value, DOUBLE)
    if value.type.name not in NUMERIC:
        raise no_number("positive", value)
    return referred(value)


def remainder(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build pmod: the remainder of a division, never negative for a positive divisor."""
    given, type_ = b.operands("%", *args)
    if type_.name == "decimal":
        raise NotRead("pmod of decimals is not read", "CAST both AS DOUBLE or BIGINT.")
    return call("pmod", given, type_)


def tried(name: str, op: str, b: Builder, args: Sequence[Expression]) -> Expression:
    """Build try_add or the like, for numbers."""
    if any(arg.type.name == "string" for arg in args):
        raise NotRead(f"{name} of a string is not read", "TRY_CAST it.")
    given, type_ = b.operands(op, *args)
    if type_.name in WHOLE and name in ASSOCIATED:
        return associated(name, given, type_)
    return call(name, given, type_)


def extreme(name: str, b: Builder, args: Sequence[Expression]) -> Expression:
    """Build greatest or least."""
    kinds = {arg.type.name for arg in args} - {"void"}
    if "string" in kinds and len(kinds) > 1:
        reason = f"{name} of {', '.join(sorted(kinds))} is not read"
        raise NotRead(mismatch(reason, "DATA_DIFF_TYPES"), "CAST them to one type.")
    same = b.together(args, name)
    if isinstance(same[0], Literal) and same[0].type == VOID:
        return replace(same[0], late=True)
    return call(name, same, same[0].type)


def text(b: Builder, value: Expression, name: str) -> Expression:
    """Cast an argument to a text."""
    if value.type == BINARY:
        raise NotRead(f"{name} of binary values is not read", "CAST them AS STRING.")
    return b.implicit(value, STRING, name)


def texts(b: Builder, values: Sequence[Expression], name: str) -> list[Expression]:
    """Cast arguments to texts."""
    return [text(b, value, name) for value in values]


def located(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build locate or position: the searched part comes first, the optional start position last."""
    part, value = texts(b, args[:2], "locate")
    first = args[2] if len(args) > 2 else Literal(INTEGER, 1, True)
    whole_constant(first, "locate takes a constant place to begin at")
    return call("locate", [part, value, b.cast(first, INTEGER)], INTEGER)


TRIMMED = {"trim": "both", "ltrim": "leading", "rtrim": "trailing"}
"""Trim functions, with the ends of the text that they trim."""


def stripped(side: str, b: Builder, args: Sequence[Expression]) -> Expression:
    """Build trim, ltrim or rtrim; the characters to strip may precede the text."""
    return strip(b, side, *reversed(args))


def strip(b: Builder, side: str, value: Expression, chars: Expression | None = None) -> Expression:
    """Build TRIM of one end or both."""
    value = text(b, value, "trim")
    if chars is None:
        return call(next(name for name, ends in TRIMMED.items() if ends == side), [value], STRING)
    return call("strip", [value, text(b, chars, "trim")], STRING, (side,))
