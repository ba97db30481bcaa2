"""Which suites run every night only, and which changes run them at once: `python3 -m support.suites`.

Some suites cost minutes and prove little that an ordinary change could break: other releases of Spark, a
browser, an alert manager, a soak. `make proof` runs all of them and writes the commit that it proved into a
page. `make test` leaves a suite out as long as no file of its rooms differs from that commit, and says so.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "testing.md"
PROVEN = re.compile(
    r"<!-- proof: begin -->.*?^\| [\d-]+ \| \d+ \| `([0-9a-f]{7,40})` \| [^|]+ \| 0 \|", re.M | re.S
)
"""The commit in the row that `make proof` writes, if no test failed."""

COMMON = (
    "pyproject.toml",
    "constraints.txt",
    "Makefile",
    ".ci",
    "tests/conftest.py",
    "tests/support/suites.py",
)
"""What every suite depends on."""


@dataclass(frozen=True)
class Suite:
    """Test files that run every night.

    Attributes:
        subject: what the files test, in words.
        tests: files below `tests/`, or one test of a file as `file::test`.
        rooms: files and folders of the repository; a change in one of them runs the suite at once.
        programs: programs that the tests need and that pip does not install.
    """

    subject: str
    tests: tuple[str, ...]
    rooms: tuple[str, ...]
    programs: tuple[str, ...] = ()


NIGHTLY = (
    Suite(
        "other releases of Spark",
        ("e2e/test_spark_releases.py", "e2e/test_spark_misfits.py"),
        ("tailbit/spark", "tests/support/release_questions.py", "tests/support/release_table.py"),
    ),
    Suite(
        "a Spark cluster with a metastore, JDBC and Connect; spark-sql",
        ("e2e/test_spark_deployments.py", "e2e/test_spark_sql_command.py", "integration/test_submitted.py"),
        ("tailbit/spark", "tests/support/spark_deployments.py", "tests/support/connect_questions.py"),
    ),
    Suite(
        "pages in a browser",
        ("e2e/test_browser.py",),
        ("streaming", "checkpoints", "tests/support/browser.py"),
        ("chromium",),
    ),
    Suite(
        "alerts by a real Prometheus and Alertmanager",
        ("unit/streaming/seen/test_alertmanager.py",),
        ("streaming/seen", "streaming/many", "checkpoints", "deploy/prometheus"),
        ("prometheus", "prometheus-alertmanager"),
    ),
    Suite(
        "executors in processes of their own, and a cluster that is silent",
        ("fault/test_executors.py", "fault/test_silent_cluster.py"),
        ("streaming", "checkpoints", "index/write", "tables/storage"),
    ),
    Suite(
        "a newer release takes over, and a soak",
        ("fault/test_upgrade.py", "fault/test_soak.py"),
        (
            "streaming",
            "checkpoints",
            "index/store",
            "index/repair",
            "index/maintenance",
            "tests/support/soak",
        ),
    ),
    Suite(
        "installation from an index of packages",
        ("e2e/test_stranger.py::test_the_line_that_installs_works_with_an_index_of_packages_too",),
        (),
    ),
    Suite(
        "the demonstrations",
        ("e2e/test_demo.py",),
        ("tailbit/demo", "tailbit/cli/entry.py", "streaming/job.py", "tests/support/hudi_demo.py"),
    ),
    Suite(
        "the site and its links",
        ("unit/test_site.py",),
        (
            "docs",
            "README.md",
            "SECURITY.md",
            "CHANGELOG.md",
            "mkdocs.yml",
            "examples",
            "benchmarks",
            "deploy",
        ),
    ),
)


def proven_commit(page: Path = PAGE) -> str | None:
    """Return the commit that the whole proof last passed for, as its page says; None if it says none."""
    stated = PROVEN.search(page.read_text(encoding="utf-8")) if page.exists() else None
    return stated[1] if stated else None


def changed_files(commit: str | None, root: Path = ROOT) -> list[str] | None:
    """Return the files that differ from a commit, new ones too; None if this cannot be known.

    It cannot outside of a Git checkout, without Git, and in a clone that does not hold the commit.
    """
    if commit is None or shutil.which("git") is None:
        return None
    listings = (("diff", "--name-only", commit, "--"), ("ls-files", "--others", "--exclude-standard"))
    files = list[str]()
    for arguments in listings:
        listing = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
        if listing.returncode:
            return None
        files += listing.stdout.splitlines()
    return files


def unchanged(files: Iterable[str] | None, suites: Sequence[Suite] = NIGHTLY) -> list[Suite]:
    """Return the suites that no changed file concerns; none if the changed files are unknown."""
    if files is None:
        return []
    changed = list(files)

    def concerned(suite: Suite) -> bool:
        rooms = (*COMMON, *suite.rooms, *(f"tests/{test.partition('::')[0]}" for test in suite.tests))
        return any(file == room or file.startswith(f"{room}/") for file in changed for room in rooms)

    return [suite for suite in suites if not concerned(suite)]


def left_out() -> list[Suite]:
    """Return the suites that a run of today's files may leave to the night."""
    return unchanged(changed_files(proven_commit()))


def is_of(nodeid: str, suite: Suite) -> bool:
    """Return whether a test, named as pytest names it from the repository's root, belongs to a suite.

    >>> site = Suite("the site", ("unit/test_site.py", "e2e/test_a.py::test_b"), ())
    >>> [is_of(f"tests/{name}", site) for name in ("unit/test_site.py::test_x", "e2e/test_a.py::test_b[1]")]
    [True, True]
    >>> is_of("tests/e2e/test_a.py::test_bc", site)
    False
    """
    name = nodeid.removeprefix("tests/")
    return any(name == test or name.startswith((f"{test}::", f"{test}[")) for test in suite.tests)


def summary(suites: Sequence[Suite]) -> list[str]:
    """Return the lines that say what a run left out and since when it is proven."""
    commit = proven_commit()
    return [
        f"left to `make proof`, since nothing that it concerns differs from {commit}: {suite.subject}"
        f" ({', '.join(suite.tests)})"
        for suite in suites
    ]


def main() -> int:
    """Print the programs that the suites of this run need, and on stderr what is left out."""
    omitted = left_out()
    print(*dict.fromkeys(name for suite in NIGHTLY if suite not in omitted for name in suite.programs))
    print(*summary(omitted), sep="\n", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
