"""Random terms, conditions and values, and whether a row contradicts what a condition implies for a term."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from support.function_cells import rows, schema
from support.random_conditions import Conditions
from tailbit.errors import TailbitError
from tailbit.index.expression.evaluate import evaluate
from tailbit.index.expression.indexed_term import IndexedTerm, indexed_term
from tailbit.index.expression.show import show
from tailbit.index.functions.tree import columns_in
from tailbit.index.functions.vectors import canonical, from_canonical
from tailbit.index.predicate.computed import Computed
from tailbit.index.predicate.implied import Implied
from tailbit.index.predicate.tree import Leaf, Node, all_of, any_of, columns_of
from tailbit.index.predicate.truth import judged
from tailbit.index.predicate.value_sets import Interval, ValueSet
from tailbit.index.sql.bind import bind
from tailbit.index.sql.expressions import ExpressionReader, OperandReader
from tailbit.index.sql.syntax.parser import parse_predicate
from tailbit.index.values.literals import Literal
from tailbit.tables.model import Column

TABLE, SCHEMA = rows(), schema()
ZONES = (
    "UTC",
    "+05:30",
    "-08:00",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Pacific/Apia",
)

TERMS = (
    # rising
    "date_trunc('YEAR', ts)", "date_trunc('MONTH', ts)", "date_trunc('WEEK', ts)", "date_trunc('DAY', ts)",
    "date_trunc('HOUR', ts)", "date_trunc('SECOND', nt)", "date_trunc('QUARTER', nt)", "to_date(ts)",
    "CAST(nt AS DATE)", "year(dt)", "year(ts)", "trunc(dt, 'YEAR')", "trunc(dt, 'QUARTER')", "trunc(dt, 'MONTH')",
    "trunc(dt, 'WEEK')", "last_day(dt)", "year(trunc(dt, 'MONTH'))", "year(last_day(dt))", "floor(p)", "ceil(q)",
    "round(p)", "round(p, 1)", "round(i)", "CAST(i AS BIGINT)", "CAST(b AS DOUBLE)", "CAST(p AS BIGINT)",
    "CAST(q AS DECIMAL(20,2))", "d + 1", "d * 2", "d / 3", "2.5D + d", "d - 1e300", "CAST(i AS DOUBLE) / 1000",
    "substr(s, 1, 2)", "left(s, 1)", "substring(n, 0, 3)", "date_trunc('DAY', CAST(dt AS TIMESTAMP))",
    "i + 1", "i - 7", "10 - i", "-l", "l * 3", "i * -2", "l div 10", "p * 2", "p / 3", "q - 0.5", "unix_seconds(ts)",
    "unix_micros(ts)", "unix_date(dt)", "CAST(d AS INT)", "CAST(l AS INT)", "CAST(q AS INT)", "CAST(p AS DECIMAL(8,1))",
    "CAST(i AS FLOAT)", "CAST(dt AS TIMESTAMP_NTZ)", "year(ts) * 100", "1000 - year(dt)", "unix_timestamp(ts)",
    "CAST(l AS DOUBLE)", "date_from_unix_date(i)", "round(l - 5)", "year(CAST(ts AS DATE))",
    # any
    "lower(s)", "upper(n)", "length(s)", "trim(s)", "reverse(s)", "substr(s, 2, 2)", "concat(s, '-', n)", "s || s",
    "pmod(hash(i), 64)", "hash(s)", "hash(d)", "i % 7", "10 / i", "1 / d", "-d", "abs(l)",
    "i + l", "i * sh", "b + 1Y", "month(dt)", "dayofweek(dt)", "hour(ts)", "date_format(ts, 'yyyy-MM')",
    "CAST(n AS INT)", "TRY_CAST(n AS INT)", "CAST(t AS DATE)", "try_divide(i, sh)", "coalesce(s, n)",
    "CASE WHEN i > 0 THEN 'p' WHEN i < 0 THEN 'n' END", "nullif(i, 0)", "greatest(i, l)", "f + 1", "sqrt(d)",
    "datediff(dt, CAST(ts AS DATE))", "get_json_object(j, '$.a')", "md5(s)", "st.city || s",
    "size(tags)", "tags[0]", "split_part(s, 'b', 1)", "octet_length(x)", "last_day(dt) = dt", "i > 10", "s LIKE 'a%'",
    "i < l", "NOT (i = l)", "length(s) > 2", "bo AND i > 0", "isnan(d)", "s = n", "i > 0 AND s = 'a'", "dt < ts",
)  # fmt: skip
"""Expressions of all types, rising ones first; `t0` and so on are terms of one, two and three columns."""

_EDGES = {"integer": 1 << 31, "long": 1 << 63, "short": 1 << 15, "byte": 1 << 7, "date": 1 << 31}
_DAY, _HOUR = 86_400_000_000, 3_600_000_000
_DAYS = [
    0, 59, 14920, 14920, 15338, 15339, 17579, 17580, 17839, 18262, 18321, 19358, 19428, 19448, 19442, 19443, 19659, 19660, 19666, 19844, -719162, 2932896,
]  # fmt: skip
"""Days since 1970, among them those at which the clocks of `ZONES` change."""
_MOMENTS = [
    0, 1, -1, _HOUR, 2 * _HOUR, 5 * _HOUR - 1, _DAY // 2, *(_HOUR * seconds // 3600 for seconds in (5400, 9000, 9030, 9060, 10800, 12600, 52200, 53100, 54000, 54900)),
]  # fmt: skip
"""Microseconds of a day, among them those around which clocks change."""
_TEXTS = [
    b"", b"a", b"ab", b"abc", b"abd", b"ac", b"A", b"Abc", "äÖß".encode(), "ä".encode(), "ÿ".encode(), "Āb".encode(),
    "\U0001d11ex".encode(), b"a%c", b"\x00", b"a\x00", b"ab\x00", b" a", b"a ", b"1", b"12", b"-7", b"x" * 300,
    b"x" * 299 + b"y", b"\xc3", b"a\xff", b"2020-02-29", b"2020", b"zz", b'{"a": "b"}', b"\xed\x9f\xbf", b"bab",
]  # fmt: skip


def pool(column: Column, rng: random.Random) -> Any:
    """A random value of a column, as canonical: an edge, or one near to what others have."""
    name = column.type.name
    if name in ("string", "binary"):
        length = column.type.char_length
        text = rng.choice(_TEXTS)
        return text.ljust(length) if length else text
    if name == "boolean":
        return rng.random() < 0.5
    if name in ("float", "double"):
        value = rng.choice(
            [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.5, 1e300, -1e308, 3.0, 1e-320]
        )
        value = value if rng.random() < 0.7 else rng.uniform(-3, 3)
        return value if name == "double" else float(np.float32(min(max(value, -3e38), 3e38)))
    if name == "decimal":
        most = 10**column.type.precision - 1
        unit = 10**column.type.scale
        near = rng.randint(-3, 3) * unit + rng.choice([0, 1, -1, unit // 2, unit // 2 - 1])
        return max(-most, min(most, rng.choice([near, near, most, -most, most - unit])))
    if name in ("timestamp", "timestamp_ntz"):
        day = rng.choice(_DAYS)
        moment = day * _DAY + rng.choice(_MOMENTS)
        return moment if rng.random() < 0.95 else rng.choice([-(1 << 63), (1 << 63) - 1]) + rng.choice([0, 0])
    edge = _EDGES[name]
    if name == "date" and rng.random() < 0.8:
        return rng.choice([0, 18321, 18262, 19358, 19723, 19722, 59, -719162, 2932896]) + rng.randint(-2, 2)
    if rng.random() < 0.25:
        return rng.choice([-edge, edge - 1, -edge + rng.randint(0, 90), edge - 1 - rng.randint(0, 90)])
    return rng.choice([0, 1, -1, 7, 10, 11, -7, 65, 100, rng.randint(-20, 20)])


@lru_cache(maxsize=1024)
def term(text: str, zone: str = "UTC") -> IndexedTerm:
    """The term of an expression's text."""
    reader = ExpressionReader(OperandReader(text, SCHEMA, zone), zone, 0)
    return indexed_term("#0000abcd", text, reader.read(parse_predicate(text)))


def arrays(columns: Sequence[Column], rng: random.Random, count: int) -> dict[str, pa.Array]:
    """Random values of columns, an eighth of them NULL."""
    out = {}
    for column in columns:
        if column.type.fields:
            at = pa.array([rng.randrange(TABLE.num_rows) for _ in range(count)])
            out[column.id] = TABLE[column.id].take(at).combine_chunks()
            continue
        values = [None if rng.random() < 0.125 else pool(column, rng) for _ in range(count)]
        out[column.id] = from_canonical(values, column.type)
    return out


def values_of(column: Column, rng: random.Random) -> ValueSet:
    """A random set of a column's values: points, ranges, complements, with NULL or without."""
    drawn = sorted((pool(column, rng) for _ in range(rng.choice([1, 1, 2, 4]))), key=_order)
    if rng.random() < 0.4 or column.type.name == "boolean":
        intervals = [Interval(value, True, value, True) for value in drawn]
    else:
        ends: list[Any] = [None, *drawn] if rng.random() < 0.3 else drawn
        ends = [*ends, None] if len(ends) % 2 else ends
        sides = [rng.random() < 0.5 for _ in ends]
        intervals = [
            Interval(low, a and low is not None, high, b and high is not None)
            for low, a, high, b in zip(ends[::2], sides[::2], ends[1::2], sides[1::2], strict=True)
        ]
    return ValueSet.of(intervals, complement=rng.random() < 0.2, nulls=rng.random() < 0.2)


def _order(value: Any) -> Any:
    return (value != value, value)


class Cases:
    """Terms, conditions and rows from one source of chance."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.conditions = rng, Conditions(rng)

    def condition(self, of: IndexedTerm, text: str, zone: str, depth: int = 2) -> Node | None:
        """A random condition that has to do with a term; None where its text is refused."""
        roll = self.rng.random()
        if roll < 0.35:
            column = self.rng.choice(columns_in(of.expression))
            if column.type.fields:
                return None
            true = values_of(column, self.rng)
            return Leaf(column, true, true.others(), f"{column.label} in a random set")
        if roll < 0.55 and len(columns_in(of.expression)) > 1:
            leaves = []
            for column in columns_in(of.expression):
                if column.type.fields:
                    return None
                true = ValueSet.points([pool(column, self.rng) for _ in range(self.rng.randint(1, 3))])
                leaves.append(Leaf(column, true, true.others(), column.label))
            return all_of(leaves)
        if roll < 0.7 and depth:
            parts = [self.condition(of, text, zone, depth - 1) for _ in range(self.rng.randint(2, 3))]
            known = [part for part in parts if part is not None]
            return (all_of if self.rng.random() < 0.5 else any_of)(known) if known else None
        try:
            return bind(self.text(of, text), SCHEMA, zone)
        except TailbitError:
            return None

    def text(self, of: IndexedTerm, text: str) -> str:
        """The text of a random condition on a term, or of any condition."""
        rng, (a, b) = self.rng, (self.constant(of), self.constant(of))
        c = rng.choice(columns_in(of.expression)).label
        sign = rng.choice(("=", "<>", "<", "<=", ">", ">=", "<=>"))
        shapes = (
            f"{text} {sign} {a}", f"{a} {sign} {text}", f"{text} IN ({a}, {b})", f"{text} NOT IN ({a}, {b}, NULL)",
            f"{text} BETWEEN {a} AND {b}", f"NOT ({text} {sign} {a})", f"{text} IS NULL", f"{text} IS NOT NULL",
            f"({text} {sign} {a}) IS NULL", f"({text} {sign} {a}) IS NOT TRUE", f"{text} LIKE 'a%'",
            f"{text} NOT LIKE '%b'", f"startswith({text}, 'a')", f"CASE WHEN {text} {sign} {a} THEN {text} = {b} END",
            f"coalesce({text}, {a}) {sign} {b}", f"length(CAST({text} AS STRING)) > 2", f"{text} {sign} {c}",
            f"{text} {sign} {a} AND {text} <> {b}", f"{text} {sign} {a} OR {c} IS NULL", f"if({text} {sign} {a}, bo, i > 0)",
            f"date_trunc('MONTH', {text}) {sign} {a}", f"year({text}) = 2020", f"{c} {sign} {b}", f"{c} IS NULL",
            f"({text}) IS TRUE", f"NOT ({text})", f"({text}) IS NOT FALSE", f"{text}", f"i {sign} l", f"l {sign} i",
        )  # fmt: skip
        return self.conditions.tree(1).text if rng.random() < 0.1 else rng.choice(shapes)

    def constant(self, of: IndexedTerm) -> str:
        """A constant as text, that may compare with the term."""
        rng = self.rng
        name = of.type.name
        if name == "string":
            return rng.choice(("'a'", "'ab'", "'b'", "''", "'ABC'", "'2020-02'", "'1'", "'ä'"))
        if name in ("date", "timestamp", "timestamp_ntz"):
            return rng.choice(
                ("DATE'2020-02-01'", "DATE'2020-01-01'", "TIMESTAMP'2020-02-29 12:00:00'", "'2023-01-01'")
            )
        if name == "boolean":
            return rng.choice(("TRUE", "FALSE"))
        return rng.choice(
            ("0", "1", "-1", "7", "2", "10", "2020", "1.5", "0.5D", "CAST('NaN' AS DOUBLE)", "100")
        )


def contradiction(
    node: Node, of: IndexedTerm, said: Implied, given: Mapping[str, pa.Array], count: int
) -> str:
    """What a row says against an implication, or nothing."""
    values = evaluate(of.expression, given, count)
    table = pa.table({**given, of.id: values.values})
    true, open_ = _judged(node, table)
    maybe, maybe_open = _judged(said.maybe, table)
    sure, sure_open = (np.zeros(count, dtype=bool),) * 2 if said.sure is None else _judged(said.sure, table)
    known = ~values.failed
    wrong = {
        "sure but not TRUE": known & sure & ~sure_open & (~true | open_),
        "TRUE but not possible": known & true & ~maybe & ~maybe_open,
        "open but not possible": known & open_ & ~maybe & ~maybe_open,
    }
    for what, rows_of in wrong.items():
        if rows_of.any():
            row = int(np.flatnonzero(rows_of)[0])
            held = {
                name: canonical(table[name].chunk(0), _type(name, node, of))[row]
                for name in table.column_names
            }
            return f"{what}: {held} {node}"
    return ""


def _type(name: str, node: Node, of: IndexedTerm) -> Any:
    return next(c.type for c in (of, *columns_in(of.expression), *columns_of(node)) if c.id == name)


def _judged(node: Node, table: pa.Table) -> tuple[Any, Any]:
    true, open_ = judged(node, table, {})
    return true, np.zeros(len(true), dtype=bool) if open_ is None else open_


def shown(node: Node | None) -> str:
    """What a condition on a term asks of its values: `{2, 5..7, NULL}`, the text if computed, or `-`."""
    if node is None:
        return "-"
    if not isinstance(node, Leaf):
        return f"computed: {node.text}" if isinstance(node, Computed) else str(node)
    parts = [_interval(interval, node.column) for interval in node.true.intervals]
    if node.true.complement:
        return "all" + f" but {{{', '.join(parts)}}}" * bool(parts) + " and NULL" * node.true.nulls
    return f"{{{', '.join([*parts, *['NULL'] * node.true.nulls])}}}"


def _interval(interval: Interval, column: Column) -> str:
    ends = (interval.lo, interval.hi)
    texts = ("" if end is None else show(Literal(column.type, end)) for end in ends)
    low, high = (re.sub(r"^(?:timestamp|date) '(.*?)(?:\.0+Z)?'$", r"'\1'", text) for text in texts)
    if interval.lo is not None and low == high:
        return low
    above, below = low > "" and not interval.lo_closed, high > "" and not interval.hi_closed
    return f"{low}{'<' * above}..{'<' * below}{high}"
