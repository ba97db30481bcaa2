"""Comparisons between constants: TRUE, FALSE or NULL for all rows."""

from __future__ import annotations

from collections.abc import Sequence

from tailbit.index.predicate.value_sets import Interval, ValueSet
from tailbit.index.sql.comparing.comparisons import Incomparable, comparison
from tailbit.index.values.casts import cast, cast_all
from tailbit.index.values.coercion import (
    MIRRORED,
    compared_type,
    is_rounded,
    membership_type,
    not_of_one_type,
)
from tailbit.index.values.literals import Constants, Literal
from tailbit.index.values.refusals import mismatch


def compared_constants(left: Literal, op: str, right: Literal, zone: str) -> bool | None:
    """Evaluate `left op right`; `op` is one of = <> < <= > >= <=>.

    Raises:
        Incomparable: the types do not compare.
        ValueError: a malformed constant.
    """
    if is_rounded(left.type, op, right):
        return _by_sets(left, op, right, zone)
    if is_rounded(right.type, MIRRORED[op], left):
        return _by_sets(right, MIRRORED[op], left, zone)
    common = compared_type(left, right)
    if common is None:
        reason = f"{left.type.sql} does not compare with {right.type.sql}"
        raise Incomparable(mismatch(reason, "BINARY_OP_DIFF_TYPES"))
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


def _by_sets(value: Literal, op: str, literal: Literal, zone: str) -> bool | None:
    """Compare a constant as if it were a value of a column of its type."""
    true, false = comparison(value.type, op, literal, zone)
    return True if true.contains(value.value) else False if false.contains(value.value) else None


def constant_in(subject: Literal, listed: Sequence[Constants], zone: str) -> bool | None:
    """Evaluate `subject IN (listed)`; all constants are cast to one type before any comparison.

    Every constant is cast, also after an equal constant or with a NULL in the list, where Spark stops early:
    a malformed constant is refused there, too.

    Raises:
        Incomparable: the constants have no common type.
        ValueError: a malformed constant.
    """
    common = membership_type([subject.type, *(constants.type for constants in listed)])
    if common is None:
        raise Incomparable(not_of_one_type(subject.type.sql, [constants.type for constants in listed]))
    value = cast(subject, common, zone).value
    values = [item for constants in listed for item in cast_all(constants, common, zone)]
    if value is None:
        return None
    if ValueSet.points(known for known in values if known is not None).contains(value):
        return True
    return None if None in values else False
