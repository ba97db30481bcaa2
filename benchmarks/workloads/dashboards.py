"""Statements of dashboards over a star of plain Delta tables, with the index and without, by one setting.

Sales of seven years in sixteen files, in the order of their keys or of their days, and dimensions of
customers, parts and suppliers. Both contestants run the same statement in the same session, in turn, each
time planned anew, so that load meets both; the ratio is what counts. The last lines of a layout
have the geometric mean and the worst ratio.
"""

from __future__ import annotations

import argparse
import math
import pathlib
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
from index_of import Upkeep
from lineitem import folder
from timing import medians, tell

from tailbit.spark import accelerate, jar
from tailbit.spark.acceleration import Acceleration
from tailbit.streaming.java.session import build_session, delta_settings

FILES, ROWS = 16, 3_000_000
LAYOUTS = ("by key", "by day")
FIRST, DAYS = "1992-01-01", 2556
SUM = "sum(price * discount)"

INDEXED = {
    "sales": ["customer", "part", "supplier", "day", "mode", "status"],
    "customers": ["customer", "name", "region"],
    "parts": ["part", "brand", "size"],
    "suppliers": ["supplier", "name"],
}
"""The indexed columns of each table."""

STATEMENTS = {
    "one customer": "SELECT * FROM sales WHERE customer = 1234",
    "one customer, two columns": "SELECT id, price FROM sales WHERE customer = 1234",
    "one supplier": f"SELECT {SUM} FROM sales WHERE supplier = 77",
    "one supplier, rows": "SELECT * FROM sales WHERE supplier = 77",
    "500 keys": f"SELECT {SUM} FROM sales WHERE customer BETWEEN 500 AND 522",
    "5,000 rows": f"SELECT {SUM} FROM sales WHERE customer BETWEEN 1000 AND 1226",
    "most rows": f"SELECT {SUM} FROM sales WHERE status <> 'N'",
    "one day": f"SELECT {SUM} FROM sales WHERE day = DATE'1995-03-03'",
    "one month": f"SELECT {SUM} FROM sales WHERE day BETWEEN DATE'1995-03-01' AND DATE'1995-03-31'",
    "count of a mode": "SELECT count(*) FROM sales WHERE mode = 'AIR'",
    "customers of a mode": "SELECT count(DISTINCT customer) FROM sales WHERE mode = 'AIR'",
    "by mode": "SELECT mode, count(*) FROM sales GROUP BY mode",
    "by mode and status": "SELECT mode, status, count(*) FROM sales GROUP BY mode, status",
    "by year": "SELECT year(day), count(*) FROM sales GROUP BY 1",
    "by month": "SELECT date_trunc('month', day), count(*) FROM sales GROUP BY 1",
    "by month of a mode": "SELECT trunc(day, 'month'), count(*) FROM sales WHERE mode = 'AIR' GROUP BY 1",
    "by year and quarter": "SELECT year(day), quarter(day), count(*) FROM sales GROUP BY 1, 2",
    "by a case": "SELECT CASE WHEN mode IN ('AIR', 'REG AIR') THEN 'air' ELSE 'land' END m, count(*)"
    " FROM sales GROUP BY 1",
    "star, a region's customer": f"SELECT {SUM} FROM sales s JOIN customers c ON s.customer = c.customer"
    " WHERE c.name = 'customer 4321'",
    "star, 20 parts": "SELECT s.* FROM sales s JOIN parts p ON s.part = p.part"
    " WHERE p.brand = 'brand 7' AND p.size = 3",
    "star, two dimensions": f"SELECT {SUM} FROM sales s JOIN parts p ON s.part = p.part"
    " JOIN suppliers u ON s.supplier = u.supplier WHERE p.brand = 'brand 7' AND u.name = 'supplier 9'",
    "star, in": f"SELECT {SUM} FROM sales WHERE customer IN"
    " (SELECT customer FROM customers WHERE name = 'customer 99')",
    "last 20 of a customer range": "SELECT id, day, price FROM sales WHERE customer < 50000"
    " ORDER BY day DESC, id LIMIT 20",
    "first 10 by customer": "SELECT * FROM sales ORDER BY customer, id LIMIT 10",
    "rows of the last customer": "SELECT * FROM sales WHERE customer = (SELECT max(customer) FROM sales)",
    "star, all": "SELECT c.region, count(*) FROM sales s JOIN customers c ON s.customer = c.customer"
    " GROUP BY 1",
}
"""What is asked of `sales`, `customers`, `parts` and `suppliers`, by a name."""


def star(rows: int, layout: str) -> pathlib.Path:
    """Return the folder of the tables of a layout, with their indexes; made on first use."""
    path = folder() / f"dashboards-{rows}-{layout.replace(' ', '-')}"
    if not (path / "made").exists():
        shutil.rmtree(path, ignore_errors=True)
        rng = np.random.default_rng(7)
        _write_dimensions(path, rows, rng)
        _write_sales(path, rows, layout, rng)
        (path / "made").touch()
    for table, columns in INDEXED.items():
        Upkeep(path / table, columns).catch_up()
    return path


def _sizes(rows: int) -> dict[str, int]:
    """Return how many customers, parts and suppliers there are: 22, 30 and 600 sales of each."""
    return {"customers": rows // 22, "parts": rows // 30, "suppliers": rows // 600}


def _write_dimensions(path: pathlib.Path, rows: int, rng: np.random.Generator) -> None:
    customers, parts, suppliers = _sizes(rows).values()
    tables = {
        "customers": pa.table(
            {
                "customer": np.arange(customers),
                "name": [f"customer {number}" for number in range(customers)],
                "region": [f"region {number}" for number in rng.integers(0, 25, customers)],
            }
        ),
        "parts": pa.table(
            {
                "part": np.arange(parts),
                "brand": [f"brand {number}" for number in rng.integers(0, 100, parts)],
                "size": rng.integers(0, 50, parts),
            }
        ),
        "suppliers": pa.table(
            {"supplier": np.arange(suppliers), "name": [f"supplier {number}" for number in range(suppliers)]}
        ),
    }
    for name, table in tables.items():
        deltalake.write_deltalake(path / name, table)


def _write_sales(path: pathlib.Path, rows: int, layout: str, rng: np.random.Generator) -> None:
    customers, parts, suppliers = _sizes(rows).values()
    days = rng.integers(0, DAYS, rows)
    days = np.sort(days) if layout == "by day" else days
    modes = np.array(["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"])
    words = np.array([f"{word} request {n}" for n in range(500) for word in ("slow", "even", "bold")])
    step = -(-rows // FILES)
    for start in range(0, rows, step):
        size = min(step, rows - start)
        first, second = words[rng.integers(0, len(words), (2, size))]
        columns: dict[str, Any] = {
            "id": np.arange(start, start + size),
            "customer": rng.integers(0, customers, size),
            "part": rng.integers(0, parts, size),
            "supplier": rng.integers(0, suppliers, size),
            "day": np.datetime64(FIRST) + days[start : start + size],
            "mode": modes[rng.integers(0, len(modes), size)],
            "status": np.array(["F", "N", "O"])[rng.choice(3, size, p=[0.3, 0.1, 0.6])],
            "quantity": rng.integers(1, 51, size),
            "price": rng.integers(90_000, 10_000_000, size),
            "discount": rng.integers(0, 11, size),
            "note": np.char.add(first, second),
        }
        deltalake.write_deltalake(path / "sales", pa.table(columns), mode="append")


class Dashboard:
    """A session in which statements over the tables of a layout run with the index and without."""

    def __init__(
        self, acceleration: Acceleration, path: pathlib.Path, tables: Collection[str], repeats: int
    ) -> None:
        self._acceleration, self._spark, self._repeats = acceleration, acceleration._spark, repeats
        for table in tables:
            self._spark.sql(f"CREATE OR REPLACE TEMP VIEW {table} AS SELECT * FROM delta.`{path / table}`")

    def measure(self, layout: str, name: str, text: str) -> float:
        """Print what a statement takes with the index and without; return the ratio."""
        plain, accelerated = self._rows(text, False), self._rows(text, True)
        if plain != accelerated:
            raise SystemExit(f"the answers to {name!r} differ: {plain[:5]}, {accelerated[:5]}")
        scans = self._acceleration.last()
        calls = {
            "plain": lambda: self._rows(text, False),
            "accelerated": lambda: self._rows(text, True),
        }
        took = medians(calls, repeats=self._repeats)
        ratio = took["accelerated"] / took["plain"]
        row = {"layout": layout, "statement": name}
        row |= {"served": ", ".join(scan.served or scan.reason or "" for scan in scans)}
        row |= {f"{called} ms": round(seconds * 1e3) for called, seconds in took.items()}
        tell(row | {"accelerated / plain": round(ratio, 2)})
        return ratio

    def _rows(self, text: str, enabled: bool) -> list[Any]:
        self._spark.conf.set("spark.tailbit.enabled", str(enabled).lower())
        return sorted(map(tuple, self._spark.sql(text).collect()), key=repr)


def summary(layout: str, ratios: Sequence[float]) -> list[dict[str, Any]]:
    """Return the last lines of a layout: the geometric mean and the worst of its ratios."""
    of = {"geometric mean": math.exp(sum(map(math.log, ratios)) / len(ratios)), "worst": max(ratios)}
    return [
        {"layout": layout, "statement": name, "accelerated / plain": round(ratio, 2)}
        for name, ratio in of.items()
    ]


def run(
    parser: argparse.ArgumentParser,
    statements: Mapping[str, str],
    text: Callable[[argparse.Namespace, str], str],
    tables: Callable[[argparse.Namespace, str], pathlib.Path],
    indexed: Collection[str],
) -> None:
    """Measure statements over the tables of each layout, as the arguments of a benchmark say.

    `text`: a statement's, of the options and its name; `tables`: the folder of a layout, of the options and
    its name; `indexed`: the names of the tables.
    """
    parser.add_argument("--repeats", type=int, default=5, help="runs, of which the median counts")
    parser.add_argument("--statements", nargs="*", choices=statements, default=[*statements])
    parser.add_argument("--layouts", nargs="*", choices=LAYOUTS, default=[*LAYOUTS])
    options = parser.parse_args()
    jar.build()
    extra = delta_settings() | {"spark.driver.memory": "2g"}
    with build_session("dashboards", ui=False, extra=extra) as spark:
        acceleration = accelerate(spark)
        for layout in options.layouts:
            dashboard = Dashboard(acceleration, tables(options, layout), indexed, options.repeats)
            ratios = [dashboard.measure(layout, name, text(options, name)) for name in options.statements]
            for row in summary(layout, ratios):
                tell(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of sales")
    run(
        parser,
        STATEMENTS,
        lambda _, name: STATEMENTS[name],
        lambda options, layout: star(options.rows, layout),
        INDEXED,
    )


if __name__ == "__main__":
    main()
