"""Random histories of changed rows as a command: `python -m support.row_changes --histories 200 --seed 1`.

Run in the folder tests. A process with a Spark of its own makes them, a new one every `TURN` histories.
Ctrl-C stops after the history that is being made, and still says what was found. Exit status 1 where
anything was.
"""

from __future__ import annotations

import argparse
import datetime
import shutil
import sys
import tempfile
import time
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from support.fuzzer.turns import gather, tallies
from support.marks import write_row
from support.row_changes.history import ALIKE, History, Tally, made_for
from support.row_changes.table import Made
from support.spark_session import start_spark

MARKS = "<!-- changes fuzzer: begin -->", "<!-- changes fuzzer: end -->"
"""Where the last whole run stands."""

TURN = 400
"""Histories of one Spark: what it keeps of each table fills its heap in time."""


def main() -> int:
    """Make histories as the command line says."""
    asked = _arguments()
    began, total = time.monotonic(), Tally()
    seeds = range(asked.history, asked.history + 1) if asked.history is not None else None
    seeds = seeds or range(1_000_000 * asked.seed, 1_000_000 * asked.seed + asked.histories)
    whole = gather(tallies(_history, seeds, TURN, asked.jobs), total, _so_far)
    minutes = (time.monotonic() - began) / 60
    print(f"\n{_told(total)}, {minutes:.1f} minutes{'' if whole else ' (stopped early)'}", file=sys.stderr)
    if whole and asked.record is not None and asked.history is None:
        record(asked.record, asked.seed, total, minutes)
    return 1 if total.findings else 0


def _so_far(total: Tally) -> str:
    return f"{total.histories} histories, {len(total.findings)} findings"


def _told(total: Tally) -> str:
    return (
        f"{total.histories} histories, {total.by_delta} of them judged by Delta too: {total.changes} changes,"
        f" {total.by_index} by the index, {total.refused} refused by both, {total.conflicts} conflicts,"
        f" {len(total.findings)} findings"
    )


def record(page: Path, seed: int, total: Tally, minutes: float) -> None:
    """Put the result of a whole run between the marks of a page."""
    day = datetime.datetime.now(datetime.timezone.utc).date()
    cells: dict[str, object] = {"date": day, "seed": seed, "histories": f"{total.histories:,}"}
    cells["judged by Delta too"] = total.by_delta
    cells |= {"changes": f"{total.changes:,}", "by the index": f"{total.by_index:,}"}
    cells |= {"refused by both": total.refused, "conflicts": total.conflicts}
    write_row(page, *MARKS, cells | {"findings": len(total.findings), "minutes": f"{minutes:.0f}"})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m support.row_changes", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--histories", type=int, default=200)
    parser.add_argument(
        "--history", type=int, help="make the history of this seed alone, as a finding names it"
    )
    parser.add_argument(
        "--jobs", type=int, default=1, help="how many at a time, each with a Spark of its own"
    )
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the result of a whole run there")
    return parser.parse_args()


@lru_cache(maxsize=1)
def _made(folder: str, number: int) -> Made:
    """Make a table with which histories begin; other processes may make the same one."""
    return made_for(_spark(folder), tempfile.mkdtemp(dir=folder), number * ALIKE)


@cache
def _spark(folder: str) -> Any:
    session = start_spark(Path(folder), lives_long=True)
    session.sparkContext.setLogLevel("OFF")
    return session


def _history(folder: str, seed: int) -> Tally:
    """Make a history, and leave nothing of it."""
    place = tempfile.mkdtemp(dir=folder)
    spark = _spark(folder)
    try:
        return History(spark, place, seed, _made(folder, seed // ALIKE)).go()
    finally:
        spark.catalog.clearCache()
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        shutil.rmtree(place)
