"""How quick is `count`, warm in process and cold as a process, beside DuckDB and Polars on the same files?

Usage: python benchmarks/count.py. Needs an index of lineitem; builds it (without Spark) on first
use.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
import time

import duckdb
import polars as pl
from index_of import index_without_spark
from lineitem import COLUMNS, lineitem
from timing import medians, same, tell

import tailbit

UP_TO_50 = {
    "equality": "l_shipmode = 'AIR'",
    "in 3": "l_shipmode IN ('AIR', 'RAIL', 'SHIP')",
    "not equal": "l_shipmode <> 'AIR'",
    "and 3": "l_shipmode = 'AIR' AND l_returnflag = 'R' AND l_suppkey IN (7, 77, 777)",
    "or 3": "l_shipmode = 'AIR' OR l_returnflag = 'R' OR l_suppkey = 7",
    "30 days": "l_shipdate BETWEEN DATE'1995-03-01' AND DATE'1995-03-30'",
    "five leaves": (
        "l_shipmode IN ('AIR', 'RAIL') AND l_returnflag <> 'N' AND l_shipdate >= DATE'1994-03-01' "
        "AND l_shipdate < DATE'1994-04-10' AND NOT (l_suppkey = 7)"
    ),
}
UP_TO_400 = {
    "a year": "l_shipdate BETWEEN DATE'1995-01-01' AND DATE'1995-12-31'",
    "400 suppliers": "l_suppkey BETWEEN 1000 AND 1399",
}


def main() -> None:
    table = lineitem()
    index_without_spark(table, COLUMNS)
    opened = tailbit.open(str(table))
    files = str(table / "*.parquet")
    con = duckdb.connect()
    polar = pl.SQLContext(lineitem=pl.scan_parquet(files))
    for limit, predicates in ((50, UP_TO_50), (400, UP_TO_400)):
        for name, where in predicates.items():
            calls = {
                "tailbit": lambda where=where: opened.where(where).count(),
                "duckdb": lambda where=where: con.sql(
                    f"SELECT count(*) FROM '{files}' WHERE {where}"
                ).fetchall()[0][0],
                "polars": lambda where=where: polar.execute(
                    f"SELECT count(*) FROM lineitem WHERE {where}", eager=True
                ).item(),
            }
            n = same({contestant: call() for contestant, call in calls.items()})
            took = medians(calls)
            quicker = min(took["duckdb"], took["polars"])
            tell(
                {
                    "question": name,
                    "keys": limit,
                    "rows": n,
                    **{f"{k} ms": round(v * 1e3, 3) for k, v in took.items()},
                    "quicker peer / tailbit": round(quicker / took["tailbit"], 1),
                }
            )
    tell(cold(table))


def cold(table: pathlib.Path, runs: int = 9) -> dict[str, object]:
    """Median wall time of `tailbit count` as a process, file caches warm, beside importing pyarrow alone."""
    command = shutil.which("tailbit") or str(pathlib.Path(sys.executable).with_name("tailbit"))
    asked = [command, "count", str(table), "l_shipmode = 'AIR' AND l_returnflag = 'R'"]
    arrow = [sys.executable, "-c", "import pyarrow.parquet"]
    took = medians(
        {
            "tailbit": lambda: subprocess.run(asked, check=True, stdout=subprocess.DEVNULL),
            "arrow": lambda: subprocess.run(arrow, check=True),
        },
        runs,
    )
    return {
        "question": "cold process",
        "tailbit s": round(took["tailbit"], 3),
        "import pyarrow.parquet s": round(took["arrow"], 3),
        "tailbit / import": round(took["tailbit"] / took["arrow"], 2),
    }


if __name__ == "__main__":
    start = time.perf_counter()
    main()
    sys.stderr.write(f"{time.perf_counter() - start:.0f} s\n")
