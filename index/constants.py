"""Comparisons in which no column takes part: they are TRUE, FALSE or NULL once and for all."""

from __future__ import annotations

from tailbit.index.casts import cast
from tailbit.index.coercion import compared_type
from tailbit.index.comparisons import Incomparable
from tailbit.index.literals import Literal
from tailbit.index.value_sets import Interval, ValueSet


def compared_constants(left: Literal, op: str, right: Literal, zone: str) -> bool | None:
    """What `left op right` is; `op` is one of = <> < <= > >= <=>.

    Raises:
        Incomparable: the types do not compare.
        ValueError: a malformed constant.
    """
    common = compared_type(left, right)
    if common is None:
        raise Incomparable(f"{left.type} does not compare with {right.type}")
    a, b = cast(left, common, zone).value, cast(right, common, zone).value
    if a is None or b is None:
        return (a is None and b is None) if op == "<=>" else None
    equal = ValueSet.points([b]).contains(a)
    below = ValueSet.of([Interval(None, False, b, False)]).contains(a)
    return {
        "=": equal,
        "<=>": equal,
        "<>": not equal,
        "<": below,
        "<=": below or equal,
        ">": not below and not equal,
        ">=": not below,
    }[op]
