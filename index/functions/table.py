"""Which operators and functions there are, the types they take, and what evaluates each.

`docs/functions.md` is made from this table. What it does not name is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from tailbit.index.functions import arithmetic, casting, comparing, dates, texts
from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import Vector
from tailbit.index.values.literals import BINARY, BOOLEAN, DATE, DOUBLE, LONG, STRING, TIMESTAMP
from tailbit.tables.model import DataType

Kernel = Callable[[Call, list[pa.Array]], Vector]
INTEGER = DataType("integer")

KERNELS: Mapping[str, Kernel] = {
    **dict.fromkeys(("+", "-", "*", "/", "%", "div"), arithmetic.binary),
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "<=>"), comparing.compared),
    "negative": arithmetic.negative,
    "abs": arithmetic.absolute,
    "cast": casting.cast,
    **dict.fromkeys(("round", "floor", "ceil"), casting.rounded),
    "not": comparing.negated,
    "is null": comparing.is_null,
    "isnan": comparing.is_nan,
    "in": comparing.is_one_of,
    **dict.fromkeys(("like", "rlike"), texts.like),
    **dict.fromkeys(("startswith", "endswith", "contains"), texts.searched),
    "length": texts.length,
    "octet_length": texts.octets,
    **dict.fromkeys(("lower", "upper"), texts.cased),
    **dict.fromkeys(("trim", "ltrim", "rtrim"), texts.trimmed),
    "substring": texts.part_of,
    "left": texts.left,
    "right": texts.right,
    "concat": texts.joined,
    "replace": texts.replaced,
    **dict.fromkeys(
        ("year", "quarter", "month", "day", "dayofyear", "dayofweek", "weekday", "weekofyear"), dates.of_date
    ),
    **dict.fromkeys(("hour", "minute", "second"), dates.of_time),
    "last_day": dates.last_day,
    **dict.fromkeys(("date_add", "date_sub"), dates.moved),
    "datediff": dates.between,
    "date_trunc": dates.truncated,
    "trunc": dates.truncated_date,
    "date_format": dates.formatted,
}


@dataclass(frozen=True)
class Function:
    """A function of a fixed number of arguments: the types it takes, the last ones of which may be left out.

    `least`: how many must be given. `zoned`: its result depends on the time zone.
    """

    kernel: str
    takes: tuple[str, ...]
    gives: DataType
    least: int = -1
    zoned: bool = False


def _date(kernel: str) -> Function:
    return Function(kernel, ("date",), INTEGER)


def _time(kernel: str) -> Function:
    return Function(kernel, ("time",), INTEGER, zoned=True)


def _text(kernel: str) -> Function:
    return Function(kernel, ("string",), STRING)


def _search(kernel: str) -> Function:
    return Function(kernel, ("string", "string"), BOOLEAN)


_LENGTH = Function("length", ("textual",), INTEGER)

FUNCTIONS: Mapping[str, Function] = {
    **{name: _search(name) for name in ("startswith", "endswith", "contains")},
    **dict.fromkeys(("length", "len", "char_length", "character_length"), _LENGTH),
    "octet_length": Function("octet_length", ("textual",), INTEGER),
    **dict.fromkeys(("lower", "lcase"), _text("lower")),
    **dict.fromkeys(("upper", "ucase"), _text("upper")),
    **{name: _text(name) for name in ("trim", "ltrim", "rtrim")},
    **dict.fromkeys(
        ("substring", "substr"), Function("substring", ("string", "integer", "integer"), STRING, 2)
    ),
    "left": Function("left", ("string", "integer"), STRING),
    "right": Function("right", ("string", "integer"), STRING),
    "replace": Function("replace", ("string", "string", "string"), STRING, 2),
    **{name: _date(name) for name in ("year", "quarter", "month", "dayofyear")},
    **{name: _date(name) for name in ("dayofweek", "weekday", "weekofyear")},
    **dict.fromkeys(("day", "dayofmonth"), _date("day")),
    **{name: _time(name) for name in ("hour", "minute", "second")},
    "last_day": Function("last_day", ("date",), DATE),
    **dict.fromkeys(("date_add", "dateadd"), Function("date_add", ("date", "days"), DATE)),
    "date_sub": Function("date_sub", ("date", "days"), DATE),
    **dict.fromkeys(("datediff", "date_diff"), Function("datediff", ("date", "date"), INTEGER)),
    "isnan": Function("isnan", ("floating",), BOOLEAN),
}
"""By the name that Spark has for them; the rest, whose types depend on those given, is in `build`."""

CAST_FUNCTIONS: Mapping[str, DataType] = {
    "boolean": BOOLEAN,
    "tinyint": DataType("byte"),
    "smallint": DataType("short"),
    "int": INTEGER,
    "bigint": LONG,
    "float": DataType("float"),
    "double": DOUBLE,
    "string": STRING,
    "binary": BINARY,
    "date": DATE,
    "to_date": DATE,
    "timestamp": TIMESTAMP,
}
"""Functions of one argument that are casts."""
