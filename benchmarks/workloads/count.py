"""How quick is `count`, warm in process and cold as a process, beside DuckDB, Polars, Lance and Spark?

Usage: python workloads/count.py [--no-spark]. Needs an index of lineitem; builds it (without Spark) on first
use. DuckDB and Polars read the same files, Lance its own with indexes of the same columns (see `peers.py`).
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import subprocess
import sys
import time
from typing import Any

import duckdb
import polars as pl
from index_of import index_without_spark
from lineitem import COLUMNS, lineitem
from peers import LanceTable, SparkTable, spark
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
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--no-spark", action="store_true", help="leave Spark out, which takes a minute")
    table = lineitem()
    index_without_spark(table, COLUMNS)
    with spark("count", not options.parse_args().no_spark) as session:
        for limit, predicates in ((50, UP_TO_50), (400, UP_TO_400)):
            for name, where in predicates.items():
                tell({"question": name, "keys": limit, **warm(table, where, session)})
    tell(cold(table))


def warm(table: pathlib.Path, where: str, session: Any) -> dict[str, Any]:
    """Median ms of one count, of all contestants."""
    opened, files, con = tailbit.open(str(table)), str(table / "*.parquet"), duckdb.connect()
    polar, lance = pl.SQLContext(lineitem=pl.scan_parquet(files)), LanceTable(table, COLUMNS)
    calls = {
        "tailbit": lambda: opened.where(where).count(),
        "duckdb": lambda: con.sql(f"SELECT count(*) FROM '{files}' WHERE {where}").fetchall()[0][0],
        "polars": lambda: polar.execute(f"SELECT count(*) FROM lineitem WHERE {where}", eager=True).item(),
        "lance": lambda: lance.count(where),
    }
    slow = {} if session is None else {"spark": lambda: SparkTable(session, table).count(where)}
    rows = same({contestant: call() for contestant, call in {**calls, **slow}.items()})
    took = medians(calls) | medians(slow, repeats=3)
    return {
        "rows": rows,
        **{f"{contestant} ms": round(seconds * 1e3, 3) for contestant, seconds in took.items()},
        "quicker peer / tailbit": round(min(took["duckdb"], took["polars"]) / took["tailbit"], 1),
        "lance / tailbit": round(took["lance"] / took["tailbit"], 1),
    }


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
