"""What does `tailbit run --once` cost above Spark's start-up, beside the kernel on the same cores?

Usage: python benchmarks/run_once.py. Spark's start-up is a run that finds nothing to do. The kernel is the
same tasks (decode, build, write) in two processes, without Spark and without a commit.
"""

from __future__ import annotations

import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from lineitem import COLUMNS, lineitem, without_index
from timing import tell

from tailbit.index.maintenance.create import prepare_index
from tailbit.index.write.plan import TaskLimits, pack, plan_work
from tailbit.index.write.run import run_task
from tailbit.index.write.work import BuildTask, TaskColumn
from tailbit.tables import open_table

CORES = 2


def main(repeats: int = 3) -> None:
    table = lineitem()
    spark = [_above_start_up(table) for _ in range(repeats)]
    with ProcessPoolExecutor(CORES) as pool:
        _kernel(table, pool)
        kernel = [_kernel(table, pool) for _ in range(repeats)]
    without_index(table)
    took = {"above start-up s": statistics.median(spark), "kernel s": statistics.median(kernel)}
    found = {k: round(v, 2) for k, v in took.items()}
    ratio = took["above start-up s"] / took["kernel s"]
    tell(found | {"above start-up / kernel": round(ratio, 2)})


def _above_start_up(table: pathlib.Path) -> float:
    without_index(table)
    return _run(table, ["--columns", ",".join(COLUMNS)]) - _run(table, [])


def _run(table: pathlib.Path, arguments: Sequence[str]) -> float:
    command = [
        pathlib.Path(sys.executable).with_name("tailbit"),
        "run",
        table,
        "--once",
        "--quiet",
        *arguments,
    ]
    began = time.perf_counter()
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began


def _kernel(table: pathlib.Path, pool: ProcessPoolExecutor) -> float:
    without_index(table)
    source = open_table(str(table))
    index = prepare_index(source, str(table / "_tailbit"), COLUMNS)
    snapshot = source.snapshot()
    columns = tuple(TaskColumn.of(snapshot.schema.resolve(name)) for name in COLUMNS)
    wanted = [(slice_.path, slice_) for slice_ in snapshot.files]
    works = plan_work(wanted, index.state.recorded.get, [c.column.id for c in columns], 1)
    tasks = pack(works, BuildTask(source.root, index.path, columns, (), 1, 0), TaskLimits(parallelism=CORES))
    began = time.perf_counter()
    list(pool.map(run_task, tasks))
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
