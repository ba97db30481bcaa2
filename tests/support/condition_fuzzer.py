"""Random conditions judged by Spark, as a command: `python -m support.condition_fuzzer --conditions 20000`.

Run in the folder tests. Each condition, its NOT and its IS NULL are evaluated over rows of edge values by
processes of their own while Spark judges those before; with `--definitions` they are asked of tables with
random indexes, and Spark reads the same tables. Ctrl-C stops it, and it still says what was found.
Exit status 1 where anything was.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sized
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from support import judged_conditions, judged_definitions
from support.fuzzer.command import begin_worker
from support.judged_conditions import Truth
from support.judged_definitions import Answers
from support.marks import write_row
from support.spark_cells import PART, spark_values
from support.spark_session import start_spark

TURN = 60_000
"""Conditions that one Spark judges: what it keeps of each query fills its heap in time."""


@dataclass(frozen=True)
class Mode:
    """What is judged: portions of `size` conditions, how each is evaluated, and how Spark judges it.

    `marks`: where the last whole run stands.
    """

    marks: tuple[str, str]
    size: int
    portions: Callable[[int, int, int, Path], Iterator[Sized]]
    evaluate: Callable[[Any], Sized]
    mismatches: Callable[[Path, Any], dict[str, tuple[Any, Any]]]


@dataclass
class Tally:
    """What has been judged so far; conditions that both sides refuse are asked, not judged."""

    seed: int
    asked: int = 0
    judged: int = 0
    wrong: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.asked:,} conditions, seed {self.seed}: {self.judged:,} judged, "
            f"{self.wrong} mismatches, {self.seconds / 60:.1f} minutes"
        )


def main() -> int:
    """Judge as the command line says."""
    asked = _arguments()
    console = Console(stderr=True)
    began, tally = time.monotonic(), Tally(asked.seed)
    whole = _all(asked, tally, console)
    tally.seconds = time.monotonic() - began
    console.print(f"{tally}{'' if whole else ' (stopped early)'}", highlight=False)
    if whole and asked.record is not None:
        day = datetime.datetime.now(datetime.timezone.utc).date()
        record(asked.record, tally, day, _mode(asked).marks)
    return 1 if tally.wrong else 0


def record(page: Path, tally: Tally, day: datetime.date, marks: tuple[str, str]) -> None:
    """Put a result between the marks of a page, in place of the one that is there."""
    cells: dict[str, object] = {"date": day, "seed": tally.seed, "conditions": f"{tally.asked:,}"}
    cells |= {"judged": f"{tally.judged:,}", "mismatches": tally.wrong}
    write_row(page, *marks, cells | {"minutes": f"{tally.seconds / 60:.0f}"})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m support.condition_fuzzer", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--conditions", type=int, default=20_000)
    parser.add_argument(
        "--definitions", action="store_true", help="ask tables with random indexes of every kind"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the result of a whole run there")
    return parser.parse_args()


def _all(asked: argparse.Namespace, tally: Tally, console: Console) -> bool:
    """Judge every condition and add it to `tally`; False where the user stopped it."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with tempfile.TemporaryDirectory() as folder, Progress(*columns, console=console) as progress:
        bar = progress.add_task("0 mismatches", total=asked.conditions)
        mode = _mode(asked)
        judge = _Judge(Path(folder), mode)
        try:
            for portion, mine in _evaluated(asked, mode, Path(folder)):
                _judge(judge, mine, tally)
                tally.asked += len(portion)
                progress.update(bar, completed=tally.asked, description=f"{tally.wrong} mismatches")
        except KeyboardInterrupt:
            return False
        finally:
            judge.close()
    return True


class _Judge:
    """Spark in a process of its own, a new one every `TURN` conditions."""

    def __init__(self, folder: Path, mode: Mode) -> None:
        self._folder, self._mode, self._turns = folder, mode, 0
        self._start()

    def mismatches(self, mine: Any) -> dict[str, tuple[Any, Any]]:
        """As `judged_conditions.mismatches`."""
        if self._left == 0:
            self.close()
            self._start()
        self._left -= 1
        return self._spark.submit(self._mode.mismatches, self._folder / f"spark {self._turns}", mine).result()

    def close(self) -> None:
        """End its Spark."""
        self._spark.shutdown()

    def _start(self) -> None:
        self._turns, self._left = self._turns + 1, TURN // self._mode.size
        self._spark = ProcessPoolExecutor(1, get_context("spawn"), begin_worker)


@cache
def _spark(folder: Path) -> Any:
    folder.mkdir()
    return start_spark(folder, lives_long=True)


@cache
def _frame(folder: Path) -> Any:
    return judged_conditions.frame_of(_spark(folder), folder)


def _mismatches(folder: Path, mine: dict[str, Truth]) -> dict[str, tuple[Any, Any]]:
    return judged_conditions.mismatches(partial(spark_values, _frame(folder)), mine)


def _mismatches_of_table(folder: Path, mine: Answers) -> dict[str, tuple[Any, Any]]:
    frame = _spark(folder).read.format("delta").load(mine.path).coalesce(1)
    found = judged_definitions.mismatches(frame, mine)
    shutil.rmtree(mine.path)
    return found


_CONDITIONS = Mode(
    ("<!-- random conditions: begin -->", "<!-- random conditions: end -->"),
    600,
    judged_conditions.portions,
    judged_conditions.ours,
    _mismatches,
)
_DEFINITIONS = Mode(
    ("<!-- judged definitions: begin -->", "<!-- judged definitions: end -->"),
    PART,
    judged_definitions.tables,
    judged_definitions.answered,
    _mismatches_of_table,
)


def _mode(asked: argparse.Namespace) -> Mode:
    return _DEFINITIONS if asked.definitions else _CONDITIONS


def _evaluated(asked: argparse.Namespace, mode: Mode, folder: Path) -> Iterator[tuple[Sized, Sized]]:
    """Each portion and our truths of it; a few portions are evaluated ahead."""
    waiting: deque[tuple[Sized, Future[Sized]]] = deque()
    with ProcessPoolExecutor(asked.workers, get_context("spawn"), begin_worker) as pool:
        try:
            for portion in mode.portions(asked.seed, asked.conditions, mode.size, folder):
                waiting.append((portion, pool.submit(mode.evaluate, portion)))
                if len(waiting) > 2 * asked.workers:
                    yield _done(waiting)
            while waiting:
                yield _done(waiting)
        finally:
            pool.shutdown(cancel_futures=True)


def _done(waiting: deque[tuple[Any, Future[Any]]]) -> tuple[Any, Any]:
    portion, future = waiting.popleft()
    return portion, future.result()


def _judge(judge: _Judge, mine: Sized, tally: Tally) -> None:
    for text, (truth, said) in judge.mismatches(mine).items():
        tally.wrong += 1
        print(f"{text}\n  ours:  {truth}\n  Spark: {said}", flush=True)
    tally.judged += len(mine)


if __name__ == "__main__":
    sys.exit(main())
