"""Random predicates in the grammar that tailbit reads, each as Spark's and as DuckDB's SQL text."""

from __future__ import annotations

import datetime
import random
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

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


def random_predicate(rng: random.Random, depth: int = 3) -> Predicate:
    """A tree of at most `depth` levels of AND, OR and NOT over random leaves."""
    roll = rng.random()
    if depth == 0 or roll < 0.35:
        return _leaf(rng)
    if roll < 0.55:
        inner = random_predicate(rng, depth - 1)
        return Predicate(f"NOT ({inner.spark})", f"NOT ({inner.duckdb})")
    word = "AND" if roll < 0.78 else "OR"
    parts = [random_predicate(rng, depth - 1) for _ in range(rng.randint(2, 3))]
    return Predicate(
        f" {word} ".join(f"({p.spark})" for p in parts), f" {word} ".join(f"({p.duckdb})" for p in parts)
    )


def random_predicates(rng: random.Random, count: int) -> list[Predicate]:
    """Predicates of growing size, the plain leaves of every column first."""
    return [random_predicate(rng, depth=min(3, n // 4)) for n in range(count)]


def _leaf(rng: random.Random) -> Predicate:
    column = rng.choice(list(POOLS))
    pool: Sequence[object] = POOLS[column]
    kind = rng.choice(("compare", "compare", "in", "between", "null", "bare"))
    if kind == "null":
        return Predicate.both(f"{column} IS {rng.choice(('', 'NOT '))}NULL")
    if kind == "in":
        return Predicate.both(_membership(rng, column, pool))
    if kind == "bare" and column == "flag":
        return Predicate.both("flag")
    if column == "flag":
        return _comparison(rng, column, pool, ("=", "<>", "<=>"))
    if kind == "between":
        low, high = rng.choice(pool), rng.choice(pool)
        word = rng.choice(("", "NOT "))
        return Predicate.both(f"{column} {word}BETWEEN {literal(low)} AND {literal(high)}")
    return _comparison(rng, column, pool, COMPARISONS)


def _membership(rng: random.Random, column: str, pool: Sequence[object]) -> str:
    values = [literal(v) for v in rng.sample(pool, rng.randint(1, min(4, len(pool))))]
    if rng.random() < 0.2:
        values.append("NULL")
    return f"{column} {rng.choice(('', 'NOT '))}IN ({', '.join(values)})"


def _comparison(rng: random.Random, column: str, pool: Sequence[object], signs: Sequence[str]) -> Predicate:
    sign = rng.choice(signs)
    value = "NULL" if sign == "<=>" and rng.random() < 0.4 else literal(rng.choice(pool))
    duckdb_sign = "IS NOT DISTINCT FROM" if sign == "<=>" else sign
    return Predicate(f"{column} {sign} {value}", f"{column} {duckdb_sign} {value}")
