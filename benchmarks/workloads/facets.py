"""How quick are facets with and without WHERE, cold and warm, beside GROUP BY of DuckDB, Polars and Spark?

Usage: python workloads/facets.py [--repeats N] [--no-spark]. Needs an index of lineitem; builds it (without
Spark) on first use. Warm: the question has been asked four times before. Cold: a fresh handle, with nothing
of the index and of the data files kept by the process; the operating system's file cache is warm for all.
Wall and CPU medians, CPU of all threads.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
from index_of import index_without_spark
from lineitem import COLUMNS, lineitem
from peers import SparkTable, spark
from timing import medians, same, tell

import tailbit
from tailbit.index.evaluation.costs import SPENT
from tailbit.index.evaluation.key_selection import UNIONS
from tailbit.index.grouping.counting import COUNTED
from tailbit.index.grouping.dictionary import DICTIONARIES
from tailbit.index.postings.codes import CODES, MAKING
from tailbit.index.postings.segment import POSTINGS
from tailbit.tables.parquet import file, layout

WHERE = {
    "all rows": None,
    "1,480,000 rows": "l_returnflag = 'R'",
    "160,000 rows": "l_shipmode = 'AIR' AND l_suppkey BETWEEN 1000 AND 2866",
    "2,500 rows": "l_shipdate = DATE'1995-03-15'",
    "587 rows": "l_suppkey = 77",
}
WITH_WHERE, WITHOUT_WHERE = 2, 5
"""How many times quicker than the quicker peer a warm answer is to be."""

FACETS = ("l_shipmode", "l_shipdate", "l_suppkey", "l_returnflag, l_shipmode", "l_shipmode, l_shipdate")


def forget() -> None:
    """Make the process forget what it has read of indexes and data files."""
    for cache in (POSTINGS, CODES, MAKING, DICTIONARIES, COUNTED, SPENT, UNIONS):
        cache.clear()
    for others in (*layout.CACHES, *file.CACHES):
        others.clear()


Calls = dict[str, tuple[Callable[[], Any], Callable[[], Any]]]


def rounds(calls: Calls, repeats: int) -> dict[str, tuple[float, float]]:
    """Median wall and CPU ms of each call, in turns; the first of a pair is done before and not timed."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, (before, call) in calls.items():
            before()
            wall, cpu = time.perf_counter(), time.process_time()
            call()
            times[name].append(((time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3))
    return {
        name: (statistics.median(w for w, _ in its), statistics.median(c for _, c in its))
        for name, its in times.items()
    }


class Contestants:
    """One question put to an open table, and to DuckDB and Polars on its files."""

    def __init__(self, table: str) -> None:
        self.table, self.opened = table, tailbit.open(table)
        self.files = f"{table}/*.parquet"
        self.duckdb = duckdb.connect()
        self.polars = pl.SQLContext(lineitem=pl.scan_parquet(self.files))

    def calls(self, columns: str, where: str | None) -> Calls:
        """What to do before each contestant is timed, and the question; each gives its groups."""
        names = columns.split(", ")
        matching = f" WHERE {where}" if where else ""
        sql = f"SELECT {columns}, count(*) AS n FROM {{}}{matching} GROUP BY {columns}"

        def ours(handle: tailbit.IndexedTable | None = None) -> Any:
            return (handle or self.opened).where(where).facets(*names)

        def settled() -> None:
            for _ in range(4):
                ours()

        def duck() -> Any:
            return self.duckdb.sql(sql.format(f"'{self.files}'")).fetchall()

        def polars() -> Any:
            return self.polars.execute(sql.format("lineitem"), eager=True).rows()

        return {
            "cold": (forget, lambda: ours(tailbit.open(self.table))),
            "warm": (settled, ours),
            "duckdb": (duck, duck),
            "polars": (polars, polars),
        }


def cell(contestants: Contestants, columns: str, title: str, repeats: int) -> dict[str, Any]:
    """One question of all contestants, whose answers must be the same."""
    calls = contestants.calls(columns, WHERE[title])
    answers = {name: call() for name, (_, call) in calls.items()}
    groups = same({name: len(answer) for name, answer in answers.items()})
    several = ", " in columns
    rows = [(*(key if several else (key,)), n) for key, n in answers["warm"].items()]
    same({"tailbit": sorted(rows), "duckdb": sorted(answers["duckdb"])})
    took = rounds(calls, repeats)
    row: dict[str, Any] = {"facets": columns, "where": title, "groups": groups}
    for place, what in enumerate(("wall", "cpu")):
        row |= {f"{name} {what} ms": round(ms[place], 1) for name, ms in took.items()}
        quicker = min(took["duckdb"][place], took["polars"][place])
        row |= {f"quicker / {n}, {what}": round(quicker / took[n][place], 2) for n in ("cold", "warm")}
    row["warm at least"] = WITHOUT_WHERE if WHERE[title] is None else WITH_WHERE
    return row


def of_spark(session: Any, table: Path, columns: str, where: str | None) -> float:
    """Ms of one GROUP BY of Spark, asked for the second time."""
    found = SparkTable(session, table).where(where or "true").groupBy(*columns.split(", ")).count()
    return round(medians({"spark": found.collect}, repeats=1)["spark"] * 1e3, 1)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repeats", type=int, default=7)
    options.add_argument("--no-spark", action="store_true", help="leave Spark out, which takes a minute")
    asked, table = options.parse_args(), lineitem()
    index_without_spark(table, COLUMNS)
    contestants = Contestants(str(table))
    with spark("facets", not asked.no_spark) as session:
        for columns in FACETS:
            for title, where in WHERE.items():
                row = cell(contestants, columns, title, asked.repeats)
                if session is not None:
                    row["spark wall ms"] = of_spark(session, table, columns, where)
                tell(row)


if __name__ == "__main__":
    main()
