"""SIGKILL and SIGTERM to the shipped command on real Spark; it goes on as if nothing had been."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.contents import contents_of
from support.drive import Drive
from support.profiles import variants
from support.shipped import covered
from support.tables import rows, three_commits
from support.waiting import HANG_S, wait_until
from tailbit.errors import StreamError

pytestmark = pytest.mark.spark


@pytest.fixture
def table(tmp_path: Path) -> str:
    return written(tmp_path)


def written(folder: Path) -> str:
    return three_commits(str(folder / "orders"))


@pytest.fixture
def tailbit_run(table: str) -> Any:
    """Start `tailbit run` in a session of its own; whatever is left of it is killed in the end."""
    processes: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, fault: str | None = None) -> subprocess.Popen[str]:
        processes.append(run(table, *arguments, fault=fault))
        return processes[-1]

    yield begin
    for process in processes:
        kill(process)


def run(table: str, *arguments: str, fault: str | None = None) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if name != "TAILBIT_FAULT"}
    if fault is not None:
        environment["TAILBIT_FAULT"] = fault
    return subprocess.Popen(
        [sys.executable, "-m", "tailbit.cli", "run", table, "--json", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@dataclass(frozen=True)
class Following:
    """An indexer that has taken in a commit that came while it ran, version 3."""

    table: str
    process: subprocess.Popen[str]


@pytest.fixture(scope="module")
def following(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Following]:
    """One indexer for the tests that look at it, and for the one that ends it."""
    table = written(tmp_path_factory.mktemp("following"))
    process = run(table, "--columns", "k,v")
    try:
        wait(lambda: covered(table) == 2, process)
        write_deltalake(table, rows(30), mode="append")
        wait(lambda: covered(table) == 3, process)
        yield Following(table, process)
    finally:
        kill(process)


def kill(process: subprocess.Popen[str]) -> None:
    """The whole session dies, the JVM too; one that has ended already is left in peace."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def wait(what: Callable[[], Any], process: subprocess.Popen[str]) -> None:
    """Return once `what` is true; its process must not end before."""
    wait_until(what, lambda: None if process.poll() is None else process.communicate()[1])


def checked(table: str, tmp_path: Path) -> None:
    Drive(table, tmp_path / "whole", ["k", "v"]).drain()
    assert contents_of(f"{table}/_tailbit") == contents_of(str(tmp_path / "whole"))
    assert tailbit.open(table).verify().sound


def test_a_query_whose_java_is_gone_ends_with_a_stream_error_and_can_be_started_again(
    table: str, tmp_path: Path, tailbit_run: Any
) -> None:
    process = tailbit_run("--columns", "k,v")
    wait(lambda: covered(table) == 2, process)
    java = [child for child in psutil.Process(process.pid).children(recursive=True) if child.name() == "java"]
    java[0].kill()
    _, error = process.communicate(timeout=HANG_S)
    assert process.returncode == 75, error
    assert len(told := error.splitlines()) == 2, error
    assert told[0].startswith(f"{StreamError.__name__}: the Spark query ended: its Java process is gone")
    assert "_checkpoint" not in told[1]
    write_deltalake(table, rows(30), mode="append")
    again = tailbit_run("--once")
    again.communicate(timeout=HANG_S)
    assert again.returncode == 0
    checked(table, tmp_path)


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
    table: str, tmp_path: Path, tailbit_run: Any, fault: str
) -> None:
    first = tailbit_run("--columns", "k,v", fault=f"{fault}=kill")
    first.communicate(timeout=HANG_S)
    assert first.returncode == -signal.SIGKILL
    assert covered(table) == 2
    write_deltalake(table, rows(30), mode="append")
    again = tailbit_run("--once")
    out, error = again.communicate(timeout=HANG_S)
    assert again.returncode == 0, error
    assert "Traceback" not in error
    told = [json.loads(line) for line in (out + error).splitlines() if line.startswith("{")]
    assert sum(line["files"] for line in told if "files" in line) == 1
    assert covered(table) == 3
    checked(table, tmp_path)


def test_the_job_description_in_the_spark_ui_shows_table_versions_and_lag(following: Following) -> None:
    wait(lambda: any(DESCRIPTION.fullmatch(text) for text in descriptions()), following.process)


def test_the_list_of_jobs_in_the_spark_ui_ends_with_up_to_date_once_it_is_so(following: Following) -> None:
    # Other Sparks may be at work on this machine: each has a list of its own.
    wait(
        lambda: "orders · v3 of v3 · up to date" in [listed[0] for listed in lists() if listed],
        following.process,
    )


def test_sigterm_finishes_the_batch_and_exits_0_without_a_traceback(
    following: Following, tmp_path: Path
) -> None:
    write_deltalake(following.table, rows(40), mode="append")
    wait(lambda: covered(following.table) == 4, following.process)
    following.process.send_signal(signal.SIGTERM)
    _, error = following.process.communicate(timeout=HANG_S)
    assert following.process.returncode == 0, error
    assert "Traceback" not in error
    assert "Exception" not in error
    checked(following.table, tmp_path)


DESCRIPTION = re.compile(r"orders · v2 of v3 · 1 version, 1 file, \d+\.\d s behind")


def lists() -> list[list[str]]:
    """The descriptions of jobs, the newest first, in each Spark UI of this machine."""
    return [[job.get("description", "") for job in _ui(port)] for port in range(4040, 4056)]


def descriptions() -> list[str]:
    """The descriptions of all jobs of indexers, in whatever Spark UI of this machine."""
    return [description for listed in lists() for description in listed]


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


def test_wrong_use_and_problems_have_their_exit_status_and_two_lines(table: str, tailbit_run: Any) -> None:
    wrong = tailbit_run("--once")
    _, error = wrong.communicate(timeout=HANG_S)
    assert (wrong.returncode, len(error.splitlines())) == (78, 2), error
    assert "--columns" in error
    poison = Path(DeltaTable(table).file_uris()[0].removeprefix("file://"))
    poison.unlink()
    for told in ("questions read it", "not indexed, 1 data file"):
        once = tailbit_run("--columns", "v", "--once")
        notices, error = once.communicate(timeout=HANG_S)
        assert once.returncode == 0, error
        assert told in notices
        assert poison.name in notices
    assert "Traceback" not in error
