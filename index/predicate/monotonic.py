"""Inversion of functions that never fall as their argument rises: the least argument with value y or more.

    f                              the least x with f(x) >= y
    year(day)                      the first day of year y
    CAST(time AS DATE)             the first moment of day y
    date_trunc('MONTH', time)      y, or the first moment of the next month
    floor(price)                   y
    round(price, 1)                y less half of the last digit, of y above 0
    x / 2, of doubles              found by bisection, since it is rounded

Values are canonical (`tailbit.index.keys`): days, microseconds, decimals without their point.

Direction of a function of one column: whether it rises or falls with the column, where it does not raise.
It needs no inverse: `i + 1`, `-l`, `p * 2`, `unix_seconds(ts)` and times truncated in a zone with clock
changes will do, too.

Comparisons of a text's first characters with a constant, as ranges of the text itself.

Worked example, for two characters:

    left(s, 2) = 'ab'       s >= 'ab' and s < 'ac'
    left(s, 2) = 'a'        s = 'a'
    left(s, 2) > 'a'        s > 'a'
    left(s, 2) >= 'abc'     s >= 'ac'

Conversely, a range of the text implies a range of its first characters.

UTF-8 bytes sort like their characters. The texts are not checked to be UTF-8: Spark, too, counts
characters by their first bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeGuard

import numpy as np

from tailbit.base.arrays import Longs
from tailbit.index.functions.dates import STEPS, days_from, first_day
from tailbit.index.functions.tree import Call, Expression, Ref
from tailbit.index.keys import first_reached, float_at, ordered_int
from tailbit.index.predicate.value_sets import Interval, Span, ValueSet, beyond_prefix
from tailbit.index.values.casts import rising_cast
from tailbit.index.values.literals import DATE, DIGITS, MAX_DIGITS, NUMERIC, TIMES, WHOLE, Literal, range_of
from tailbit.tables.date_text import DAY_US
from tailbit.tables.model import DataType
from tailbit.tables.zones import fixed_offset

Number = int | float

End = tuple[Number | bytes, bool]
"""An end of a range of values: just before a value or, if True, just behind it."""

_LONGEST = {"week": 7, "month": 31, "quarter": 92, "year": 366}
"""Maximum days of a unit."""
_MOST_YEAR = 6_000_000
"""A year beyond every date."""


class NotRising(Exception):
    """The function is not known to be monotonic."""


def domain_of(type_: DataType) -> tuple[Number, Number]:
    """Return the least and greatest value of a type; NaN, which is greater, is left out."""
    bounds = range_of(type_)
    if bounds is None and type_.name != "double":
        raise NotRising
    return bounds or (-math.inf, math.inf)


def least(e: Expression, y: Number) -> Number:
    """Return the least value of the only column for which a function is `y` or more.

    The value may be beyond the range of the column's type.
    """
    while isinstance(e, Call):
        step = _STEPS_DOWN.get(e.name)
        if step is None:
            raise NotRising
        y, e = step(e, y)
    if not isinstance(e, Ref):
        raise NotRising
    return y


def argument(call: Call) -> Expression:
    """Return the argument with which a call rises."""
    step = _STEPS_DOWN.get(call.name)
    if step is None:
        raise NotRising
    return step(call, 0)[1]


def least_of_days(e: Expression, y: Number) -> Number:
    """Return `least`, also of days cast to the times at which they begin."""
    return _uncast(e, y) if casts_days(e) else least(e, y)


def casts_days(e: Expression) -> TypeGuard[Call]:
    """Return whether an expression is a column of days cast to the times at which they begin."""
    return (
        isinstance(e, Call)
        and e.name == "cast"
        and e.type.name in _INSTANTS
        and isinstance(e.args[0], Ref)
        and e.args[0].type == DATE
    )


def far_days(e: Expression) -> ValueSet:
    """Return the days beyond all times, for which a cast to times raises; Spark keeps the cast in IN."""
    if not casts_days(e):
        return ValueSet()
    convert, days, times = rising_cast(DATE, e.type, str(e.setting[0])), range_of(DATE), range_of(e.type)
    if convert is None or days is None or times is None:
        raise NotRising
    (low, high), (first, last) = days, times
    near = first_reached(lambda day: convert(day) >= first, low, high)
    far = first_reached(lambda day: convert(day) > last, low, high)
    return ValueSet.of([Interval(None, False, near, False), Interval(far, True, None, False)])


Least = Callable[[Expression, Number], Number]


def ends(e: Expression, y: Number, least: Least) -> tuple[End, End]:
    """Return the least arguments for which a function is `y` or more, and for which it is more than `y`."""
    if isinstance(y, float) and not math.isfinite(y):
        raise NotRising
    above = y + 1 if isinstance(y, int) else math.nextafter(y, math.inf)
    return (least(e, y), False), (least(e, above), False)


def edge_days(e: Expression) -> Longs | None:
    """Return the days near the least or greatest 32-bit day whose `trunc` or `last_day` overflows.

    Return None for an expression without these functions of a column.
    """
    while isinstance(e, Call) and e.name not in ("trunc", "last_day"):
        e = e.args[0]
    if not isinstance(e, Call) or not isinstance(e.args[0], Ref):
        return None
    low, high = WHOLE["integer"]
    longest = _LONGEST["month" if e.name == "last_day" else str(e.setting[0])]
    if e.name == "last_day":
        return np.arange(high - longest, high + 1)
    return np.arange(low, low + max(longest, 2 * _LONGEST["week"]))


def _year(call: Call, y: Number) -> tuple[Number, Expression]:
    year = np.array(max(-_MOST_YEAR, min(int(y), _MOST_YEAR)))
    return int(days_from(year, np.array(1), np.array(1))), call.args[0]


def is_unchanged(from_: DataType, to: DataType) -> bool:
    """Return whether a cast leaves canonical values as they are."""
    if from_.name in WHOLE and to.name in WHOLE:
        return DIGITS[from_.name] <= DIGITS[to.name]
    return from_ == to or (from_.name, to.name) in (("float", "double"), ("string", "binary"))


_INSTANTS = ("timestamp", "timestamp_ntz")


def _cast(call: Call, y: Number) -> tuple[Number, Expression]:
    """Invert a cast that cannot raise."""
    (operand,) = call.args
    if operand.type == DATE:
        raise NotRising
    return _uncast(call, y), operand


def _uncast(call: Call, y: Number) -> Number:
    """Return the least value that a cast makes `y` or more, if the cast keeps the order of all values."""
    from_, to = call.args[0].type, call.type
    if is_unchanged(from_, to):
        return y
    convert = rising_cast(from_, to, str(call.setting[0]))
    if convert is None or (from_.name in _INSTANTS and to.name in _INSTANTS and convert(0) != 0):
        raise NotRising
    low, high = map(int, domain_of(from_))
    if to.name in (*WHOLE, "decimal") and max(-convert(low), convert(high)) > domain_of(to)[1]:
        raise NotRising
    return first_reached(lambda x: convert(x) >= y, low, high)


def _rounded(y: int, unit: int) -> int:
    """Invert rounding to whole units, half away from zero."""
    return y * unit - unit // 2 + (y <= 0 and unit > 1)


def _to_digits(call: Call, y: Number) -> tuple[Number, Expression]:
    """Invert round, floor and ceil of integers and decimals."""
    from_, digits = call.args[0].type, int(call.setting[0])
    if from_.name not in (*WHOLE, "decimal") or digits < 0 or from_.precision >= MAX_DIGITS:
        raise NotRising
    unit: int = 10 ** max(from_.scale - call.type.scale, 0)
    if call.name == "round":
        return _rounded(int(y), unit), call.args[0]
    return int(y) * unit if call.name == "floor" else (int(y) - 1) * unit + 1, call.args[0]


def _of_doubles(call: Call, y: Number) -> tuple[Number, Expression]:
    """Invert arithmetic of a double and a constant."""
    if call.type.name != "double":
        raise NotRising
    lhs, rhs = call.args
    if call.name in "+*" and isinstance(lhs, Literal):
        lhs, rhs = rhs, lhs
    if not isinstance(rhs, Literal) or not isinstance(rhs.value, float) or not math.isfinite(rhs.value):
        raise NotRising
    constant = rhs.value
    if call.name in "*/" and not constant > 0:
        raise NotRising
    apply: Callable[[float], float] = {
        "+": lambda x: x + constant,
        "-": lambda x: x - constant,
        "*": lambda x: x * constant,
        "/": lambda x: x / constant,
    }[call.name]
    low, high = (ordered_int(end, "double") for end in (-math.inf, math.inf))
    place = first_reached(lambda rank: apply(float_at(rank)) >= y, low, high)
    return float_at(min(place, high)) + 0.0, lhs


def _date_trunc(call: Call, y: Number) -> tuple[Number, Expression]:
    unit, zone = str(call.setting[0]), str(call.setting[1])
    offset = _offset(zone) if call.type.name == "timestamp" else 0
    local = int(y) + offset
    if unit in STEPS:
        return -(-local // STEPS[unit]) * STEPS[unit] - offset, call.args[0]
    return _first(unit, -(-local // DAY_US)) * DAY_US - offset, call.args[0]


def _first(unit: str, day: int) -> int:
    """Return the first day of a unit that is `day` or later."""
    first = int(first_day(np.array(day), unit))
    return first if first == day else int(first_day(np.array(first + _LONGEST[unit]), unit))


def _offset(zone: str) -> int:
    offset = fixed_offset(zone)
    if offset is None:
        raise NotRising
    return offset


_STEPS_DOWN: Mapping[str, Callable[[Call, Number], tuple[Number, Expression]]] = {
    "year": _year,
    "cast": _cast,
    "try_cast": _cast,
    "date_trunc": _date_trunc,
    "trunc": lambda call, y: (_first(str(call.setting[0]), int(y)), call.args[0]),
    "last_day": lambda call, y: (int(first_day(np.array(int(y)), "month")), call.args[0]),
    **dict.fromkeys(("round", "floor", "ceil"), _to_digits),
    **dict.fromkeys(("+", "-", "*", "/"), _of_doubles),
}
"""By function name: returns the least argument for which the function is `y` or more, and that operand."""


class Course(NamedTuple):
    """Whether a function is `rising` or falling.

    `zone`: if not empty, this holds only between two clock changes of that zone, and for times far apart.
    """

    rising: bool
    zone: str = ""


def course(expression: Expression) -> Course:
    """Return whether a function rises with its only column, and the zone whose clock changes matter."""
    rising, zone, call = True, "", expression
    while isinstance(call, Call):
        if _is_cut_in_zone(call):
            zone, call = str(call.setting[-1]), call.args[0]
            continue
        step = _EXACT.get(call.name)
        turned, call = (False, argument(call)) if step is None else step(call)
        rising = rising != turned
    if not isinstance(call, Ref) or (call.type.name == "double" and not rising):
        raise NotRising
    return Course(rising, zone)


def _is_cut_in_zone(call: Call) -> bool:
    """Return whether a call truncates a timestamp column, as to a date, in a zone with clock changes."""
    if not isinstance(call.args[0], Ref) or call.args[0].type.name != "timestamp":
        return False
    cut = call.name == "date_trunc" or (call.name == "cast" and call.type.name == "date")
    return cut and fixed_offset(str(call.setting[-1])) is None


def _step(call: Call, turned: bool = False) -> tuple[bool, Expression]:
    return turned, call.args[0]


def _arithmetic(call: Call) -> tuple[bool, Expression]:
    """Return whether exact arithmetic with a constant reverses the order, and the operand that varies."""
    if call.type.name == "double":
        return False, argument(call)
    lhs, rhs = call.args
    swapped = isinstance(lhs, Literal)
    operand, constant = (rhs, lhs) if swapped else (lhs, rhs)
    if not isinstance(constant, Literal) or not isinstance(constant.value, int):
        raise NotRising
    if call.name in ("+", "-"):
        return call.name == "-" and swapped, operand
    if constant.value == 0 or (call.name != "*" and swapped):
        raise NotRising
    return constant.value < 0, operand


def _cast_in_order(call: Call) -> tuple[bool, Expression]:
    """Return the operand of a cast that keeps the order of all values for which it does not raise."""
    from_, to = call.args[0].type.name, call.type.name
    numbers = from_ in (*WHOLE, "decimal", "double") and to in NUMERIC
    to_time = from_ == "date" and to in TIMES and (to != "timestamp" or _is_fixed(call))
    if numbers or to_time:
        return _step(call)
    return False, argument(call)


def _is_fixed(call: Call) -> bool:
    return fixed_offset(str(call.setting[0])) is not None


def _of_days(call: Call) -> tuple[bool, Expression]:
    """Return the operand of trunc or last_day: a column, or days that are far from the ends of 32 bits."""
    operand = call.args[0]
    near = isinstance(operand, Call) and operand.name == "cast" and operand.args[0].type.name != "string"
    if not isinstance(operand, Ref) and not near:
        raise NotRising
    return _step(call)


_EXACT: Mapping[str, Callable[[Call], tuple[bool, Expression]]] = {
    **dict.fromkeys(("+", "-", "*", "/", "div"), _arithmetic),
    "negative": lambda call: _step(call, turned=True),
    "cast": _cast_in_order,
    **dict.fromkeys(("trunc", "last_day"), _of_days),
    **dict.fromkeys(("unix_date", "unix_seconds", "unix_millis", "unix_micros"), _step),
    **dict.fromkeys(("seconds since 1970", "date_from_unix_date"), _step),
}
"""By function name: returns whether the call reverses the order, and the operand whose order it follows."""


def prefix_length(e: Expression) -> int:
    """Return the number of leading characters that an expression takes from its only column."""
    if not isinstance(e, Call) or not isinstance(e.args[0], Ref):
        raise NotRising
    numbers = [arg.value for arg in e.args[1:] if isinstance(arg, Literal)]
    if e.name == "substring" and len(numbers) == 2 and numbers[0] in (0, 1):
        numbers = numbers[1:]
    elif e.name != "left":
        raise NotRising
    if len(numbers) != 1 or not isinstance(numbers[0], int) or numbers[0] < 1:
        raise NotRising
    return numbers[0]


def prefix_ends(characters: int, text: bytes) -> tuple[End, End]:
    """Return the least value with a prefix of at least `text`, and the least with a prefix above `text`.

    `characters`: the length of a prefix. An end is a value, and whether the value itself is excluded.
    """
    try:
        written = text.decode()
    except UnicodeDecodeError:
        raise NotRising from None
    if len(written) < characters:
        return (text, False), (text, True)
    cut = written[:characters].encode()
    beyond = beyond_prefix(cut)
    return (text if cut == text else beyond, False), (beyond, False)


def prefix_image(characters: int, span: Span) -> tuple[Interval, Interval]:
    """Return two intervals of prefixes: those that only texts in a span have, and all that they may have.

    `characters`: the length of a prefix. A shorter text is its own prefix, and no other text has that prefix.
    """
    (_, first, behind), (_, last, closed) = span
    low, high = (text if isinstance(text, bytes) else None for text in (first, last))
    sure_low = possible_low = low is not None and not behind
    sure_high = possible_high = high is not None and closed == 1
    cut = None if low is None else _first_characters(low, characters)
    if cut is not None:
        sure_low, possible_low, low = cut == low and sure_low, True, cut
    cut = None if high is None else _first_characters(high, characters)
    if cut is not None:
        sure_high, possible_high, high = False, cut != high or possible_high, cut
    whole = low is not None and _first_characters(low, characters) == low
    if low and whole and high == beyond_prefix(low) and not possible_high:
        high, sure_high, possible_high = low, sure_low, True  # between the two lies no other prefix
    return Interval(low, sure_low, high, sure_high), Interval(low, possible_low, high, possible_high)


def _first_characters(text: bytes, characters: int) -> bytes | None:
    """Return the first characters of a text; None if its valid part is shorter."""
    try:
        written = text.decode()
    except UnicodeDecodeError as broken:
        written = text[: broken.start].decode()
    return written[:characters].encode() if len(written) >= characters else None
