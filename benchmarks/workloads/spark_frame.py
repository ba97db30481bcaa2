"""`Answer.dataframe` beside Spark's own filtered read: a table of 200 files, of which few, some or all match.

Each contestant gets a fresh DataFrame and reads four columns of the rows, so that planning counts too. Spark
and Delta are warm.
"""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
from index_of import Upkeep
from lineitem import folder
from timing import medians, same, tell

import tailbit
from tailbit.streaming.java.session import build_session, delta_settings

FILES, ROWS = 200, 30_000
PREDICATES = {
    "name = 'rare'": ("15 of 200 files match", 0.5),
    "day = 77": ("1 of 200 files matches, sorted", 0.5),
    "key BETWEEN 1000 AND 20000": ("a fifth of the rows, in all files", 1.1),
    "name <> 'a'": ("nearly all rows", 1.1),
}
"""Predicate to what it selects, and the most that the DataFrame may take of Spark's own time."""


def files(rows: int = ROWS) -> pathlib.Path:
    """Return the table with that many rows a file, made on first use: random keys, ascending days."""
    path = folder() / ("spark_frame" if rows == ROWS else f"spark_frame-{rows}")
    log = path / "_delta_log"
    if not log.exists() or len([*log.glob("*.json")]) < FILES:
        shutil.rmtree(path, ignore_errors=True)
        rng = np.random.default_rng(1)
        for n in range(FILES):
            names = rng.choice([f"name {i}" for i in range(500)], rows).astype(object)
            names[:2] = ["a", "z"]
            if n % 14 == 0:
                names[rng.integers(2, rows, 20)] = "rare"
            columns: dict[str, Any] = {
                "id": np.arange(n * rows, (n + 1) * rows),
                "day": np.full(rows, n),
                "key": rng.integers(0, 100_000, rows),
                "name": names,
                **{f"x{i}": rng.random(rows) for i in range(4)},
            }
            deltalake.write_deltalake(path, pa.table(columns), mode="append")
    return path


def table() -> pathlib.Path:
    """Return the table with its index, made on first use."""
    path = files()
    Upkeep(path, ["name", "key", "day"]).catch_up()
    return path


def read(frame: Any) -> tuple[Any, ...]:
    """Four columns of all rows, folded so that nothing is sent to Python; sums of whole numbers are exact."""
    (row,) = frame.selectExpr("count(*)", "sum(id)", "max(name)", "max(x1)", "min(x2)").collect()
    return tuple(row)


def main() -> None:
    path = str(table())
    extra = delta_settings() | {"spark.driver.memory": "2g"}
    with build_session("spark_frame", ui=False, extra=extra) as spark:
        opened = tailbit.open(path)
        for predicate, (what, most) in PREDICATES.items():
            calls = {
                "spark": lambda p=predicate: read(spark.read.format("delta").load(path).where(p)),
                "tailbit": lambda p=predicate: read(opened.where(p).dataframe(spark)),
            }
            same({name: call() for name, call in calls.items()})
            took = medians(calls, repeats=5)
            row = {"predicate": predicate, "selects": what}
            row |= {f"{name} ms": round(seconds * 1e3) for name, seconds in took.items()}
            tell(row | {"tailbit / spark": round(took["tailbit"] / took["spark"], 2), "at most": most})


if __name__ == "__main__":
    main()
