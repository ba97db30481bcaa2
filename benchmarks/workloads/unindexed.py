"""How quick are counts, rows and most frequent values by columns without an index, beside DuckDB and Polars?

Usage: python workloads/unindexed.py [--repeats N]. Needs an index of lineitem, of other columns; builds it
(without Spark) on first use. Warm medians; both columns of a comparison, and both sides of an AND, are read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    "part of a text": "substring(l_comment, 1, 2) IN ('fu', 'th')",
    "other letters": "upper(l_comment) LIKE '%FURIOUS%'",
    "remainder": "l_partkey % 10 = 3",
    "rounded": "round(l_extendedprice) > 50000",
    "half": "l_partkey / 2 > 50000",
    "month of two": "month(l_shipdate) = month(l_commitdate)",
    "a choice": "CASE WHEN l_tax > 0.05 THEN l_discount ELSE l_tax END > 0.04",
}


READ = {
    "8,000 rows of a range": "l_orderkey BETWEEN 1000 AND 9000",
    "100 rows all over": "l_extendedprice > 104000",
    "a fiftieth": "l_quantity = 7",
    "a sixth": "l_quantity < 10",
    "a computed condition": "l_extendedprice * (1 - l_discount) > 90000",
}
COLUMNS_READ = {
    "1 column": "l_orderkey",
    "3 columns": "l_orderkey, l_extendedprice, l_comment",
    "all columns": "*",
}
TOP = ("l_quantity", "l_commitdate", "l_partkey", "l_orderkey", "l_extendedprice", "l_comment")
AMONG = {"all rows": "true", "a seventh": "l_shipmode = 'AIR'"}


class Contest:
    """The three that are asked."""

    def __init__(self, table: Path, repeats: int) -> None:
        self.opened, self.con, self.repeats = tailbit.open(str(table)), duckdb.connect(), repeats
        self.files = str(table / "*.parquet")
        self.polar = pl.SQLContext(lineitem=pl.scan_parquet(self.files))

    def counts(self, asked: str, name: str, where: str) -> None:
        """Rows of a condition."""
        sql = f"SELECT count(*) FROM {{}} WHERE {where}"
        calls = {
            "tailbit": lambda: self.opened.where(where).count(),
            "duckdb": lambda: self.con.sql(sql.format(f"'{self.files}'")).fetchall()[0][0],
            "polars": lambda: self.polar.execute(sql.format("lineitem"), eager=True).item(),
        }
        answers = {contestant: call() for contestant, call in calls.items()}
        if asked == "computed":
            # Their decimals have other sizes than Spark's: a quotient is rounded elsewhere.
            answers = {"tailbit": answers["tailbit"]}
        self.tell({"question": name, "asked of": asked, "rows": same(answers)}, calls)

    def read(self, name: str, where: str, columns: str) -> None:
        """Rows of a condition."""
        sql = f"SELECT {COLUMNS_READ[columns]} FROM {{}} WHERE {where}"
        wanted = None if columns == "all columns" else COLUMNS_READ[columns].split(", ")
        calls = {
            "tailbit": lambda: len(self.opened.where(where).read(wanted)),
            "duckdb": lambda: len(self.con.sql(sql.format(f"'{self.files}'")).to_arrow_table()),
            "polars": lambda: len(self.polar.execute(sql.format("lineitem"), eager=True)),
        }
        rows = same({contestant: call() for contestant, call in calls.items()})
        self.tell({"question": f"{name}, {columns}", "asked of": "rows", "rows": rows}, calls)

    def top(self, column: str, name: str, where: str) -> None:
        """The ten most frequent values of a column."""
        counted = f"SELECT {column}, count(*) AS n FROM {{}} WHERE {where} GROUP BY {column}"
        sql = f"{counted} ORDER BY n DESC, {column} LIMIT 10"
        calls = {
            "tailbit": lambda: list(self.opened.where(where).top(column, 10).values()),
            "duckdb": lambda: [n for _, n in self.con.sql(sql.format(f"'{self.files}'")).fetchall()],
            "polars": lambda: self.polar.execute(sql.format("lineitem"), eager=True)["n"].to_list(),
        }
        same({contestant: call() for contestant, call in calls.items()})
        self.tell({"question": f"top of {column}, {name}", "asked of": "groups"}, calls)

    def tell(self, row: dict[str, Any], calls: dict[str, Callable[[], Any]]) -> None:
        """One line of the result."""
        took = medians(calls, self.repeats)
        row |= {f"{contestant} ms": round(took[contestant] * 1e3, 1) for contestant in took}
        tell(row | {"tailbit / quicker": round(took["tailbit"] / min(took["duckdb"], took["polars"]), 2)})


def main() -> None:
    table = lineitem()
    index_without_spark(table, COLUMNS)
    repeats = int(sys.argv[sys.argv.index("--repeats") + 1]) if "--repeats" in sys.argv else 7
    contest = Contest(table, repeats)
    for asked, conditions in (("stored", STORED), ("computed", COMPUTED)):
        for name, where in conditions.items():
            contest.counts(asked, name, where)
    for name, where in READ.items():
        for columns in COLUMNS_READ:
            contest.read(name, where, columns)
    for column in TOP:
        for name, where in AMONG.items():
            contest.top(column, name, where)


if __name__ == "__main__":
    main()
