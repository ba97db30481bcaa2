"""Fields of a fuzzer that needs a Spark: made in turns, each by processes with a Spark of their own."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any, Protocol, TypeVar

from support.fuzzer.command import begin_worker


class Tally(Protocol):
    """What was done and found; the sum of two is that of both."""

    findings: list[str]

    def __iadd__(self, other: Any) -> Any: ...


T = TypeVar("T", bound=Tally)


def tallies(act: Callable[[str, int], T], seeds: range, turn: int, jobs: int = 1) -> Iterator[T]:
    """Yield what `act` returns for a folder and each seed.

    `jobs`: processes that work at a time. `turn`: seeds of one process, which a new one then follows, since
    what Spark keeps of each table fills its heap in time.
    """
    with tempfile.TemporaryDirectory() as folder:
        for begin in range(0, len(seeds), turn * jobs):
            with ProcessPoolExecutor(jobs, get_context("spawn"), begin_worker) as pool:
                asked = [pool.submit(act, folder, seed) for seed in seeds[begin : begin + turn * jobs]]
                try:
                    yield from (done.result() for done in as_completed(asked))
                finally:
                    pool.shutdown(cancel_futures=True)


def gather(each: Iterator[T], total: T, told: Callable[[T], str]) -> bool:
    """Add tallies to `total`, and tell of it after each; False where Ctrl-C stopped it."""
    try:
        for tally in each:
            total.__iadd__(tally)
            for finding in tally.findings:
                print(finding, flush=True)
            print(f"\r{told(total)}", end="", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        return False
    return True
