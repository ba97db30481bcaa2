"""What do column statistics of 200 columns cost and save over 10,000 files, beside Delta's own statistics?

Usage: python workloads/column_stats.py [files] [columns]. The data files do not exist: questions that no file
can match are answered without them. Delta's own statistics are those of 32 columns in the log. Bytes per cell
(one column of one row group) are of random bounds; a first question is one of a fresh handle.
"""

from __future__ import annotations

import pathlib
import shutil
import sys
import tempfile
import time
from functools import partial

import numpy as np
import pyarrow as pa
from timing import least, tell

import tailbit

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))

from support.column_stats import column, wide_table
from tailbit.index.kinds.column_stats import COLUMN_STATS, SCHEMA, Footer, built, directory
from tailbit.tables.parquet.data_file import open_layout
from tailbit.tables.storage import LocalStorage

FILES, COLUMNS, STATED = 10_000, 200, 32
NOWHERE = "c007 > 99999999 AND c011 < 0"


def main(files: int = FILES, columns: int = COLUMNS) -> None:
    with tempfile.TemporaryDirectory(prefix="tailbit-stats-") as folder:
        path = f"{folder}/t"
        wide_table(path, files, columns, STATED)
        shutil.copytree(f"{path}/_delta_log", f"{folder}/log/_delta_log")
        _questions(path, f"{folder}/log")
        _bytes(folder, files)
        _build(folder)


def _questions(indexed: str, log: str) -> None:
    """The same condition by the index, and by the log alone."""
    tables = {"column statistics": indexed, "Delta's own": log}
    for question, text in {
        "no file": NOWHERE,
        "few values, no file": f"c007 IN (-1, -2) OR {NOWHERE}",
    }.items():
        opened = {name: tailbit.open(path) for name, path in tables.items()}
        warm = least({name: partial(_count, table, text) for name, table in opened.items()}, 5)
        tell(
            {"question": f"{question}, warm"} | {f"{name} ms": 1000 * cpu for name, (_, cpu) in warm.items()}
        )
    tell({"question": "no file, first"} | {f"{name} ms": _first(path) for name, path in tables.items()})


def _count(table: tailbit.IndexedTable, text: str) -> int:
    return table.where(text).count()


def _first(path: str) -> float:
    """Return the least CPU ms of a question of a handle that has read the log's list of files."""
    times = []
    for _ in range(5):
        opened = tailbit.open(path)
        assert opened.where("c000 = 1").version == 1
        began = time.process_time()
        assert opened.where(NOWHERE).count() == 0
        times.append(1000 * (time.process_time() - began))
    return min(times)


def _bytes(folder: str, files: int) -> None:
    """The size of statistics of columns with random bounds."""
    rng, storage = np.random.default_rng(1), LocalStorage(folder)
    tables = [directory([f"{n:032x}" for n in range(files)], [10] * files)]
    for name in range(20):
        low = rng.integers(0, 1_000_000, files)
        values = {
            "column": pa.repeat(f"c{name:03}", files),
            "key_type": pa.repeat("integer", files),
            "unit": pa.array(np.arange(files)),
            "low": pa.array(low),
            "high": pa.array(low + rng.integers(0, 100_000, files)),
            "nulls": pa.array(rng.integers(0, 20, files)),
            "bytes": pa.array(rng.integers(1_000, 100_000, files)),
            "exact": pa.array(np.ones(files, bool)),
        }
        arrays = {f.name: values.get(f.name, pa.nulls(files, f.type)) for f in SCHEMA}
        tables.append(pa.table(arrays, schema=SCHEMA))
    (file,) = COLUMN_STATS.write_stream(storage, tables)
    tell({"question": "size", "bytes per cell": file.size / (20 * files)})


def _build(folder: str) -> None:
    """The time to derive statistics of 40 columns from open footers."""
    import pyarrow.parquet as pq

    names = [f"c{n:03}" for n in range(40)]
    pq.write_table(pa.table({name: np.arange(100) for name in names}), f"{folder}/f.parquet")
    layout = open_layout(LocalStorage(folder), "f.parquet")
    footers = [Footer(str(n), layout, "f.parquet") for n in range(500)]
    columns = [column(name) for name in names]
    ((_, cpu),) = least({"build": lambda: list(built(footers, columns))}, 3).values()
    tell({"question": "build", "us per cell": 1e6 * cpu / (len(footers) * len(columns))})


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
