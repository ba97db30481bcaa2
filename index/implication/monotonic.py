"""Direction of a function of one column: whether it rises or falls with the column, where it does not raise.

Comparisons need a function that can be inverted, too (`tailbit.index.implication.least`). Here any function
that rises or falls will do: `i + 1`, `-l`, `p * 2`, `unix_seconds(ts)` and times truncated in a zone with
clock changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tailbit.index.functions.tree import Call, Expression, Ref
from tailbit.index.implication import least
from tailbit.index.implication.least import NotRising
from tailbit.index.values.literals import NUMERIC, TIMES, WHOLE, Literal
from tailbit.tables.zones.times import fixed_offset


class Course(NamedTuple):
    """Whether a function is `rising` or falling.

    `zone`: if not empty, this holds only between two clock changes of that zone, and for times far apart.
    """

    rising: bool
    zone: str = ""


def course(expression: Expression) -> Course:
    """Return whether a function rises or falls with its only column, and the zone whose clock changes matter.

    Raises:
        NotRising: the function is not known to rise or fall.
    """
    rising, zone, at = True, "", expression
    while isinstance(at, Call):
        if _is_cut_in_zone(at):
            zone, at = str(at.setting[-1]), at.args[0]
            continue
        step = _EXACT.get(at.name)
        turned, at = (False, least.argument(at)) if step is None else step(at)
        rising = rising != turned
    if not isinstance(at, Ref) or (at.type.name == "double" and not rising):
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
        return _step_of_doubles(call)
    left, right = call.args
    swapped = isinstance(left, Literal)
    operand, constant = (right, left) if swapped else (left, right)
    if not isinstance(constant, Literal) or not isinstance(constant.value, int):
        raise NotRising
    if call.name in ("+", "-"):
        return call.name == "-" and swapped, operand
    if constant.value == 0 or (call.name != "*" and swapped):
        raise NotRising
    return constant.value < 0, operand


def _step_of_doubles(call: Call) -> tuple[bool, Expression]:
    return False, least.argument(call)


def _cast(call: Call) -> tuple[bool, Expression]:
    """Return the operand of a cast that keeps the order of all values for which it does not raise."""
    from_, to = call.args[0].type.name, call.type.name
    numbers = from_ in (*WHOLE, "decimal", "double") and to in NUMERIC
    to_time = from_ == "date" and to in TIMES and (to != "timestamp" or _is_fixed(call))
    if numbers or to_time:
        return _step(call)
    return False, least.argument(call)


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
    "cast": _cast,
    **dict.fromkeys(("trunc", "last_day"), _of_days),
    **dict.fromkeys(("unix_date", "unix_seconds", "unix_millis", "unix_micros"), _step),
    **dict.fromkeys(("seconds since 1970", "date_from_unix_date"), _step),
}
"""By function name: returns whether the call reverses the order, and the operand whose order it follows."""
