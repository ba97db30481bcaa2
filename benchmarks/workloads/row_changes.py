"""`tailbit.spark.delete` and `upsert` beside Delta's DELETE and MERGE: rows in 200 files.

Usage: python workloads/row_changes.py [--rows N ...]: of a table of N rows (6 M). Each contestant changes
a table of its own, a copy with deletion vectors, by the same keys. The index, a record key, is complete at
first, and then ever further behind by the files that the changes have touched.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from index_of import keyed_index
from lineitem import folder
from many_files import FILES, ROWS, files
from timing import tell

import tailbit.spark
from tailbit.streaming.java.session import build_session, delta_settings

REPEATS = 3
CASES = {("delete", 1): 0.2, ("delete", 1_000): 0.2, ("upsert", 1_000): 0.2, ("upsert", 100_000): 0.34}
"""Changes and their keys, and the share of Delta's own time that each may take."""


def _linked(source: str, target: str) -> None:
    """Give a file of a table a second name: nobody writes to one that exists. Of the log a copy is made."""
    if "_delta_log" in source:
        shutil.copy2(source, target)
    else:
        os.link(source, target)


def copies(spark: Any, rows: int) -> tuple[str, str]:
    """Return a table for each contestant; the first has a record key of the column `id`."""
    paths = []
    for name in ("ours", "deltas"):
        path = folder() / f"row_changes_{name}"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(
            files(rows // FILES), path, ignore=shutil.ignore_patterns("_tailbit"), copy_function=_linked
        )
        vectors = "'delta.enableDeletionVectors' = 'true'"
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ({vectors})")
        paths.append(str(path))
    keyed_index(Path(paths[0]), "id")
    return paths[0], paths[1]


def keys_of(rng: np.random.Generator, rows: int, count: int) -> pa.Table:
    """Return keys of which one in ten is not among the rows."""
    return pa.table({"id": rng.choice(rows * 10 // 9, count, replace=False)})


def rows_of(rng: np.random.Generator, rows: int, count: int) -> pa.Table:
    """Return whole rows for an upsert."""
    keys = keys_of(rng, rows, count)
    columns: dict[str, Any] = {
        "day": np.full(count, 1),
        "key": rng.integers(0, 100_000, count),
        "name": np.full(count, "changed"),
        **{f"x{i}": rng.random(count) for i in range(4)},
    }
    return pa.table({"id": keys["id"], **columns})


def delta_deletes(spark: Any, path: str, keys: pa.Table) -> int:
    merge = f"MERGE INTO delta.`{path}` t USING {{k}} k ON t.id = k.id WHEN MATCHED THEN DELETE"
    return int(spark.sql(merge, k=spark.createDataFrame(keys)).first()["num_deleted_rows"])


def delta_upserts(spark: Any, path: str, rows: pa.Table) -> int:
    merge = (
        f"MERGE INTO delta.`{path}` t USING {{r}} r ON t.id = r.id"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    return int(spark.sql(merge, r=spark.createDataFrame(rows)).first()["num_updated_rows"])


def index_upserts(spark: Any, path: str, rows: pa.Table) -> int:
    done = tailbit.spark.upsert(path, rows, "id", spark=spark)
    assert done.by == "index", done
    return done.updated or 0


def index_deletes(spark: Any, path: str, keys: pa.Table) -> int:
    done = tailbit.spark.delete(path, keys, spark=spark)
    assert done.by == "index", done
    return done.rows or 0


CHANGES: dict[str, tuple[Callable[..., pa.Table], Callable[..., int], Callable[..., int]]] = {
    "delete": (keys_of, index_deletes, delta_deletes),
    "upsert": (rows_of, index_upserts, delta_upserts),
}


def measure(spark: Any, rows: int) -> None:
    """Tell the time of each change of a table with that many rows."""
    ours, deltas = copies(spark, rows)
    rng = np.random.default_rng(1)
    for name, count in (("delete", 10), ("upsert", 10), *CASES):
        make, by_index, by_delta = CHANGES[name]
        took: dict[str, list[float]] = {"tailbit": [], "delta": []}
        for _ in range(REPEATS):
            given, found = make(rng, rows, count), []
            for who, change, path in (("tailbit", by_index, ours), ("delta", by_delta, deltas)):
                began = time.perf_counter()
                found.append(change(spark, path, given))
                took[who].append(time.perf_counter() - began)
            assert found[0] == found[1], (name, count, found)
        if (name, count) in CASES:
            seconds = {who: median(times) for who, times in took.items()}
            row: dict[str, Any] = {"rows": rows, "change": name, "keys": count}
            row |= {f"{who} ms": round(each * 1e3) for who, each in seconds.items()}
            ratio = round(seconds["tailbit"] / seconds["delta"], 2)
            tell(row | {"tailbit / delta": ratio, "at most": CASES[name, count]})


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, nargs="+", default=[FILES * ROWS])
    asked = options.parse_args()
    extra = delta_settings() | {"spark.driver.memory": "3g"}
    with build_session("row_changes", ui=False, extra=extra) as spark:
        for rows in asked.rows:
            measure(spark, rows)


if __name__ == "__main__":
    main()
