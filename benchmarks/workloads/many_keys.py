"""How quick are counts and facets over tens of thousands of keys of 60 M rows, beside DuckDB and Polars?

Usage: python workloads/many_keys.py [--repeats N]. Lineitem of scale 10 (1 with `TAILBIT_BENCH_SCALE=1`) has
100,000 suppliers and 2 M parts; 59,000 suppliers are a range. The first answer of each question is printed
too: nothing of it has been asked before in the process. Warm medians; answers must be the same.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import time
from collections.abc import Callable
from typing import Any

import duckdb
import polars as pl
from index_of import index_without_spark
from lineitem import COLUMNS, folder, lineitem, scale
from timing import medians, same, tell

import tailbit

LISTED, MOST = 14_286, 1.1
COUNTS = {
    "range": "l_suppkey BETWEEN {low} AND {high}",
    "not in range": "NOT (l_suppkey BETWEEN {low} AND {high})",
    "range of parts": "l_partkey BETWEEN {part} AND {parts}",
    "range and mode": "l_suppkey BETWEEN {low} AND {high} AND l_shipmode = 'AIR'",
    "range of parts and flag": "l_partkey BETWEEN {part} AND {parts} AND l_returnflag = 'R'",
    "range or dates": "l_suppkey > {low} OR l_shipdate < DATE'1993-01-01'",
    "year and range": "year(l_shipdate) = 1995 AND l_suppkey < {high}",
    "list": "l_suppkey IN ({listed})",
    "remainder": "l_suppkey % 3 = 1",
    "like and range": "l_shipmode LIKE 'R%' AND l_suppkey <= {high}",
}
FACETS = {
    "days": ("l_shipdate", "true"),
    "suppliers": ("l_suppkey", "true"),
    "modes and days": ("l_shipmode, l_shipdate", "true"),
    "days of a range": ("l_shipdate", "l_suppkey BETWEEN {low} AND {high}"),
    "suppliers of a mode": ("l_suppkey", "l_shipmode = 'AIR'"),
}


def filled(text: str) -> str:
    """A condition with the bounds that the scale gives it."""
    suppliers, parts = int(10_000 * float(scale())), int(200_000 * float(scale()))
    listed = ",".join(map(str, range(1, suppliers, max(1, suppliers // LISTED))))
    low, high = suppliers // 5, suppliers // 5 + suppliers * 59 // 100
    return text.format(low=low, high=high, part=parts // 20, parts=parts * 3 // 5, listed=listed)


def measured(name: str, calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, Any]:
    """A line of one question: the first answer of ours, and warm medians of all."""
    began = time.perf_counter()
    calls["tailbit"]()
    first = time.perf_counter() - began
    rows = same({contestant: call() for contestant, call in calls.items()})
    for _ in range(4):
        calls["tailbit"]()
    took = medians(calls, repeats)
    quicker = min(seconds for contestant, seconds in took.items() if contestant != "tailbit")
    return {
        "question": name,
        "rows or groups": rows,
        "first ms": round(first * 1e3, 1),
        **{f"{contestant} ms": round(seconds * 1e3, 2) for contestant, seconds in took.items()},
        "tailbit / quicker": round(took["tailbit"] / quicker, 3),
        "at most": MOST,
    }


class Contest:
    """An open table, DuckDB and Polars on its files."""

    def __init__(self, table: pathlib.Path, index: pathlib.Path) -> None:
        self.opened, self.files = tailbit.open(str(table), str(index)), str(table / "*.parquet")
        self.duckdb, self.polars = duckdb.connect(), pl.SQLContext(lineitem=pl.scan_parquet(self.files))

    def counts(self, where: str, by_polars: bool) -> dict[str, Callable[[], Any]]:
        """What counts the rows of a condition."""
        sql = f"SELECT count(*) FROM {{}} WHERE {where}"
        calls: dict[str, Callable[[], Any]] = {
            "tailbit": lambda: self.opened.where(where).count(),
            "duckdb": lambda: self.duckdb.sql(sql.format(f"'{self.files}'")).fetchall()[0][0],
        }
        if by_polars:
            calls["polars"] = lambda: self.polars.execute(sql.format("lineitem"), eager=True).item()
        return calls

    def facets(self, columns: str, where: str) -> dict[str, Callable[[], Any]]:
        """What counts the groups of the rows of a condition."""
        sql = f"SELECT {columns}, count(*) AS n FROM {{}} WHERE {where} GROUP BY {columns}"
        return {
            "tailbit": lambda: len(self.opened.where(where).facets(*columns.split(", "))),
            "duckdb": lambda: len(self.duckdb.sql(sql.format(f"'{self.files}'")).fetchall()),
            "polars": lambda: self.polars.execute(sql.format("lineitem"), eager=True).height,
        }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repeats", type=int, default=5)
    repeats = options.parse_args().repeats
    os.environ.setdefault("TAILBIT_BENCH_SCALE", "10")
    table, index = lineitem(), folder() / f"lineitem-{scale()}-index-of-many-keys"
    index_without_spark(table, (*COLUMNS, "l_partkey"), index)
    contest = Contest(table, index)
    for name, condition in COUNTS.items():
        # Polars takes minutes for the list, and its SQL has no year().
        calls = contest.counts(filled(condition), name not in ("list", "year and range"))
        tell(measured(name, calls, repeats))
    for name, (columns, condition) in FACETS.items():
        tell(measured(name, contest.facets(columns, filled(condition)), repeats))


if __name__ == "__main__":
    main()
