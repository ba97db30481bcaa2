"""What does `tailbit run --once` cost above its start-up, in its own process and by Spark, beside the kernel?

Usage: python workloads/run_once.py. The start-up is a first build of one row, with the same columns. The
kernel is the same tasks (decode, build, write) in two processes, without a commit.
"""

from __future__ import annotations

import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

import deltalake
from lineitem import COLUMNS, lineitem, without_index
from timing import tell

from tailbit.index.maintenance.create import indexed_columns, open_or_create
from tailbit.index.write.run import run_task
from tailbit.index.write.work import BuildTask, TaskColumn, TaskLimits, pack, plan_work
from tailbit.tables import open_table

CORES = 2
_TAILBIT = pathlib.Path(sys.executable).with_name("tailbit")
EIGHT = (*COLUMNS, "l_linestatus", "l_quantity", "l_discount", "l_shipinstruct")


def main(repeats: int = 3) -> None:
    table = lineitem()
    with tempfile.TemporaryDirectory() as folder:
        small = pathlib.Path(folder, "one row")
        deltalake.write_deltalake(small, deltalake.DeltaTable(table).to_pyarrow_dataset().head(1))
        for columns in (COLUMNS, EIGHT):
            for master in ([], ["--master", f"local[{CORES}]"]):
                _measure(table, small, columns, master, repeats)
    without_index(table)


def _measure(
    table: pathlib.Path, small: pathlib.Path, columns: Sequence[str], master: Sequence[str], repeats: int
) -> None:
    runs = [
        (_first(table, columns, master), _run(table, master), _first(small, columns, master))
        for _ in range(repeats)
    ]
    whole, nothing, start_up = (statistics.median(seconds) for seconds in zip(*runs, strict=True))
    with ProcessPoolExecutor(CORES) as pool:
        _kernel(table, columns, pool)
        kernel = statistics.median(_kernel(table, columns, pool) for _ in range(repeats))
    took = {"whole s": whole, "start-up s": start_up, "nothing to do s": nothing}
    took |= {"above start-up s": whole - start_up, "kernel s": kernel}
    ratio = round((whole - start_up) / kernel, 2)
    place = {"columns": len(columns), "by": "Spark" if master else "its own process"}
    tell(place | {n: round(s, 2) for n, s in took.items()} | {"above / kernel": ratio})


def _first(table: pathlib.Path, columns: Sequence[str], master: Sequence[str]) -> float:
    """Seconds of a first build."""
    without_index(table)
    return _run(table, ["--columns", ",".join(columns), *master])


def _run(table: pathlib.Path, arguments: Sequence[str]) -> float:
    command = [_TAILBIT, "run", table, "--once", "--quiet", *arguments]
    began = time.perf_counter()
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began


def _kernel(table: pathlib.Path, names: Sequence[str], pool: ProcessPoolExecutor) -> float:
    without_index(table)
    source = open_table(str(table))
    options = source.storage.options
    index, _ = open_or_create(str(table / "_tailbit"), lambda: indexed_columns(source, names), options)
    snapshot = source.snapshot()
    columns = tuple(TaskColumn.of(snapshot.schema.resolve(name)) for name in names)
    wanted = [(slice_.path, slice_) for slice_ in snapshot.files]
    ids = tuple(c.column.id for c in columns)
    works = plan_work(wanted, index.state.recorded.get, lambda _: ids, 1)
    tasks = pack(works, BuildTask(source.root, index.path, columns, (), 1, 0), TaskLimits(parallelism=CORES))
    began = time.perf_counter()
    list(pool.map(run_task, tasks))
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
