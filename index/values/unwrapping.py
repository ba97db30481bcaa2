"""A comparison of a cast value with a constant becomes one of the value itself: the constant is cast instead.

Spark's optimiser does so with all casts that keep order. Some of these do not, where clocks change, and then
answers differ: a local time or a day that clocks jump over is cast to an instant that another has too, and
where clocks go back over midnight, a day is left and entered again. What is said here is what Spark asks.
Source: Spark 4.2, UnwrapCastInBinaryComparison; asked of Spark itself by the tests.
"""

from __future__ import annotations

from tailbit.index.values.casts import cast
from tailbit.index.values.literals import DATE, TIMESTAMP, Literal
from tailbit.index.values.refusals import Unsupported
from tailbit.tables.model import DataType

CAST_TO_INSTANTS = ("timestamp_ntz", "date")
"""What Spark casts to TIMESTAMP in the session's time zone."""


def as_given(instant: Literal, type_: DataType, zone: str) -> Literal | None:
    """The local time or day that a value is compared with in place of an instant; None where Spark casts.

    That is where it is not what the constant becomes of it again: the second of two instants with one local
    time, or an instant within a day.
    """
    try:
        given = cast(instant, type_, zone)
        back = cast(given, TIMESTAMP, zone)
    except Unsupported:
        return None
    return given if instant.value is not None and back.value == instant.value else None


def by_day(op: str, day: Literal, zone: str) -> list[tuple[str, Literal]] | None:
    """What a TIMESTAMP is compared with where `CAST(it AS DATE) op day`; None where Spark casts it."""
    if not isinstance(day.value, int) or op not in _BY_DAY:
        return None
    try:
        days = {0: day, 1: Literal(DATE, day.value + 1)}
        return [(sign, cast(days[more], TIMESTAMP, zone)) for sign, more in _BY_DAY[op]]
    except Unsupported:
        return None


_BY_DAY = {
    "=": ((">=", 0), ("<", 1)),
    "<": (("<", 0),),
    "<=": (("<", 1),),
    ">": ((">=", 1),),
    ">=": ((">=", 0),),
}
"""Comparisons with the first instant of the day (0) or of the next one (1), all of which must be TRUE."""
