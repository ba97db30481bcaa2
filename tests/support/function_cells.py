"""Every operator and function that is read, over columns of edge values: what Spark is asked about.

`CELLS` names expressions per function. `docs/functions.md` is made from it, and Spark judges every cell of
(expression, row): the value, or the class of the error.
"""

# ruff: noqa: E501

from __future__ import annotations

import datetime
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa

from support.nested_cells import NESTED_CELLS, NESTED_COLUMNS, fields_of
from tailbit.tables.delta.schema import parse_schema
from tailbit.tables.schema import Schema

_NAN, _INF = math.nan, math.inf


def _moments(*texts: str) -> list[datetime.datetime]:
    return [datetime.datetime.fromisoformat(text) for text in texts]


_MOMENTS = _moments(
    "1970-01-01 00:00:00",
    "2020-02-29 12:34:56.789012",
    "2019-12-31 23:59:59.999999",
    "2021-01-01 00:00:00.000001",
    "0001-01-01 00:00:00",
    "9999-12-31 23:59:59.999999",
    "1969-12-31 23:59:59.5",
    "1582-10-10 12:00:00",
    "2024-07-01 06:00:00",
    "1900-03-01 00:00:00.1",
)
COLUMNS: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "b": ("byte", pa.int8(), [-128, 127, 0, 1, -1, 5]),
    "sh": ("short", pa.int16(), [-32768, 32767, 0, 1, -7, 300]),
    "i": ("integer", pa.int32(), [-(2**31), 2**31 - 1, 0, 1, -7, 1234567, 65]),
    "l": ("long", pa.int64(), [-(2**63), 2**63 - 1, 0, 1, -7, 2**53 + 1, 3037000500]),
    "f": ("float", pa.float32(), [_NAN, _INF, -_INF, 0.0, -0.0, 1.5, -2.5, 16777216.0, 3.4e38]),
    "d": ("double", pa.float64(), [_NAN, _INF, -_INF, 0.0, -0.0, 0.5, -2.5, 2.675, 1e300, 9.3e18, 1e15 + 0.5]),
    "p": ("decimal(10,2)", pa.decimal128(10, 2), ["0", "1.50", "-1.55", "99999999.99", "-99999999.99", "0.05"]),
    "q": ("decimal(18,6)", pa.decimal128(18, 6), ["0", "2", "-0.000001", "999999999999.999999", "3.5", "-7"]),
    "s": (
        "string",
        pa.string(),
        ["", "a", "abc", " Abc ", "ABC", "äÖß", "a%c", "a_c", "a\\c", "line\nend", "𝄞x", "ΑΣ", "\ta ", "aaa", "İ"],
    ),
    "n": (
        "string",
        pa.string(),
        ["1", " 12 ", "-7", "1.5", "1e2", "abc", "", "NaN", "true", "n", "300", "99999999999", "+5", "0", "1.005"],
    ),
    "t": (
        "string",
        pa.string(),
        [
            "2020-02-29", "2020-2-9", "2020", "2020-02-30", "1969-12-31 23:59:59.5", "2020-01-01T10:00:00Z",
            "abc", "", " 2020-01-01 ", "2020-01-01 10:00:00.1234567", "0001-01-01", "2020-06-01 12:00:00+02:00",
        ],
    ),
    "x": ("binary", pa.binary(), [b"", b"a", b"abc", b"\xff\x00"]),
    "dt": ("date", pa.date32(), [m.date() for m in _MOMENTS]),
    "ts": ("timestamp", pa.timestamp("us", "UTC"), [m.replace(tzinfo=datetime.timezone.utc) for m in _MOMENTS]),
    "nt": ("timestamp_ntz", pa.timestamp("us"), _MOMENTS),
    "bo": ("boolean", pa.bool_(), [True, False]),
}  # fmt: skip
"""Column to Delta type, Arrow type and edge values."""

_WHOLE, _FLOATS = ("b", "sh", "i", "l"), ("f", "d")
_NUMBERS = (*_WHOLE, *_FLOATS, "p", "q")
_ALL = tuple(COLUMNS)


def _each(shape: str, columns: tuple[str, ...]) -> list[str]:
    return [shape.format(c=column) for column in columns]


_PAIRS = [
    (a, b) for a in _NUMBERS for b in ("i", "l", "d", "p", "b", "1", "2L", "1.5", "0", "-1", "0.5D")
] + [("f", "f")]

CELLS: dict[str, list[str]] = {
    **{op: [f"{a} {op} {b}" for a, b in _PAIRS if not (op == "div" and {a, b} & {"f", "d", "p", "q", "1.5", "0.5D"})]
       for op in ("+", "-", "*", "/", "%", "div")},
    "decimals of more than 38 digits": ["p * (1 - p) * (1 + p)", "q * q * q", "q * q * q * q", "p * p * p * p * p", "p / q / p", "q / p / q / p", "q * q / p / q", "q / (q * q * q)", "CAST(q AS DECIMAL(38,18)) + CAST(p AS DECIMAL(38,17))", "CAST(p AS DECIMAL(38,18)) - q * q * q", "CAST(q AS DECIMAL(38,18)) * CAST(0.000001 AS DECIMAL(38,37))", "q * q * q % (p * p)", "1 / CAST(q AS DECIMAL(31,6))", "CAST(0.5 AS DECIMAL(6,6)) / CAST(l AS DECIMAL(31,0))", "q * q * q * q > p * p", "CASE WHEN bo THEN q * q * q ELSE p END", "q * q * q = p"],
    "several constants in a sum or product": ["i + 2 + -2", "2 + i + -2", "i + 2 - 2", "2 + i + sh + -2 + l + 1", "(i + 2) * (i + 2) * 0", "2 * i * 0", "b + 127Y + -127Y", "CASE WHEN bo THEN i + 2 + -2 END", "CAST(i + 1 AS BIGINT) + 1 + -1", "p + 1 + 2", "d + 1 + 2", "i + -2 + i", "l + -1 + l", "l * 2 * i", "i * (sh * 2)", "2 + l + l", "try_multiply(l, 300) * (-sh)", "l + try_add(l, 300)", "try_add(l + 300, l)", "try_add(try_add(l, 300), l)", "try_add(i + 2, 3)", "try_multiply(l * 3, l)", "try_multiply(l, l) * sh", "l - 2 + l", "try_subtract(l, 2) + 2", "try_add(l, NULL) + l", "b + 2Y + b", "try_add(b + 2Y, b)"],
    "NULL as an operand": ["NULL + 1 / d", "nullif(7, 7) + 1 / 0", "nullif(7, 7) > 1 / d", "1 % i + NULL", "1 % i > NULL", "(1 % 0 + NULL) = i", "datediff(NULL, CAST(t AS DATE))", "date_add(CAST(t AS DATE), NULL)", "startswith(CAST(1 % i AS STRING), NULL)", "contains(NULL, CAST(1 % i AS STRING))", "substring(s, 1 % i, NULL)", "replace(s, NULL, CAST(1 % i AS STRING))", "left(NULL, 1 % i)"],
    "- (sign)": _each("-{c}", _NUMBERS),
    "date + and -": ["dt + 1", "dt - 1", "1 + dt", "dt + i", "dt - b"],
    "comparison": [f"{a} {op} {b}" for a, b in _PAIRS for op in ("=", "<", "<=>")]
    + [f"{a} {op} {b}" for op in ("=", "<>", ">=") for a, b in (("n", "i"), ("n", "1"), ("n", "1.5"), ("dt", "t"), ("ts", "t"), ("dt", "ts"), ("nt", "ts"), ("n", "bo"), ("s", "n"), ("x", "X'61'"), ("upper(s)", "'ABC'"))]
    + ["i + 0L < 99999999999999999999", "99999999999999999999 >= abs(l)", "coalesce(i > 99999999999999999999, FALSE)", "coalesce(i < 1.5, FALSE)", "i + 0L < CAST(99999999999999999999 AS DECIMAL(20,0))", "(CAST(n AS INT) < 99999999999999999999) = bo", "if(dt > 'epoch', 1, 2)"],
    "IN": ["i + 1 IN (1, 2, NULL)", "n IN (1, 2)", "i IN (l, b)", "upper(s) IN ('ABC', 'A')", "d IN (i, 0.5)", "i IN (1, l, NULL)", "p + 1 IN (1, 2.5)", "isnull(NULL IN (NULL))", "coalesce(NOT (NULL IN (NULL, NULL)), bo)"],
    "BETWEEN": ["i + 0L BETWEEN -7 AND l", "length(s) BETWEEN 1 AND 3", "d BETWEEN f AND 1", "i + 0L BETWEEN -99999999999999999999 AND 1.5", "99999999999999999999 BETWEEN i + 0L AND 999999999999999999999"],
    "IS NULL": ["(i + 1) IS NULL", "(n = 1) IS NULL", "upper(s) IS NOT NULL"],
    "AND, OR, NOT": ["i <> 0 AND 10 / i > 1", "i = 0 OR 10 / i > 1", "NOT (l = 0 OR 10 % l = 1)", "(d > 1) = bo", "i + 10 / l > 1", "10 / l + i > 1", "(10 / l) / i > 1", "i / (10 / l) > 1", "i = 10 / l", "10 / l < i", "bo AND d > 1", "if(bo OR l > 1, 1, 2)", "if(bo AND i / 0 > 1, 1, 2)"],
    "IS TRUE": ["(i / 2 > 1) IS TRUE", "(length(s) = 3) IS NOT FALSE", "(length(s) = 3) IS UNKNOWN", "if(bo IS TRUE, 1, 0)", "if((i > 1) IS NOT TRUE, 1, 0)"],
    "IS DISTINCT FROM": ["length(s) IS DISTINCT FROM 3", "i IS NOT DISTINCT FROM l", "d IS DISTINCT FROM f"],
    "LIKE": [f"s LIKE {p}" for p in ("'a%'", "'%c'", "'%b%'", "'a_c'", r"'a\\%c'", r"'a\\_c'", "'%'", "''", "'_'", "'__'", r"'a\\\\c'", "'%\\n%'", "'A%C'", "NULL", "'a%c%'", "'(.*)'")]
    + ["s LIKE 'a/%c' ESCAPE '/'", "s LIKE 'a!_%' ESCAPE '!'", "s NOT LIKE 'a%'", "upper(s) LIKE 'A%'", "i LIKE '1%'", "n LIKE ANY ('1%', '%5')", "n LIKE ALL ('1%', '%5')", "n NOT LIKE ANY ('1%', '%5')", "n NOT LIKE ALL ('1%', '%5')", "s LIKE ANY ('a%', NULL)"],
    "ILIKE": ["s ILIKE 'A%'", "s ILIKE '%ß'", "s NOT ILIKE 'abc'", "s ILIKE 'äö%'", "s ILIKE ANY ('A%', 'x')"],
    "RLIKE": [f"s RLIKE {p}" for p in ("'a'", "'^a'", "'c$'", "'^a.c$'", "'[a-c]+'", "'[^a-z]'", "'b|x'", "'(ab|x)c?'", r"'\\d'", r"'\\w{3}'", r"'\\s'", "'^$'", "'end$'", "'line.end'", "'a{3}'", "'^.$'", r"'\\.'", "'A?b'", r"'\\W'", "'[0-9äö]'")] + [f"s RLIKE {p}" for p in ("'(?i)abc'", "'(?i)^[a-b]B'", "'(?i)[^a-z]'", "'(?i)[AbC-]{2}'", r"'(?i)\\w\\s'", "'(?i)ä'", "'(?i)[0-9x]'", "'[a-c-]'", "'[-a]c'", "'[a.-]b'", "'(?i)k|ſ'", r"'[\\s-x]'", r"'^[\\w-.]+$'", r"'[\\d--a]'", r"'[b\\--c]'", "'(?i)[_-~]'", "'(?i)[^_-z]'", "'(?i)[a-é]'", "'(?i)[!-B]'")] + ["s REGEXP 'a+'", "n RLIKE '^[0-9]+$'"],
    **{name: [f"{name}(s, {p})" for p in ("'a'", "''", "'c'", "NULL", "'äÖ'", "n", "s")] for name in ("startswith", "endswith", "contains")},
    "CASE": ["CASE WHEN i > 0 THEN 'p' WHEN i < 0 THEN 'n' ELSE 'z' END", "CASE i WHEN 0 THEN 1L WHEN 1 THEN 2 END", "CASE WHEN i = 0 THEN 0 ELSE 10 / i END", "CASE WHEN bo THEN d ELSE i END", "CASE WHEN i > 0 THEN p ELSE l END", "CASE WHEN bo THEN 1 / 0 END", "CASE WHEN bo THEN NULL END", "CASE WHEN bo THEN NULL END >= i", "p + CASE WHEN 1 % i > 0 THEN NULL END", "CASE WHEN 1 % i > 0 THEN l WHEN 1 / l > 0 THEN l ELSE l END", "CASE WHEN 1 % i > 0 THEN l WHEN 1 / l > 0 THEN sh ELSE sh END"],
    "if": ["if(i > 0, i, -1)", "if(bo, dt, ts)", "if(i = 0, 0, 10 % i)", "if(NULL, 1, 2)", "if(bo, NULL, s)", "if(bo, NULL, NULL) = s", "if(1 % i > 0, 5, 5)"],
    "coalesce": ["coalesce(i, 0)", "coalesce(i, l, d)", "coalesce(NULL, s, 'x')", "coalesce(i, 1 / 0)", "coalesce(p, 1)", "coalesce(dt, ts)", "coalesce(dt, 'epoch')", "3.0 / coalesce(7)"] + [f"coalesce(NULL {op} NULL, bo)" for op in ("=", "<>", "<=>", "<", ">=", "BETWEEN NULL AND")],
    "nvl": ["nvl(i, 0)", "nvl(n, 5)"], "ifnull": ["ifnull(s, 'x')", "ifnull(i, 2.5)"],
    "nvl2": ["nvl2(i, 1, 2)", "nvl2(s, s, 'none')"],
    "nullif": ["nullif(i, 0)", "nullif(s, 'a')", "nullif(i, 1.0)", "10 / nullif(i, 0)", "nullif(d, 0)", "nullif(3, 3.000000000000000000000000000000001 + 0)"],
    "isnull": ["isnull(i)"], "isnotnull": ["isnotnull(s)"], "isnan": ["isnan(d)", "isnan(f)", "isnan(i)"],
    "abs": _each("abs({c})", _NUMBERS), "negative": _each("negative({c})", ("i", "l", "d", "p")),
    "mod": ["mod(i, 3)", "mod(l, i)", "mod(d, 2)"],
    "round": _each("round({c})", (*_WHOLE, "d", "p", "q")) + _each("round({c}, 1)", ("i", "d", "p", "q")) + _each("round({c}, -1)", ("b", "i", "l", "d", "p", "q")) + ["round(NULL)", "floor(NULL)", "coalesce(NULL, NULL) > 1 % 0", "round(d, 2)", "round(p, 5)", "round(i, -10)"],
    **{name: _each(f"{name}({{c}})", _NUMBERS) for name in ("floor", "ceil", "ceiling")},
    "CAST": [f"CAST({c} AS {to})" for c in _ALL for to in ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10,2)", "DECIMAL(5,1)", "DECIMAL(38,18)", "STRING", "BOOLEAN", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ")],
    "seconds since 1970": [f"CAST({c} AS {to})" for c in ("TIMESTAMP'2020-02-29 12:34:56.789'", "TIMESTAMP'1969-12-31 23:59:59.5'") for to in ("BIGINT", "DOUBLE")] + ["CAST(7 AS TIMESTAMP)", "CAST(-1.5D AS TIMESTAMP)", "CAST(l / 1000000D AS TIMESTAMP)", "TRY_CAST(l / 1000000D AS TIMESTAMP)", "CAST(l / 900000D AS TIMESTAMP)", "TRY_CAST(ts AS INT)", "TRY_CAST(d AS TIMESTAMP)", "TRY_CAST(l AS TIMESTAMP)", "CAST(ts AS LONG) - CAST(nt::TIMESTAMP AS LONG)", "CAST(i AS TIMESTAMP) < TIMESTAMP'2020-01-01'", "CAST(ts AS BIGINT) > 1500000000", "CAST(ts AS DOUBLE) > 1500000000.5", "timestamp(l)", "bigint(ts)", "int(ts)", "double(ts)"],
    "TRY_CAST": [f"TRY_CAST({c} AS {to})" for c in ("n", "t", "l", "d", "p", "q", "i") for to in ("TINYINT", "INT", "DECIMAL(5,1)", "DATE", "BOOLEAN", "DOUBLE", "TIMESTAMP")] + ["TRY_CAST(1 / i AS INT)", "TRY_CAST('epoch' AS DATE)", "TRY_CAST(9223372036854775807D AS BIGINT)", "TRY_CAST(concat('000000000000000000000000', n) AS INT)"],
    **{name: [f"{name}({c})" for c in columns] for name, columns in {
        "boolean": ("i", "n"), "tinyint": ("i", "n"), "smallint": ("l",), "int": ("n", "d"), "bigint": ("p", "n"), "float": ("n", "i"),
        "double": ("n", "p"), "string": ("i", "p", "dt", "ts"), "binary": ("s",), "date": ("t", "ts"), "timestamp": ("t", "dt")}.items()},
    **{name: [f"{name}(s)", f"{name}(i)"] for name in ("length", "len", "char_length", "character_length", "octet_length")},
    "length of binary": ["length(x)", "octet_length(x)"],
    **{name: [f"{name}(s)", f"{name}(n)"] for name in ("trim", "ltrim", "rtrim")},
    **{name: [f"{name}({of})" for of in ("s", "n", "lower(s)", "upper(s)", "lower(upper(s))", "upper(trim(lower(s)))", "lower('İ')", "upper('ß')")] for name in ("lower", "lcase", "upper", "ucase")},
    **{name: [f"{name}(s, {a})" for a in ("1", "2", "0", "-1", "-2", "-9", "9", "i", "1, 2", "2, 0", "-2, 1", "-9, 8", "0, 1", "2, -1", "1, i", "b, 2", "NULL", "1, NULL")] for name in ("substr", "substring")},
    **{name: [f"{name}(s, {a})" for a in ("0", "1", "2", "-1", "9", "i")] for name in ("left", "right")},
    "concat": ["concat(s, 'x')", "concat(s, i, bo)", "concat('a')", "s || '-' || n", "s || NULL", "dt || ''"],
    "replace": ["replace(s, 'a', 'b')", "replace(s, 'a')", "replace(s, '', 'x')", "replace(s, 'aa', 'b')", "replace(s, n, '_')"],
    **{name: [f"{name}({c})" for c in ("dt", "ts", "nt", "t")] for name in ("year", "quarter", "month", "day", "dayofmonth", "dayofyear", "dayofweek", "weekday", "weekofyear", "hour", "minute", "second", "last_day")},
    "EXTRACT": [f"EXTRACT({part} FROM ts)" for part in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DAYOFWEEK", "DOW", "DOY", "HOUR", "MINUTE")],
    **{name: [f"{name}('year', dt)", f"{name}('HOUR', ts)"] for name in ("date_part", "datepart")},
    **{name: [f"{name}(dt, {n})" for n in ("1", "-400", "i", "b", "NULL")] + [f"{name}(ts, 1)", f"{name}(t, 1)"] for name in ("date_add", "dateadd", "date_sub")},
    **{name: [f"{name}(dt, DATE'2020-01-01')", f"{name}(ts, dt)", f"{name}(t, dt)", f"{name}(nt, '2020-01-01')"] for name in ("datediff", "date_diff")},
    "date_trunc": [f"date_trunc('{unit}', {c})" for unit in ("YEAR", "year", "QUARTER", "MONTH", "MON", "WEEK", "DAY", "DD", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND") for c in ("ts", "dt", "nt")],
    "trunc": [f"trunc({c}, '{unit}')" for unit in ("YEAR", "YYYY", "QUARTER", "MONTH", "MM", "WEEK") for c in ("dt", "ts")],
    "date_format": [f"date_format({c}, '{f}')" for f in ("yyyy-MM-dd", "yyyyMM", "HH:mm:ss", "dd.MM.yyyy HH", "MM/dd", "MMM yyyy", "d MMMM yy", "E", "EE, d/M", "EEEE", "h:mm a", "hh H m s", "D DDD", "Q QQ", "ss.SSS", "S SS SSSSSS", "yyyyQQ") for c in ("dt", "ts", "nt")] + ["date_format(ts, \"yyyy-MM-dd'T'HH:mm:ss'Z'\")"],
    "now": ["now() = current_timestamp()", "NULLIF(now(), now())", "CAST(localtimestamp() AS TIMESTAMP) = now()", "ts < now() + INTERVAL 3000 YEARS", "datediff(now(), dt) IS NULL"],
    "current_timestamp": ["NULLIF(current_timestamp, current_timestamp())"],
    "current_date": ["NULLIF(current_date(), curdate())", "current_date = CAST(now() AS DATE)", "dt > current_date() - INTERVAL 3000 YEARS", "NULLIF(current_date - 7, current_date - INTERVAL 1 WEEK)"],
    "curdate": ["datediff(curdate(), current_date)"],
    "localtimestamp": ["NULLIF(localtimestamp(), localtimestamp())", "nt < localtimestamp() + INTERVAL 3000 YEARS"],
    "+ INTERVAL": [f"{c} {op} INTERVAL {i}" for c in ("dt", "ts", "nt") for op in "+-" for i in ("'1' DAY", "1 WEEK 2 DAYS", "-3 MONTHS", "1 YEAR 1 MONTH", "36 HOURS", "90 MINUTES 5 SECONDS", "1 MICROSECOND", "'2 days 3 hours'", "100000 YEARS", "0 MONTHS", "100000000 DAYS")] + ["INTERVAL 1 DAY + dt", "INTERVAL '-25' HOUR + ts", "dt + INTERVAL +1 DAY", "dt + INTERVAL '-1 day'", "nt + (INTERVAL 1 MILLISECOND)", "ts - INTERVAL 1 DAY + INTERVAL 1 HOUR", "DATE'2024-01-31' + INTERVAL 1 MONTH", "TIMESTAMP'2024-01-31 10:00:00' - INTERVAL 2 DAYS", "CAST(s AS DATE) + INTERVAL 1 DAY", "NULLIF(dt, dt) + INTERVAL 1 DAY"],
    "positive": [*_each("positive({c})", _NUMBERS), "positive(n)"],
    "pmod": [f"pmod({a}, {b})" for a in ("b", "sh", "i", "l", "f", "d") for b in ("3", "-3", "i", "b", "0", "l", "d")] + ["pmod(7, -3)", "pmod(-7, 3)", "pmod(n, 3)"],
    **{name: [f"{name}({a}, {b})" for a, b in (("i", "1"), ("l", "l"), ("b", "b"), ("d", "0.5D"), ("i", "0"), ("l", "i"), ("p", "q"))] for name in ("try_add", "try_subtract", "try_multiply", "try_divide", "try_mod")}
    | {"try_add": ["try_add(i, 1)", "try_add(l, l)", "try_add(b, 1Y)", "try_add(i, 1 / i)", "try_add(9223372036854775807, 1)", "try_add(i - 1, 2)", "try_add(p, q)"]},
    **{name: [f"{name}({a})" for a in ("i, l", "i, 0, b", "d, f", "d, 0.0D", "f, 0.0F", "s, n", "s, 'b'", "dt, DATE'2020-01-01'", "ts, dt", "p, q", "p, i", "bo, TRUE", "x, X'61'", "NULL, i", "NULL, NULL", "i, NULL, 3", "nt, ts", "i, 1 / i")] for name in ("greatest", "least")},
    **{name: _each(f"{name}({{c}})", (*_NUMBERS, "n")) for name in ("sign", "signum", "sqrt", "rint")},
    "equal_null": ["equal_null(i, 1)", "equal_null(s, NULL)", "equal_null(d, f)"],
    "zeroifnull": ["zeroifnull(i)", "zeroifnull(p)", "zeroifnull(b)", "zeroifnull(d)"], "nullifzero": ["nullifzero(i)", "nullifzero(p)", "nullifzero(d)"],
    "instr": [f"instr(s, {p})" for p in ("'a'", "''", "'c'", "NULL", "'ß'", "n", "'x'", "s")] + ["instr(i, 1)"],
    **{name: [f"{name}('a', s)", f"{name}(n, s)", f"{name}('', s)", f"{name}('a', s, 2)", f"{name}('a', s, 0)", f"{name}('a', s, -3)", f"{name}('', s, 9)", f"{name}('', s, -2)", f"{name}('ß', s, 3)", f"{name}('a', s, 40)", f"{name}('5', n)"] for name in ("locate", "position")},
    **{name: [f"{name}(s, {a})" for a in ("5, 'xy'", "2, 'x'", "0, 'x'", "-1, 'x'", "4, ''", "3, 'ß𝄞'", "i, 'x'", "4, n", "NULL, 'x'", "2, NULL")] + [f"{name}(i, 3, '0')"] for name in ("lpad", "rpad")},
    "TRIM (... FROM ...)": ["trim(BOTH 'a' FROM s)", "trim(LEADING 'ca' FROM s)", "trim(TRAILING FROM s)", "TRIM(BOTH FROM s)", "trim('a' FROM s)", "trim(n FROM lower(s))", "trim(concat('a', n) FROM s)", "trim(LEADING NULL FROM s)", "length(trim(BOTH 'a' FROM s)) + 1", "trim('a', s)", "ltrim('ac', s)", "rtrim(n, s)", "rtrim('1', i)", "trim(BOTH '1' FROM i)"],
    "difference beside an INTERVAL": [f"{a} - {b} {op} INTERVAL {i}" for a, b in (("ts", "TIMESTAMP'2020-01-01 00:00:00'"), ("dt", "DATE'2020-01-01'"), ("nt", "TIMESTAMP_NTZ'1970-01-01 00:00:00'"), ("ts", "nt"), ("dt", "ts"), ("nt", "dt")) for op, i in ((">", "1 DAY"), ("<=", "36 HOURS"), ("=", "0 DAYS"), ("IS DISTINCT FROM", "-1 WEEK"), ("<=>", "1 MICROSECOND"))] + ["INTERVAL 1 DAY < ts - nt", "(dt - current_date()) < INTERVAL 300000 DAYS", "dt - NULLIF(dt, dt) > INTERVAL 1 DAY", "NOT (ts - ts <> INTERVAL 0 SECONDS)", "if(dt - dt = INTERVAL '0' DAY, 1, 2)"],
    "& | ^ ~": [f"{a} {op} {b}" for op in "&|^" for a, b in (("b", "sh"), ("i", "7"), ("l", "-1"), ("b", "1Y"), ("i", "l"), ("-1", "i"), ("NULL", "i"), ("i", "n"), ("'7'", "i"))] + ["~b", "~i", "~l", "~7", "~(~sh)", "-~i", "~-7", "i & 4 = 4", "i & 4 | 2", "i & 6 ^ l", "i ^ 6 | 1", "i + 1 & 3", "(i | 1) & 3", "i & 3 IN (1, 2)", "1 & 1 % i", "i | CAST(NULL AS INT)"],
    "btrim": ["btrim(s)", "btrim(s, 'a')", "btrim(s, 'ac ')", "btrim(s, '')", "btrim(s, 'ßäÖ')", "btrim(s, NULL)", "btrim(s, n)", "btrim(i, '1')"],
    "translate": ["translate(s, 'a', 'b')", "translate(s, 'abc', 'x')", "translate(s, 'aa', 'bc')", "translate(s, '', 'b')", "translate(s, 'äß', '')", "translate(s, n, 'x')", "translate(s, 'a', NULL)", "translate(s, 'ab', 'x\\0')"],
    "reverse": ["reverse(s)", "reverse(n)", "reverse(i)"], "ascii": ["ascii(s)", "ascii(n)", "ascii(i)"],
    "concat_ws": ["concat_ws('-', s, n)", "concat_ws('', s, 'x', NULL)", "concat_ws(NULL, s)", "concat_ws(n, s, s)", "concat_ws('-')", "concat_ws('-', i, s)", "concat_ws('-', NULL)"],
    "add_months": ["add_months(dt, 1)", "add_months(dt, -1)", "add_months(dt, 13)", "add_months(dt, -1200)", "add_months(ts, 1)", "add_months(dt, b)", "add_months(t, 1)", "add_months(dt, NULL)", "add_months(DATE'2024-01-31', 1)"],
    **{name: [f"{name}({c})" for c in ("dt", "ts", "nt", "t")] for name in ("dayname", "monthname")},
    "unix_date": ["unix_date(dt)"], **{name: [f"{name}(ts)"] for name in ("unix_seconds", "unix_millis", "unix_micros")},
    "date_from_unix_date": ["date_from_unix_date(i)", "date_from_unix_date(b)", "date_from_unix_date(l)"],
    **{name: [f"{name}({a})" for a in ("t", "dt", "ts", "nt", "'2020-01-01 10:00:00'", *(f"t, '{f}'" for f in ("yyyy-MM-dd", "yyyy-M-d", "yyyy", "yyyyMMdd", "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd HH:mm:ss.S", "yyyy-MM-dd HH:mm:ss.SSSSSS", "MM/dd/yy")), "ts, 'yyyy-MM-dd'", "dt, 'yyyy'", "'20200229', 'yyyyMMdd'", "'2/9/2020', 'M/d/yyyy'", "'29022020', 'ddMMyyyy'", "'2020-02-29t10:00', \"yyyy-MM-dd'T'HH:mm\"", "i, 'yyyyMMdd'", "n, 'HH'", "'7:05', 'H:mm'", "concat('+1', t), 'yyyy-MM-dd'", "concat('0', n), 'M'", "date_format(ts, 'yyyy-MM-dd HH:mm:ss.SSS'), 'yyyy-MM-dd HH:mm:ss.SSS'", "date_format(ts, 'M/d/yyyy H:m:s'), 'M/d/yyyy H:m:s'", "date_format(ts, 'yyyyMMddHHmmss'), 'yyyyMMddHHmmss'", "date_format(ts, 'd.M.yy'), 'd.M.yy'", "date_format(ts, 'HH:mm'), 'HH:mm'", "date_format(nt, 'yyyy-MM'), 'yyyy-MM'", "date_format(nt, 'dd/MM/yyyy'), 'dd/MM/yyyy'", "date_format(ts, 'MMddHHmm'), 'MMddHHmm'")] for name in ("to_date", "to_timestamp", "try_to_date", "try_to_timestamp", "unix_timestamp", "to_unix_timestamp")},
    "from_unixtime": ["from_unixtime(l)", "from_unixtime(i)", "from_unixtime(i, 'yyyy-MM-dd')", "from_unixtime(l / 1000)", "from_unixtime(d, 'HH:mm')", "from_unixtime(n)", "from_unixtime(unix_timestamp(ts), 'MMM d')", "from_unixtime(0) || 'x'", "from_unixtime(NULL)"],
    **{f"timestamp_{name}": [f"timestamp_{name}({c})" for c in ("b", "i", "l", "0", "-1L", "NULL")] for name in ("seconds", "millis", "micros")},
    "NULL before what raises": ["startswith(nullif(n, n), CAST(1 % i AS STRING))", "try_mod(1 % i, i)", "try_divide(1 % i, i)", "try_divide(1 % i * 0.5D, i * 0D)", "try_mod(CAST(1 % i AS DECIMAL(10,2)), p)", "try_mod(1 % i, NULL)", "instr(nullif(n, n), CAST(1 % i AS STRING))", "date_add(CAST(nullif(n, n) AS DATE), 1 % i)", "contains(CAST(nullif(i, 0) AS STRING), CAST(1 % i AS STRING))", "lpad(nullif(n, n), 1 % i, 'x')", "substring(nullif(n, n), 1 % i)", "pmod(nullif(i, i), i)", "left(nullif(n, n), 1 % i)", "concat(nullif(n, n), CAST(1 % i AS STRING))", "concat(CAST(1 % i AS STRING), nullif(n, n))", "replace(nullif(n, n), CAST(1 % i AS STRING), 'x')", "datediff(CAST(nullif(n, n) AS DATE), date_add(dt, 1 % i))", "locate(CAST(1 % i AS STRING), nullif(n, n))", "locate(nullif(n, n), CAST(1 % i AS STRING))", "translate(nullif(n, n), CAST(1 % i AS STRING), 'x')", "btrim(nullif(n, n), CAST(1 % i AS STRING))", "rpad(n, nullif(i, i), CAST(1 % i AS STRING))", "pmod(1 % i, nullif(i, i))", "greatest(nullif(i, i), 1 % i)", "concat_ws(nullif(n, n), CAST(1 % i AS STRING))", "lpad(CAST(1 % i AS STRING), NULL, 'x')", "instr(CAST(1 % i AS STRING), NULL)", "locate(NULL, CAST(1 % i AS STRING))", "translate(CAST(1 % i AS STRING), 'a', NULL)", "add_months(date_add(dt, 1 % i), NULL)", "btrim(CAST(1 % i AS STRING), NULL)", "pmod(1 % i, NULL)", "greatest(1 % i, NULL)", "concat_ws(NULL, CAST(1 % i AS STRING))", "try_add(1 % i, NULL)", "right(nullif(n, n), 1 % i)", "sign(1 % i)", "try_divide(1 % i, nullif(i, i))"],
    "::": ["n::INT", "t::date", "i::STRING || 'x'", "(i + 1)::BIGINT", "'2020-01-01'::DATE", "-i::BIGINT", "p::DECIMAL(12,4) * 2", "ts::DATE = dt", "b::int::string", "date(t)::string", "upper(s)::BINARY", "NULL::INT", "1.5::double", "CASE WHEN bo THEN i::LONG ELSE 2 END::string"],
    "SUBSTRING (... FROM ... FOR ...)": ["substring(s FROM 2)", "SUBSTRING(s FROM 1 FOR 2)", "substr(s FROM -2 FOR 1)", "substring(s, 2 FOR 1)", "substring(substring(s FROM 2) FROM 1 FOR i)", "substring(s FROM position('a' IN s))"],
    "POSITION (... IN ...)": ["position('a' IN s)", "POSITION(n IN s)", "position('' IN s)", "position('b' IN substring(s FROM 2)) + 1"],
    **{name: [f"{name.partition('(')[0]}({u}, {n}, {c})" for u, n, c in (("YEAR", 1, "ts"), ("quarter", -3, "nt"), ("MONTH", 1, "dt"), ("MONTH", -13, "ts"), ("WEEK", 2, "ts"), ("DAY", -7, "dt"), ("DAYOFYEAR", 3, "ts"), ("HOUR", -24, "nt"), ("MINUTE", "1 + 89", "ts"), ("SECOND", 5, "t"), ("MILLISECOND", -1500, "ts"), ("microsecond", 1, "nt"), ("DAY", 100000000, "ts"), ("DAY", "7L", "ts"))] for name in ("dateadd(unit, ...)", "timestampadd(unit, ...)")},
    **{name: [f"{name.partition('(')[0]}({u}, {a}, {b})" for u in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND") for a, b in (("ts", "TIMESTAMP'2020-02-29 12:34:56.789'"), ("dt", "nt"), ("t", "ts"), ("ts", "timestamp_micros(l)"))] for name in ("datediff(unit, ...)", "timestampdiff(unit, ...)")},
    "regexp_extract": [f"regexp_extract({c}, {p})" for c in ("s", "n", "t") for p in ("'(a)(b)?'", "'([0-9]+)', 1", "'b(.)', 0", "'(x)|(b)', 2", "'(.)$'", "'(.*?)c', 1", r"'^(\\d{4})-(\\d+)', 2", "'([^-]*)-', 1", "'(?:a)(c|b)', 1", "'$', 0", "'.*$', 0", "'(?i)(B)', 1", "''", "NULL")] + ["regexp_extract(i, '(.)')", "regexp_extract(s, 'a', 1)", "regexp_extract(s, '(a)+', 1)", "regexp_extract('foo-bar', '(o+)-(b)', 2)"],
    "regexp_replace": [f"regexp_replace({c}, {p})" for c in ("s", "n", "t") for p in ("'a', 'xy'", "'[0-9]', ''", "'[^0-9]', ''", "'(.)(.)', '$2$1'", "'([a-z])', '<$0$1>'", r"'a', '\\$1\\\\'", "'b$', '!'", "'.$', '!'", r"'\\s+', ' '", "'(x)|a', '[$1]'", "'a*', '-'", "'(?i)B', 'q'", "'-', NULL", r"'^\\s+', ''", "'a', '$2'", "'.', 'é'")] + ["regexp_replace(i, '0', 'o')", "regexp_replace('2020-01', '-', '')"],
    "split(...)[n]": [f"split({c}, {p})[{n}]" for c, p in (("s", "'b'"), ("t", "'-'"), ("t", "'[-: T]'"), ("n", r"'\\.'"), ("s", "'(?i)B|%'"), ("i", "'1'")) for n in ("0", "1", "2")] + ["length(split(s, 'b')[0])", "split(NULL, ',')[0]", "split(upper(s), 'B')[0] || 'x'"],
    "element_at(split(...), n)": [f"element_at(split(t, '-'), {n})" for n in ("1", "2", "-1", "-3")],
    "size(split(...))": [f"{name}(split(t, '-'))" for name in ("size", "cardinality", "array_size")] + ["size(split(s, 'a'))"],
    "split_part": ["split_part(s, 'a', 2147483647)", "split_part(s, 'a', -2147483647)"] + [f"split_part({c}, {p}, {n})" for c, p in (("s", "'b'"), ("t", "'-'"), ("s", "''"), ("s", "'a'"), ("i", "'1'"), ("s", "n"), ("s", "NULL")) for n in ("1", "2", "-1", "9", "-9")],
    "substring_index": [f"substring_index({c}, {p}, {n})" for c, p in (("s", "'b'"), ("t", "'-'"), ("s", "'aa'"), ("s", "''"), ("i", "'1'"), ("s", "n"), ("s", "NULL")) for n in ("1", "2", "-1", "-2", "0", "9")],
    **{name: [f"{name}({c})" for c in ("s", "x", "n", "upper(s)", "'abc'")] for name in ("md5", "sha", "sha1", "crc32")},
    "sha2": [f"sha2({c}, {n})" for c in ("s", "x") for n in ("0", "224", "256", "384", "512")], "hex": [f"hex({c})" for c in ("s", "x", "b", "i", "l", "255", "-1")],
    "make_date": ["make_date(2020, 2, b)", "make_date(i, 1, 1)", "make_date(sh, b, 15)", "make_date(2024, 2, 29)", "make_date(n, 1, 1)", "make_date(year(dt), month(dt), day(dt))", "make_date(2020, NULL, b)", "make_date(l, 1, 1)", "make_date(2020, i, 1)", "make_date(nullif(i, i), b, 99)"],
    "hash": [*(f"hash({c})" for c in _ALL), "hash(i, s, d)", "hash(s, n, t)", "hash(NULL)", "hash(NULL, i)", "hash(s || t)", "hash('abcdefg')", "abs(hash(l)) % 100", "pmod(hash(l, bo), 10)", "hash(CAST(q AS DECIMAL(38,18)))", "hash(CAST(p AS DECIMAL(20,2)) * -1)", "hash(1, 'a', -0.0D, 2L)", "hash(lower(t))"],
    "initcap": ["initcap(s)", "initcap(n)", "initcap('hello wORLD foo-bar x_y  a.b 1abc')", "initcap(s || ' ' || s)", "initcap(i)", "initcap('äbc ßa \\tab\\nxy')"],
    "decode": ["decode(x, 'UTF-8')", "decode(x, 'us-ascii')", "decode(x, 'ISO-8859-1')", "decode(s, 'utf-8')", "decode(s, 'US-ASCII')", "decode(i, 1, 'a', 0, 'b')", "decode(i, 1, 'a', 0, 'b', 'z')", "decode(i, NULL, 'nul', 'other')", "decode(s, 'a', 1, 'abc', 2.5)", "decode(i, '1', 'a', 'z')", "decode(d, 0, i, l)"],
    "get_json_object": [f"get_json_object(j, '{p}')" for p in ("$.a", "$.b", "$.b.c", "$.b.c[1]", "$[0]", "$[1]", "$.d", "$", "$.e", "$[\\'a\\']", "$.a.b", "$.f[0].g", "$.f[0]", "$.f", "$.u", "$.none")] + ["get_json_object(s, '$')", "get_json_object(j, NULL)", "CAST(get_json_object(j, '$.a') AS INT) + 1", "get_json_object(n, '$')"],
    "like": ["like(s, 'a%')"], "rlike": ["rlike(s, '^a')"], "regexp": ["regexp(s, 'a')", "regexp(n, '^[0-9]')"], "regexp_like": ["regexp_like(s, 'c$')"],
}  # fmt: skip
"""By function, the expressions that are judged."""
CELLS |= NESTED_CELLS


def schema(*more: dict[str, Any]) -> Schema:
    """The schema of the table, as a Delta log says it, and more fields of such a log."""
    fields = [
        {"name": name, "type": type_, "nullable": True, "metadata": {}}
        for name, (type_, _, _) in (COLUMNS | NESTED_COLUMNS).items()
    ]
    return parse_schema(json.dumps({"type": "struct", "fields": [*fields, *more]}), [], {}, "cells")


def rows() -> pa.Table:
    """Each column's values, and NULL at the end; fields of structs are columns of their own, too."""
    count = max(len(values) for _, _, values in COLUMNS.values()) + 1
    columns = {"row": pa.array(range(count), pa.int64())}
    for name, (_, arrow, values) in COLUMNS.items():
        typed = [Decimal(v) for v in values] if pa.types.is_decimal(arrow) else values
        columns[name] = pa.array([*typed, *[None] * (count - len(typed))], arrow)
    for name, (_, arrow, values) in NESTED_COLUMNS.items():
        columns[name] = pa.array([*values, *[None] * (count - len(values))], arrow)
    columns |= fields_of(columns["st"], "st")
    return pa.table(columns)
