"""Types of columns: how a value is made of a number, values at the edges, and what conditions there are."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

LONG = f"'{'x' * 300}'"
"""A text that is longer than the keys of an index."""

SIGNS = ("=", "=", "=", "<", "<=", ">", ">=", "<>", "<=>")


@dataclass(frozen=True)
class ColumnKind:
    """A type; `of` makes a value of the number {v}, `edges` are values that it does not make.

    `special`: conditions on the column {c} with a literal {a}, beyond those that every type has.
    """

    type: str
    of: str
    edges: tuple[str, ...] = ()
    special: tuple[str, ...] = ()
    is_nested: bool = False

    def literal(self, rng: random.Random, most: int) -> str:
        """Return a value that a row may have; NULL now and then."""
        draw = rng.random()
        if draw < 0.03:
            return f"CAST(NULL AS {self.type})"
        if draw < 0.15 and self.edges:
            return rng.choice(self.edges)
        return self.of.format(v=f"{rng.randrange(most)}L")


_NUMBERS = (
    "{c} % 5 = 1",
    "abs(CAST({c} AS BIGINT)) > 3",
    "{c} IN (1, 2, 3, NULL)",
    "{c} = 7L",
    "{c} = 2.5BD",
    "{c} < 3S",
)
_TEXTS = (
    "{c} LIKE 'k1%'",
    "{c} LIKE '%3'",
    "{c} LIKE '%1%'",
    "{c} LIKE 'k_2'",
    "{c} RLIKE '1$'",
    "{c} NOT LIKE 'k%'",
    "upper({c}) = upper({a})",
    "lower({c}) IN ('k3', 'k10', 'ä', 'a')",
    "length({c}) = 3",
    "startswith({c}, 'k2')",
    "endswith({c}, '7')",
    "contains({c}, '8')",
    "hash({c}) % 9 = 1",
    "trim({c}) = {a}",
    "coalesce({c}, 'k4') = 'k4'",
    "{c} COLLATE UTF8_LCASE = 'K12'",
    "concat({c}, 'x') = 'k5x'",
    "substr({c}, 2, 1) = '1'",
)
_DAYS = ("year({c}) = 2020", "month({c}) = 2", "day({c}) = 17", "{c} < DATE'1900-01-01'", "weekday({c}) = 3")
_TIMES = ("{c} < TIMESTAMP'1899-12-31 00:00:00'", "CAST({c} AS DATE) = DATE'2020-01-01'", "second({c}) = 17")

KINDS: Mapping[str, ColumnKind] = {
    kind.type: kind
    for kind in (
        ColumnKind("BOOLEAN", "({v} % 2 = 0)", (), ("{c}", "NOT {c}")),
        ColumnKind("TINYINT", "CAST({v} % 100 - 50 AS TINYINT)", ("127Y", "-128Y"), _NUMBERS),
        ColumnKind("SMALLINT", "CAST({v} * 3 - 70 AS SMALLINT)", ("32767S", "-32768S"), _NUMBERS),
        ColumnKind("INT", "CAST({v} - 5 AS INT)", ("2147483647", "(-2147483647)"), _NUMBERS),
        ColumnKind("BIGINT", "({v} * 3000000007L)", ("9223372036854775807L", "0L"), ("{c} % 5 = 1",)),
        ColumnKind("DECIMAL(9,2)", "CAST({v} * 0.25BD - 3 AS DECIMAL(9,2))", ("-0.01BD", "1234567.89BD")),
        ColumnKind("DECIMAL(24,4)", "CAST({v} * 12345678901234.5BD AS DECIMAL(24,4))", ("0.0001BD",)),
        ColumnKind("STRING", "concat('k', {v})", ("''", "'a'", "'A '", "'ä'", "'it\\'s'", LONG), _TEXTS),
        ColumnKind("VARCHAR(8)", "concat('k', {v})", ("''", "'a'", "'a '", "'ä'"), _TEXTS),
        ColumnKind("CHAR(6)", "concat('k', {v})", ("''", "'a'", "'ä'"), ("{c} LIKE 'k1%'", "{c} = 'k3   '")),
        ColumnKind("BINARY", "CAST(concat('b', {v}) AS BINARY)", ("X''", "X'00FF'")),
        ColumnKind(
            "DATE",
            "date_add(DATE'2020-01-01', CAST({v} AS INT))",
            ("DATE'1582-10-04'", "DATE'0001-01-01'", "DATE'9999-12-31'", "DATE'1970-01-01'"),
            _DAYS,
        ),
        ColumnKind(
            "TIMESTAMP",
            "timestamp_micros(1577836800000000L + {v} * 7000001L)",
            ("TIMESTAMP'1969-12-31 23:59:59.999999Z'", "TIMESTAMP'1890-01-01 00:00:00Z'"),
            _TIMES,
        ),
        ColumnKind(
            "TIMESTAMP_NTZ",
            "CAST(timestamp_micros(1577836800000000L + {v} * 7000001L) AS TIMESTAMP_NTZ)",
            ("TIMESTAMP_NTZ'1969-12-31 23:59:59.999999'", "TIMESTAMP_NTZ'1600-01-01 00:00:00'"),
        ),
        ColumnKind("FLOAT", "CAST({v} / 4 AS FLOAT)", ("float('NaN')", "float('-0.0')", "float('Infinity')")),
        ColumnKind("DOUBLE", "CAST({v} / 8 AS DOUBLE)", ("double('NaN')", "double('-0.0')", "0.0D")),
        ColumnKind(
            "STRUCT<a: INT, b: STRING, c: STRUCT<d: DATE>>",
            "named_struct('a', CAST({v} AS INT), 'b', concat('k', {v}), 'c',"
            " IF({v} % 7 = 0, NULL, named_struct('d', date_add(DATE'2020-01-01', CAST({v} AS INT)))))",
            (),
            (
                "{c}.a = 12",
                "{c}.a < 4 AND {c}.b <> 'k2'",
                "{c}.b IN ('k7', 'k8', 'none')",
                "{c}.c.d = DATE'2020-01-09'",
                "{c}.c IS NULL AND {c}.a < 30",
                "{c}.c.d IS NULL",
                "{c}.a IS NULL",
                "{c}.b LIKE 'k1%'",
            ),
            is_nested=True,
        ),
        ColumnKind(
            "ARRAY<INT>",
            "array(CAST({v} AS INT), NULL, 3)",
            (),
            ("array_contains({c}, 3)", "get({c}, 0) = 11", "size({c}) = 3"),
            is_nested=True,
        ),
        ColumnKind(
            "MAP<STRING, BIGINT>",
            "map('k', {v}, 'j', NULL)",
            (),
            ("{c}['k'] = 11", "size({c}) = 2"),
            is_nested=True,
        ),
    )
}
"""By the name of the type."""
