"""Does the cost of indexing a commit grow with history or table?

A commit of 1,000 rows after 1,000 commits beside after 10, and in a table of 10 M rows beside 10,000.

Usage: python workloads/commit_cost.py. Core work only (no Spark): append, DELETE and UPDATE by deletion
vector, applied by the code that foreachBatch calls; medians of 9, merges included in the history but not in
the samples.
"""

from __future__ import annotations

import pathlib
import shutil
import statistics
import tempfile
import time

import deltalake
import numpy as np
import pyarrow as pa
from index_of import Upkeep
from timing import tell

ROWS = 1000
SAMPLES = 9


def main() -> None:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tailbit-cost-"))
    try:
        few, many = _history(folder / "few", 10), _history(folder / "many", 1000)
        small, large = _sized(folder / "small", 10_000), _sized(folder / "large", 10_000_000)
    finally:
        shutil.rmtree(folder)
    for question, base, grown in (
        ("1,000 commits beside 10", few, many),
        ("10 M rows beside 10,000", small, large),
    ):
        found = {"question": question, "before ms": round(base * 1e3, 1), "after ms": round(grown * 1e3, 1)}
        tell(found | {"grown": round(grown / base, 2)})


def _rows(start: int, n: int = ROWS) -> pa.Table:
    numbers = np.arange(start, start + n)
    return pa.table(
        {
            "id": numbers,
            "kind": pa.array([f"k{i}" for i in range(7)]).take(pa.array(numbers % 7)),
            "site": numbers % 400,
        }
    )


def _history(path: pathlib.Path, commits: int) -> float:
    deltalake.write_deltalake(str(path), _rows(0))
    upkeep = Upkeep(path, ["kind", "site"])
    for commit in range(1, commits):
        deltalake.write_deltalake(str(path), _rows(commit * ROWS), mode="append")
        upkeep.catch_up()
        upkeep.merge()
    return _appends(path, upkeep, commits * ROWS)


def _sized(path: pathlib.Path, rows: int) -> float:
    deltalake.write_deltalake(str(path), _rows(0, rows))
    upkeep = Upkeep(path, ["kind", "site"])
    upkeep.catch_up()
    return _appends(path, upkeep, rows)


def _appends(path: pathlib.Path, upkeep: Upkeep, start: int) -> float:
    times = []
    for sample in range(SAMPLES):
        deltalake.write_deltalake(str(path), _rows(start + sample * ROWS), mode="append")
        began = time.perf_counter()
        upkeep.catch_up()
        times.append(time.perf_counter() - began)
        upkeep.merge()
    return statistics.median(times)


if __name__ == "__main__":
    main()
