"""A table with a history, and questions about it, for tests of questions that executors answer."""

from __future__ import annotations

import math
from typing import Any

import deltalake
import pyarrow as pa

from support.tables import index_of

CONDITIONS = (
    None,
    "k < 40",
    "s = 's1'",
    "s IN ('s1', 's2') AND k >= 20",
    "s IS NULL OR x > 3",
    "NOT (s = 's0') AND x IS NOT NULL",
    "upper(s) = 'S2' OR day = '2026-01-02'",
    "day = '2026-01-01' AND k % 3 = 1",
    "x = double('NaN')",
    "k < 0",
)


def rows(first: int) -> pa.Table:
    numbers = range(first, first + 20)
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "s": [None if n % 7 == 0 else f"s{n % 4}" for n in numbers],
            "x": [math.nan if n % 11 == 0 else None if n % 5 == 0 else n / 8 for n in numbers],
            "day": [f"2026-01-0{1 + n % 2}" for n in numbers],
        }
    )


def history(path: str) -> str:
    """Make a table of eight commits, of which the index has the first five; return its path."""
    made = {"partition_by": ["day"]}
    deltalake.write_deltalake(path, rows(0), **made)
    for first in (20, 40):
        deltalake.write_deltalake(path, rows(first), mode="append")
        index_of(path, ["k", "s", "day"])
    deltalake.DeltaTable(path).delete("k % 6 = 0")
    index_of(path)
    deltalake.DeltaTable(path).update(updates={"s": "'s9'"}, predicate="k BETWEEN 30 AND 34")
    index_of(path)
    deltalake.write_deltalake(path, rows(60), mode="append")
    deltalake.DeltaTable(path).delete("k = 63")
    deltalake.write_deltalake(path, rows(80), mode="append")
    return path


def told(answer: Any) -> list[Any]:
    """What an answer says, in a form that can be compared."""
    return [
        answer.count(),
        answer.facets("s"),
        answer.facets("day", "s"),
        answer.facets("s", sum="k", max="x", min="day"),
        answer.facets("x", sum="k", avg="x"),
        answer.facets("upper(s)"),
        answer.top("x", 3),
        answer.distinct("s"),
        answer.count_distinct("x"),
        answer.min("k"),
        answer.max("x"),
        answer.sum("x"),
        answer.avg("k"),
        answer.histogram("k", [0, 30, 60]),
        answer.summary("k"),
    ]
