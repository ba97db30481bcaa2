"""Functions of dates and times, for years of any size, in the proleptic Gregorian calendar.

Formatting of dates and times as text, and parsing of such text.

A format is supported if its output and its accepted input are known for every value: if it uses only the
parts listed here. Source: Spark 4.2, DateTimeFormatterHelper; java.time.format.DateTimeFormatterBuilder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.index.functions.casting import cast_time, shifted
from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import (
    NOT_READ,
    Codes,
    Piece,
    Raised,
    Vector,
    array_of,
    by_parts,
    code,
    digits,
    first_of,
    named,
    nulls_of,
    numbers,
    per_distinct,
    side_by_side,
    texts_of_pieces,
    within,
)
from tailbit.index.values.datetimes import MICROS, MONTHS
from tailbit.index.values.literals import STRING
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.date_text import DAY_US
from tailbit.tables.model import DataType
from tailbit.tables.zones import offsets_kept

_DATE, _NTZ = DataType("date"), DataType("timestamp_ntz")


def civil(days: Longs) -> tuple[Longs, Longs, Longs]:
    """Return year, month and day of days since 1970.

    Source: H. Hinnant, chrono-compatible low-level date algorithms, civil_from_days.
    """
    shifted = days.astype(np.int64) + 719_468
    era = shifted // 146_097
    of_era = shifted - era * 146_097
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    turned = (5 * of_year + 2) // 153
    day = of_year - (153 * turned + 2) // 5 + 1
    month = np.where(turned < 10, turned + 3, turned - 9)
    return year_of_era + era * 400 + (month <= 2), month, day


def days_from(year: Longs, month: Longs, day: Longs) -> Longs:
    """Return the days since 1970 of a year, month and day."""
    shifted = year - (month <= 2)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * np.where(month > 2, month - 3, month + 9) + 2) // 5 + day - 1
    days: Longs = era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
    return days


def _ordinal(days: Longs) -> Longs:
    year, _, _ = civil(days)
    return days - days_from(year, np.ones_like(year), np.ones_like(year)) + 1


OF_DATE: dict[str, Callable[[Longs], Longs]] = {
    "year": lambda days: civil(days)[0],
    "quarter": lambda days: (civil(days)[1] + 2) // 3,
    "month": lambda days: civil(days)[1],
    "day": lambda days: civil(days)[2],
    "dayofyear": _ordinal,
    "dayofweek": lambda days: (days + 4) % 7 + 1,
    "weekday": lambda days: (days + 3) % 7,
    "weekofyear": lambda days: (_ordinal(days - (days + 3) % 7 + 3) - 1) // 7 + 1,
}


def of_date(call: Call, args: list[pa.Array]) -> Vector:
    """Return a part of a date as an integer."""
    days = numbers(args[0]).astype(np.int64)
    return Vector(array_of(OF_DATE[call.name](days), nulls_of(args[0]), call.type))


def last_day(call: Call, args: list[pa.Array]) -> Vector:
    """Return the last day of a date's month."""
    year, month, _ = civil(numbers(args[0]).astype(np.int64))
    ahead = np.where(month == 12, 1, month + 1)
    last = days_from(year + (month == 12), ahead, np.ones_like(year)) - 1
    return Vector(array_of(last, nulls_of(args[0]), call.type))


OF_TIME = {"hour": (MICROS["HOUR"], 24), "minute": (MICROS["MINUTE"], 60), "second": (MICROS["SECOND"], 60)}


def local(values: pa.Array, type_: DataType, zone: str) -> tuple[Longs, Codes | None]:
    """Return times as microseconds of local time, and the error of those beyond 64 bits."""
    raised = None
    if type_.name == "timestamp":
        values, raised = cast_time(values, type_, _NTZ, zone)
    return numbers(values).astype(np.int64), raised


def of_time(call: Call, args: list[pa.Array]) -> Vector:
    """Return hour, minute or second of a time; the setting of the call is the time zone."""
    unit, count = OF_TIME[call.name]
    micros, raised = local(args[0], call.args[0].type, str(call.setting[0]))
    units = micros // unit % count
    return Vector(array_of(units, nulls_of(args[0]), call.type), raised)


def moved(call: Call, args: list[pa.Array]) -> Vector:
    """Compute date_add and date_sub: a date and a number of days; the sum wraps around at 32 bits."""
    days, more = numbers(args[0]).astype(np.int64), numbers(args[1]).astype(np.int64)
    moved_days = days + more if call.name == "date_add" else days - more
    return Vector(array_of(moved_days, nulls_of(*args), call.type))


_MOST_DAYS = 1 << 31
_MOST_LOCAL = 1 << 63
_MOST_YEARS = 999_999_999


def months_later(call: Call, args: list[pa.Array]) -> Vector:
    """Compute add_months: the same day of a later month, or the last day of that month."""
    days = numbers(args[0]).astype(np.int64)
    moved_days = later_by_months(days, numbers(args[1]).astype(np.int64))
    return within(moved_days, nulls_of(*args), call.type, "ARITHMETIC_OVERFLOW")


def later_by_months(days: Longs, months: Longs) -> Longs:
    """Move days since 1970 by months; a day that the month lacks becomes the month's last."""
    year, month, day = civil(days)
    since = year * 12 + month - 1 + months
    first = days_from(since // 12, since % 12 + 1, np.ones_like(day))
    behind = since + 1
    length = days_from(behind // 12, behind % 12 + 1, np.ones_like(day)) - first
    moved_days: Longs = first + np.minimum(day, length) - 1
    return moved_days


def later(call: Call, args: list[pa.Array]) -> Vector:
    """Add an interval to a time; settings: "months", "days", "micros" or "elapsed"; their number; time zone.

    Both "micros" and "elapsed" are microseconds. Months and days are added to the local time, and so are the
    whole days of "micros". Where clocks change, a local time that occurs twice keeps the offset that it had,
    and a skipped one is moved on by the gap. Source: Spark 4.2, DateTimeUtils.timestampAddMonths and
    timestampAddDayTime; java.time.ZonedDateTime.
    """
    unit, count, zone = str(call.setting[0]), int(call.setting[1]), str(call.setting[2])
    null, type_ = nulls_of(args[0]), call.type
    whole = abs(count) // DAY_US * (1 if count > 0 else -1)
    days = {"days": count, "micros": whole}.get(unit, 0)
    micros, raised = numbers(args[0]).astype(np.int64), None
    rest = count - days * DAY_US if unit in ("micros", "elapsed") else 0
    if unit == "months" or days:
        there, raised = local(args[0], type_, zone)
        moved, beyond = _months_later(there, count) if unit == "months" else shifted(there, days * DAY_US)
        micros, beyond_too = _instants(micros, there, moved, type_, zone)
        raised = first_of([raised, code(NOT_READ, beyond & ~null), beyond_too])
    micros, beyond = shifted(micros, rest)
    return Vector(array_of(micros, null, type_), first_of([raised, code(NOT_READ, beyond & ~null)]))


def _months_later(there: Longs, months: int) -> tuple[Longs, Mask]:
    """Move local times by months; also return the mask of times that leave 64 bits."""
    day = later_by_months(there // DAY_US, np.full_like(there, months))
    beyond: Mask = np.abs(day) >= _MOST_LOCAL // DAY_US
    return np.where(beyond, 0, day) * DAY_US + there % DAY_US, beyond


def _instants(
    before: Longs, there: Longs, moved: Longs, type_: DataType, zone: str
) -> tuple[Longs, Codes | None]:
    """Return the instants of moved local times, with the UTC offset from before the move where valid."""
    if type_.name != "timestamp":
        return moved, None
    instants, beyond = shifted(moved, -offsets_kept(moved, there - before, zone))
    return instants, code(NOT_READ, beyond)


NAMES = {
    "dayname": ("weekday", ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")),
    "monthname": ("month", ("", *"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split())),
}


def unit_name(call: Call, args: list[pa.Array]) -> Vector:
    """Return the name of the day of the week, or of the month."""
    field, names = NAMES[call.name]
    indexes = OF_DATE[field](numbers(args[0]).astype(np.int64))
    return Vector(pc.take(arrow_array(names), arrow_array(indexes, mask=nulls_of(args[0]))))


_SINCE_1970 = {"unix_date": 1, "unix_seconds": 1_000_000, "unix_millis": 1000, "unix_micros": 1}


def since_1970(call: Call, args: list[pa.Array]) -> Vector:
    """Compute unix_date and unix_seconds, unix_millis or unix_micros; fractions are rounded down."""
    units = numbers(args[0]).astype(np.int64) // _SINCE_1970[call.name]
    return Vector(array_of(units, nulls_of(args[0]), call.type))


def seconds_since_1970(call: Call, args: list[pa.Array]) -> Vector:
    """Compute unix_timestamp: whole seconds of an instant, rounded towards 1970."""
    units = towards_zero(numbers(args[0]).astype(np.int64), 1_000_000)
    return Vector(array_of(units, nulls_of(args[0]), call.type))


def towards_zero(values: Longs, by: int) -> Longs:
    """Divide integers, rounding towards zero as Java does."""
    quotients: Longs = values // by + ((values < 0) & (values % by != 0))
    return quotients


def instants_since_1970(call: Call, args: list[pa.Array]) -> Vector:
    """Return the instants of integers in some unit; the first setting is the microseconds of the unit.

    The last setting is "wraps" if Spark keeps the low 64 bits of larger results; else these get NOT_READ.
    """
    unit, wraps = int(call.setting[0]), call.setting[1] == "wraps"
    count, most = numbers(args[0]).astype(np.int64), ((1 << 63) - 1) // unit
    least = -((1 << 63) // unit)
    null = nulls_of(args[0])
    beyond = ~null & ((count > most) | (count < least)) & (not wraps)
    with np.errstate(over="ignore"):
        micros = count * unit
    return Vector(array_of(micros, null, call.type), code(NOT_READ, beyond))


def of_fields(call: Call, args: list[pa.Array]) -> Vector:
    """Compute make_date: the date of a year, a month and a day."""
    null = nulls_of(*args)
    year, month, day = (numbers(arg).astype(np.int64) for arg in args)
    right = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    days = days_from(*(np.where(right, field, 1) for field in (year, month, day)))
    right &= civil(days)[2] == day
    beyond = (days < -_MOST_DAYS) | (days >= _MOST_DAYS) | (np.abs(year) > _MOST_YEARS)
    raised = first_of(
        [code(NOT_READ, beyond & ~null), code("DATETIME_FIELD_OUT_OF_BOUNDS", ~right & ~beyond & ~null)]
    )
    return Vector(array_of(np.where(beyond | ~right, 0, days), null, call.type), raised)


def day_since_1970(call: Call, args: list[pa.Array]) -> Vector:
    """Compute date_from_unix_date: the date of a number of days."""
    return Vector(pc.cast(args[0], pa.date32()))


UNITS = {
    "YEAR": "year", "YYYY": "year", "YY": "year", "QUARTER": "quarter", "MONTH": "month", "MM": "month",
    "MON": "month", "WEEK": "week", "DAY": "day", "DD": "day", "HOUR": "hour", "MINUTE": "minute",
    "SECOND": "second", "MILLISECOND": "millisecond", "MICROSECOND": "microsecond",
}  # fmt: skip
"""The unit that `date_trunc` cuts to, by each name that Spark accepts."""

STEPS = {unit.lower(): micros for unit, micros in MICROS.items() if unit != "WEEK"}
"""The microseconds of units that divide a day."""


def first_day(days: Longs, unit: str) -> Longs:
    """Return the first day of the week, month, quarter or year of each day."""
    year, month, _ = civil(days)
    if unit == "week":
        return days - (days + 3) % 7
    starts = {"year": np.ones_like(month), "quarter": (month - 1) // 3 * 3 + 1, "month": month}
    return days_from(year, starts[unit], np.ones_like(year))


def truncated(call: Call, args: list[pa.Array]) -> Vector:
    """Compute date_trunc: the first moment of the unit that contains a time; settings: unit, time zone."""
    unit, zone = str(call.setting[0]), str(call.setting[1])
    micros, raised = local(args[0], call.args[0].type, zone)
    null = nulls_of(args[0])
    if unit in STEPS:
        first = micros - micros % STEPS[unit]
    else:
        first = first_day(micros // DAY_US, unit) * DAY_US
    beyond = first > micros  # what is cut is never later, unless it has left 64 bits
    raised = first_of([raised, code(NOT_READ, beyond & ~null)])
    if call.type.name != "timestamp":
        return Vector(array_of(first, null, call.type), raised)
    if unit in STEPS:
        first, more = _instants(numbers(args[0]).astype(np.int64), micros, first, call.type, zone)
        return Vector(array_of(first, null, call.type), first_of([raised, more]))
    begun = cast_time(array_of(first // DAY_US, null, _DATE), _DATE, call.type, zone)
    return Vector(begun.values, first_of([raised, begun.raised]))


def truncated_date(call: Call, args: list[pa.Array]) -> Vector:
    """Compute trunc: the first day of the unit that contains a date.

    A first day below 32 bits wraps around, that of a quarter raises, and that of a week is what Spark's steps
    give in 32 bits. Source: Spark, DateTimeUtils.truncDate.
    """
    days, unit, null = numbers(args[0]).astype(np.int64), str(call.setting[0]), nulls_of(args[0])
    first, raised = first_day(days, unit), None
    beyond = ~null & (first < -_MOST_DAYS)
    if beyond.any() and unit == "quarter":
        first, raised = np.where(beyond, 0, first), code("ARITHMETIC_OVERFLOW", beyond)
    early = days < 2 * _WEEK - _MOST_DAYS
    if unit == "week" and early.any():
        first = np.where(early, _monday_behind(days - _WEEK), first)
    return Vector(array_of(first, null, call.type), raised)


_WEEK, _MONDAY = 7, 4


def _monday_behind(days: Longs) -> Longs:
    """Return the first Monday after each day, computed in 32 bits as in Java."""
    start = days.astype(np.int32).astype(np.int64)
    more = np.fmod((_MONDAY - 1 - start).astype(np.int32).astype(np.int64), _WEEK)
    monday: Longs = start + 1 + (more + _WEEK) % _WEEK
    return monday


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
    (a, first_raised), (b, second_raised) = (local(side.values, to, zone) for side in sides)
    micros = a - b
    null = nulls_of(*args)
    beyond = ((a ^ b) & (a ^ micros)) < 0
    raised = first_of(
        [*(side.raised for side in sides), first_raised, second_raised, code(NOT_READ, beyond & ~null)]
    )
    return Vector(array_of(micros, null, call.type), raised)


def whole_units(call: Call, args: list[pa.Array]) -> Vector:
    """Compute timestampdiff: whole units from the first time to the second, both taken as local times.

    The settings are the unit and the time zone of the local times. Source: Spark 4.2,
    DateTimeUtils.timestampDiff; java.time.LocalDateTime.until.
    """
    unit, zone = str(call.setting[0]), str(call.setting[1])
    (start, start_raised), (end, end_raised) = (local(arg, call.args[0].type, zone) for arg in args)
    null = nulls_of(*args)
    length = end - start
    beyond = ((end ^ start) & (end ^ length)) < 0
    units = _months(start, end) if unit in MONTHS else length
    units = towards_zero(units, MONTHS.get(unit) or MICROS[unit])
    raised = first_of([start_raised, end_raised, code(NOT_READ, beyond & ~null)])
    return Vector(array_of(np.where(beyond, 0, units), null, call.type), raised)


def _months(start: Longs, end: Longs) -> Longs:
    """Return the whole months between local times; the last one must be complete to the time of day."""
    first, last = start // DAY_US, end // DAY_US
    shorter = np.sign(last - first) * ((end % DAY_US - start % DAY_US) * np.sign(last - first) < 0)
    (year, month, day), (later_year, later_month, later_day) = civil(first), civil(last - shorter)
    packed = ((later_year - year) * 12 + later_month - month) * 32 + later_day - day
    return towards_zero(packed, 32)


_HOUR = 3_600_000_000
_FULL = {
    "EEEE": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
    "MMMM": "January February March April May June July August September October November December".split(),
}
_NUMBERS: dict[str, Callable[[Longs], Longs]] = {
    "y": lambda micros: civil(micros // DAY_US)[0],
    "M": lambda micros: civil(micros // DAY_US)[1],
    "d": lambda micros: civil(micros // DAY_US)[2],
    "D": lambda micros: OF_DATE["dayofyear"](micros // DAY_US),
    "Q": lambda micros: OF_DATE["quarter"](micros // DAY_US),
    "H": lambda micros: micros // _HOUR % 24,
    "h": lambda micros: (micros // _HOUR - 1) % 12 + 1,
    "m": lambda micros: micros // 60_000_000 % 60,
    "s": lambda micros: micros // 1_000_000 % 60,
}
WRITTEN = (
    "yyyy yy MM M MMM MMMM dd d D DDD Q QQ HH H hh h mm m ss s S SS SSS SSSS SSSSS SSSSSS a E EE EEE EEEE"
).split()
"""What a format of `date_format` may hold beside signs and quoted text."""
PARSED = "yyyy yy MM M dd d HH H mm m ss s S SS SSS SSSS SSSSS SSSSSS".split()
"""What a format for parsing may hold, in addition to signs and quoted text."""
QUOTE = "'"
"""The first character of a part that is literal text."""


def formatted(call: Call, args: list[pa.Array]) -> Vector:
    """Compute date_format for the years 0 to 9999; settings: the parts of the format, and last the zone."""
    fields, zone = [str(field) for field in call.setting[:-1]], str(call.setting[-1])
    micros, raised = local(args[0], call.args[0].type, zone)
    return written(micros, fields, args[0], raised)


_UNITS = {**dict.fromkeys("yMdDQE", DAY_US), **dict.fromkeys("Hhmsa", 1_000_000), "S": 1}
"""By letter of a part, the unit in microseconds within which the part's text stays the same."""
_ROUND = {1_000_000: 86_400, 1: 1_000_000}
"""By unit, the number of units after which texts repeat; texts of days never do."""
_FIRST_DAY, _LAST_DAY = -719_528, 2_932_896
"""The days of the years 0 to 9999."""


def written(micros: Longs, fields: Sequence[str], like: pa.Array, raised: Codes | None) -> Vector:
    """Return local times as texts, NULL where the array `like` is NULL.

    Cost: parts that only depend on the day are formatted once per distinct day, if there are fewer days than
    rows; likewise for other units.
    """
    null, outside = nulls_of(like), None
    if any(field[0] == "y" for field in fields):
        days = micros // DAY_US
        outside = code(NOT_READ, ~null & ((days < _FIRST_DAY) | (days > _LAST_DAY)))
    micros = np.where(null if outside is None else null | (outside != 0), 0, micros)
    pieces = [_written_by(unit, run, micros) for unit, run in _runs(fields)]
    return Vector(texts_of_pieces(pieces, null), first_of([raised, outside]))


def _runs(fields: Sequence[str]) -> list[tuple[int, list[str]]]:
    """Group adjacent parts of one unit; quoted text belongs to the group before it."""
    runs: list[tuple[int, list[str]]] = []
    for field in fields:
        unit = _UNITS.get(field[0])
        if runs and unit in (runs[-1][0], None):
            runs[-1][1].append(field)
        else:
            runs.append((unit or DAY_US, [field]))
    return runs


def _written_by(unit: int, fields: Sequence[str], micros: Longs) -> Piece:
    """Return the bytes of adjacent parts that depend on one unit."""
    numbers = micros // unit if unit == DAY_US else micros // unit % _ROUND[unit]
    low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    if high - low >= len(numbers):
        return side_by_side([_field(field, numbers * unit) for field in fields])
    every = np.arange(low, high + 1) * unit
    table, shown = side_by_side([_field(field, every) for field in fields])
    indexes = numbers - low
    return table.take(indexes, axis=0), None if shown is None else shown.take(indexes, axis=0)


def _field(letters: str, micros: Longs) -> Piece:
    if letters[0] == QUOTE:
        return named([letters[1:]], np.zeros(len(micros), np.int64))
    if letters[0] == "a":
        return named(("AM", "PM"), micros // _HOUR % 24 // 12)
    if letters[0] == "S":
        return digits(micros % 1_000_000 // 10 ** (6 - len(letters)), len(letters), len(letters))
    if letters[0] == "E":
        return named(_FULL.get(letters) or NAMES["dayname"][1], (micros // DAY_US + 3) % 7)
    if letters in ("MMM", "MMMM"):
        return named(_FULL.get(letters) or NAMES["monthname"][1][1:], civil(micros // DAY_US)[1] - 1)
    numbers = _NUMBERS[letters[0]](micros)
    return digits(
        numbers % 100 if letters == "yy" else numbers, len(letters), max(len(letters), _WIDTHS[letters[0]])
    )


_WIDTHS = {**dict.fromkeys("MdHhms", 2), "y": 2, "D": 3, "Q": 1}
"""Digits that the numbers of a part have at most."""


def parsed(call: Call, args: list[pa.Array]) -> Vector:
    """Parse texts of a format as instants; settings: "try" for NULL in place of an error, zone, format.

    Only the years 0 to 9999 are supported; a year with a sign gives NOT_READ.
    """
    tried, zone, fields = call.setting[0] == "try", str(call.setting[1]), call.setting[2:]
    pattern, usual = _pattern(tuple(map(str, fields))), _usual(tuple(map(str, fields)))

    def one_by_one(texts: pa.Array) -> Vector:
        return per_distinct([texts], [STRING], _NTZ, lambda text: _micros(pattern, text.decode(), tried))

    if usual is None:
        local_times = one_by_one(args[0])
    else:
        plain = pc.match_substring_regex(args[0], usual)
        local_times = by_parts(args[0], plain, lambda texts: _read_all(texts, usual, tried), one_by_one)
    instants = cast_time(local_times.values, _NTZ, call.type, zone)
    return Vector(instants.values, first_of([local_times.raised, instants.raised]))


_READ_BY = {
    "yyyy": "(?P<y>[0-9]{4})", "yy": "(?P<yy>[0-9]{2})", "M": "(?P<M>[0-9]{1,19})", "d": "(?P<d>[0-9]{1,19})",
    "H": "(?P<H>[0-9]{1,19})", "m": "(?P<m>[0-9]{1,19})", "s": "(?P<s>[0-9]{1,19})",
    **{two: f"(?P<{two[0]}>[0-9]{{2}})" for two in ("MM", "dd", "HH", "mm", "ss")},
    **{"S" * n: f"(?P<S>[0-9]{{1,{n}}})" for n in range(1, 7)},
}  # fmt: skip
_OTHER_YEAR = "(?P<far>[+-][0-9]{4,19})"


@lru_cache(maxsize=256)
def _pattern(fields: tuple[str, ...]) -> re.Pattern[str]:
    regexes = [_quoted(field[1:]) if field[0] == QUOTE else _READ_BY[field] for field in fields]
    return re.compile("".join(t if "<y>" not in t else f"(?:{t}|{_OTHER_YEAR})" for t in regexes), re.DOTALL)


def _quoted(text: str) -> str:
    """Return a pattern that matches a text literally, ignoring case."""
    return "".join(f"[{c.upper()}{c.lower()}]" if c.isalpha() else re.escape(c) for c in text)


def _micros(pattern: re.Pattern[str], text: str, tried: bool) -> int | None:
    match = pattern.fullmatch(text)
    values = {} if match is None else {k: v for k, v in match.groupdict().items() if v is not None}
    if "far" in values:
        raise Raised(NOT_READ)
    year = int(values["yy"]) + 2000 if "yy" in values else int(values.get("y", 1970))
    month, day, hour, minute, second = (int(values.get(letter, letter in "Md")) for letter in "MdHms")
    of_clock = hour < 24 and minute < 60 and second < 60
    if match is None or not (1 <= month <= 12 and 1 <= day <= 31 and of_clock):
        _fail(tried)
        return None
    days = days_from(*(np.array([number]) for number in (year, month, day)))
    if int(civil(days)[2][0]) != day:
        _fail(tried)
        return None
    fraction = int(values.get("S", "0").ljust(6, "0"))
    return int(days[0]) * DAY_US + (hour * 3600 + minute * 60 + second) * 1_000_000 + fraction


_LONG, _USUAL = "{1,19}", "{1,9}"
"""Repetitions of a digit: what Spark accepts in a number of any width, and what always fits in 31 bits."""


@lru_cache(maxsize=256)
def _usual(fields: tuple[str, ...]) -> str | None:
    """Return an RE2 pattern for the usual texts of a format: numbers of few digits, and a year without sign.

    `fields`: the format's letters and quoted texts. Return None if the format has no number, or if a digit
    follows a number of any width, since a pattern cannot tell where that number ends.
    """
    if all(field[0] == QUOTE for field in fields):
        return None
    for field, behind in zip(fields, (*fields[1:], QUOTE), strict=True):
        if _LONG in _READ_BY.get(field, "") and (behind[0] != QUOTE or behind[1:2] in _FIGURES):
            return None
    regexes = [
        _quoted(field[1:]) if field[0] == QUOTE else _READ_BY[field].replace(_LONG, _USUAL)
        for field in fields
    ]
    return rf"(?s)\A(?:{''.join(regexes)})\z"


_FIGURES = tuple("0123456789")


def _read_all(texts: pa.Array, regex: str, tried: bool) -> Vector:
    """Parse texts that match a pattern of `_usual`, or NULL, in vectors."""
    null, fields = nulls_of(texts), pc.extract_regex(texts, pattern=regex)
    names = [field.name for field in fields.type]

    def numbers_of(name: str, otherwise: int) -> Longs:
        if name not in names:
            return np.full(len(texts), otherwise, np.int64)
        digits = pc.struct_field(fields, [names.index(name)])
        return numbers(pc.cast(pc.utf8_rpad(digits, 6, padding="0") if name == "S" else digits, pa.int64()))

    year = numbers_of("yy", 0) + 2000 if "yy" in names else numbers_of("y", 1970)
    month, day, hour, minute, second = (numbers_of(name, int(name in "Md")) for name in "MdHms")
    good = (month >= 1) & (month <= 12) & (hour < 24) & (minute < 60) & (second < 60)
    days = days_from(year, np.where(good, month, 1), np.where(good & (day <= 31), day, 1))
    good &= (civil(days)[2] == day) & ~null
    micros = days * DAY_US + (hour * 3600 + minute * 60 + second) * 1_000_000 + numbers_of("S", 0)
    raised = None if tried else code("CANNOT_PARSE_TIMESTAMP", ~good & ~null)
    return Vector(array_of(np.where(good, micros, 0), ~good, _NTZ), raised)


def _fail(tried: bool) -> None:
    """Raise Spark's error for a text that does not match the format; with `tried`, do nothing."""
    if not tried:
        raise Raised("CANNOT_PARSE_TIMESTAMP")
