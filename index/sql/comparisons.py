"""A comparison of a column with constants as sets of the column's own values.

Spark casts the column to the common type of both sides. Every such cast that is supported here keeps order,
so the values on either side of a constant are found by bisection over the column's domain with the exact
cast: the result needs no cast, and serves bitmaps, partition values, statistics and rows alike.

Comparisons of a CHAR(n) column with string constants: which side is padded with spaces, and which is cut.

Reading pads the column's values up to n characters; a data file may hold longer values. Spark pads a constant
up to n, too; for a longer constant it pads or cuts every value to the constant's own length. The result is a
set of the values as they are read.

Source: Spark 4.2, ApplyCharTypePadding; checked against Spark itself by the tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tailbit.base.lazy import lazy
from tailbit.base.wording import with_article
from tailbit.index.keys import is_textual, key_type_of
from tailbit.index.ordered import Value, first_reached
from tailbit.index.predicate.tree import COMPARED, Truth
from tailbit.index.predicate.value_sets import NOTHING, NULL, VALUES, Interval, ValueSet, beyond_prefix
from tailbit.index.values.casts import CAST_TO_INSTANTS, RisingCast, as_given, cast, cast_all, rising_cast
from tailbit.index.values.coercion import (
    compared_type,
    is_rounded,
    membership_type,
    not_of_one_type,
    rounded,
)
from tailbit.index.values.literals import WHOLE, Constants, Literal, NotRead, SparkRaises, mismatch, range_of
from tailbit.tables.model import DataType

if TYPE_CHECKING:
    from tailbit.index.values import datetimes
else:
    datetimes = lazy("tailbit.index.values.datetimes")


NEVER: Truth = (NOTHING, NOTHING)
"""NULL for every value."""


class Incomparable(NotRead):
    """A comparison that Spark refuses, or that is unsupported here."""


def comparison(type_: DataType, op: str, literal: Literal, zone: str) -> Truth:
    """Return the values where `column op literal` is TRUE and those where it is FALSE."""
    if is_rounded(type_, op, literal):
        whole = rounded(op, literal)
        if isinstance(whole, Literal):
            return comparison(type_, op, whole, zone)
        return (NOTHING.inverse(), NOTHING) if whole else (NOTHING, NOTHING.inverse())
    common = compared_type(type_, literal)
    if common is None:
        reason = f"a column of type {type_.sql} does not compare with {literal.type.sql}"
        raise Incomparable(mismatch(reason, "BINARY_OP_DIFF_TYPES"))
    if literal.value is None:
        return (NULL, VALUES) if op == "<=>" else NEVER
    if type_.name in CAST_TO_INSTANTS and common.name == "timestamp":
        given = as_given(literal, type_, zone)
        if given is not None:
            return comparison(type_, op, given, zone)
    convert = _conversion(type_, common, zone)
    target = _constant(literal, common, type_, zone)
    assert target is not None
    if type_.char_length and isinstance(target, bytes) and common.name == "string":
        true = where_compared(type_.char_length, op, target.decode())
    else:
        true = ValueSet.of(_intervals(type_, convert, op, target), complement=op == "<>")
    if op == "<=>":
        return true, true.inverse()
    return true, true.others()


def membership(type_: DataType, listed: Sequence[Constants], zone: str) -> Truth:
    """Return the values where `column IN (listed)` is TRUE and FALSE; `listed`: the constants by type.

    With NULL in the list, IN is never FALSE.
    """
    common = membership_type([type_, *(constants.type for constants in listed)])
    if common is None:
        raise Incomparable(
            not_of_one_type(f"a column of type {type_.sql}", [constants.type for constants in listed])
        )
    values = [value for constants in listed for value in _cast(constants, common, type_, zone)]
    present = [value for value in values if value is not None]
    whole = len(present) == len(values)
    if common.name == "timestamp" and whole and len(set(present)) == 1:
        return comparison(type_, "=", Literal(common, present[0]), zone)
    if type_.char_length and all(constants.type.name == "string" for constants in listed):
        true = _in_padded(type_.char_length, present, whole)
    else:
        convert = _conversion(type_, common, zone)
        equal = (interval for value in present for interval in _intervals(type_, convert, "=", value))
        true = ValueSet.points(present) if convert is None else ValueSet.of(equal)
    return true, (true.others() if whole else NOTHING)


def _cast(constants: Constants, common: DataType, type_: DataType, zone: str) -> Sequence[Value | None]:
    """Return constants in the type in which a column is compared with them."""
    try:
        return cast_all(constants, common, zone)
    except ValueError:
        literals = (Literal(constants.type, value) for value in constants.values)
        return [_constant(literal, common, type_, zone) for literal in literals]


def _constant(literal: Literal, common: DataType, type_: DataType, zone: str) -> Value | None:
    """Return a constant in the type it is compared in; an error names the column's type."""
    try:
        return cast(literal, common, zone).value
    except SparkRaises as wrong:
        of_common, of_column = with_article(common.sql), with_article(type_.sql)
        if not wrong.reason.endswith(f" is not {of_common}"):
            raise
        raise SparkRaises(wrong.reason.removesuffix(of_common) + of_column, wrong.error) from wrong


def _in_padded(length: int, present: Sequence[Value], whole: bool) -> ValueSet:
    """Return the CHAR(`length`) values for which IN a list of strings is TRUE, padded as Spark pads them.

    `present`: the strings that are not NULL; `whole`: whether these are all.
    """
    if not whole:
        hint = "Write NULL without a cast, or x = a OR x = b."
        raise Incomparable("a NULL cast to STRING in a list makes Spark lose constants of the list", hint)
    return where_in(length, [value.decode() for value in present if isinstance(value, bytes)])


def _conversion(type_: DataType, common: DataType, zone: str) -> RisingCast | None:
    """Return the cast of a column's values to the type of a comparison; None if it changes no value."""
    kinds = (key_type_of(type_), key_type_of(common))
    if kinds[0] == kinds[1] or (is_textual(kinds[0]) and is_textual(kinds[1])):
        return None
    convert = rising_cast(type_, common, zone)
    if convert is not None:
        return convert
    if type_.name == "timestamp_ntz" and common.name == "timestamp":
        raise Incomparable(
            f"local times do not keep their order in zone {zone}, where clocks change",
            "Compare a timestamp_ntz column with TIMESTAMP_NTZ'...'.",
        )
    hint = f"Write the constant as {type_.sql}, e.g. in quotes." if type_.name == "string" else None
    raise Incomparable(
        f"Spark would cast the column from {type_.sql} to {common.sql}, which changes its order", hint
    )


def _intervals(type_: DataType, convert: RisingCast | None, op: str, target: Value) -> list[Interval]:
    """Return the values for which a comparison with a constant is TRUE; for <>, the equal values."""
    if convert is None:
        return [COMPARED[op](target, target, True)]
    least, greatest = range_of(type_) or WHOLE["long"]
    first = first_reached(lambda value: convert(value) >= target, least, greatest)
    after = first_reached(lambda value: convert(value) > target, least, greatest)
    if op in ("=", "<>", "<=>"):
        return [Interval(first, True, after - 1, True)] if first < after else []
    if op in ("<", "<="):
        end = first if op == "<" else after
        return [Interval(None, False, end - 1, True)] if end > least else []
    begin = after if op == ">" else first
    return [Interval(begin, True, None, False)] if begin <= greatest else []


_MOST_BLANKS = 1000
"""Limit of blanks and control characters beyond n in a constant: each needs a value of its own in the set."""


def where_compared(length: int, op: str, text: str, width: int = 0) -> ValueSet:
    """Return the values of a CHAR(`length`) column for which `column op text` is TRUE.

    `width`: pad the constant to this length, that of the longest constant of an IN list.
    """
    target = text.ljust(max(length, len(text), width))
    shorter = _shorter(target, length)
    equal = _equal(target, length).union(ValueSet.points(p.encode() for p, same in shorter if same))
    below = ValueSet.of([Interval(None, False, target.encode(), False)])
    below = below.intersect(ValueSet.points((p.encode() for p, _ in shorter), complement=True))
    return {
        "=": equal,
        "<=>": equal,
        "<>": equal.others(),
        "<": below,
        "<=": below.union(equal),
        ">": below.union(equal).others(),
        ">=": below.others(),
    }[op]


def where_in(length: int, texts: Sequence[str]) -> ValueSet:
    """Return the values of a CHAR(`length`) column for which `column IN (texts)` is TRUE.

    All texts are padded to the length of the longest.
    """
    width = max(map(len, texts), default=0)
    return ValueSet.union_of([where_compared(length, "=", text, width) for text in texts])


def _equal(target: str, length: int) -> ValueSet:
    """Return the values that equal the constant once they are cut to its length."""
    data = target.encode()
    if len(target) == length:
        return ValueSet.points([data])
    return ValueSet.of([Interval(data, True, beyond_prefix(data), False)])


def _shorter(target: str, length: int) -> list[tuple[str, bool]]:
    """Return the prefixes of the constant that are smaller as bytes, but not once padded with spaces.

    Each prefix comes with whether the padded prefix equals the constant.
    """
    lengths = [k for k in range(length, len(target)) if target[k] <= " "]
    if len(lengths) > _MOST_BLANKS:
        raise ValueError(f"CHAR is not compared with a constant of more than {_MOST_BLANKS} blanks")
    filled = ((target[:k], " " * (len(target) - k), target[k:]) for k in lengths)
    return [(start, blanks == rest) for start, blanks, rest in filled if blanks >= rest]
