"""A helper whose answers are late: it is left to finish them, and no query waits longer than it may."""

from __future__ import annotations

import signal
import stat
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from support.acceleration import PATIENT, helper_of, kill, logged, rows_of
from support.spark_session import session_settings
from support.tables import index_of
from support.waiting import HANG_S
from tailbit.spark.acceleration import Acceleration

TABLES, TILES = 5, 10


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Tables of four files, indexed."""
    folder = tmp_path_factory.mktemp("slow")
    paths = [str(folder / f"t{number}") for number in range(TABLES)]
    for path in paths:
        for file in range(4):
            rows = {"i": range(100 * file, 100 * file + 100), "k": ["a"] * 100}
            write_deltalake(path, pa.table(rows), mode="append")
        index_of(path, ["i", "k"])
    return paths


@contextmanager
def slow_helper(accelerated: Acceleration, folder: Path, before: str) -> Iterator[None]:
    """Let a helper answer that runs some code before each answer, of `request`."""
    script, spark = folder / "python", accelerated._spark
    script.write_text(
        f"#!{sys.executable}\nimport time\nfrom tailbit.spark import helper\n"
        "answered, seen = helper.Helper._answered, set()\n"
        "def slowly(self, request, *rest):\n"
        f"    {before}\n"
        "    return answered(self, request, *rest)\n"
        "helper.Helper._answered = slowly\nhelper.main()\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    exchange(accelerated, str(script))
    try:
        yield
    finally:
        spark.conf.set("spark.tailbit.budgetMs", str(PATIENT))
        exchange(accelerated, sys.executable)


def exchange(accelerated: Acceleration, python: str) -> None:
    """Put the helper of another Python in the place of the one that runs, and wait for it."""
    entry, spark, old = accelerated._entry, accelerated._spark, helper_of(accelerated)
    spark.conf.set("spark.tailbit.python", python)
    kill(old, signal.SIGKILL)
    end = time.monotonic() + HANG_S
    while helper_of(accelerated) in (old, -1) or entry.ready(1000):
        assert time.monotonic() < end
        entry.attach(spark._jsparkSession)
        time.sleep(0.1)
    entry.forget()


def test_a_helper_that_opens_many_tables_for_questions_of_one_moment_lives_until_they_are_served(
    accelerated: Acceleration, paths: list[str], tmp_path: Path
) -> None:
    spark = accelerated._spark
    counts = [
        f"SELECT count(*) FROM delta.`{paths[tile % TABLES]}` WHERE i < {tile + 9}" for tile in range(TILES)
    ]
    opening = "request.root in seen or (seen.add(request.root), time.sleep(3))"
    with (
        slow_helper(accelerated, tmp_path, opening),
        logged(spark) as lines,
        ThreadPoolExecutor(TILES) as threads,
    ):
        process, end = helper_of(accelerated), time.monotonic() + HANG_S
        spark.conf.set("spark.tailbit.budgetMs", "1000")
        served = 0
        while served < TILES and time.monotonic() < end:
            before = accelerated.served("counts")
            answers = list(threads.map(lambda text: spark.sql(text).collect()[0][0], counts))
            assert answers == [tile + 9 for tile in range(TILES)]
            assert helper_of(accelerated) == process, lines()
            served = accelerated.served("counts") - before
            time.sleep(1)
        assert served == TILES
        assert not [line for line in lines() if "is gone" in line]


LATE = (
    ("counts", "SELECT count(*) FROM delta.`{path}` WHERE i < 37"),
    ("counts", "SELECT count(DISTINCT i), count(DISTINCT k) FROM delta.`{path}`"),
    ("groups", "SELECT i, count(*) FROM delta.`{path}` WHERE i < 5 GROUP BY i"),
    ("rows", "SELECT k, i FROM delta.`{path}` WHERE i IN (3, 333)"),
)


@pytest.mark.parametrize(("mode", "text"), LATE)
def test_what_is_asked_in_vain_for_lack_of_time_is_answered_beside_and_served_from_then_on(
    accelerated: Acceleration, paths: list[str], tmp_path: Path, mode: str, text: str
) -> None:
    spark, statement = accelerated._spark, text.format(path=paths[0])
    settings = {"spark.tailbit.knownMs": "600000"}
    with slow_helper(accelerated, tmp_path, "request.want == 'known' or time.sleep(2)"):
        with session_settings(spark, settings):
            spark.sql(f"SELECT k FROM delta.`{paths[0]}` WHERE i = 1").collect()
            spark.conf.set("spark.tailbit.budgetMs", "100")
            expected = rows_of(spark, statement)
            assert [scan.served for scan in accelerated.last()] == [None]
            asked, end = accelerated.questions(), time.monotonic() + HANG_S
            while accelerated.last()[0].served != mode:
                assert time.monotonic() < end
                time.sleep(0.5)
                assert rows_of(spark, statement) == expected
            # And so is each that follows: the process would be as slow again.
            assert rows_of(spark, statement) == expected
            assert accelerated.last()[0].served == mode
            # Distinct values of two columns are groups for the late rule, since Spark has rewritten them.
            assert accelerated.questions() <= asked + text.count("DISTINCT") // 2


def test_the_scans_of_a_query_share_the_time_that_it_waits_for_rows(
    accelerated: Acceleration, paths: list[str], tmp_path: Path
) -> None:
    spark = accelerated._spark
    scan = "SELECT k FROM delta.`{}` WHERE i = {}"
    scans = [scan.format(path, 150 + n) for n, path in enumerate([*paths, *paths])]
    slow = "if request.want == 'rows': time.sleep(0.8); raise helper.Declined('late')"
    with slow_helper(accelerated, tmp_path, slow):
        spark.conf.set("spark.tailbit.serve", "files,rows")
        for path in paths:
            spark.sql(scan.format(path, 7)).collect()
        spark.conf.set("spark.tailbit.budgetMs", "200")
        assert spark.sql(" UNION ALL ".join(scans)).count() == len(scans)
        spark.conf.unset("spark.tailbit.serve")
        first, *others = (scan.reason for scan in accelerated.last())
    assert first == "helper-late"
    assert {*others} <= {"late", "helper-paused"}
