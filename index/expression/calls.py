"""Functions by Spark's names become calls, with their arguments cast; an unknown name is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from tailbit.base.wording import with_article
from tailbit.index.expression import times
from tailbit.index.expression.build import (
    ASSOCIATED,
    PRESENT,
    Builder,
    asked_twice,
    associated,
    call,
    is_null,
    no_number,
    of_no_number,
    present,
    referred,
    wrong_type,
)
from tailbit.index.expression.nested import NESTED_FUNCTIONS
from tailbit.index.functions.groups import CHARSETS, groups_of, replacement
from tailbit.index.functions.json_paths import path_of
from tailbit.index.functions.table import CAST_FUNCTIONS, FUNCTIONS, Function
from tailbit.index.functions.tree import Expression
from tailbit.index.values.literals import (
    BINARY,
    DOUBLE,
    INTEGER,
    LONG,
    NUMERIC,
    STRING,
    TIMESTAMP,
    VOID,
    WHOLE,
    Literal,
    NotRead,
    mismatch,
)
from tailbit.tables.model import DataType

Make = Callable[[Builder, Sequence[Expression]], Expression]


def _absolute(b: Builder, args: Sequence[Expression]) -> Expression:
    if args[0].type.name not in NUMERIC:
        raise no_number("abs", args[0])
    return call("abs", args, args[0].type)


def _of_void(b: Builder, value: Expression) -> Expression:
    return b.cast(value, DOUBLE) if value.type == VOID else value


def _whole_constant(arg: Expression, reason: str) -> int:
    """Return the integer of a constant argument; `reason`: the error for other arguments."""
    if not isinstance(arg, Literal) or arg.type.name not in WHOLE or not isinstance(arg.value, int):
        raise NotRead(reason)
    return arg.value


def _rounded(b: Builder, args: Sequence[Expression]) -> Expression:
    value = _of_void(b, args[0])
    digits = _whole_constant(args[1], "round takes a constant number of digits") if len(args) > 1 else 0
    if value.type.name not in NUMERIC or abs(digits) > 300:
        reason = f"round of {with_article(value.type.sql)} is not read"
        raise NotRead(reason if value.type.name in NUMERIC else of_no_number(reason, value), "CAST it.")
    type_ = value.type
    if type_.name == "float":
        raise NotRead("round of a float is not read", "CAST it AS DOUBLE.")
    if type_.name == "decimal":
        whole, scale = type_.precision - type_.scale + 1, min(type_.scale, max(digits, 0))
        precision = max(whole, -digits + 1) if digits < 0 else whole + scale
        type_ = DataType("decimal", min(precision, 38), scale)
    return call("round", [value], type_, (digits,))


def _whole(name: str, b: Builder, args: Sequence[Expression]) -> Expression:
    value = _of_void(b, args[0])
    if value.type.name not in NUMERIC:
        raise no_number(name, value)
    if value.type.name == "decimal":
        precision = min(value.type.precision - value.type.scale + 1, 38)
        return call(name, [value], DataType("decimal", precision, 0), (0,))
    return call(name, [value], LONG, (0,))


def _joined(b: Builder, args: Sequence[Expression]) -> Expression:
    if any(arg.type == BINARY for arg in args):
        raise NotRead("concat of binary values is not read")
    texts = [b.implicit(arg, STRING, "concat") for arg in args]
    return texts[0] if len(texts) == 1 else call("concat", texts, STRING)


def _null_if(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build nullif(a, b): NULL if a equals b, else a."""
    return b.case([(b.compare("=", asked_twice(args[0]), args[1]), Literal(args[0].type, None))], args[0])


def _positive(b: Builder, args: Sequence[Expression]) -> Expression:
    value = args[0]
    if value.type.name == "string":
        return b.cast(value, DOUBLE)
    if value.type.name not in NUMERIC:
        raise no_number("positive", value)
    return referred(value)


def _remainder(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build pmod: the remainder of a division, never negative for a positive divisor."""
    given, type_ = b.operands("%", *args)
    if type_.name == "decimal":
        raise NotRead("pmod of decimals is not read", "CAST both AS DOUBLE or BIGINT.")
    return call("pmod", given, type_)


def _tried(name: str, op: str, b: Builder, args: Sequence[Expression]) -> Expression:
    """Build try_add or the like, for numbers."""
    if any(arg.type.name == "string" for arg in args):
        raise NotRead(f"{name} of a string is not read", "TRY_CAST it.")
    given, type_ = b.operands(op, *args)
    if type_.name in WHOLE and name in ASSOCIATED:
        return associated(name, given, type_)
    return call(name, given, type_)


def _extreme(name: str, b: Builder, args: Sequence[Expression]) -> Expression:
    kinds = {arg.type.name for arg in args} - {"void"}
    if "string" in kinds and len(kinds) > 1:
        reason = f"{name} of {', '.join(sorted(kinds))} is not read"
        raise NotRead(mismatch(reason, "DATA_DIFF_TYPES"), "CAST them to one type.")
    same = b.to_common_type(args, name)
    if isinstance(same[0], Literal) and same[0].type == VOID:
        return replace(same[0], late=True)
    return call(name, same, same[0].type)


def _text(b: Builder, value: Expression, name: str) -> Expression:
    if value.type == BINARY:
        raise NotRead(f"{name} of binary values is not read", "CAST them AS STRING.")
    return b.implicit(value, STRING, name)


def _texts(b: Builder, values: Sequence[Expression], name: str) -> list[Expression]:
    return [_text(b, value, name) for value in values]


def _located(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build locate or position: the searched part comes first, the optional start position last."""
    needle, value = _texts(b, args[:2], "locate")
    first = args[2] if len(args) > 2 else Literal(INTEGER, 1, True)
    _whole_constant(first, "locate takes a constant place to begin at")
    return call("locate", [needle, value, b.cast(first, INTEGER)], INTEGER)


TRIMMED = {"trim": "both", "ltrim": "leading", "rtrim": "trailing"}
"""Trim functions, with the ends of the text that they trim."""


def _stripped(side: str, b: Builder, args: Sequence[Expression]) -> Expression:
    """Build trim, ltrim or rtrim; the characters to strip may precede the text."""
    return strip(b, side, *reversed(args))


def strip(b: Builder, side: str, value: Expression, chars: Expression | None = None) -> Expression:
    """Build TRIM of one end or both."""
    value = _text(b, value, "trim")
    if chars is None:
        return call(next(name for name, ends in TRIMMED.items() if ends == side), [value], STRING)
    return call("strip", [value, _text(b, chars, "trim")], STRING, (side,))


_MOST = 1 << 31
"""More pieces than Spark counts."""


def _regexp_extracted(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build regexp_extract; the default group is the first."""
    value, pattern = _text(b, args[0], "regexp_extract"), _constant(args[1], "regexp_extract")
    reason = "regexp_extract takes a constant number of a group"
    group = _whole_constant(args[2], reason) if len(args) > 2 else 1
    groups = groups_of(pattern).groups
    if not 0 <= group <= groups:
        raise NotRead(
            f"regexp_extract of group {group} of {groups} (INVALID_PARAMETER_VALUE in Spark)",
            "0 stands for all that is found.",
        )
    return call("regexp_extract", [value, Literal(STRING, pattern.encode())], STRING, (group,))


def _replaced(b: Builder, args: Sequence[Expression]) -> Expression:
    value, pattern = _text(b, args[0], "regexp_replace"), _constant(args[1], "regexp_replace")
    replacement_pieces = replacement(_constant(args[2], "regexp_replace"), groups_of(pattern).groups)
    _check_not_empty("regexp_replace", pattern)
    return call(
        "regexp_replace", [value, Literal(STRING, pattern.encode())], STRING, tuple(replacement_pieces)
    )


def piece(
    b: Builder, args: Sequence[Expression], index: Expression, error: str = "INVALID_ARRAY_INDEX"
) -> Expression:
    """Build split(s, pattern)[n], or element_at(split(s, pattern), n), which counts from 1 or from the end.

    `error`: the error that Spark raises if there is no such piece.
    """
    number = _whole_constant(index, "the place of a piece of split is a constant number")
    if error != "INVALID_ARRAY_INDEX":
        if number == 0:
            raise NotRead("element_at counts from 1 (INVALID_INDEX_OF_ZERO in Spark)")
        number -= number > 0
    elif number < 0:
        raise NotRead("split(...)[n] counts from 0 (INVALID_ARRAY_INDEX in Spark)")
    return call("split item", _split_arguments(b, args), STRING, (number, error))


def pieces(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build size(split(s, pattern)): the number of pieces of a text; NULL for NULL."""
    return call("split size", _split_arguments(b, args), INTEGER)


def _split_arguments(b: Builder, args: Sequence[Expression]) -> list[Expression]:
    if len(args) != 2:
        raise NotRead(f"split takes 2 arguments here, not {len(args)}")
    pattern = _constant(args[1], "split")
    _check_not_empty("split", pattern)
    return [_text(b, args[0], "split"), Literal(STRING, pattern.encode())]


def _split_part(b: Builder, args: Sequence[Expression]) -> Expression:
    number = _whole_constant(args[2], "split_part takes a constant number of a part")
    if number == 0:
        raise NotRead("split_part counts from 1 (INVALID_INDEX_OF_ZERO in Spark)")
    if abs(number) >= _MOST:
        raise NotRead(f"split_part of part {number} is not read (it raises in Spark)")
    return call("split_part", _texts(b, args[:2], "split_part"), STRING, (number,))


def _before_or_behind(b: Builder, args: Sequence[Expression]) -> Expression:
    reason = "substring_index takes a constant number of places"
    if abs(_whole_constant(args[2], reason)) >= _MOST:
        raise NotRead(reason)
    given = [*_texts(b, args[:2], "substring_index"), b.cast(args[2], INTEGER)]
    return call("substring_index", given, STRING)


def _digest(name: str, b: Builder, args: Sequence[Expression]) -> Expression:
    """Build md5, sha1 or crc32 of a text's bytes, or of bytes."""
    type_ = LONG if name == "crc32" else STRING
    return call("digest", [_bytes(args[0], name)], type_, (name,))


def _json_part(b: Builder, args: Sequence[Expression]) -> Expression:
    value, path = _text(b, args[0], "get_json_object"), args[1]
    if isinstance(path, Literal) and path.value is None:
        return Literal(STRING, None)
    steps = path_of(_constant(path, "get_json_object"))
    if steps is None:
        reason = "of JSON, a path is read that is $ and then names and places, without * or blanks"
        raise NotRead(reason, "Write '$.a.b[0]', or \"$['a.b']\" for a name with a point.")
    return call("get_json_object", [value], STRING, steps)


def _decoded(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build decode: bytes in a character set or, with more arguments, the value of the first match."""
    if len(args) > 2:
        pairs = zip(args[1::2], args[2::2], strict=False)
        other = args[-1] if len(args) % 2 == 0 else Literal(VOID, None)
        kinds = {str(given.type) for given in (*args[2::2], other)} - {"void"}
        if len(kinds) > 1:
            raise NotRead(f"decode to {', '.join(sorted(kinds))} is not read", "CAST them to one type.")
        return b.case([(b.compare("<=>", args[0], candidate), given) for candidate, given in pairs], other)
    value = args[0]
    if value.type.name not in ("string", "binary"):
        raise no_number("decode", value, "bytes", "CAST it AS STRING.")
    charset = _constant(args[1], "decode").upper()
    if charset not in CHARSETS:
        raise NotRead(f"decode of {charset} is not read", f"It takes {', '.join(CHARSETS)}.")
    return call("decode", [value], STRING, (charset,))


def _sha2(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build sha2 of 224, 256, 384 or 512 bits; 0 means 256."""
    bits = args[1].value if isinstance(args[1], Literal) and args[1].type.name in WHOLE else None
    if bits not in (0, 224, 256, 384, 512):
        raise NotRead("sha2 takes 0, 224, 256, 384 or 512 here")
    return call("digest", [_bytes(args[0], "sha2")], STRING, (f"sha{bits or 256}",))


def _hexadecimal(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build hex of an integer, or of bytes."""
    if args[0].type.name in WHOLE:
        return call("hex", [b.cast(args[0], LONG)], STRING)
    return call("digest", [_bytes(args[0], "hex")], STRING, ("hex",))


def _bytes(value: Expression, name: str) -> Expression:
    if value.type.name not in ("string", "binary"):
        raise NotRead(f"{name} of {with_article(value.type.sql)} is not read", "CAST it AS STRING.")
    return value


def _check_not_empty(name: str, pattern: str) -> None:
    if groups_of(pattern).search("") is not None:
        raise NotRead(f"{name} of {pattern!r}, which finds an empty text, is not read", "Write + for *.")


def _constant(arg: Expression, name: str) -> str:
    if not isinstance(arg, Literal) or not isinstance(arg.value, bytes) or arg.type != STRING:
        raise NotRead(f"{name} takes constant texts behind its first argument")
    return arg.value.decode()


def function(b: Builder, name: str, args: Sequence[Expression]) -> Expression:
    """Build the call of a function by its Spark name."""
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
    """Raise unless a function is supported."""
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
    given = [_as_argument(b, name, kind, arg) for kind, arg in zip(takes, args, strict=False)]
    zone = b.zone if any(arg.type.name == "timestamp" for arg in given) else "UTC"
    return call(function.kernel, given, function.gives, (zone,) if function.zoned else ())


_EXACTLY = "exactly "


def _as_argument(b: Builder, name: str, kind: str, arg: Expression) -> Expression:
    """Cast an argument of function `name` to the kind of type that the function takes, such as "text"."""
    if kind == "textual":
        return arg if arg.type.name == "binary" else b.implicit(arg, STRING, name)
    if kind.startswith(_EXACTLY):
        type_ = DataType(kind.removeprefix(_EXACTLY))
        if arg.type.name not in (type_.name, "void"):
            raise wrong_type(name, with_article(type_), arg, "CAST it.")
        return b.cast(arg, type_)
    if kind == "text":
        return _text(b, arg, name)
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
        number = str(least) if least == most else f"{least} to {most}" if most < _ANY else f"{least} or more"
        noun = "argument" if number == "1" else "arguments"
        raise NotRead(f"{name} takes {number} {noun} here, not {len(args)}")


_ANY = sys.maxsize
"""No limit of arguments."""


def names() -> list[str]:
    """Return the names of all functions, sorted."""
    return sorted({*FUNCTIONS, *CAST_FUNCTIONS, *SHAPED})


def _date_field(b: Builder, args: Sequence[Expression]) -> Expression:
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

_DATE_FIELDS = {
    "year": "year", "years": "year", "y": "year", "yr": "year", "quarter": "quarter", "qtr": "quarter",
    "month": "month", "mon": "month", "months": "month", "week": "weekofyear", "weeks": "weekofyear",
    "day": "day", "d": "day", "days": "day", "dayofweek": "dayofweek", "dow": "dayofweek",
    "doy": "dayofyear", "hour": "hour", "h": "hour", "hours": "hour", "minute": "minute", "min": "minute",
    "m": "minute", "minutes": "minute",
}  # fmt: skip


def extracted(b: Builder, name: str, value: Expression) -> Expression:
    """Build EXTRACT(name FROM value)."""
    kernel = _DATE_FIELDS.get(name.lower())
    if kernel is None:
        raise NotRead(
            f"EXTRACT of {name or 'what is no constant'} is not read", "Write second(x) for seconds."
        )
    return function(b, kernel, [value])


SHAPED: dict[str, tuple[int, int, Make]] = {
    "abs": (1, 1, _absolute),
    "round": (1, 2, _rounded),
    "floor": (1, 1, partial(_whole, "floor")),
    **dict.fromkeys(("ceil", "ceiling"), (1, 1, partial(_whole, "ceil"))),
    "negative": (1, 1, lambda b, args: b.negative(args[0])),
    "positive": (1, 1, _positive),
    "mod": (2, 2, lambda b, args: b.arithmetic("%", args[0], args[1])),
    "pmod": (2, 2, _remainder),
    **{
        name: (2, 2, partial(_tried, name, op))
        for name, op in (
            *(("try_add", "+"), ("try_subtract", "-"), ("try_multiply", "*")),
            *(("try_divide", "/"), ("try_mod", "%")),
        )
    },
    **{name: (2, _ANY, partial(_extreme, name)) for name in ("greatest", "least")},
    "concat": (1, _ANY, _joined),
    "concat_ws": (1, _ANY, lambda b, args: call("concat_ws", _texts(b, args, "concat_ws"), STRING)),
    **dict.fromkeys(("locate", "position"), (2, 3, _located)),
    "btrim": (1, 2, lambda b, args: strip(b, "both", *args)),
    **{name: (1, 2, partial(_stripped, side)) for name, side in TRIMMED.items()},
    "coalesce": (1, _ANY, Builder.coalesce),
    **dict.fromkeys(("nvl", "ifnull"), (2, 2, Builder.coalesce)),
    "nvl2": (3, 3, lambda b, args: b.case([(b.negate(is_null(args[0])), args[1])], args[2])),
    "nullif": (2, 2, _null_if),
    "zeroifnull": (1, 1, lambda b, args: b.coalesce([args[0], Literal(INTEGER, 0, True)])),
    "nullifzero": (1, 1, lambda b, args: _null_if(b, [args[0], Literal(INTEGER, 0, True)])),
    "equal_null": (2, 2, lambda b, args: b.compare("<=>", args[0], args[1])),
    "if": (3, 3, lambda b, args: b.case([(args[0], args[1])], args[2])),
    "isnull": (1, 1, lambda b, args: is_null(args[0])),
    "isnotnull": (1, 1, lambda b, args: b.negate(is_null(args[0]))),
    "regexp_extract": (2, 3, _regexp_extracted),
    "split_part": (3, 3, _split_part),
    "get_json_object": (2, 2, _json_part),
    "decode": (2, _ANY, _decoded),
    "substring_index": (3, 3, _before_or_behind),
    **{name: (1, 1, partial(_digest, name)) for name in ("md5", "sha1", "crc32")},
    "sha": (1, 1, partial(_digest, "sha1")),
    "sha2": (2, 2, _sha2),
    "hash": (1, _ANY, lambda _, args: call("hash", args, INTEGER)),
    "hex": (1, 1, _hexadecimal),
    "regexp_replace": (3, 3, _replaced),
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
    **dict.fromkeys(("date_part", "datepart"), (2, 2, _date_field)),
    **NESTED_FUNCTIONS,
}
"""Functions whose types depend on their arguments: least and most arguments, and the builder of the call."""
