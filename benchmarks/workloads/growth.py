"""How do opening, asking and one more commit grow with files, rows, indexed columns and commits of the index?

A table for each size of each dimension. Asked is an equality of many rows, in a fresh process: opening the
table and its index with the first count (libraries are loaded), the same count again, and the greatest memory
of the process. One more commit is an append of 100 rows, indexed without Spark. The last line of each
dimension fits `figure = c * size ** exponent` to its points.

Files are one small file under many names, so the log and the index are of that size, and the disk is not.
Rows are 3, 2,526 and 100,000 values in a pattern. Linux alone.

Usage: python workloads/growth.py [dimension size ...]
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import deltalake
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from index_of import Upkeep
from timing import same, tell

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))

from support.delta_builder import DeltaBuilder
from support.load.writer import Appender

SIZES = {
    "files": (100, 1_000, 10_000, 100_000),
    "rows": (1_000_000, 10_000_000, 100_000_000, 1_000_000_000),
    "indexed columns": (1, 10, 50, 200),
    "commits of the index": (1, 10, 100, 1_000, 10_000),
}
SMALL = {"files": 1, "rows": 1_000, "indexed columns": 200, "commits of the index": 1}
"""The size of a table that is asked first, to load libraries: it has the same columns."""

ASKED = pathlib.Path(__file__).with_name("asked.py")
APPENDS, APPENDED = 5, 100
PER_COMMIT = 10_000
LINKS = 10_000
"""Names of one file: file systems allow some 65,000."""
FIGURES = ("first count ms", "count ms", "peak MB", "one commit ms")

Made = tuple[Upkeep, str, int]
"""The table and its index, a predicate, and how many rows meet it."""


def main() -> None:
    """Measure the sizes that are given, or all of all dimensions."""
    dimension, sizes = (sys.argv[1], map(int, sys.argv[2:])) if sys.argv[1:] else (None, ())
    for name, wanted in SIZES.items() if dimension is None else [(dimension, tuple(sizes))]:
        rows = [_measured(name, size) for size in wanted]
        if len(rows) > 1:
            fits = {f"{figure}, exponent": _exponent(rows, figure) for figure in FIGURES}
            tell({"dimension": name, "size": "fitted", **fits})


def _measured(dimension: str, size: int) -> dict[str, float | str]:
    with tempfile.TemporaryDirectory(prefix="tailbit-growth-") as folder:
        upkeep, where, wanted = TABLES[dimension](pathlib.Path(folder, "t"), size)
        index = pathlib.Path(upkeep.index.path)
        small, _, _ = TABLES[dimension](pathlib.Path(folder, "small"), min(size, SMALL[dimension]))
        command = [sys.executable, str(ASKED), upkeep.table.root, where, small.table.root]
        found = json.loads(subprocess.check_output(command))
        same({"tailbit": found.pop("rows"), "the maker": wanted})
        row = {"dimension": dimension, "size": size, **found}
        row["index MB"] = round(sum(f.stat().st_size for f in index.rglob("*") if f.is_file()) / 1e6, 1)
        row["one commit ms"] = round(statistics.median(_appends(upkeep)) * 1e3, 1)
    tell(row)
    return row


def _exponent(rows: list[dict[str, float | str]], figure: str) -> float:
    """The slope of the figure over the size, both as logarithms, by least squares."""
    sizes, figures = ([math.log(float(row[name])) for row in rows] for name in ("size", figure))
    return round(float(np.polyfit(sizes, figures, 1)[0]), 2)


def _appends(upkeep: Upkeep) -> Iterator[float]:
    """Seconds to index a commit of some rows, like the first ones of the table."""
    more = deltalake.DeltaTable(upkeep.table.root).to_pyarrow_dataset().head(APPENDED)
    for _ in range(APPENDS):
        deltalake.write_deltalake(upkeep.table.root, more, mode="append")
        began = time.perf_counter()
        upkeep.catch_up()
        yield time.perf_counter() - began


def _indexed(path: pathlib.Path, columns: list[str], where: str, rows: int) -> Made:
    upkeep = Upkeep(path, columns)
    upkeep.catch_up()
    return upkeep, where, rows


def _files(path: pathlib.Path, size: int) -> Made:
    """`size` files of 100 rows; the data of all is one file, linked under many names, copied now and then."""
    small = pa.table({"id": np.arange(100), "kind": np.arange(100) % 7})
    path.mkdir()
    pq.write_table(small, path / "0.parquet")
    stats = {"numRecords": 100, "minValues": {"id": 0, "kind": 0}, "maxValues": {"id": 99, "kind": 6}}
    stats["nullCount"] = {"id": 0, "kind": 0}
    builder = DeltaBuilder(str(path)).create(small.schema)
    add = {"partitionValues": {}, "size": (path / "0.parquet").stat().st_size, "dataChange": True}
    for number in range(1, size):
        first = path / f"{number - number % LINKS}.parquet"
        name = path / f"{number}.parquet"
        os.link(first, name) if number % LINKS else shutil.copy(path / "0.parquet", name)
    for start in range(0, size, PER_COMMIT):
        numbers = range(start, min(start + PER_COMMIT, size))
        own = {"modificationTime": 1_700_000_000_000, "stats": json.dumps(stats)}
        builder.commit([{"add": {"path": f"{number}.parquet", **add, **own}} for number in numbers])
    builder.checkpoint("classic", 2, False)
    hint = {"version": builder.version, "size": size + 2}
    (builder.log / "_last_checkpoint").write_text(json.dumps(hint))
    return _indexed(path, ["kind"], "kind = 3", size * 14)


def _rows(path: pathlib.Path, size: int) -> Made:
    """`size` rows in files of ten million; the pattern is of integers, spread by multiplication."""
    path.mkdir()
    con = duckdb.connect()
    con.execute("SET memory_limit = '4GB'")
    step = 10_000_000
    for number, start in enumerate(range(0, size, step)):
        con.execute(
            f"COPY (SELECT i % 3 AS few, i * 7919 % 2526 AS some, i * 7919 % 100000 AS many "
            f"FROM range({start}, {min(start + step, size)}) AS numbers(i)) "
            f"TO '{path}/{number}.parquet' (FORMAT parquet)"
        )
    deltalake.convert_to_deltalake(str(path))
    wanted = sum(len(range(i, size, 7578)) for i in range(7578) if i % 3 == 1 and i * 7919 % 2526 < 30)
    return _indexed(path, ["few", "some", "many"], "few = 1 AND some < 30", wanted)


def _columns(path: pathlib.Path, size: int) -> Made:
    """`size` indexed columns of a thousand values, 100,000 rows."""
    rng = np.random.default_rng(1)
    columns = {f"c{n}": rng.integers(0, 1_000, 100_000) for n in range(size)}
    deltalake.write_deltalake(str(path), pa.table(columns))
    last = f"c{size - 1}"
    return _indexed(path, list(columns), f"{last} = 7", int(np.count_nonzero(columns[last] == 7)))


def _commits(path: pathlib.Path, size: int) -> Made:
    """`size` commits of 100 rows, each indexed by one of its own; what is due is merged."""
    numbers = np.arange(APPENDED)
    rows = pa.table({"id": numbers, "kind": numbers % 7})
    deltalake.write_deltalake(str(path), rows)
    upkeep = Upkeep(path, ["kind"])
    upkeep.catch_up()
    writer = Appender(str(path))
    for _ in range(size - 1):
        writer.append(rows)
        upkeep.catch_up()
        upkeep.merge()
    return upkeep, "kind = 3", size * int(np.count_nonzero(numbers % 7 == 3))


TABLES: dict[str, Callable[[pathlib.Path, int], Made]] = dict(
    zip(SIZES, (_files, _rows, _columns, _commits), strict=True)
)
"""What makes a table of a size, by dimension."""


if __name__ == "__main__":
    main()
