"""SIGKILL and SIGTERM to the shipped command on real Spark; it goes on as if nothing had been."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.contents import contents_of
from support.drive import Drive
from support.profiles import variants
from support.shipped import Shipped
from support.tables import rows, three_commits
from support.waiting import HANG_S
from tailbit.errors import StreamError

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def following(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shipped]:
    """One indexer for the tests that look at it, and for the one that ends it.

    It has taken in a commit that came while it ran, version 3.
    """
    folder = tmp_path_factory.mktemp("following")
    run = Shipped(three_commits(str(folder / "orders")), folder / "output")
    run.start("--columns", "k,v")
    try:
        run.wait_covered(2)
        write_deltalake(run.table, rows(30), mode="append")
        run.wait_covered(3)
        yield run
    finally:
        run.kill_group()


def ended(run: Shipped) -> list[str]:
    """Await the end of a command; return what it has said in words."""
    run.process.wait(HANG_S)
    return [line for line in run.output.read_text().splitlines() if not line.startswith("{")]


def checked(table: str, tmp_path: Path) -> None:
    Drive(table, tmp_path / "whole", ["k", "v"]).drain()
    assert contents_of(f"{table}/_tailbit") == contents_of(str(tmp_path / "whole"))
    assert tailbit.open(table).verify().sound


def test_a_query_whose_java_is_gone_ends_with_a_stream_error_and_can_be_started_again(
    run: Shipped, tmp_path: Path
) -> None:
    run.start("--columns", "k,v")
    run.wait_covered(2)
    run.kill(run.descendants("java"))
    told = ended(run)
    assert (run.process.returncode, len(told)) == (75, 2), told
    assert told[0].startswith(f"{StreamError.__name__}: the Spark query ended: its Java process is gone")
    assert "_checkpoint" not in told[1]
    write_deltalake(run.table, rows(30), mode="append")
    run.start("--once")
    assert run.process.wait(HANG_S) == 0
    checked(run.table, tmp_path)


JAVA_ENDS_BEFORE_THE_ROWS_ARE_FETCHED = """
import os, signal, sys
from pyspark.sql import SparkSession
from tailbit.streaming.java.sources import collected

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
java = spark._jvm.java.lang.ProcessHandle.current().pid()
frame = spark.range(3)

class ThenKilled:
    def __init__(self, real): self.real = real
    def collectToPython(self):
        where = self.real.collectToPython()
        os.kill(java, signal.SIGKILL)
        spark.sparkContext._gateway.proc.wait()
        return where

frame._jdf = ThenKilled(frame._jdf)
try:
    collected(frame)
except ConnectionError:
    os._exit(17)
"""


def test_java_that_ends_before_a_job_s_rows_are_fetched_is_a_lost_connection() -> None:
    """pyspark 4.2 raises an UnboundLocalError there, which the thread of the warm-up printed."""
    ended = subprocess.run(
        [sys.executable, "-c", JAVA_ENDS_BEFORE_THE_ROWS_ARE_FETCHED],
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    assert ended.returncode == 17, ended.stderr


@pytest.mark.parametrize("fault", variants(["before_spark_commit", "after_commit"], 1))
def test_the_command_killed_between_index_commit_and_spark_commit_replays_nothing(
    run: Shipped, tmp_path: Path, fault: str
) -> None:
    run.start("--columns", "k,v", fault=f"{fault}=kill")
    assert run.process.wait(HANG_S) == -signal.SIGKILL
    assert run.covered() == 2
    write_deltalake(run.table, rows(30), mode="append")
    before = len(run.told())
    run.start("--once")
    said = ended(run)
    assert (run.process.returncode, "Traceback" in "".join(said)) == (0, False), said
    assert sum(line.get("files", 0) for line in run.told()[before:]) == 1
    assert run.covered() == 3
    checked(run.table, tmp_path)


def test_the_job_description_in_the_spark_ui_shows_table_versions_and_lag(following: Shipped) -> None:
    following.wait(lambda: any(DESCRIPTION.fullmatch(text) for listed in lists() for text in listed))


def test_the_list_of_jobs_in_the_spark_ui_ends_with_up_to_date_once_it_is_so(following: Shipped) -> None:
    # Other Sparks may be at work on this machine: each has a list of its own.
    following.wait(lambda: "orders · v3 of v3 · up to date" in [listed[0] for listed in lists() if listed])


def test_sigterm_finishes_the_batch_and_exits_0_without_a_traceback(
    following: Shipped, tmp_path: Path
) -> None:
    write_deltalake(following.table, rows(40), mode="append")
    following.wait_covered(4)
    assert following.terminate() == 0
    said = following.output.read_text()
    assert "Traceback" not in said
    assert "Exception" not in said
    checked(following.table, tmp_path)


DESCRIPTION = re.compile(r"orders · v2 of v3 · 1 version, 1 file, \d+\.\d s behind")


def lists() -> list[list[str]]:
    """The descriptions of jobs, the newest first, in each Spark UI of this machine."""
    return [[job.get("description", "") for job in _ui(port)] for port in range(4040, 4056)]


def _ui(port: int) -> list[dict[str, Any]]:
    base = f"http://127.0.0.1:{port}/api/v1/applications"
    try:
        with urllib.request.urlopen(base, timeout=HANG_S) as answer:
            applications = json.load(answer)
        if not applications[0]["name"].startswith("tailbit orders"):
            return []
        with urllib.request.urlopen(f"{base}/{applications[0]['id']}/jobs", timeout=HANG_S) as answer:
            return list(json.load(answer))
    except (OSError, ValueError):
        return []


def test_wrong_use_and_problems_have_their_exit_status_and_two_lines(run: Shipped) -> None:
    run.start("--once")
    said = ended(run)
    assert (run.process.returncode, len(said)) == (78, 2), said
    assert "--columns" in said[1]
    poison = Path(DeltaTable(run.table).file_uris()[0].removeprefix("file://"))
    poison.unlink()
    for told in ("questions read it", "not indexed, 1 data file"):
        before = len(run.output.read_text())
        run.start("--columns", "v", "--once")
        assert run.process.wait(HANG_S) == 0
        said_now = run.output.read_text()[before:]
        assert told in said_now
        assert poison.name in said_now
        assert "Traceback" not in said_now
