"""Random predicates in the grammar that tailbit reads, each as Spark's and as DuckDB's SQL text."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

LONG = "x" * 300
"""A string longer than an index key: two values that share its first 256 bytes have inexact keys."""

POOLS: dict[str, list[object]] = {
    "id": list(range(-3, 40)),
    "category": ["", "a", "b", "A", "ä", "it's", "a b", "zz", "𝄞", LONG, LONG + "y"],
    "amount": [0.0, -0.0, 1.5, -2.25, 1e300, float("inf"), float("-inf"), float("nan"), 7.0],
    "score": [0.5, 0.25, -1.0, float("nan"), 3.0],
    "small": [-128, -1, 0, 1, 127],
    "price": [Decimal("0.00"), Decimal("9.99"), Decimal("-1.50"), Decimal("12345678.90"), Decimal("10.00")],
    "flag": [True, False],
    "day": [datetime.date(2013, 1, 31), datetime.date(2013, 2, 1), datetime.date(1970, 1, 1)],
    "moment": [
        datetime.datetime(2013, 1, 1, 0, 0, tzinfo=datetime.timezone.utc),
        datetime.datetime(2013, 1, 1, 0, 0, 0, 1, tzinfo=datetime.timezone.utc),
        datetime.datetime(2013, 6, 30, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc),
    ],
    "note": ["n0", "n1", "n2", ""],
    "region": ["EU", "US", "a b", "x=y%z"],
}
"""Values of each column; small, so that most predicates select something."""

INDEXED = ("category", "amount", "score", "small", "price", "flag", "day", "moment")
"""The columns that an index is built on; `id` and `note` are plain, `region` is a partition column."""

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")


@dataclass(frozen=True)
class Predicate:
    """One condition in two dialects; they differ only in the null-safe equality and in how NaN is written."""

    spark: str
    duckdb: str

    @staticmethod
    def both(text: str) -> Predicate:
        """A condition that both dialects write alike."""
        return Predicate(text, text)


def literal(value: object) -> str:
    """A value as SQL text that means the same to Spark and DuckDB."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, float):
        return (
            f"CAST('{value}' AS DOUBLE)"
            if value in (float("inf"), float("-inf")) or value != value
            else f"{value!r}"
        )
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value}'"
    return str(value)


@dataclass(frozen=True)
class Asked:
    """A column that predicates speak of: its name and its values, in both dialects; `parts` of its name.

    `make`: what makes a condition on it, where that is no comparison of values; such a column is not grouped.
    """

    spark: str
    duckdb: str
    pool: Sequence[Any]
    in_spark: Callable[[Any], str] = literal
    in_duckdb: Callable[[Any], str] = literal
    parts: tuple[str, ...] = ()
    make: Callable[[random.Random], Predicate] | None = None

    def text(self, shape: str, *values: Any) -> Predicate:
        """`shape` with the column for `{c}` and the values for `{0}`, `{1}` and so on."""
        return Predicate(
            shape.format(*map(self.in_spark, values), c=self.spark),
            shape.format(*map(self.in_duckdb, values), c=self.duckdb),
        )


COLUMNS = tuple(Asked(name, name, pool, parts=(name,)) for name, pool in POOLS.items())
"""The columns of the tables that `histories` writes."""


def random_predicate(rng: random.Random, depth: int = 3, columns: Sequence[Asked] = COLUMNS) -> Predicate:
    """A tree of at most `depth` levels of AND, OR and NOT over random leaves."""
    roll = rng.random()
    if depth == 0 or roll < 0.35:
        return _leaf(rng, rng.choice(columns))
    if roll < 0.55:
        inner = random_predicate(rng, depth - 1, columns)
        return Predicate(f"NOT ({inner.spark})", f"NOT ({inner.duckdb})")
    word = "AND" if roll < 0.78 else "OR"
    parts = [random_predicate(rng, depth - 1, columns) for _ in range(rng.randint(2, 3))]
    return Predicate(
        f" {word} ".join(f"({p.spark})" for p in parts), f" {word} ".join(f"({p.duckdb})" for p in parts)
    )


def random_predicates(rng: random.Random, count: int, columns: Sequence[Asked] = COLUMNS) -> list[Predicate]:
    """Predicates of growing size, the plain leaves of every column first."""
    return [random_predicate(rng, min(3, n // 4), columns) for n in range(count)]


def _leaf(rng: random.Random, column: Asked) -> Predicate:
    if column.make is not None:
        return column.make(rng)
    kind = rng.choice(("compare", "compare", "in", "between", "null", "bare"))
    if kind == "null":
        return column.text(f"{{c}} IS {rng.choice(('', 'NOT '))}NULL")
    if kind == "in":
        return _membership(rng, column)
    if set(column.pool) <= {True, False} and set(map(type, column.pool)) == {bool}:
        return column.text("{c}") if kind == "bare" else _comparison(rng, column, ("=", "<>", "<=>"))
    if kind == "between":
        word = rng.choice(("", "NOT "))
        return column.text(f"{{c}} {word}BETWEEN {{0}} AND {{1}}", *rng.choices(column.pool, k=2))
    return _comparison(rng, column, COMPARISONS)


def _membership(rng: random.Random, column: Asked) -> Predicate:
    values = rng.sample(column.pool, rng.randint(1, min(4, len(column.pool))))
    listed = [f"{{{n}}}" for n in range(len(values))]
    if rng.random() < 0.2:
        listed.append("NULL")
    return column.text(f"{{c}} {rng.choice(('', 'NOT '))}IN ({', '.join(listed)})", *values)


def _comparison(rng: random.Random, column: Asked, signs: Sequence[str]) -> Predicate:
    sign = rng.choice(signs)
    if sign == "<=>":
        values = () if rng.random() < 0.4 else (rng.choice(column.pool),)
        right = "{0}" if values else "NULL"
        spark = column.text(f"{{c}} <=> {right}", *values).spark
        return Predicate(spark, column.text(f"{{c}} IS NOT DISTINCT FROM {right}", *values).duckdb)
    return column.text(f"{{c}} {sign} {{0}}", rng.choice(column.pool))
