"""The whole proof as a command: `python -m support.proof --seed 1`, in the folder tests.

Spark judges every version of every history, with the settings that it has by itself; random histories and
predicates are more than in `make test`; and the suites of the night are run. The result is written into a
page between two marks, with the commit that was proven. The exit status is that of pytest.
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from support.marks import write_row
from support.suites import NIGHTLY, ROOT

BEGIN, END = "<!-- proof: begin -->", "<!-- proof: end -->"

JUDGED = ("integration", "fault", "property")
"""The folders of the tests whose judge is Spark, a kill or a random history."""

HISTORIES, EXAMPLES, SCALE = 10, 2, 5
"""Random histories of each kind, and how many times the examples and the predicates of `make test`."""


@dataclass(frozen=True)
class Proof:
    """What a run did; `failed` counts errors too."""

    seed: int
    tests: int
    failed: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.tests:,} tests, seed {self.seed}: {self.failed} failed, {self.seconds / 60:.0f} minutes"
        )


def main() -> int:
    """Prove as the command line says."""
    asked = _arguments()
    commit = _clean_commit() if asked.record is not None else ""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        status = _run(asked.seed, asked.workers, report)
        if not report.exists():
            return status or 1
        tests, failed = counted(report)
    found = Proof(asked.seed, tests, failed, time.monotonic() - began)
    print(found)
    # 0 and 1: everything was run, and all or not all of it passed. Else the run is no proof.
    if status in (0, 1) and asked.record is not None:
        record(asked.record, found, commit, datetime.datetime.now(datetime.timezone.utc).date())
    return status


def counted(report: Path) -> tuple[int, int]:
    """How many tests a JUnit report holds, and how many of them failed or broke."""
    suites = list(ElementTree.parse(report).iter("testsuite"))
    tests, failures, errors = (
        sum(int(suite.get(name, "0")) for suite in suites) for name in ("tests", "failures", "errors")
    )
    return tests, failures + errors


def record(page: Path, found: Proof, commit: str, day: datetime.date) -> None:
    """Put a result between the marks of a page, in place of the one that is there."""
    cells = {"date": day, "seed": found.seed, "commit": f"`{commit}`", "tests": f"{found.tests:,}"}
    write_row(page, BEGIN, END, cells | {"failed": found.failed, "minutes": f"{found.seconds / 60:.0f}"})


def _clean_commit() -> str:
    """Return the commit that is checked out; end where files differ from it, since it would not be proven."""
    changed, commit = (
        subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for arguments in (("status", "--porcelain"), ("rev-parse", "--short", "HEAD"))
    )
    if changed:
        sys.exit(f"commit these files first, so that the page can name what is proven:\n{changed}")
    return commit.strip()


def _run(seed: int, workers: int, report: Path) -> int:
    how = ["-n", str(workers), "--dist", "loadscope", "--no-loadscope-reorder", f"--junitxml={report}", "-q"]
    environment = {
        **os.environ,
        "TAILBIT_PROOF": "1",
        "TAILBIT_SEED": str(seed),
        "TAILBIT_SEEDS": str(HISTORIES),
        "TAILBIT_EXAMPLES": str(EXAMPLES),
        "TAILBIT_SCALE": str(SCALE),
    }
    nightly = [test for suite in NIGHTLY for test in suite.tests if test.partition("/")[0] not in JUDGED]
    command = [sys.executable, "-m", "pytest", *how, *(f"tests/{test}" for test in (*JUDGED, *nightly))]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m support.proof", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the result of a whole run there")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
