"""An application on a cluster that asks questions: `python cluster_questions.py MASTER MODE TABLE`.

It prints one line of JSON. Modes: `judged` asks while a writer commits, merges run and executors are killed,
and compares each answer with that of this process; `error` asks one question and tells its error; `alone`
does so where no executor can be had.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import deltalake
import psutil
from pyspark.sql import SparkSession

import tailbit
import tailbit.spark
from tailbit.errors import TailbitError
from tailbit.spark import table as spark_table

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.executor_questions import CONDITIONS, rows
from support.tables import index_of

ROUNDS = int(os.environ.get("TAILBIT_ROUNDS", "20"))
KILLS = 3


def session(master: str, memory: str) -> SparkSession:
    """A session of one core on each executor."""
    builder = SparkSession.builder.master(master).appName("questions")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.cores": "1",
        "spark.cores.max": "2",
        "spark.executor.memory": memory,
        "spark.sql.session.timeZone": "UTC",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def executors(application: str) -> list[psutil.Process]:
    """The executors of an application that have a Python worker."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        with suppress(psutil.Error):
            words = process.info["cmdline"] or []
            if application in words and any("CoarseGrainedExecutorBackend" in word for word in words):
                found += [process] if process.children() else []
    return found


class Unrest:
    """A writer that commits, an index that follows late and is merged, and executors that are killed."""

    def __init__(self, path: str, application: str) -> None:
        self.path, self.application = path, application
        self.done = threading.Event()
        self.tallies: Counter[str] = Counter()
        self.failed: list[str] = []

    def write(self) -> None:
        """Commit, index and merge until the end."""
        chosen, first = random.Random(1), 100
        while not self.done.is_set():
            try:
                deltalake.write_deltalake(self.path, rows(first), mode="append")
                first += 20
                if chosen.random() < 0.3:
                    deltalake.DeltaTable(self.path).delete(f"k = {chosen.randrange(first)}")
                if chosen.random() < 0.6:
                    index_of(self.path)
                    self.tallies["indexed"] += 1
                self.tallies["merges"] += tailbit.open(self.path).compact()
                if chosen.random() < 0.3:
                    tailbit.open(self.path).vacuum(0)
                    self.tallies["vacuums"] += 1
            except Exception as failed:
                self.failed.append(repr(failed))
                return

    def kill(self) -> None:
        """Kill executors that have had a task."""
        while self.tallies["kills"] < KILLS and not self.done.wait(4.0):
            for executor in executors(self.application)[:1]:
                executor.kill()
                self.tallies["kills"] += 1

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Do all of it during the block."""
        threads = [threading.Thread(target=act, daemon=True) for act in (self.write, self.kill)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.done.set()
            for thread in threads:
                thread.join()


def judged(spark: SparkSession, path: str) -> dict[str, Any]:
    """Ask at random versions; return the number of answers, those that differ, and what else happened."""
    chosen, differences, answers = random.Random(59), [], 0
    there, here = tailbit.spark.open(spark, path, task_bytes=0), tailbit.open(path)
    unrest = Unrest(path, str(spark.sparkContext.applicationId))
    began = time.monotonic()
    with unrest.at_work():
        while answers < 5 * ROUNDS or unrest.tallies["kills"] < KILLS:
            condition = chosen.choice(CONDITIONS)
            version = chosen.randrange(deltalake.DeltaTable(path).version() + 1)
            asked, judge = there.where(condition, version=version), here.where(condition, version=version)
            frame = asked.dataframe(["k", "s"]).toArrow().sort_by([("k", "ascending")])
            pairs = {
                "count": (asked.count(), judge.count()),
                "facets": (asked.facets("s", "day"), judge.facets("s", "day")),
                "sums": (asked.facets("s", sum="k", max="x"), judge.facets("s", sum="k", max="x")),
                "min": (asked.min("k"), judge.min("k")),
                "rows": (frame.to_pylist(), judge.read(["k", "s"], order_by=["k"]).to_pylist()),
            }
            answers += len(pairs)
            for name, (ours, theirs) in pairs.items():
                if repr(ours) != repr(theirs):
                    differences.append([name, condition, version, repr(ours)[:200], repr(theirs)[:200]])
    seconds = round(time.monotonic() - began, 1)
    told = {"answers": answers, "differences": differences, "failed": unrest.failed, "seconds": seconds}
    return {**told, **unrest.tallies}


def refused(spark: SparkSession, path: str) -> dict[str, Any]:
    """Ask one question; return the named error."""
    try:
        return {"count": tailbit.spark.open(spark, path, task_bytes=0).where("s = 's1'").count()}
    except TailbitError as error:
        return {"error": type(error).__name__, "text": str(error), "hint": error.hint}


def main() -> None:
    """Ask as the arguments say."""
    master, mode, path = sys.argv[1:]
    if mode == "alone":
        spark_table._PATIENCE_S = 5.0
    spark = session(master, "99g" if mode == "alone" else "512m")
    print(json.dumps(judged(spark, path) if mode == "judged" else refused(spark, path)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
