"""Comparisons of cast times with constants become comparisons of the times themselves where Spark does so."""

from __future__ import annotations

from dataclasses import replace

from tailbit.index.functions.tree import Call, Expression
from tailbit.index.values.literals import Literal
from tailbit.index.values.unwrapping import CAST_TO_INSTANTS, as_given, by_day


def uncast(
    op: str, value: Expression, constant: Expression, zone: str
) -> list[tuple[str, Expression, Literal]] | None:
    """Return comparisons without a cast, all of which must be TRUE, in place of `value op constant`.

    None if Spark keeps the cast, or if there is none.
    """
    if not isinstance(constant, Literal) or not isinstance(value, Call):
        return None
    if value.name not in ("cast", "try_cast"):
        return None
    (inner,) = value.args
    kinds = (inner.type.name, value.type.name)
    if kinds[0] in CAST_TO_INSTANTS and kinds[1] == "timestamp":
        given = as_given(constant, inner.type, zone)
        return None if given is None else [(op, inner, given)]
    days = by_day(op, constant, zone) if kinds == ("timestamp", "date") else None
    return None if days is None else [(sign, inner, first) for sign, first in days]


def null_as_cast(op: str, comparison: Expression, cast: Expression) -> Expression:
    """Return an uncast comparison; for IS NULL, an inequality refers to the cast comparison instead.

    The cast of a far date raises, and Spark evaluates IS NULL before it removes the cast.
    """
    if op != "=" and isinstance(comparison, Call) and isinstance(cast, Call):
        return replace(comparison, null_as=cast)
    return comparison
