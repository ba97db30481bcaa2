"""The supported operators and functions: the types of their arguments, and the kernel that evaluates each.

`docs/functions.md` is made from this table. A name outside the table is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import Vector
from tailbit.index.values.literals import BINARY, BOOLEAN, DATE, DOUBLE, INTEGER, LONG, STRING, TIMESTAMP
from tailbit.tables.model import DataType

Kernel = Callable[[Call, list[pa.Array]], Vector]
_UNIX = ("unix_seconds", "unix_millis", "unix_micros")

KERNELS: Mapping[str, str] = {
    **dict.fromkeys(("+", "-", "*", "/", "%", "div"), "operators.binary"),
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "<=>"), "operators.compared"),
    **dict.fromkeys(("try_add", "try_subtract", "try_multiply", "try_divide", "try_mod"), "operators.tried"),
    **dict.fromkeys(("&", "|", "^", "~"), "operators.bitwise"),
    "pmod": "operators.positive_remainder",
    **dict.fromkeys(("sign", "sqrt", "rint"), "operators.of_double"),
    **dict.fromkeys(("greatest", "least"), "operators.extreme"),
    "negative": "operators.negative",
    "abs": "operators.absolute",
    "cast": "casting.cast",
    **dict.fromkeys(("round", "floor", "ceil"), "casting.rounded"),
    "not": "operators.negated",
    "is null": "operators.is_null",
    "isnan": "operators.is_nan",
    "in": "operators.is_one_of",
    **dict.fromkeys(("like", "rlike"), "texts.like"),
    **dict.fromkeys(("startswith", "endswith", "contains"), "texts.searched"),
    "length": "texts.length",
    "octet_length": "texts.octets",
    **dict.fromkeys(("lower", "upper"), "texts.cased"),
    **dict.fromkeys(("trim", "ltrim", "rtrim"), "texts.trimmed"),
    "substring": "texts.part_of",
    "left": "texts.first_characters",
    "right": "texts.last_characters",
    "concat": "texts.joined",
    "replace": "texts.replaced",
    "regexp_extract": "groups.extracted",
    "substring_index": "groups.before_or_behind",
    "split_part": "groups.part_of",
    "split item": "groups.item",
    "split size": "groups.count",
    "digest": "digests.digest",
    "decode": "groups.decoded",
    "initcap": "texts.capitalized",
    "get_json_object": "json_paths.extracted",
    "hash": "digests.hashed",
    "hex": "digests.hex_of_whole",
    "regexp_replace": "groups.substituted",
    "instr": "texts.place",
    "locate": "texts.place_from",
    **dict.fromkeys(("lpad", "rpad"), "texts.padded"),
    "strip": "texts.stripped",
    "translate": "texts.translated",
    "reverse": "texts.reversed_",
    "ascii": "texts.first_code",
    "concat_ws": "texts.joined_by",
    **dict.fromkeys(
        ("year", "quarter", "month", "day", "dayofyear", "dayofweek", "weekday", "weekofyear"),
        "dates.of_date",
    ),
    **dict.fromkeys(("hour", "minute", "second"), "dates.of_time"),
    "last_day": "dates.last_day",
    **dict.fromkeys(("date_add", "date_sub"), "dates.moved"),
    "datediff": "dates.between",
    "add_months": "dates.months_later",
    "later": "dates.later",
    "difference": "dates.difference",
    "timestampdiff": "dates.whole_units",
    **dict.fromkeys(("dayname", "monthname"), "dates.named"),
    **dict.fromkeys(("unix_date", *_UNIX), "dates.since_1970"),
    "date_from_unix_date": "dates.day_since_1970",
    "make_date": "dates.of_fields",
    "date_trunc": "dates.truncated",
    "trunc": "dates.truncated_date",
    "date_format": "formats.formatted",
    "parsed time": "formats.read",
    "array_contains": "nested.contains",
    "arrays_overlap": "nested.overlap",
    "size": "nested.size",
    "element_at": "nested.element",
    "map value": "nested.value_of_key",
    **dict.fromkeys(("map_keys", "map_values"), "nested.keys_or_values"),
    "array_position": "nested.position",
    **dict.fromkeys(("array_max", "array_min"), "nested.extreme"),
    "field": "nested.field",
    "array": "nested.array_of_values",
    "time since 1970": "dates.instants_since_1970",
    "seconds since 1970": "dates.seconds_since_1970",
}
"""By function, the module in this folder and its function that evaluates it.

A module is imported at the first call: a question that calls no function imports none.
"""


def kernel(function: str) -> Kernel:
    """Return the kernel that evaluates a function; its module is imported at the first call."""
    module, _, name = KERNELS[function].rpartition(".")
    evaluates: Kernel = getattr(import_module(f"tailbit.index.functions.{module}"), name)
    return evaluates


@dataclass(frozen=True)
class Function:
    """A function with a fixed number of arguments of given types, the last of which may be optional.

    `least`: number of required arguments. `zoned`: the result depends on the time zone.
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
    "initcap": _text("initcap"),
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
    "instr": Function("instr", ("text", "text"), INTEGER),
    **{name: Function(name, ("text", "integer", "text"), STRING) for name in ("lpad", "rpad")},
    "translate": Function("translate", ("text", "text", "text"), STRING),
    "reverse": Function("reverse", ("text",), STRING),
    "ascii": Function("ascii", ("text",), INTEGER),
    **{name: Function("sign", ("double",), DOUBLE) for name in ("sign", "signum")},
    **{name: Function(name, ("double",), DOUBLE) for name in ("sqrt", "rint")},
    "add_months": Function("add_months", ("date", "integer"), DATE),
    **{name: Function(name, ("date",), STRING) for name in ("dayname", "monthname")},
    "unix_date": Function("unix_date", ("exactly date",), INTEGER),
    **{name: Function(name, ("exactly timestamp",), LONG) for name in _UNIX},
    "make_date": Function("make_date", ("integer", "integer", "integer"), DATE),
    "date_from_unix_date": Function("date_from_unix_date", ("integer",), DATE),
}
"""Functions by Spark's names; if the types depend on the arguments, see `expression.calls.SHAPED`."""

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
    "timestamp": TIMESTAMP,
}
"""Functions of one argument that are casts."""
