"""The supported operators and functions: what is known of each, and the types of their arguments.

`docs/functions.md` is made from this table. A name outside the table is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from tailbit.base.dataclass import dataclass
from tailbit.index.functions.tree import Call
from tailbit.index.values.literals import BINARY, BOOLEAN, DATE, DOUBLE, INTEGER, LONG, STRING, TIMESTAMP
from tailbit.tables.model import DataType

if TYPE_CHECKING:
    import pyarrow as pa

    from tailbit.index.functions.vectors import Vector

ANSI = "spark.sql.ansi.enabled"
"""What raises with ANSI mode on is NULL, or wraps, with it off."""

ZONE = "spark.sql.session.timeZone"
CASES = "spark.sql.icu.caseMappings.enabled"
LOCALE = "the JVM's locale"
JAVA = "the release of Java"
RELEASE = "the release of Spark"
_LOSS = "spark.sql.decimalOperations.allowPrecisionLoss"
_PARSER = "spark.sql.legacy.timeParserPolicy"
_PADS = "spark.sql.legacy.lpadRpadAlwaysReturnString"
_CHARSETS = ("spark.sql.legacy.javaCharsets", "spark.sql.legacy.codingErrorAction")


class Operation(NamedTuple):
    """What is known of an operator or function.

    `kernel`: the module in this folder and its function that evaluates a call; empty for what `evaluate`
    itself does. The module is imported at the first call: a question that calls no function imports none.

    `causes`: what else than its arguments decides the value in Spark: settings, zone, locale, release. Two
    sessions that differ in one of these may have different values, or raise where the other one does not.
    A row says what may be, over all arguments: `hash` had another value of -0.0 before Spark 3.2, `LIKE`
    matches characters beyond U+FFFF since Spark 4.2, a cast reads a clock only from a timestamp.

    `first`: the operand, left or right, that Spark evaluates first; once an operand is NULL, the remaining
    ones are not evaluated. Empty: all are. Source: `eval` of BinaryExpression, TernaryExpression, DivModLike.

    `null_by_any`: whether a call is NULL if an argument is the constant NULL, whatever the others raise.
    Source: Spark, NullPropagation, which precedes the folding of constants. `folds_late`: whether a call
    becomes NULL by such an argument only when constants are folded: it is not `nullIntolerant` in Spark, or
    made of `if`.

    `of_characters`: whether it works on the characters of texts; others compare, join and search bytes.
    """

    kernel: str
    causes: tuple[str, ...]
    first: str = ""
    null_by_any: bool = False
    folds_late: bool = False
    of_characters: bool = False


_FROM_LEFT: Mapping[str, Any] = {"first": "left", "null_by_any": True}
_FROM_RIGHT: Mapping[str, Any] = {"first": "right", "null_by_any": True}


def _row(names: str, kernel: str, *causes: str, **rules: Any) -> dict[str, Operation]:
    return dict.fromkeys(names.split(", "), Operation(kernel, causes, **rules))


_UNIX = ("unix_seconds", "unix_millis", "unix_micros")

OPERATIONS: Mapping[str, Operation] = {
    **_row("and, or, transform", ""),
    **_row("exists, forall", "", "spark.sql.legacy.followThreeValuedLogicInArrayExists"),
    **_row("case, coalesce", "", folds_late=True),
    **_row("+, -, *", "operators.binary", ANSI, _LOSS, **_FROM_LEFT),
    **_row("/, %, div", "operators.binary", ANSI, _LOSS, **_FROM_RIGHT),
    **_row("pmod", "operators.positive_remainder", ANSI, _LOSS, **_FROM_RIGHT),
    **_row("try_add, try_subtract, try_multiply", "operators.tried", _LOSS, RELEASE, **_FROM_LEFT),
    **_row("try_divide, try_mod", "operators.tried", _LOSS, RELEASE, **_FROM_RIGHT),
    **_row("=, <>, <, <=, >, >=", "operators.compared", **_FROM_LEFT),
    **_row("<=>", "operators.compared"),
    **_row("&, |, ^", "operators.bitwise", **_FROM_LEFT),
    **_row("~", "operators.bitwise"),
    **_row("sign, sqrt, rint", "operators.of_double"),
    **_row("greatest, least", "operators.extreme", folds_late=True),
    **_row("negative", "operators.negative", ANSI),
    **_row("abs", "operators.absolute", ANSI),
    **_row("not", "operators.negated"),
    **_row("is null", "operators.is_null"),
    **_row("isnan", "operators.is_nan"),
    **_row("in", "operators.is_one_of"),
    **_row("cast", "casting.cast", ANSI, ZONE, JAVA, RELEASE, of_characters=True),
    **_row("try_cast", "", ZONE, JAVA, RELEASE, of_characters=True),
    **_row("floor, ceil", "casting.rounded", ANSI),
    **_row("round", "casting.rounded", ANSI, RELEASE, folds_late=True),
    **_row("like", "texts.like", RELEASE, of_characters=True),
    **_row("rlike", "texts.like", JAVA, of_characters=True),
    **_row("startswith, endswith, contains", "texts.searched", **_FROM_LEFT),
    **_row("length", "texts.length", of_characters=True),
    **_row("octet_length", "texts.octets"),
    **_row("lower, upper", "texts.cased", CASES, LOCALE, JAVA, RELEASE, of_characters=True),
    **_row("initcap", "texts.capitalized", CASES, LOCALE, JAVA, RELEASE, of_characters=True),
    **_row("trim, ltrim, rtrim", "texts.trimmed", folds_late=True, of_characters=True),
    **_row("strip", "texts.stripped", first="left", folds_late=True, of_characters=True),
    **_row("substring", "texts.part_of", **_FROM_LEFT, of_characters=True),
    **_row("left", "texts.first_characters", **_FROM_LEFT, of_characters=True),
    **_row("right", "texts.last_characters", **_FROM_LEFT, folds_late=True, of_characters=True),
    **_row("concat", "texts.joined", folds_late=True),
    **_row("concat_ws", "texts.joined_by", folds_late=True),
    **_row("replace", "texts.replaced", **_FROM_LEFT),
    **_row("instr", "texts.place", **_FROM_LEFT, of_characters=True),
    **_row("locate", "texts.place_from", first="left", folds_late=True, of_characters=True),
    **_row("lpad, rpad", "texts.padded", _PADS, first="left", null_by_any=True, of_characters=True),
    **_row("translate", "texts.translated", RELEASE, **_FROM_LEFT, of_characters=True),
    **_row("reverse", "texts.reversed_", of_characters=True),
    **_row("ascii", "texts.first_code", RELEASE, of_characters=True),
    **_row("regexp_extract", "groups.extracted", JAVA, of_characters=True),
    **_row("regexp_replace", "groups.substituted", JAVA, of_characters=True),
    **_row("substring_index", "groups.before_or_behind", RELEASE, **_FROM_LEFT),
    **_row("split_part", "groups.part_of", RELEASE, first="left", of_characters=True),
    **_row("split item", "groups.item", JAVA, of_characters=True),
    **_row("split size", "groups.count", JAVA, of_characters=True),
    **_row("decode", "groups.decoded", *_CHARSETS, RELEASE),
    **_row("get_json_object", "json_paths.extracted", RELEASE, of_characters=True),
    **_row("digest", "digests.digest"),
    **_row("hash", "digests.hashed", RELEASE),
    **_row("hex", "digests.hex_of_whole"),
    **_row("year, quarter, month, day, dayofyear, dayofweek, weekday, weekofyear", "dates.of_date"),
    **_row("hour, minute, second", "dates.of_time", ZONE),
    **_row("last_day", "dates.last_day"),
    **_row("date_add, date_sub", "dates.moved", ANSI, RELEASE, **_FROM_LEFT),
    **_row("datediff", "dates.between", ANSI, RELEASE, **_FROM_LEFT),
    **_row("add_months", "dates.months_later", ANSI, RELEASE, **_FROM_LEFT),
    **_row("make_date", "dates.of_fields", ANSI, RELEASE, **_FROM_LEFT),
    **_row("later", "dates.later", ANSI, ZONE, RELEASE),
    **_row("difference", "dates.difference", ANSI, ZONE, RELEASE, **_FROM_LEFT),
    **_row("timestampdiff", "dates.whole_units", ANSI, ZONE, RELEASE, first="left"),
    **_row("dayname, monthname", "dates.unit_name", JAVA, RELEASE),
    **_row(", ".join(("unix_date", *_UNIX)), "dates.since_1970"),
    **_row("date_from_unix_date", "dates.day_since_1970"),
    **_row("seconds since 1970", "dates.seconds_since_1970", ANSI, RELEASE),
    **_row("time since 1970", "dates.instants_since_1970", ANSI, RELEASE),
    **_row("date_trunc", "dates.truncated", ZONE, RELEASE, folds_late=True),
    **_row("trunc", "dates.truncated_date", folds_late=True),
    **_row("date_format", "dates.formatted", ZONE, _PARSER, JAVA),
    **_row("parsed time", "dates.parsed", ANSI, ZONE, _PARSER, JAVA, of_characters=True),
    **_row("array_contains", "nested.contains", **_FROM_LEFT),
    **_row("arrays_overlap", "nested.overlap", **_FROM_LEFT),
    **_row("array_position", "nested.position", **_FROM_LEFT),
    **_row("array_max, array_min", "nested.extreme"),
    **_row("array", "nested.array_of_values"),
    **_row("size", "nested.size", ANSI, "spark.sql.legacy.sizeOfNull"),
    **_row("element_at", "nested.element", ANSI, **_FROM_LEFT),
    **_row("map value", "nested.value_of_key", ANSI, **_FROM_LEFT),
    **_row("map_keys, map_values", "nested.keys_or_values"),
    **_row("field", "nested.field"),
}
"""The operators and functions, by the names that calls have."""


def kernel(function: str) -> Callable[[Call, list[pa.Array]], Vector]:
    """Return the kernel that evaluates a function; its module is imported at the first call."""
    module, _, name = OPERATIONS[function].kernel.rpartition(".")
    evaluates: Callable[[Call, list[pa.Array]], Vector] = getattr(
        import_module(f"tailbit.index.functions.{module}"), name
    )
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
