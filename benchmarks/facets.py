"""How quick are facets with and without WHERE, cold and warm, beside GROUP BY of DuckDB and Polars?

Usage: python benchmarks/facets.py [--json] [--repeats N]. Needs an index of lineitem; builds it (without
Spark) on first use. Warm: the question has been asked four times before. Cold: a fresh handle, with nothing
of the index and of the data files kept by the process; the operating system's file cache is warm for all.
Wall and CPU medians, CPU of all threads.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import duckdb
import polars as pl
from index_of import index_without_spark
from lineitem import COLUMNS, lineitem
from timing import same

import tailbit
from tailbit.index.analytics.dictionary import DICTIONARIES
from tailbit.index.evaluation.costs import SPENT
from tailbit.index.evaluation.key_spans import UNIONS
from tailbit.index.kinds.bitmap_index.codes import CODES
from tailbit.index.kinds.bitmap_index.segment import POSTINGS
from tailbit.tables.parquet import file, layout

WHERE = {
    "all rows": None,
    "1,480,000 rows": "l_returnflag = 'R'",
    "160,000 rows": "l_shipmode = 'AIR' AND l_suppkey BETWEEN 1000 AND 2866",
    "2,500 rows": "l_shipdate = DATE'1995-03-15'",
    "587 rows": "l_suppkey = 77",
}
FACETS = ("l_shipmode", "l_shipdate", "l_suppkey", "l_returnflag, l_shipmode", "l_shipmode, l_shipdate")


def forget() -> None:
    """Make the process forget what it has read of indexes and data files."""
    for cache in (POSTINGS, CODES, DICTIONARIES, SPENT, UNIONS, *layout.CACHES, *file.CACHES):
        cache.clear()


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


def main() -> None:
    table = lineitem()
    index_without_spark(table, COLUMNS)
    files = str(table / "*.parquet")
    con = duckdb.connect()
    polar = pl.SQLContext(lineitem=pl.scan_parquet(files))
    opened = tailbit.open(str(table))
    repeats = int(sys.argv[sys.argv.index("--repeats") + 1]) if "--repeats" in sys.argv else 7
    for columns in FACETS:
        names = columns.split(", ")
        for title, where in WHERE.items():
            clause = f" WHERE {where}" if where else ""
            sql = f"SELECT {columns}, count(*) AS n FROM {{}}{clause} GROUP BY {columns}"

            def ours(handle: Any = None, where: str | None = where, names: list[str] = names) -> Any:
                return (handle or opened).where(where).facets(*names)

            def duck(sql: str = sql) -> Any:
                return con.sql(sql.format(f"'{files}'")).fetchall()

            def polars(sql: str = sql) -> Any:
                return polar.execute(sql.format("lineitem"), eager=True).rows()

            def fresh(ours: Callable[..., Any] = ours) -> Any:
                return ours(tailbit.open(str(table)))

            def settled(ours: Callable[..., Any] = ours) -> None:
                for _ in range(4):
                    ours()

            groups = same({"tailbit": len(ours()), "duckdb": len(duck()), "polars": len(polars())})
            rows = [(*((key,) if len(names) == 1 else key), n) for key, n in ours().items()]
            same({"tailbit": sorted(rows), "duckdb": sorted(duck())})
            calls = {
                "cold": (forget, fresh),
                "warm": (settled, ours),
                "duckdb": (duck, duck),
                "polars": (polars, polars),
            }
            took = rounds(calls, repeats)
            row: dict[str, Any] = {"facets": columns, "where": title, "groups": groups}
            for place, what in enumerate(("wall", "cpu")):
                row |= {f"{name} {what} ms": round(ms[place], 1) for name, ms in took.items()}
                quicker = min(took["duckdb"][place], took["polars"][place])
                row |= {f"quicker/{n} {what}": round(quicker / took[n][place], 2) for n in ("cold", "warm")}
            print(json.dumps(row) if "--json" in sys.argv else "  ".join(f"{k} {v}" for k, v in row.items()))


if __name__ == "__main__":
    main()
