"""How quick are counts where the condition asks of columns without an index, beside DuckDB and Polars?

Usage: python benchmarks/unindexed.py [--repeats N]. Needs an index of lineitem, of other columns; builds it
(without Spark) on first use. Warm medians; both columns of a comparison, and both sides of an AND, are read.
"""

from __future__ import annotations

import sys

import duckdb
import polars as pl
from index_of import index_without_spark
from lineitem import COLUMNS, lineitem
from timing import medians, same, tell

import tailbit

STORED = {
    "one key, sorted": "l_orderkey = 77",
    "a sixth, few values": "l_quantity < 10",
    "a third, many values": "l_extendedprice > 50000",
    "few rows, many values": "l_partkey BETWEEN 100 AND 200",
    "a range of dates": "l_commitdate < DATE'1993-01-01'",
    "contains": "l_comment LIKE '%furious%'",
    "begins and ends": "l_comment LIKE 'f%s'",
    "either of two": "l_linenumber = 7 OR l_quantity = 1",
    "beside an index": "l_quantity < 10 AND l_shipmode = 'AIR'",
    "two columns": "l_commitdate < l_receiptdate",
    "a year": "year(l_commitdate) = 1995",
}
COMPUTED = {
    "product": "l_extendedprice * (1 - l_discount) > 50000",
    "quotient": "l_extendedprice / l_quantity > 2000",
    "length": "length(l_comment) > 40",
    "a choice": "CASE WHEN l_tax > 0.05 THEN l_discount ELSE l_tax END > 0.04",
}


def main() -> None:
    table = lineitem()
    index_without_spark(table, COLUMNS)
    opened, con = tailbit.open(str(table)), duckdb.connect()
    files = str(table / "*.parquet")
    polar = pl.SQLContext(lineitem=pl.scan_parquet(files))
    repeats = int(sys.argv[sys.argv.index("--repeats") + 1]) if "--repeats" in sys.argv else 7
    for asked, conditions in (("stored", STORED), ("computed", COMPUTED)):
        for name, where in conditions.items():
            counting = f"SELECT count(*) FROM {{}} WHERE {where}"
            calls = {
                "tailbit": lambda where=where: opened.where(where).count(),
                "duckdb": lambda sql=counting: con.sql(sql.format(f"'{files}'")).fetchall()[0][0],
                "polars": lambda sql=counting: polar.execute(sql.format("lineitem"), eager=True).item(),
            }
            answers = {contestant: call() for contestant, call in calls.items()}
            if asked == "computed":
                # Their decimals have other sizes than Spark's: a quotient is rounded elsewhere.
                answers = {"tailbit": answers["tailbit"]}
            rows, took = same(answers), medians(calls, repeats)
            quicker = min(took["duckdb"], took["polars"])
            row = {"question": name, "asked of": asked, "rows": rows}
            row |= {f"{contestant} ms": round(took[contestant] * 1e3, 1) for contestant in took}
            tell(row | {"tailbit / quicker": round(took["tailbit"] / quicker, 2)})


if __name__ == "__main__":
    main()
