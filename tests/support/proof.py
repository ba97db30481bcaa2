"""The whole proof as a command: `python -m support.proof --seed 1`, in the folder tests.

Spark judges every version of every history, with the settings that it has by itself; random histories and
predicates are more than in `make test`; and the suites of the night are run. The result is written into a
page between two marks, with the commit that was proven. The exit status is that of pytest.

With `--suites` the suites of the night alone are run, as `make test` would run them: one after the other
those of whose files any has changed since they passed. Each that passes is written into the page.
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.marks import write_between, write_row
from support.suites import BEGIN as SUITES_BEGIN
from support.suites import END as SUITES_END
from support.suites import NIGHTLY, ROOT, digest_of, left_out, proven

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
    if asked.suites:
        return prove_suites(asked.workers, asked.record)
    commit = _clean_commit() if asked.record is not None else ""
    began = time.monotonic()
    digests = {suite.subject: digest_of(suite) for suite in NIGHTLY}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        status = _run(_everything(), asked.workers, report, _settings_of_proof(asked.seed))
        if not report.exists():
            return status or 1
        tests, failed = counted(report)
    found = Proof(asked.seed, tests, failed, time.monotonic() - began)
    print(found)
    # 0 and 1: everything was run, and all or not all of it passed. Else the run is no proof.
    if status in (0, 1) and asked.record is not None:
        record(asked.record, found, commit, _today())
        if not failed:
            record_suites(asked.record, digests, _today())
    return status


def prove_suites(workers: int, page: Path | None) -> int:
    """Run the suites that are due, and write those that pass into a page; return 1 if any test failed."""
    omitted = left_out()
    failed = list[str]()
    for suite in NIGHTLY:
        if suite in omitted:
            continue
        digest = digest_of(suite)
        with tempfile.TemporaryDirectory() as folder:
            status = _run([f"tests/{test}" for test in suite.tests], workers, Path(folder, "report.xml"), {})
        if status:
            failed.append(suite.subject)
        elif page is not None:
            record_suites(page, {suite.subject: digest}, _today())
    print(*(f"failed: {subject}" for subject in failed), sep="\n")
    return 1 if failed else 0


def record_suites(page: Path, digests: Mapping[str, str | None], day: datetime.date) -> None:
    """Write into a page which suites passed on a day, with which files; other suites keep their rows."""
    passed = proven(page) | {subject: (str(day), digest) for subject, digest in digests.items() if digest}
    rows = [
        f"| {suite.subject} | {passed[suite.subject][0]} | `{passed[suite.subject][1]}` |\n"
        for suite in NIGHTLY
        if suite.subject in passed
    ]
    write_between(
        page, SUITES_BEGIN, SUITES_END, "".join(["| suite | passed on | files |\n|---|---|---|\n", *rows])
    )


def _today() -> datetime.date:
    return datetime.datetime.now(datetime.timezone.utc).date()


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


def _run(tests: Sequence[str], workers: int, report: Path, settings: Mapping[str, str]) -> int:
    how = ["-n", str(workers), "--dist", "loadscope", "--no-loadscope-reorder", f"--junitxml={report}", "-q"]
    command = [sys.executable, "-m", "pytest", *how, *tests]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **settings}, check=False).returncode


def _settings_of_proof(seed: int) -> dict[str, str]:
    return {
        "TAILBIT_PROOF": "1",
        "TAILBIT_SEED": str(seed),
        "TAILBIT_SEEDS": str(HISTORIES),
        "TAILBIT_EXAMPLES": str(EXAMPLES),
        "TAILBIT_SCALE": str(SCALE),
    }


def _everything() -> list[str]:
    nightly = [test for suite in NIGHTLY for test in suite.tests if test.partition("/")[0] not in JUDGED]
    return [f"tests/{test}" for test in (*JUDGED, *nightly)]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m support.proof", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--suites", action="store_true", help="the suites of the night that are due, alone")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the result of a whole run there")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
