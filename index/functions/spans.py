"""Differences of dates and times."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.index.functions.casting import cast_time
from tailbit.index.functions.dates import civil, local, towards_zero
from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import NOT_READ, Vector, array_of, code, first_of, nulls_of, numbers
from tailbit.index.values.datetimes import MICROS, MONTHS
from tailbit.tables.date_text import DAY_US
from tailbit.tables.model import DataType

_NTZ = DataType("timestamp_ntz")


def between(call: Call, args: list[pa.Array]) -> Vector:
    """Compute datediff: days from the second date to the first."""
    null = nulls_of(*args)
    days = numbers(args[0]).astype(np.int64) - numbers(args[1]).astype(np.int64)
    return Vector(array_of(days, null, call.type))


def difference(call: Call, args: list[pa.Array]) -> Vector:
    """Return the first date or time minus the second, in microseconds of local time; setting: the zone."""
    type_, zone = call.args[0].type, str(call.setting[0])
    to = _NTZ if type_.name == "date" else type_
    sides = [cast_time(arg, type_, to, zone) if to != type_ else Vector(arg) for arg in args]
    (a, left), (b, right) = (local(side.values, to, zone) for side in sides)
    micros = a - b
    null = nulls_of(*args)
    beyond = ((a ^ b) & (a ^ micros)) < 0
    raised = first_of([*(side.raised for side in sides), left, right, code(NOT_READ, beyond & ~null)])
    return Vector(array_of(micros, null, call.type), raised)


def whole_units(call: Call, args: list[pa.Array]) -> Vector:
    """Compute timestampdiff: whole units from the first time to the second, both taken as local times.

    The settings are the unit and the time zone of the local times. Source: Spark 4.2,
    DateTimeUtils.timestampDiff; java.time.LocalDateTime.until.
    """
    unit, zone = str(call.setting[0]), str(call.setting[1])
    (start, left), (end, right) = (local(arg, call.args[0].type, zone) for arg in args)
    null = nulls_of(*args)
    length = end - start
    beyond = ((end ^ start) & (end ^ length)) < 0
    units = _months(start, end) if unit in MONTHS else length
    units = towards_zero(units, MONTHS.get(unit) or MICROS[unit])
    raised = first_of([left, right, code(NOT_READ, beyond & ~null)])
    return Vector(array_of(np.where(beyond, 0, units), null, call.type), raised)


def _months(start: Longs, end: Longs) -> Longs:
    """Return the whole months between local times; the last one must be complete to the time of day."""
    first, last = start // DAY_US, end // DAY_US
    shorter = np.sign(last - first) * ((end % DAY_US - start % DAY_US) * np.sign(last - first) < 0)
    (year, month, day), (later_year, later_month, later_day) = civil(first), civil(last - shorter)
    packed = ((later_year - year) * 12 + later_month - month) * 32 + later_day - day
    return towards_zero(packed, 32)
