"""Which suites run every night only, and which changes run them at once: `python3 -m support.suites`.

Some suites cost minutes and prove little that an ordinary change could break: other releases of Spark, a
browser, an alert manager, a soak. `make proof` and `make suites` run them and write a digest of the files
that each concerns into a page. `make test` leaves a suite out as long as these files are the same, and says
so.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "testing.md"
BEGIN, END = "<!-- suites: begin -->", "<!-- suites: end -->"
PROVEN = re.compile(r"^\| ([^|]+) \| ([\d-]+) \| `([0-9a-f]{32})` \|$", re.M)
"""A row of the page: the suite, the day on which it passed, and the digest of the files that it concerns."""

COMMON = (
    "pyproject.toml",
    "constraints.txt",
    ".ci",
    "tests/conftest.py",
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
        "accelerated queries: what is served, shapes, calendars, plans, writers and troubles",
        (
            "integration/test_acceleration.py",
            "integration/test_acceleration_judged.py",
            "integration/test_acceleration_calendar.py",
            "integration/test_acceleration_costs.py",
            "integration/test_acceleration_early.py",
            "integration/test_acceleration_explained.py",
            "integration/test_acceleration_first.py",
            "integration/test_acceleration_joins.py",
            "integration/test_acceleration_kept.py",
            "integration/test_acceleration_keys.py",
            "integration/test_acceleration_misfits.py",
            "integration/test_acceleration_plans.py",
            "integration/test_acceleration_slow.py",
            "integration/test_acceleration_troubles.py",
            "integration/test_acceleration_writers.py",
            "integration/test_fuzzed_queries.py",
        ),
        (
            "tailbit/spark/java",
            "tailbit/spark/answers.py",
            "tailbit/spark/request.py",
            "tailbit/spark/acceleration.py",
            "tailbit/spark/helper.py",
            "tailbit/spark/__init__.py",
            "index/query",
            "index/sql",
            "index/kinds/bitmap_index.py",
            "tests/support/acceleration.py",
            "tests/support/plain_sql",
        ),
    ),
    Suite(
        "deletes and upserts of rows: kinds of tables, sessions, faults and kills",
        (
            "integration/test_kinds_of_changed_tables.py",
            "integration/test_forms_of_changes.py",
            "integration/test_row_deletion.py",
            "integration/test_upsert.py",
            "integration/test_changes_in_sessions.py",
            "integration/test_bad_changes.py",
            "integration/test_fuzzed_changes.py",
            "fault/test_kill_changes.py",
        ),
        (
            "tailbit/spark/writing",
            "tailbit/spark/locating.py",
            "tailbit/spark/__init__.py",
            "tailbit/base/faults.py",
            "index/query",
            "tests/support/row_changes",
        ),
    ),
    Suite(
        "tables as their writers leave them: odd logs, packed histories, values and features",
        (
            "unit/test_odd_logs.py",
            "unit/test_azure_tables.py",
            "property/test_packed_hudi_tables.py",
            "integration/test_delta_values.py",
            "integration/test_delta_features.py",
            "integration/test_delta_dropped.py",
            "integration/test_delta_data_files.py",
            "integration/test_delta_lineage.py::test_a_shallow_clone_is_read_from_the_files_of_its_origin",
            "integration/test_spelled_paths.py",
        ),
        (
            "tables",
            "index/write",
            "streaming/settings.py",
            "tailbit/upkeep/status.py",
            "tests/support/delta_builder.py",
            "tests/support/judged.py",
            "tests/support/odd_logs.py",
            "tests/support/odd_metadata.py",
            "tests/support/hudi_states.py",
        ),
    ),
    Suite(
        "tables of Glue and of a Hive metastore",
        ("integration/test_iceberg_catalogs.py",),
        (
            "tables/iceberg",
            "tables/storage",
            "tests/support/catalog_servers.py",
            "tests/support/iceberg_catalog.py",
        ),
    ),
    Suite(
        "pages in a browser",
        ("e2e/test_browser.py",),
        ("streaming", "checkpoints", "tests/support/browser.py"),
        ("chromium",),
    ),
    Suite(
        "alerts by a real Prometheus and Alertmanager",
        ("unit/streaming/watch/test_alertmanager.py",),
        ("streaming/watch", "streaming/many", "checkpoints", "deploy/prometheus"),
        ("prometheus", "prometheus-alertmanager"),
    ),
    Suite(
        "executors in processes of their own, and a cluster that is silent",
        ("fault/test_executors.py", "fault/test_silent_cluster.py", "fault/test_questions_on_a_cluster.py"),
        (
            "streaming",
            "checkpoints",
            "index/write",
            "index/query",
            "index/grouping",
            "tables/storage",
            "tailbit/spark/portions.py",
            "tailbit/spark/table.py",
            "tests/support/cluster_questions.py",
        ),
    ),
    Suite(
        "an indexer that is killed or hangs, of one table and of many",
        (
            "fault/test_kill_points.py",
            "fault/test_kill_points_hudi.py",
            "fault/test_kill_points_many.py",
            "fault/test_kill_object_store.py",
            "fault/test_kill_spark.py",
            "fault/test_hangs.py",
            "fault/test_hangs_many.py",
            "fault/test_many_tables.py",
            "fault/test_live_writers.py",
            "fault/test_always_on.py",
        ),
        (
            "streaming",
            "checkpoints",
            "index/kinds",
            "index/maintenance",
            "index/store",
            "index/write",
            "index/model.py",
            "index/sql/terms.py",
            "tables/storage",
            "tables/delta",
            "tables/hudi",
            "tables/iceberg",
            "tables/open.py",
            "tables/__init__.py",
            "tailbit/cli",
            "tailbit/base/faults.py",
        ),
    ),
    Suite(
        "a newer release takes over, and a soak",
        ("fault/test_upgrade.py", "fault/test_soak.py"),
        (
            "streaming",
            "checkpoints",
            "index/store",
            "index/maintenance",
            "tests/support/soak",
        ),
    ),
    Suite(
        "installation from an index of packages, and of the files of a release",
        ("e2e/test_stranger.py", "e2e/test_release.py"),
        (
            "README.md",
            "Makefile",
            "tailbit/cli",
            "LICENSE",
            "NOTICE",
            "tests/support/licences.py",
            "tests/support/release.py",
            "tailbit/spark/acceleration.py",
            "tailbit/spark/helper.py",
            "tailbit/spark/jar.py",
            "tailbit/spark/java",
            "streaming/java/session.py",
        ),
    ),
    Suite(
        "the Helm chart",
        ("unit/test_chart.py",),
        ("deploy/helm", "deploy/kubernetes", "streaming/config/read.py", "Makefile"),
    ),
    Suite(
        "lessons that start Spark",
        ("e2e/test_examples.py::test_a_lesson_in_a_session_of_its_own_prints_what_stands_beside_it",),
        ("examples", "tailbit/spark", "streaming", "checkpoints"),
    ),
    Suite(
        "the demonstrations",
        ("e2e/test_demo.py",),
        (
            "examples/demo",
            "tailbit/cli/entry.py",
            "streaming/job.py",
            "tests/support/followed_demo.py",
            "tests/support/hudi_demo.py",
            "tests/support/iceberg_demo.py",
            "tests/support/iceberg_catalog.py",
        ),
    ),
    Suite(
        "the site and its links",
        ("unit/test_site.py", "e2e/test_site_in_browser.py"),
        (
            "docs",
            "README.md",
            "SECURITY.md",
            "CHANGELOG.md",
            "mkdocs.yml",
            "examples",
            "benchmarks",
            "deploy",
            "tests/support/site_pages.py",
            "tests/support/site_versions.py",
        ),
        ("chromium",),
    ),
)


def proven(page: Path = PAGE) -> dict[str, tuple[str, str]]:
    """Return the day and the digest of each suite that a page says has passed, by its subject."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    rows = text.partition(BEGIN)[2].partition(END)[0]
    return {subject: (day, digest) for subject, day, digest in PROVEN.findall(rows)}


def rooms_of(suite: Suite) -> tuple[str, ...]:
    """Return the files and folders that a suite concerns, with those of its tests."""
    return (*COMMON, *suite.rooms, *(f"tests/{test.partition('::')[0]}" for test in suite.tests))


def digest_of(suite: Suite, root: Path = ROOT) -> str | None:
    """Return a digest of a suite and of the names and bytes of the files that it concerns.

    None where it cannot be known which files there are: outside of a Git checkout, and without Git.
    """
    if shutil.which("git") is None:
        return None
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *rooms_of(suite)]
    listing = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if listing.returncode:
        return None
    hashed = hashlib.blake2b(repr(suite).encode(), digest_size=16)
    for name in sorted({name for name in listing.stdout.split("\0") if (root / name).is_file()}):
        content = _content(root / name)
        hashed.update(f"{name}\0{len(content)}\0".encode())
        hashed.update(content)
    return hashed.hexdigest()


def _content(path: Path) -> bytes:
    """Return the bytes of a file; of the page without what is recorded there."""
    content = path.read_bytes()
    if path.parts[-2:] != PAGE.parts[-2:]:
        return content
    before, _, rest = content.partition(BEGIN.encode())
    return before + rest.partition(END.encode())[2]


def due(digests: Mapping[str, str | None], passed: Mapping[str, tuple[str, str]]) -> Iterator[Suite]:
    """Yield the suites that no row of a page says have passed with the files of today."""
    for suite in NIGHTLY:
        digest = digests.get(suite.subject)
        if digest is None or passed.get(suite.subject, ("", ""))[1] != digest:
            yield suite


def left_out() -> list[Suite]:
    """Return the suites that a run of today's files may leave to the night."""
    run = list(due({suite.subject: digest_of(suite) for suite in NIGHTLY}, proven()))
    return [suite for suite in NIGHTLY if suite not in run]


def is_of(nodeid: str, suite: Suite) -> bool:
    """Return whether a test, named as pytest names it from the repository's root, belongs to a suite.

    >>> site = Suite("the site", ("unit/test_site.py", "e2e/test_a.py::test_b"), ())
    >>> [is_of(f"tests/{name}", site) for name in ("unit/test_site.py::test_x", "e2e/test_a.py::test_b[1]")]
    [True, True]
    >>> is_of("tests/e2e/test_a.py::test_bc", site)
    False
    """
    name = nodeid.removeprefix("tests/")
    return name.partition("::")[0] in suite.tests or name.partition("[")[0] in suite.tests


def summary(suites: Iterable[Suite]) -> list[str]:
    """Return the lines that say what a run left out and since when it is proven."""
    passed = proven()
    return [
        f"left to the night, since nothing that it concerns has changed since {passed[suite.subject][0]}:"
        f" {suite.subject} ({', '.join(suite.tests)})"
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
