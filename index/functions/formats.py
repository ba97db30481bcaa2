"""Formatting of dates and times as text, and parsing of such text.

A format is supported if its output and its accepted input are known for every value: if it uses only the
parts listed here. Source: Spark 4.2, DateTimeFormatterHelper; java.time.format.DateTimeFormatterBuilder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.index.functions.casting import cast_time
from tailbit.index.functions.dates import NAMES, OF_DATE, civil, days_from, local
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
)
from tailbit.index.values.literals import STRING
from tailbit.tables import compute as pc
from tailbit.tables.date_text import DAY_US
from tailbit.tables.model import DataType

_NTZ = DataType("timestamp_ntz")
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


def read(call: Call, args: list[pa.Array]) -> Vector:
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
