"""The history fuzzer as a command: `python -m support.fuzzer --seed 1 --checks 200000`, in the folder tests.

With `--analytics` groups, extremes, sums, histograms and transitions are asked for, not predicates alone;
with `--definitions` any condition, of a table with indexes of every kind and without; with `--readers`
nothing: every version is read, and `--checks N --each 1` makes N histories.
Histories are made by several processes. Ctrl-C stops after those that are being made, and still says what was
found. Exit status 1 where anything was.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import os
import signal
import sys
import time
from collections.abc import Generator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from support.analytics.run import run_analytics
from support.fuzzer.cells_run import run_cells
from support.fuzzer.readers import READ, run_readers
from support.fuzzer.record import ANALYTICS, DEFINITIONS, HISTORIES, HUDI, READERS, Record, record
from support.fuzzer.run import CHECKS_A_HISTORY, WRITERS, Report, history_seeds, run_history


def main() -> int:
    """Fuzz as the command line says."""
    os.environ["TAILBIT_ALLOW_OUTSIDE"] = "true"
    asked = _arguments()
    console = Console(stderr=True)
    seeds = history_seeds(asked.seed, asked.checks, asked.each)
    if asked.history is not None:
        seeds = range(asked.history, asked.history + 1)
    began, total = time.monotonic(), Report()
    whole = _all(seeds, asked, total, console)
    seconds = time.monotonic() - began
    writer = "varied" if asked.analytics else "cells" if asked.definitions else asked.writer
    found = Record(asked.seed, writer, total.histories, total.checks, len(total.findings), seconds)
    console.print(f"{found}{'' if whole else ' (stopped early)'}", highlight=False)
    if whole and asked.record is not None and asked.history is None:
        plain = (READERS if asked.readers else HUDI).get(asked.writer, HISTORIES)
        marks = ANALYTICS if asked.analytics else DEFINITIONS if asked.definitions else plain
        record(asked.record, found, datetime.datetime.now(datetime.timezone.utc).date(), marks)
    return 1 if total.findings else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m support.fuzzer", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checks", type=int, default=2000)
    parser.add_argument("--each", type=int, default=CHECKS_A_HISTORY, help="checks of one history")
    parser.add_argument(
        "--history", type=int, help="make the history of this seed alone, as a finding names it"
    )
    parser.add_argument("--writer", choices=sorted(WRITERS), default="built")
    parser.add_argument(
        "--analytics", action="store_true", help="ask for groups, sums, histograms and the like"
    )
    parser.add_argument(
        "--definitions", action="store_true", help="ask any condition, with indexes of every kind and without"
    )
    parser.add_argument(
        "--readers", action="store_true", help="read every version of Hudi histories, without an index"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the result of a whole run there")
    asked = parser.parse_args()
    if asked.readers and asked.writer not in READ:
        parser.error(f"--readers is for the writers {', '.join(READ)}")
    return asked


def _all(seeds: range, asked: argparse.Namespace, total: Report, console: Console) -> bool:
    """Make every history and add it to `total`; False where the user stopped it."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("checks", total=len(seeds) * asked.each)
        try:
            with closing(_reports(seeds, asked)) as reports:
                for report in reports:
                    total += report
                    for finding in report.findings:
                        print(finding, flush=True)
                    bad = len(total.findings)
                    progress.update(bar, advance=report.checks, description=f"{bad} mismatches")
        except KeyboardInterrupt:
            return False
    return True


def _reports(seeds: range, asked: argparse.Namespace) -> Generator[Report, None, None]:
    """The reports of histories, as they are done."""
    workers = min(asked.workers, len(seeds))
    # A forked child of a process that has used deltalake may hang, so each starts afresh.
    with ProcessPoolExecutor(workers, get_context("spawn"), begin_worker) as pool:
        made: list[Future[Report]] = [
            pool.submit(run_analytics, seed, asked.each)
            if asked.analytics
            else pool.submit(run_cells, seed, asked.each)
            if asked.definitions
            else pool.submit(run_readers, seed, asked.writer)
            if asked.readers
            else pool.submit(run_history, seed, asked.each, asked.writer)
            for seed in seeds
        ]
        try:
            for one in as_completed(made):
                yield one.result()
        finally:
            pool.shutdown(cancel_futures=True)


_END_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux's `prctl`."""


def begin_worker() -> None:
    """Leave Ctrl-C to the process that counts, and end with that process, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL)
