"""Expressions that have the same value in every session of Spark that ever evaluated them.

A stored value of an expression, as that of a generated column, was computed by its writer: in any time zone
and locale, with any setting and by any release. With ANSI mode off, what raises here was stored as NULL, or
wrapped around. So an expression tells its stored values only if it depends on none of these; and of all
values of a range only if it raises for none.

Worked example:

    year(day) * 100 + month(day)   unvarying: no year of a DATE overflows an INT
    pmod(hash(k), 64)              unvarying
    k + 1                          unvarying unless it raises, as where k is the greatest BIGINT
    CAST(s AS DATE)                not: what is a date, and what is NULL instead, differs
    upper(s)                       not: it depends on the locale
    CAST(ts AS DATE)               not: it depends on the time zone; of a TIMESTAMP_NTZ it is unvarying

What else than its arguments decides the value of a function in Spark, `functions.table` says. Whoever takes a
value that another session has computed, or answers in the place of one, goes by that table: the conditions
that generated columns imply, and the conditions of Spark's queries that the index answers (`docs/spark.md`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import product

from tailbit.index.functions.table import OPERATIONS
from tailbit.index.functions.tree import Call, Expression, Ref
from tailbit.index.values.literals import WHOLE, Literal
from tailbit.tables.model import Column

Range = tuple[float, float]
"""The least and greatest value that numbers may have; whole numbers are integers, and exact."""

_TYPES = frozenset((*WHOLE, "boolean", "double", "string", "binary", "date", "timestamp", "timestamp_ntz"))
"""Types whose values mean the same in every session; a FLOAT is widened or not, by ANSI mode."""

_HASHED = frozenset((*WHOLE, "boolean", "string", "binary", "date", "timestamp", "timestamp_ntz"))

_YEARS = (-5_877_641, 5_881_580)
"""The years of the least and the greatest DATE."""


def is_unvarying(e: Expression, *, may_raise: bool = False) -> bool:
    """Return whether an expression has one value for each row, whoever evaluates it, and never raises.

    `may_raise`: whether it may raise for some rows, of whose stored values nothing is known then.
    """
    if e.type.name not in _TYPES and e.type.name != "void":
        return False
    if isinstance(e, Ref):
        return _is_plain(e.column)
    if isinstance(e, Literal):
        return _is_spelled(e)
    args = e.args[:1] if e.name == "in" else e.args
    if not all(is_unvarying(arg, may_raise=may_raise) for arg in args):
        return False
    if e.name in _CHECKED:
        return may_raise or _range(e) is not None
    decides = _BY_ARGUMENTS.get(e.name)
    return not OPERATIONS[e.name].causes if decides is None else decides(e, may_raise)


def _is_plain(column: Column) -> bool:
    """Return whether every session reads those values of a column from which its writer computed others.

    Not so of CHAR, of a type that was widened, and where partition values are text: there an empty text is
    NULL, and a TIMESTAMP another one in another time zone.
    """
    if column.partition and column.type.name in ("string", "binary", "timestamp"):
        return False
    return not column.type.char_length and not column.type.promoted and not column.metadata.get(_WIDENED)


_WIDENED = "delta.typeChanges"


def _is_spelled(literal: Literal) -> bool:
    """Return whether a constant is what stands in the text; what was computed may be another one elsewhere.

    A number may be computed: the functions of numbers that fold to one agree.
    """
    type_ = literal.type.fields[0].type if literal.type.fields else literal.type
    return type_.name in (*WHOLE, "double", "boolean", "void") or not literal.folded


_CHECKED = ("+", "-", "*", "/", "%", "div", "pmod", "negative", "abs", "floor", "ceil")
"""Arithmetic, which ANSI mode checks."""


def _cast(e: Call, may_raise: bool) -> bool:
    """Return whether a cast keeps every value, or cuts it by no clock but its own."""
    from_, to = e.args[0].type.name, e.type.name
    if from_ in (*WHOLE, "boolean", "double") and to in WHOLE:
        return may_raise or _range(e) is not None
    if from_ in WHOLE or from_ == "boolean":
        return to in ("double", "string")
    return (from_, to) in (("timestamp_ntz", "date"), ("string", "binary"))


def _hash(e: Call, _: bool) -> bool:
    """Return whether all arguments have had the same hash in every release, unlike -0.0."""
    return all(arg.type.name in _HASHED for arg in e.args)


def _is_fixed_slice(e: Call, _: bool) -> bool:
    """Return whether a part of a text has a constant length, and a constant place from the beginning."""
    numbers = [arg.value if isinstance(arg, Literal) else None for arg in e.args[1:]]
    return all(isinstance(number, int) and number >= 0 for number in numbers)


def _is_spelled_list(e: Call, _: bool) -> bool:
    """Return whether the constants of IN are what stands in the text."""
    return isinstance(e.args[1], Literal) and _is_spelled(e.args[1])


_BY_ARGUMENTS: Mapping[str, Callable[[Call, bool], bool]] = {
    "cast": _cast,
    "in": _is_spelled_list,
    "hash": _hash,
    **dict.fromkeys(("substring", "left", "right"), _is_fixed_slice),
}
"""Functions that are unvarying for some arguments, by name: whether a call is; True if it may raise."""


def _range(e: Expression) -> Range | None:
    """Return the range of an unvarying number; None if it may be beyond its type, or is not known.

    Invariant: a call of arithmetic with a range raises for no arguments within the ranges of its own.
    """
    own = WHOLE.get(e.type.name) or ((-math.inf, math.inf) if e.type.name == "double" else None)
    if isinstance(e, Literal):
        number = e.value
        return (number, number) if isinstance(number, (int, float)) else None
    if own is None or isinstance(e, Ref):
        return own
    if e.name in _RANGES:
        return _RANGES[e.name]
    arithmetic = _ARITHMETIC.get(e.name)
    if arithmetic is None:
        return own
    ranges = [_range_of_operand(arg) for arg in e.args]
    bounded = [range_ for range_ in ranges if range_ is not None]
    result = arithmetic(*bounded) if len(bounded) == len(ranges) else None
    if result is None or e.type.name == "double":
        return result
    return result if own[0] <= result[0] and result[1] <= own[1] else None


def _range_of_operand(e: Expression) -> Range | None:
    """Return the range of an operand of arithmetic; TRUE and FALSE count as 1 and 0, as in a cast."""
    return (0, 1) if e.type.name == "boolean" else _range(e)


def _corners(by: Callable[[float, float], float]) -> Callable[[Range, Range], Range | None]:
    """Return the range of a function of two numbers that is extreme at ends of their ranges."""

    def range_of_both(a: Range, b: Range) -> Range | None:
        if any(math.isinf(end) for end in (*a, *b)):
            return -math.inf, math.inf
        ends = [by(x, y) for x, y in product(a, b)]
        return min(ends), max(ends)

    return range_of_both


def _quotient(a: Range, b: Range) -> Range | None:
    if b[0] != b[1] or b[0] == 0 or not math.isfinite(b[0]):
        return None
    ends = [float(end) / b[0] for end in a]
    return min(ends), max(ends)


def _whole_quotient(a: Range, b: Range) -> Range | None:
    if b[0] != b[1] or b[0] == 0:
        return None
    ends = [abs(int(end)) // abs(int(b[0])) * (1 if (end < 0) == (b[0] < 0) else -1) for end in a]
    return min(ends), max(ends)


def _remainder(a: Range, b: Range) -> Range | None:
    if b[0] != b[1] or b[0] == 0 or math.isinf(a[0]):
        return None
    most = abs(b[0]) - 1
    return (-most if a[0] < 0 else 0), (most if a[1] > 0 else 0)


def _positive_remainder(a: Range, b: Range) -> Range | None:
    """Return the range of `pmod` by a positive constant."""
    return None if b[0] != b[1] or b[0] <= 0 or math.isinf(a[0]) else (0, b[0] - 1)


def _absolute(a: Range) -> Range:
    return (0 if a[0] <= 0 <= a[1] else min(map(abs, a))), max(map(abs, a))


def _stepped(a: Range) -> Range | None:
    """Return the range of `floor` and `ceil`, a step wider; None where it is not known to be a BIGINT's."""
    return None if any(math.isinf(end) for end in a) else (math.floor(a[0]), math.ceil(a[1]))


_ARITHMETIC: Mapping[str, Callable[..., Range | None]] = {
    "+": _corners(lambda x, y: x + y),
    "-": _corners(lambda x, y: x - y),
    "*": _corners(lambda x, y: x * y),
    "/": _quotient,
    "div": _whole_quotient,
    "%": _remainder,
    "pmod": _positive_remainder,
    "negative": lambda a: (-a[1], -a[0]),
    "abs": _absolute,
    "cast": lambda a: a,
    "floor": _stepped,
    "ceil": _stepped,
}

_RANGES: Mapping[str, Range] = {
    "year": _YEARS,
    "quarter": (1, 4),
    "month": (1, 12),
    "day": (1, 31),
    "dayofyear": (1, 366),
    "dayofweek": (1, 7),
    "weekday": (0, 6),
    "weekofyear": (1, 53),
    "length": (0, (1 << 31) - 1),
    "octet_length": (0, (1 << 31) - 1),
    "sign": (-1, 1),
}
"""The ranges of the values of functions that are narrower than their types."""
