"""The soak as a command: `python -m support.soak --seconds 3600 --seed 1`, in the folder tests.

A writer, two readers, upkeep (compact, vacuum, verify, alter, repair) and the shipped indexer work on one
table at once, while faults are injected at random. DuckDB compares every answer with the writer's account. In
the end the index must equal one built in one go. Ctrl-C ends it early, and still says what was found. Exit
status 1 where anything was.
"""

from __future__ import annotations

import argparse
import datetime
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console

from support.marks import write_row
from support.soak.faults import Faults
from support.soak.run import Soak
from support.soak.tally import Tally

BEGIN, END = "<!-- soak: begin -->", "<!-- soak: end -->"


def main() -> int:
    """Soak as the command line says."""
    asked = _arguments()
    console, began = Console(stderr=True), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder), asked.seed)
        whole = True

        def choose(faults: Faults) -> Iterator[Callable[[], None]]:
            nonlocal whole
            rng, told = random.Random(asked.seed), 0
            try:
                while (passed := time.monotonic() - began) < asked.seconds:
                    fault = rng.choice([*faults.all(), *faults.kills()])
                    console.print(
                        f"{passed:5.0f} s  {fault.__name__:32}{soak.tally}", highlight=False, soft_wrap=True
                    )
                    yield fault
                    for finding in soak.tally.findings[told:]:
                        print(finding, flush=True)
                    told = len(soak.tally.findings)
            except KeyboardInterrupt:
                whole = False

        tally = soak.run(choose)
        if asked.keep is not None:
            asked.keep.write_bytes(soak.shipped.output.read_bytes())
    print_result(tally, console)
    if whole and asked.record is not None:
        record(asked.record, tally, asked.seed, time.monotonic() - began)
    return 1 if tally.findings else 0


def print_result(tally: Tally, console: Console) -> None:
    """What was done, by name, and what was found."""
    for name, times in sorted([*tally.faults.items(), *tally.upkeep.items()]):
        console.print(f"{times:6}  {name}", highlight=False, soft_wrap=True)
    slowest = max(tally.recoveries, default=0.0)
    print(f"{tally}; slowest recovery {slowest:.0f} s; {len(tally.findings)} findings")
    for finding in tally.findings:
        print(finding)


def record(page: Path, tally: Tally, seed: int, seconds: float) -> None:
    """Put a result between the marks of a page, in place of the one that is there."""
    cells = {
        "date": datetime.datetime.now(datetime.timezone.utc).date(),
        "seed": seed,
        "minutes": f"{seconds / 60:.0f}",
        "kills survived": tally.kills,
        "faults injected": sum(tally.faults.values()),
        "answers checked": f"{tally.answers:,}",
        "mismatches": tally.mismatches,
        "rows lost": tally.lost,
        "rows twice": tally.twice,
        "other findings": len(tally.findings) - tally.mismatches,
    }
    write_row(page, BEGIN, END, cells)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m support.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the result of a whole run there")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="where to keep what the indexer said")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
