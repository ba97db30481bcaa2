"""How quick are matching rows read, beside DuckDB and Polars on the same files, Lance and Spark?

Usage: python workloads/rows.py [--repeats N] [--no-spark]. Every cell of selectivity, order of the table (as
generated, and sorted by ship date) and number of columns is printed, misses as misses. DuckDB and Polars are
given the predicate; tailbit has an index of its columns. Rows go to Arrow, or to the Polars frame, which
has not paid for Arrow's texts. Lance has its own files and indexes of the same columns (see `peers.py`).
Times are the least of some runs, of one for Spark.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import sys
import time
from collections.abc import Iterator
from typing import Any

import deltalake
import duckdb
import polars as pl
from index_of import index_without_spark
from lineitem import FILES, lineitem
from peers import LanceTable, SparkTable, spark
from timing import least, same, tell

import tailbit

INDEXED = ("l_orderkey", "l_suppkey", "l_shipdate", "l_quantity", "l_shipmode")
COLUMNS: dict[str, list[str] | None] = {
    "1": ["l_extendedprice"],
    "3": ["l_orderkey", "l_shipdate", "l_comment"],
    "all": None,
}
QUESTIONS = {
    "1e-6": "l_orderkey = 7",
    "day, mode, quantity": "l_shipdate = DATE'1995-03-03' AND l_shipmode = 'AIR' AND l_quantity = 7",
    "1e-4": "l_suppkey = 77",
    "4e-4": "l_shipdate = DATE'1995-03-03'",
    "1e-2": "l_suppkey BETWEEN 1000 AND 1099",
    "2e-2 of quantity": "l_quantity = 7",
    "1e-1": "l_suppkey BETWEEN 1000 AND 1999",
    "5e-1": "l_suppkey <= 5000",
}
MOST, LEAST, FEW = 1.1, 3.0, 0.1
"""At most 1.1 times as long as the quicker peer; a third, where less than 0.1 of the row groups match."""


def by_ship_date(table: pathlib.Path) -> pathlib.Path:
    """The same rows by ship date, in equally many files, with row groups as large; made on first use."""
    target = table.with_name(f"{table.name}-sorted")
    if (target / "_delta_log").exists():
        return target
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    con = duckdb.connect()
    con.execute("SET memory_limit = '4GB'")
    con.execute(
        "CREATE TEMP TABLE dates AS SELECT l_shipdate AS d, count(*) AS n FROM "
        f"'{table}/*.parquet' GROUP BY 1"
    )
    bounds = con.execute(
        "SELECT min(d), max(d) FROM (SELECT d, ntile(8) OVER (ORDER BY d) AS part FROM dates) "
        "GROUP BY part ORDER BY 1"
    ).fetchall()
    assert len(bounds) == FILES
    for number, (low, high) in enumerate(bounds):
        con.execute(
            f"COPY (SELECT * FROM '{table}/*.parquet' WHERE l_shipdate BETWEEN '{low}' AND '{high}' "
            f"ORDER BY l_shipdate) TO '{target}/{number}.parquet' (FORMAT parquet, ROW_GROUP_SIZE 107520)"
        )
    deltalake.convert_to_deltalake(str(target))
    return target


def cells(repeats: int, session: Any) -> Iterator[dict[str, Any]]:
    unsorted = lineitem()
    for order, table in (("unsorted", unsorted), ("sorted", by_ship_date(unsorted))):
        # Other benchmarks index other columns, beside the table.
        index = table.with_name(f"{table.name}-index-of-rows")
        index_without_spark(table, INDEXED, index)
        opened = tailbit.open(str(table), str(index))
        for name, where in QUESTIONS.items():
            share = _share_of_row_groups(opened, where)
            for width, columns in COLUMNS.items():
                yield {
                    "rows of": order,
                    "selectivity": name,
                    "columns": width,
                    "row groups": round(share, 2),
                    **_cell(opened, table, session, where, columns, share, repeats),
                }


def _cell(
    opened: tailbit.IndexedTable,
    table: pathlib.Path,
    session: Any,
    where: str,
    columns: list[str] | None,
    share: float,
    repeats: int,
) -> dict[str, Any]:
    named = "*" if columns is None else ", ".join(columns)
    files, con, lance = str(table / "*.parquet"), duckdb.connect(), LanceTable(table, INDEXED)

    def polars() -> pl.DataFrame:
        found = pl.scan_parquet(files).filter(pl.sql_expr(where.replace("DATE'", "DATE '")))
        return found.collect() if columns is None else found.select(columns).collect()

    calls = {
        "tailbit": lambda: opened.where(where).read(columns),
        "DuckDB": lambda: con.sql(f"SELECT {named} FROM '{files}' WHERE {where}").to_arrow_table(),
        "Polars": polars,
        "Lance": lambda: lance.read(columns, where),
    }
    slow = {} if session is None else {"Spark": lambda: SparkTable(session, table).read(columns, where)}
    rows = same({name: len(call()) for name, call in {**calls, **slow}.items()})
    took = least(calls, repeats) | least(slow, 1)
    ratio, of_cpu = (
        took["tailbit"][clock] / min(took["DuckDB"][clock], took["Polars"][clock]) for clock in (0, 1)
    )
    most = round(1 / LEAST, 2) if share < FEW else MOST
    return {
        "matches": rows,
        **{f"{name} ms": round(wall * 1e3, 1) for name, (wall, _) in took.items()},
        "tailbit / quicker": round(ratio, 2),
        "in CPU time": round(of_cpu, 2),
        "at most": most,
    }


def _share_of_row_groups(opened: tailbit.IndexedTable, where: str) -> float:
    """The share of the table's row groups that hold a match."""
    import numpy as np
    import pyarrow.parquet as pq

    found, held, groups = opened.where(where).positions(), 0, 0
    for path in opened.where().files():
        metadata = pq.read_metadata(pathlib.Path(opened.path) / path)
        sizes = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
        groups += len(sizes)
        if path in found:
            held += len(np.unique(np.searchsorted(np.cumsum(sizes), found[path], side="right")))
    return held / groups


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--no-spark", action="store_true", help="leave Spark out, which takes some minutes")
    asked = options.parse_args()
    with spark("rows", not asked.no_spark) as session:
        for cell in cells(asked.repeats, session):
            tell(cell)


if __name__ == "__main__":
    start = time.perf_counter()
    main()
    sys.stderr.write(f"{time.perf_counter() - start:.0f} s\n")
