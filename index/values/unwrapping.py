"""Unwrapping of casts in comparisons: a value is compared uncast, with a constant that is cast instead.

Spark's optimiser does so with all casts that keep order. Some casts do not keep order when clocks change, and
then answers differ: a local time or day that clocks jump over is cast to the instant of another local time,
and where clocks go back over midnight, a day ends and begins again. This module does what Spark does.
Source: Spark 4.2, UnwrapCastInBinaryComparison; checked against Spark itself by the tests.
"""

from __future__ import annotations

from tailbit.index.values.casts import cast
from tailbit.index.values.literals import DATE, TIMESTAMP, Literal
from tailbit.index.values.refusals import Unsupported
from tailbit.tables.model import DataType

CAST_TO_INSTANTS = ("timestamp_ntz", "date")
"""Types that Spark casts to TIMESTAMP in the session's time zone."""


def as_given(instant: Literal, type_: DataType, zone: str) -> Literal | None:
    """Return the local time or day to compare a value with in place of an instant; None if Spark casts.

    Spark casts the value if the cast of the constant does not round-trip: for the second of two instants with
    one local time, or an instant within a day.
    """
    try:
        given = cast(instant, type_, zone)
        back = cast(given, TIMESTAMP, zone)
    except Unsupported:
        return None
    return given if instant.value is not None and back.value == instant.value else None


def by_day(op: str, day: Literal, zone: str) -> list[tuple[str, Literal]] | None:
    """Return the TIMESTAMP comparisons equal to `CAST(time AS DATE) op day`; None if Spark casts."""
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
