"""The fuzzer as a command: `python -m support.fuzzer KIND... --seed 1`, in the folder tests.

A run does the number of units that its kind names, or --count of them, or as many as fit into --seconds.
Seeds are worked on by several processes. Ctrl-C stops after those at work, and still says what was found. A
finding names its seed: --only makes it again, alone. Exit status 1 where anything was found.
"""

from __future__ import annotations

import argparse
import datetime
import os
import signal
import tempfile
import time
from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import closing
from itertools import count, islice
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from support.fuzzer.kinds import KINDS, Kind
from support.fuzzer.tally import Tally
from support.marks import write_row
from support.waiting import end_with_parent

SEEDS_A_RUN = 1_000_000
"""The n-th seed of a run with seed s is s times this, plus n: each can be made again alone."""

PORTION = 64
"""Seeds that are handed out at a time to the processes of a kind without Spark."""


def main() -> int:
    """Fuzz as the command line says."""
    os.environ["TAILBIT_ALLOW_OUTSIDE"] = "true"
    asked = _arguments()
    return max(run(name, asked) for name in asked.kinds)


def run(name: str, asked: argparse.Namespace) -> int:
    """Run one kind; return 1 if anything was found, else 0."""
    kind, console = KINDS[name], Console(stderr=True)
    began, total, wrong = time.monotonic(), None, 0
    wanted = asked.count or kind.count
    end = None if asked.seconds is None else began + asked.seconds
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    whole = True
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task(name, total=asked.seconds or wanted)
        try:
            with closing(tallies(name, asked, wanted, end)) as made:
                for tally in made:
                    for finding in tally.findings:
                        print(finding, flush=True)
                    total = tally if total is None else total.__iadd__(tally)
                    done, wrong = total.cells()[kind.unit], len(total.findings)
                    told = f"{name}: {done:,} {kind.unit}, {wrong} mismatches"
                    reached = time.monotonic() - began if end else done
                    progress.update(bar, completed=reached, description=told)
        except KeyboardInterrupt:
            whole = False
    if total is None:
        return 1
    minutes = (time.monotonic() - began) / 60
    lacking = total.lacking() if whole and asked.only is None else []
    for text in lacking:
        print(text, flush=True)
    numbers = ", ".join(f"{number:,} {cell}" for cell, number in total.cells().items())
    stopped = "" if whole else " (stopped early)"
    console.print(
        f"{name}, seed {asked.seed}: {numbers}, {wrong} mismatches, {minutes:.1f} minutes{stopped}",
        highlight=False,
    )
    if whole and asked.record is not None and asked.only is None:
        day = datetime.datetime.now(datetime.timezone.utc).date()
        record(asked.record, kind, asked.seed, total, minutes, day)
    return 1 if wrong or lacking else 0


def record(page: Path, kind: Kind, seed: int, total: Tally, minutes: float, day: datetime.date) -> None:
    """Put the result of a whole run between the marks of its kind, in place of the one that is there."""
    cells: Mapping[str, object] = {"date": day, "seed": seed}
    cells = {**cells, **{name: f"{number:,}" for name, number in total.cells().items()}}
    write_row(page, *kind.marks, {**cells, "mismatches": len(total.findings), "minutes": f"{minutes:.0f}"})


def tallies(
    name: str, asked: argparse.Namespace, wanted: int, end: float | None
) -> Generator[Tally, None, None]:
    """Yield what each seed did and found, until `wanted` units are done, or until a moment `end`."""
    kind = KINDS[name]
    each = asked.each or min(kind.each, wanted)
    first = asked.seed * SEEDS_A_RUN
    seeds: Iterable[int] = count(first) if end else range(first, first + -(-wanted // each))
    jobs = asked.jobs or (1 if kind.turn else os.cpu_count() or 1)
    if asked.only is not None:
        seeds, jobs, end = (asked.only,), 1, None
    size, remaining = (kind.turn or PORTION) * jobs, iter(seeds)
    with tempfile.TemporaryDirectory() as folder:
        while portion := list(islice(remaining, size)):
            # A forked child of a process that has used deltalake may hang, so each starts afresh.
            with ProcessPoolExecutor(min(jobs, len(portion)), get_context("spawn"), begin_worker) as pool:
                made = [pool.submit(act, name, folder, seed, each) for seed in portion]
                try:
                    for one in as_completed(made):
                        yield one.result()
                        if end is not None and time.monotonic() > end:
                            return
                finally:
                    pool.shutdown(cancel_futures=True)


def act(name: str, folder: str, seed: int, each: int) -> Tally:
    """Do what a seed of a kind does."""
    return KINDS[name].act(folder, seed, each)


def begin_worker() -> None:
    """Leave Ctrl-C to the process that counts, and end with that process, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()


def _arguments() -> argparse.Namespace:
    listed = "\n".join(f"  {name:20} {kind.summary}" for name, kind in KINDS.items())
    parser = argparse.ArgumentParser(
        prog="python -m support.fuzzer",
        description=f"{__doc__}\nkinds:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kinds", nargs="+", choices=sorted(KINDS), metavar="KIND")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, help="how many units: checks, conditions or histories")
    parser.add_argument("--seconds", type=int, help="as many as fit into so many seconds")
    parser.add_argument("--each", type=int, help="units of one seed")
    parser.add_argument("--only", type=int, metavar="SEED", help="the seed that a finding names, alone")
    parser.add_argument("--jobs", type=int, help="processes at work at a time")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the result of a whole run there")
    return parser.parse_args()
