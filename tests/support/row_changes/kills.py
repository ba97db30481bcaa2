"""A process that changes rows is killed at random moments and started again: each change must be made once.

A table goes through `CHANGES` deletions and upserts, each with a number of its application. The process that
makes them is killed (SIGKILL, its Java too) at a random moment, started again, and calls all of them anew
from the first; so until it gets to the end. Then Delta's own statements make each change once on a copy: the
rows must be the same. So one table after the other, until there were enough kills. Usage, from `tests`:
python -m support.row_changes.kills [--kills 20] [--seed 1] [--record FILE]. Exit status 1 where rows differ.
"""

from __future__ import annotations

import argparse
import datetime
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

import tailbit.spark
from support.marks import reported
from support.spark_session import start_spark
from support.tables import index_of

CHANGES = 16
LONGEST_S = 25.0
"""A process is killed so many seconds after its Spark is ready, at most."""

MARKS = "<!-- kills of changes: begin -->", "<!-- kills of changes: end -->"


def change(spark: Any, path: str, twin: str | None, seed: int, number: int) -> None:
    """Make a random change of a table, or, if a copy is given, of this by Delta's own statement."""
    rng = random.Random(f"{seed} {number}")
    ids = rng.sample(range(80), rng.randrange(1, 12))
    application = ("kills", number)
    if rng.random() < 0.4:
        if twin is None:
            tailbit.spark.delete(path, ids, "id", spark=spark, application=application)
        else:
            spark.sql(f"DELETE FROM delta.`{twin}` WHERE id IN ({', '.join(map(str, ids))})").collect()
        return
    rows = pa.table({"id": ids, "part": [rng.choice("ab") for _ in ids], "v": [f"{number}"] * len(ids)})
    if twin is None:
        tailbit.spark.upsert(path, rows, "id", spark=spark, application=application)
    else:
        merge = (
            f"MERGE INTO delta.`{twin}` t USING {{rows}} s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        spark.sql(merge, rows=spark.createDataFrame(rows)).collect()


def make_changes(folder: str, seed: int) -> int:
    """Make all changes of a table, those that are made already too, and compare it with its copy."""
    spark = start_spark(Path(folder) / "spark")
    path, twin = f"{folder}/t", f"{folder}/twin"
    print("ready", flush=True)
    for number in range(CHANGES):
        change(spark, path, None, seed, number)
    print("done", flush=True)
    for number in range(CHANGES):
        change(spark, path, twin, seed, number)
    ours, theirs = (
        sorted(map(tuple, spark.read.format("delta").load(where).collect())) for where in (path, twin)
    )
    if ours != theirs:
        print(f"table {seed}: {set(ours) ^ set(theirs)}, {len(ours)} and {len(theirs)} rows")
    return int(ours != theirs)


def killed_until_done(folder: str, seed: int, rng: random.Random, most: int) -> tuple[int, int, str | None]:
    """Return how often the process was killed, how many orphan files are left, and what is wrong."""
    path = f"{folder}/t"
    for part in range(2):
        ids = range(40 * part, 40 * part + 40)
        rows = pa.table({"id": ids, "part": ["ab"[i % 2] for i in ids], "v": ["old"] * 40})
        vectors = {"delta.enableDeletionVectors": "true"}
        write_deltalake(path, rows, mode="append", partition_by=["part"], configuration=vectors)
        if not part:
            index_of(path, ["id"])
    shutil.copytree(path, f"{folder}/twin", ignore=shutil.ignore_patterns("_tailbit"))
    kills = 0
    while True:
        told = _run(folder, seed, rng.uniform(0, LONGEST_S) if kills < most else None)
        if told is not None:
            break
        kills += 1
        if rng.random() < 0.5:
            index_of(path)
    named = {*DeltaTable(path).file_uris()}
    orphans = [file for file in Path(path).glob("part=*/*.parquet") if str(file) not in named]
    return kills, len(orphans), told or None


def _run(folder: str, seed: int, delay: float | None) -> str | None:
    """Start the process that makes the changes, kill it after a delay; what it found if it got to the end."""
    command = [sys.executable, "-m", "support.row_changes.kills", "--of", folder, "--seed", f"{seed}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        if "ready\n" not in iter(process.stdout.readline, ""):
            return "the process ended before it was ready"
        timer = threading.Timer(delay or 0, os.killpg, (process.pid, signal.SIGKILL))
        if delay is not None:
            timer.start()
        if process.stdout.readline() == "":
            status = process.wait()
            return None if status == -signal.SIGKILL else f"the process ended with {status}"
        timer.cancel()
        found = process.stdout.read()
        return found if process.wait() in (0, 1) else f"the process ended: {found}"


def main() -> int:
    """Kill, and tell what was found."""
    given = _arguments()
    if given.of is not None:
        return make_changes(given.of, given.seed)
    rng, findings = random.Random(given.seed), list[str]()
    tables = kills = orphans = 0
    while kills < given.kills:
        with tempfile.TemporaryDirectory() as folder:
            seed = given.seed * 1000 + tables
            some, left, wrong = killed_until_done(folder, seed, rng, given.kills - kills)
        tables, kills, orphans = tables + 1, kills + some, orphans + left
        findings += [] if wrong is None else [wrong]
        print(f"\r{kills} kills, {tables} tables, {len(findings)} findings", end="", file=sys.stderr)
    day = datetime.datetime.now(datetime.timezone.utc).date()
    cells: dict[str, object] = {"date": day, "seed": given.seed, "kills": kills, "tables": tables}
    cells |= {"changes": tables * CHANGES, "files of no version": orphans, "findings": len(findings)}
    return reported(cells, findings, given.record, *MARKS)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m support.row_changes.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the result there")
    parser.add_argument("--of", metavar="FOLDER", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
