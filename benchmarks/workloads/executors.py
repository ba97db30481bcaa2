"""What does a table of many rows cost that is indexed and asked by Spark's executors, by one and by two?

A data file of a million rows is linked under many names in one log: each is indexed and read as a file of its
own. A standalone cluster of two workers builds the index; one and two executors of one core answer the same
questions, first and again, and so does one process without Spark.

Usage: python workloads/executors.py [files] [folder]. A line for the build, and one for each who answers.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from timing import tell

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
import tailbit
from support.delta_builder import DeltaBuilder
from support.spark_deployments import standalone_cluster

ROWS, DAYS = 1_000_000, 20
COLUMNS = ("customer", "status", "day")
CONDITION = "status = 7 AND day BETWEEN 3 AND 12 AND customer < 20000"


def make(folder: pathlib.Path, files: int) -> str:
    """Write the table; return its path."""
    path, chance = folder / "orders", np.random.default_rng(59)
    builder, bases, adds = DeltaBuilder(str(path)), list[dict[str, Any]](), list[dict[str, Any]]()
    for day in range(DAYS):
        customers, statuses = chance.integers(0, 100_000, ROWS), chance.integers(0, 50, ROWS)
        columns = [customers, statuses, np.full(ROWS, day), chance.random(ROWS)]
        rows = pa.table(columns, [*COLUMNS, "amount"])
        bases.append(builder.data_file(rows, f"base-{day}.parquet")["add"])
    for number in range(files):
        base, name = bases[number * DAYS // files], f"part-{number:05}.parquet"
        os.link(path / base["path"], path / name)
        adds.append({"add": base | {"path": name}})
    builder.create(rows.schema)
    builder.commit(adds)
    return str(path)


@contextmanager
def memory(told: dict[str, object]) -> Iterator[None]:
    """Add to `told` the most memory (MB of PSS) of a Java and of a Python process below this one."""
    most, done = {"java": 0, "python": 0}, threading.Event()

    def watch() -> None:
        while not done.wait(1.0):
            for process in psutil.Process().children(recursive=True):
                try:
                    kind = "java" if process.name() == "java" else "python"
                    most[kind] = max(most[kind], process.memory_full_info().pss)
                except psutil.Error:
                    continue

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        told |= {f"most MB of a {kind} process": size >> 20 for kind, size in most.items()}


def asked(table: Any, rows: Callable[[Any], int]) -> dict[str, object]:
    """Return the milliseconds of each question, first and again, and the answers."""
    questions: dict[str, Callable[[], Any]] = {
        "and of three": table.where(CONDITION).count,
        "range": table.where("customer BETWEEN 100 AND 30000").count,
        "facets": lambda: table.where("customer < 1000").facets("status", "day"),
        "rows": lambda: rows(table.where("customer = 4711 AND status < 25 AND day < 4")),
    }
    told: dict[str, object] = {}
    for name, question in questions.items():
        times, answers = list[int](), list[str]()
        for _ in range(2):
            began = time.monotonic()
            answers.append(repr(question()))
            times.append(round(1000 * (time.monotonic() - began)))
        assert answers[0] == answers[1]
        told[name] = times
        told[f"{name}: answer"] = (
            answers[0] if len(answers[0]) < 40 else f"{zlib.crc32(answers[0].encode()):08x}"
        )
    return told


def by_executors(master: str, executors: int, table: str) -> None:
    """Ask in this process as the driver, and print a line."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).config("spark.executor.cores", 1)
    builder = builder.config("spark.cores.max", executors).config("spark.driver.memory", "512m")
    spark = builder.config("spark.ui.enabled", "false").config("spark.executor.memory", "1g").getOrCreate()
    spark.range(executors).count()
    told = asked(
        tailbit.spark.open(spark, table, task_bytes=0), lambda answer: answer.dataframe(["amount"]).count()
    )
    peak = pathlib.Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]
    print(json.dumps({**told, "MB of the driver's Python": int(peak) >> 10}))
    spark.stop()


def main() -> None:
    if sys.argv[1:2] == ["by"]:
        return by_executors(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as folder:
        table = make(pathlib.Path(folder), files)
        environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
        with standalone_cluster(pathlib.Path(folder), workers=2) as master:
            told: dict[str, object] = {"rows": files * ROWS}
            run = [sys.executable, "-m", "tailbit.cli", "run", table, "--columns", ",".join(COLUMNS)]
            run += ["--once", "--master", master]
            began = time.monotonic()
            with memory(told):
                subprocess.run(run, check=True, env=environment, stdout=subprocess.DEVNULL)
            told["seconds"] = round(time.monotonic() - began)
            index = pathlib.Path(table, "_tailbit").rglob("*")
            told["bytes a row"] = round(
                sum(file.stat().st_size for file in index if file.is_file()) / files / ROWS, 2
            )
            tell({"by": "two workers", **told})
            for executors in (1, 2):
                ask = [sys.executable, __file__, "by", master, str(executors), table]
                ran = subprocess.run(ask, check=True, env=environment, stdout=subprocess.PIPE, text=True)
                tell({"by": f"{executors} executors", **json.loads(ran.stdout.splitlines()[-1])})
        tell({"by": "one process", **asked(tailbit.open(table), lambda answer: len(answer.read(["amount"])))})


if __name__ == "__main__":
    main()
