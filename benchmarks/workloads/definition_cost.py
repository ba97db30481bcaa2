"""What does a commit cost under twenty definitions, beside one?

Usage: python workloads/definition_cost.py [--rows N] [--commits N] [--no-spark]. Commits of N rows are
indexed under one definition and under twenty: of columns, of expressions, of several together, and column
statistics. First in this process, in turns: CPU seconds and bytes of a commit, and CPU seconds with the
merges that follow. Then by two `tailbit run` beside each other, each meeting a commit in turn: seconds from
a commit to the index that covers it.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import deltalake
import numpy as np
from definitions import rows_of
from freshness import await_index, seconds_to_cover
from index_of import Upkeep
from timing import tell

import tailbit

ONE = [("bitmap", ["k"])]
TWENTY = [
    *(("bitmap", [term]) for term in ("name", "at", "k", "hour(at)", "lower(name)", "date_trunc('DAY', at)")),
    *(("bitmap", [f"substr(lower(name), 1, {n})"]) for n in range(1, 4)),
    *(("bitmap", [f"length(name) + {n}"]) for n in range(4)),
    *(("bitmap", [f"k % {n}"]) for n in range(2, 5)),
    ("bitmap", ["lower(name)", "hour(at)"]),
    ("bitmap", ["k % 7", "at"]),
    ("bitmap", ["k % 9", "hour(at)", "name"]),
    ("column_stats", ["name", "lowered", "at", "hour", "k"]),
]
DEFINITIONS = {"one": ONE, "twenty": TWENTY}


def _made(folder: pathlib.Path, rows: int) -> dict[str, pathlib.Path]:
    """Return the tables, each with its definitions over a first commit."""
    tables = {name: folder / name for name in DEFINITIONS}
    for name, table in tables.items():
        deltalake.write_deltalake(str(table), rows_of(np.random.default_rng(1), rows))
        opened = tailbit.open(str(table))
        for number, (kind, terms) in enumerate(DEFINITIONS[name]):
            opened.create_index(f"i{number}", terms, kind=kind)
    return tables


def _without_spark(tables: dict[str, pathlib.Path], rows: int, commits: int) -> None:
    """Tell CPU seconds and bytes of a commit, the least and the mean with merges."""
    rng, upkeeps = np.random.default_rng(2), {name: Upkeep(table, None) for name, table in tables.items()}
    took: dict[str, list[float]] = {name: [] for name in tables}
    whole, size = dict.fromkeys(tables, 0.0), dict.fromkeys(tables, 0)
    for commit in range(commits + 1):
        for name, upkeep in upkeeps.items():
            deltalake.write_deltalake(str(tables[name]), rows_of(rng, rows), mode="append")
            before, begun = _bytes(tables[name]), time.process_time()
            upkeep.catch_up()
            seconds = time.process_time() - begun
            written = _bytes(tables[name]) - before
            upkeep.merge()
            if commit:
                took[name].append(seconds)
                whole[name] += time.process_time() - begun
                size[name] += written
    _tell(f"CPU, {rows:,} rows", {name: min(seconds) for name, seconds in took.items()}, "ms", 1e3)
    _tell(f"CPU with merges, {rows:,} rows", {name: whole[name] / commits for name in whole}, "ms", 1e3)
    sizes = {f"{name} kB": round(size[name] / commits / 1e3, 1) for name in size}
    tell({"question": f"bytes, {rows:,} rows", **sizes})


def _bytes(table: pathlib.Path) -> int:
    return sum(file.stat().st_size for file in (table / "_tailbit").glob("kind=*/*.parquet"))


def _with_spark(tables: dict[str, pathlib.Path], rows: int, commits: int) -> None:
    """Tell the median seconds from a commit to the index that covers it."""
    tool = pathlib.Path(sys.executable).with_name("tailbit")
    runs = [
        subprocess.Popen([tool, "run", table, "--quiet"], stderr=subprocess.DEVNULL)
        for table in tables.values()
    ]
    rng, waits = np.random.default_rng(3), {name: list[float]() for name in tables}
    try:
        indexes = {name: await_index(table / "_tailbit") for name, table in tables.items()}
        handles = {name: deltalake.DeltaTable(str(table)) for name, table in tables.items()}
        for commit in range(commits + 10):
            for name, index in indexes.items():
                wait = seconds_to_cover(handles[name], index, rows_of(rng, rows))
                if commit >= 10:
                    waits[name].append(wait)
    finally:
        for run in runs:
            run.send_signal(signal.SIGTERM)
        for run in runs:
            run.wait(60)
    medians = {name: statistics.median(seconds) for name, seconds in waits.items()}
    _tell(f"commit to covered, with Spark, {rows:,} rows", medians, "ms", 1e3)


def _tell(question: str, seconds: dict[str, float], unit: str, scale: float) -> None:
    figures = {f"{name} {unit}": round(value * scale, 1) for name, value in seconds.items()}
    tell({"question": question, **figures, "twenty / one": round(seconds["twenty"] / seconds["one"], 2)})


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1000)
    options.add_argument("--commits", type=int, default=40)
    options.add_argument("--no-spark", action="store_true")
    given = options.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tailbit-definition-cost-"))
    try:
        tables = _made(folder, given.rows)
        _without_spark(tables, given.rows, given.commits)
        if not given.no_spark:
            _with_spark(tables, given.rows, given.commits)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
