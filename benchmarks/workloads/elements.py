"""How quick are counts of rows whose arrays hold an element, and what does an index of the elements cost?

Usage: python workloads/elements.py [--rows N] [--repeats N]. 6 M rows of three texts each, of 1,000, in
eight files; beside DuckDB and Polars, which scan the same files. Warm medians; answers must be the same. The
build is one process without Spark, one core.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import time
from collections.abc import Callable
from typing import Any

import deltalake
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from index_of import index_without_spark
from lineitem import FILES, folder
from timing import medians, same, tell

import tailbit

TEXTS, EACH = 1000, 3
HOLES = "len(list_filter(tags, lambda t: t IS NULL)) > 0"
QUESTIONS = {
    "array_contains(tags, 't7')": "list_contains(tags, 't7')",
    "array_contains(tags, 't7') AND array_contains(tags, 't8')": (
        "list_contains(tags, 't7') AND list_contains(tags, 't8')"
    ),
    "arrays_overlap(tags, array('t1', 't2', 't3'))": "list_has_any(tags, ['t1', 't2', 't3'])",
    "NOT array_contains(tags, 't7')": f"NOT list_contains(tags, 't7') AND NOT {HOLES}",
    "size(tags) = 0": "len(tags) = 0",
}


def made(rows: int) -> pathlib.Path:
    """The table's path; made on first use. One array in a hundred is NULL, one is empty, one holds a NULL."""
    table = folder() / f"elements-{rows}"
    if (table / "_delta_log").exists():
        return table
    rng = np.random.default_rng(1)
    for _ in range(FILES):
        count = rows // FILES
        numbers = rng.integers(0, TEXTS, EACH * count)
        holes = np.zeros(EACH * count, dtype=bool)
        holes[rng.integers(0, EACH * count, count // 100)] = True
        texts = pa.DictionaryArray.from_arrays(pa.array(numbers, mask=holes), [f"t{n}" for n in range(TEXTS)])
        kind = rng.integers(0, 100, count)
        lengths = np.where(kind < 2, 0, EACH)
        taken = texts.cast(pa.string()).slice(0, int(lengths.sum()))
        ends = pa.array(np.append(0, np.cumsum(lengths)).astype(np.int32))
        tags = pa.ListArray.from_arrays(ends, taken, mask=pa.array(kind == 0))
        data = pa.table({"id": np.arange(count), "tags": tags})
        deltalake.write_deltalake(str(table), data, mode="append", target_file_size=1 << 40)
    return table


def asked(table: pathlib.Path, index: pathlib.Path, repeats: int) -> None:
    """Tell a line of each question."""
    opened, files, engine = tailbit.open(str(table), str(index)), str(table / "*.parquet"), duckdb.connect()
    tags = pl.col("tags")
    held = {"array_contains(tags, 't7')": tags.list.contains("t7"), "size(tags) = 0": tags.list.len() == 0}
    for where, condition in QUESTIONS.items():
        calls: dict[str, Callable[[], Any]] = {
            "tailbit": lambda where=where: opened.where(where).count(),
            "duckdb": lambda condition=condition: engine.sql(
                f"SELECT count(*) FROM '{files}' WHERE {condition}"
            ).fetchall()[0][0],
        }
        if where in held:
            frame = pl.scan_parquet(files).filter(held[where]).select(pl.len())
            calls["polars"] = lambda frame=frame: frame.collect().item()
        rows = same({name: call() for name, call in calls.items()})
        took = medians(calls, repeats)
        quicker = min(seconds for name, seconds in took.items() if name != "tailbit")
        tell(
            {
                "question": where,
                "rows": rows,
                **{f"{name} ms": round(seconds * 1e3, 2) for name, seconds in took.items()},
                "quicker peer / tailbit": round(quicker / took["tailbit"], 1),
            }
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=6_000_000)
    options.add_argument("--repeats", type=int, default=5)
    given = options.parse_args()
    table, index = made(given.rows), folder() / f"elements-{given.rows}-index"
    shutil.rmtree(index, ignore_errors=True)
    wall, cpu = time.perf_counter(), time.process_time()
    index_without_spark(table, ("tags",), index)
    took, used = time.perf_counter() - wall, time.process_time() - cpu
    size = sum(file.stat().st_size for file in index.glob("kind=bitmap_index/*.parquet"))
    pairs = given.rows * EACH
    tell(
        {
            "question": "build",
            "rows": given.rows,
            "build s": round(took, 2),
            "build cpu s": round(used, 2),
            "M elements / s": round(pairs / used / 1e6, 2),
            "bytes an element": round(size / pairs, 2),
        }
    )
    asked(table, index, given.repeats)


if __name__ == "__main__":
    main()
