"""Functions by Spark's names become calls; an unknown name is refused."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from tailbit.base.wording import with_article
from tailbit.index.expression import shapes, text_functions, times
from tailbit.index.expression.build import Builder
from tailbit.index.expression.folded import call, is_null, no_number, wrong_type
from tailbit.index.expression.nested import NESTED_FUNCTIONS
from tailbit.index.expression.present import PRESENT, present
from tailbit.index.functions.table import CAST_FUNCTIONS, FUNCTIONS, INTEGER, Function
from tailbit.index.functions.tree import Expression
from tailbit.index.values.literals import DOUBLE, STRING, TIMESTAMP, Literal
from tailbit.index.values.refusals import NotRead
from tailbit.tables.model import DataType


def function(b: Builder, name: str, args: Sequence[Expression]) -> Expression:
    """Build the call of a function by its Spark name.

    Raises:
        NotRead: the function is unknown or unsupported; the error says what to write, or names similar ones.
    """
    check_known(name)
    if name in FUNCTIONS:
        return _plain(b, name, FUNCTIONS[name], args)
    if name in SHAPED:
        least, most, make = SHAPED[name]
        _count(name, args, least, most)
        return make(b, args)
    _count(name, args, 1, 1)
    return b.cast(args[0], CAST_FUNCTIONS[name])


def check_known(name: str) -> None:
    """Raise unless a function is supported.

    Raises:
        NotRead: the function is not supported; the error says what to write, or names similar ones.
    """
    if name in FUNCTIONS or name in CAST_FUNCTIONS or name in SHAPED:
        return
    if name in _INSTEAD:
        raise NotRead(f"the function {name} is not read", _INSTEAD[name])
    import difflib

    near = difflib.get_close_matches(name, names(), n=3)
    listed = f" Nearest: {', '.join(near)}." if near else ""
    raise NotRead(f"the function {name} is not read", f"docs/functions.md names those that are.{listed}")


def _plain(b: Builder, name: str, function: Function, args: Sequence[Expression]) -> Expression:
    takes = function.takes
    _count(name, args, len(takes) if function.least < 0 else function.least, len(takes))
    given = [_taken(b, name, kind, arg) for kind, arg in zip(takes, args, strict=False)]
    zone = b.zone if any(arg.type.name == "timestamp" for arg in given) else "UTC"
    return call(function.kernel, given, function.gives, (zone,) if function.zoned else ())


_EXACTLY = "exactly "


def _taken(b: Builder, name: str, kind: str, arg: Expression) -> Expression:
    """Cast an argument of function `name` to the kind of type that the function takes, such as "text"."""
    if kind == "textual":
        return arg if arg.type.name == "binary" else b.implicit(arg, STRING, name)
    if kind.startswith(_EXACTLY):
        wanted = DataType(kind.removeprefix(_EXACTLY))
        if arg.type.name not in (wanted.name, "void"):
            raise wrong_type(name, with_article(wanted), arg, "CAST it.")
        return b.cast(arg, wanted)
    if kind == "text":
        return shapes.text(b, arg, name)
    if kind == "time":
        return arg if arg.type.name == "timestamp_ntz" else b.implicit(arg, TIMESTAMP, name)
    if kind == "days":
        if arg.type.name in ("byte", "short", "integer", "void"):
            return b.cast(arg, INTEGER)
        raise no_number(name, arg, "an integer number of days", "CAST it AS INT.")
    if kind == "floating":
        return arg if arg.type.name in ("float", "double") else b.implicit(arg, DOUBLE, name)
    return b.implicit(arg, DataType(kind), name)


def _count(name: str, args: Sequence[Expression], least: int, most: int) -> None:
    if not least <= len(args) <= most:
        wanted = str(least) if least == most else f"{least} to {most}" if most < _ANY else f"{least} or more"
        noun = "argument" if wanted == "1" else "arguments"
        raise NotRead(f"{name} takes {wanted} {noun} here, not {len(args)}")


_ANY = sys.maxsize
"""No limit of arguments."""


def names() -> list[str]:
    """Return the names of all functions, sorted."""
    return sorted({*FUNCTIONS, *CAST_FUNCTIONS, *SHAPED})


def _part(b: Builder, args: Sequence[Expression]) -> Expression:
    name = (
        args[0].value.decode().lower()
        if isinstance(args[0], Literal) and isinstance(args[0].value, bytes)
        else ""
    )
    return extracted(b, name, args[1])


_ROW_BY_ROW = "A condition is asked row by row. Write tailbit summary TABLE COLUMN; in Python: "
_INSTEAD = {
    "count": "A condition is asked row by row. Write tailbit count TABLE; in Python: answer.count().",
    **{
        name: f'{_ROW_BY_ROW}answer.{method}("COLUMN"), or by group answer.facets("BY", {method}="COLUMN").'
        for name, method in (("sum", "sum"), ("avg", "avg"), ("mean", "avg"), ("min", "min"), ("max", "max"))
    },
    "col": "A column is written by its name alone: carrier = 'UA'.",
    "iff": "Write if(condition, value, other).",
    **dict.fromkeys(("iif", "case_when"), "Write if(condition, value, other)."),
    **dict.fromkeys(("today", "date_now"), "Write current_date()."),
    **dict.fromkeys(("getdate", "sysdate", "getutcdate", "systimestamp", "datetime_now"), "Write now()."),
    **dict.fromkeys(("strftime", "to_char", "formatdatetime"), "Write date_format(time, 'yyyy-MM-dd')."),
    **dict.fromkeys(
        ("strptime", "parse_datetime", "parsedatetime", "str_to_date"),
        "Write to_timestamp(text, 'yyyy-MM-dd HH:mm:ss').",
    ),
    "datetime": "Write TIMESTAMP'2026-01-31 12:00:00', or DATE'2026-01-31'.",
    **dict.fromkeys(("starts_with", "prefix"), "Write startswith(column, 'part')."),
    **dict.fromkeys(("ends_with", "suffix"), "Write endswith(column, 'part')."),
    **dict.fromkeys(("charindex", "strpos", "indexof", "position_of"), "Write instr(column, 'part')."),
    **dict.fromkeys(
        ("has", "array_has", "list_contains", "list_has", "array_position_of", "member_of"),
        "Write array_contains(column, value).",
    ),
    **dict.fromkeys(
        ("has_any", "hasany", "list_has_any", "array_has_any", "array_overlap"),
        "Write arrays_overlap(column, array('a', 'b')).",
    ),
    **dict.fromkeys(("array_length", "list_length", "array_len"), "Write size(column)."),
    **dict.fromkeys(
        ("json_extract", "json_value", "json_extract_string", "json_extract_scalar", "jsonextract"),
        "Write get_json_object(column, '$.key').",
    ),
    **dict.fromkeys(
        ("match", "regexp_matches", "regexp_match", "regexp_full_match", "regexmatch"),
        "Write column RLIKE and a regular expression in quotes.",
    ),
    **dict.fromkeys(
        ("string_to_array", "str_split", "string_split"), "Write split(column, ',')[0] for the first piece."
    ),
    **dict.fromkeys(("isin", "is_in", "in_list"), "Write column IN ('a', 'b')."),
    **dict.fromkeys(("is_null", "isna", "is_none"), "Write column IS NULL."),
    **dict.fromkeys(("is_not_null", "notnull", "notna"), "Write column IS NOT NULL."),
    **dict.fromkeys(("pow", "power"), "Write n * n for the square of n."),
    "split": "Write split(column, ',')[0] for its first piece, size(split(column, ',')) for their number.",
    **dict.fromkeys(("any_match", "anymatch", "arrayexists"), "Write exists(a, x -> x = 'a')."),
    "explode": "Write array_contains(column, value), or exists(column, x -> x > 1).",
    "toupper": "Write upper(column).",
    "tolower": "Write lower(column).",
    "convert": "Write CAST(column AS INT).",
    "varchar": "Write CAST(column AS STRING).",
    **dict.fromkeys(("filter", "transform", "aggregate", "reduce"), "Write exists(a, x -> ...) or forall."),
}
"""What to write in place of functions that are not read."""

_PARTS = {
    "year": "year", "years": "year", "y": "year", "yr": "year", "quarter": "quarter", "qtr": "quarter",
    "month": "month", "mon": "month", "months": "month", "week": "weekofyear", "weeks": "weekofyear",
    "day": "day", "d": "day", "days": "day", "dayofweek": "dayofweek", "dow": "dayofweek",
    "doy": "dayofyear", "hour": "hour", "h": "hour", "hours": "hour", "minute": "minute", "min": "minute",
    "m": "minute", "minutes": "minute",
}  # fmt: skip


def extracted(b: Builder, name: str, value: Expression) -> Expression:
    """Build EXTRACT(name FROM value)."""
    kernel = _PARTS.get(name.lower())
    if kernel is None:
        raise NotRead(
            f"EXTRACT of {name or 'what is no constant'} is not read", "Write second(x) for seconds."
        )
    return function(b, kernel, [value])


SHAPED: dict[str, tuple[int, int, shapes.Make]] = {
    "abs": (1, 1, shapes.absolute),
    "round": (1, 2, shapes.rounded),
    "floor": (1, 1, partial(shapes.whole, "floor")),
    **dict.fromkeys(("ceil", "ceiling"), (1, 1, partial(shapes.whole, "ceil"))),
    "negative": (1, 1, lambda b, args: b.negative(args[0])),
    "positive": (1, 1, shapes.positive),
    "mod": (2, 2, lambda b, args: b.arithmetic("%", args[0], args[1])),
    "pmod": (2, 2, shapes.remainder),
    **{
        name: (2, 2, partial(shapes.tried, name, op))
        for name, op in (
            *(("try_add", "+"), ("try_subtract", "-"), ("try_multiply", "*")),
            *(("try_divide", "/"), ("try_mod", "%")),
        )
    },
    **{name: (2, _ANY, partial(shapes.extreme, name)) for name in ("greatest", "least")},
    "concat": (1, _ANY, shapes.joined),
    "concat_ws": (1, _ANY, lambda b, args: call("concat_ws", shapes.texts(b, args, "concat_ws"), STRING)),
    **dict.fromkeys(("locate", "position"), (2, 3, shapes.located)),
    "btrim": (1, 2, lambda b, args: shapes.strip(b, "both", *args)),
    **{name: (1, 2, partial(shapes.stripped, side)) for name, side in shapes.TRIMMED.items()},
    "coalesce": (1, _ANY, Builder.coalesce),
    **dict.fromkeys(("nvl", "ifnull"), (2, 2, Builder.coalesce)),
    "nvl2": (3, 3, lambda b, args: b.case([(b.negate(is_null(args[0])), args[1])], args[2])),
    "nullif": (2, 2, shapes.null_if),
    "zeroifnull": (1, 1, lambda b, args: b.coalesce([args[0], Literal(INTEGER, 0, True)])),
    "nullifzero": (1, 1, lambda b, args: shapes.null_if(b, [args[0], Literal(INTEGER, 0, True)])),
    "equal_null": (2, 2, lambda b, args: b.compare("<=>", args[0], args[1])),
    "if": (3, 3, lambda b, args: b.case([(args[0], args[1])], args[2])),
    "isnull": (1, 1, lambda b, args: is_null(args[0])),
    "isnotnull": (1, 1, lambda b, args: b.negate(is_null(args[0]))),
    "regexp_extract": (2, 3, text_functions.extracted),
    "split_part": (3, 3, text_functions.part),
    "get_json_object": (2, 2, text_functions.json_part),
    "decode": (2, _ANY, text_functions.decoded),
    "substring_index": (3, 3, text_functions.before_or_behind),
    **{name: (1, 1, partial(text_functions.digest, name)) for name in ("md5", "sha1", "crc32")},
    "sha": (1, 1, partial(text_functions.digest, "sha1")),
    "sha2": (2, 2, text_functions.sha2),
    "hash": (1, _ANY, lambda _, args: call("hash", args, INTEGER)),
    "hex": (1, 1, text_functions.hexadecimal),
    "regexp_replace": (3, 3, text_functions.replaced),
    "like": (2, 2, lambda b, args: b.like(args[0], args[1])),
    **dict.fromkeys(
        ("rlike", "regexp", "regexp_like"), (2, 2, lambda b, args: b.like(args[0], args[1], name="rlike"))
    ),
    **{name: (0, 0, present(type_)) for name, type_ in PRESENT.items()},
    "date_trunc": (2, 2, times.truncated_time),
    "trunc": (2, 2, times.truncated_date),
    "date_format": (2, 2, times.formatted),
    "to_date": (1, 2, times.to_date),
    "to_timestamp": (1, 2, times.to_timestamp),
    "try_to_date": (1, 2, times.try_to_date),
    "try_to_timestamp": (1, 2, times.try_to_timestamp),
    "unix_timestamp": (0, 2, times.unix_timestamp),
    "to_unix_timestamp": (1, 2, times.unix_timestamp),
    "from_unixtime": (1, 2, times.from_unixtime),
    **{
        f"timestamp_{name}": (1, 1, partial(times.since_1970, f"timestamp_{name}", unit))
        for name, unit in (("seconds", 1_000_000), ("millis", 1000), ("micros", 1))
    },
    **dict.fromkeys(("date_part", "datepart"), (2, 2, _part)),
    **NESTED_FUNCTIONS,
}
"""Functions whose types depend on their arguments: least and most arguments, and the builder of the call."""
