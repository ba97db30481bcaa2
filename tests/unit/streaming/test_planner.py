"""The planner: freezing, looking, describing."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.drive import Drive
from support.tables import append
from tailbit.errors import (
    CommitGapError,
    IndexerRunningError,
    NotATableError,
    RequirementError,
    StorageError,
    TailbitError,
    UnknownColumnError,
    UnsupportedFeatureError,
    UnusableStorageError,
    UsageError,
    VersionNotFoundError,
)
from tailbit.index.maintenance.create import ask_for_round
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.java.session import check_java, session_settings
from tailbit.streaming.many import application
from tailbit.streaming.many.states import LONGEST_S, Standing, state_after, states_of
from tailbit.streaming.planner import CHECK_EVERY, Planner
from tailbit.streaming.settings import StreamSettings, milliseconds
from tailbit.streaming.watch.view import TableState
from tailbit.tables import open_table
from tailbit.tables.storage import open_storage
from tailbit.tables.storage.local import LocalStorage


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    append(path)
    append(path)
    return path


@pytest.fixture
def drive(table: str, tmp_path: Path) -> Drive:
    found = Drive(table, tmp_path / "i", ["v"])
    found.drain()
    return found


@pytest.mark.parametrize("polls", [1, CHECK_EVERY])
def test_a_planner_in_an_object_store_finds_what_another_user_of_its_objects_has_seen_before(
    polls: int, drive: Drive, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an application the filling shares the objects of table and index with the planner."""
    monkeypatch.setattr(LocalStorage, "remote", True)
    now, settings = [0.0], StreamSettings(poll_ms=50)
    shared, index = open_table(table), MetadataTable.open(drive.index.path)
    found = Planner(shared, index, settings, clock=lambda: now[0])
    start = drive.position
    assert found.next(start) == start
    if polls == 1:
        append(table)
    else:
        ask_for_round(drive.index)
    shared.head()
    index.refresh()
    ends = []
    for _ in range(polls):
        now[0] += 0.051
        ends.append(found.next(start))
    assert ends[:-1] == [start] * (polls - 1)
    assert ends[-1] != start
    assert found.lag(start).versions == (1 if polls == 1 else 0)


def test_there_is_no_report_before_the_first_look(drive: Drive, table: str) -> None:
    found = Planner(open_table(table), MetadataTable.open(drive.index.path), StreamSettings())
    assert found.report() is None
    found.next(drive.position)
    assert found.report() is not None


@pytest.mark.parametrize(
    ("text", "ms"),
    {
        "500ms": 500,
        "2s": 2000,
        "1 minute": 60_000,
        "0": 0,
        "1.5": 1500,
        "2m": 120_000,
        "1h": 3_600_000,
    }.items(),
)
def test_a_trigger_is_a_length_of_time(text: str, ms: int) -> None:
    assert milliseconds(text) == ms


@pytest.mark.parametrize("text", ["", "soon", "-1s", "5 parsecs", "1s2s"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="length of time"):
        milliseconds(text)


def test_one_machine_gets_few_partitions_and_a_cluster_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert session_settings("local[2]")["spark.sql.shuffle.partitions"] == "2"
    assert "spark.hadoop.fs.file.impl" not in session_settings("spark://host:7077")
    assert session_settings("local[2]", ui=False)["spark.ui.enabled"] == "false"
    for name in ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    larger = session_settings("local[2]", extra={"spark.driver.memory": "4g"})
    assert larger["spark.driver.memory"] == "4g"
    sessions = (session_settings("local[2]"), larger, session_settings("spark://host:7077"))
    options = [settings["spark.driver.extraJavaOptions"] for settings in sessions]
    assert all("-XX:TieredStopAtLevel=1" in given for given in options)
    assert ["GC" in given for given in options] == [True, False, False]
    often = "spark.cleaner.periodicGC.interval"
    assert [often in settings for settings in sessions] == [True, False, False]
    short = session_settings("spark://host:7077", short=True)
    assert "GC" in short["spark.driver.extraJavaOptions"]


def java(folder: Path, version: str) -> str:
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!{sys.executable}\nimport sys\nsys.stderr.write('openjdk version \"{version}\"')\n")
    binary.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.1"])
def test_java_17_and_newer_will_do(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", java(tmp_path, version))
    check_java()


@pytest.mark.parametrize(("version", "major"), [("1.8.0_402", 8), ("11.0.2", 11)])
def test_an_older_java_is_refused_with_what_to_install(
    version: str, major: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", java(tmp_path, version))
    with pytest.raises(RequirementError, match=f"Java {major} is too old") as refused:
        check_java()
    assert "openjdk-17" in refused.value.hint


def test_a_missing_java_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RequirementError, match="Java is not installed") as refused:
        check_java()
    assert "openjdk-17" in refused.value.hint


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (NotATableError(path="t"), TableState.WAITING),
        (IndexerRunningError(owner="o", path="t", age=1.0, limit=30.0), TableState.WAITING),
        (StorageError(path="t", reason="slow"), TableState.RETRYING),
        (OSError("a worker is gone"), TableState.RETRYING),
        (UnusableStorageError(path="t", reason="no such bucket"), TableState.RETRYING),
        (CommitGapError(path="t", first=0, found=10), TableState.RETRYING),
        (VersionNotFoundError(path="t", version=3), TableState.RETRYING),
        (UnsupportedFeatureError(path="t", version=1, feature="f"), TableState.REFUSED),
        (UnknownColumnError(column="c"), TableState.REFUSED),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_a_failure_waits_is_tried_again_or_needs_a_person(error: Exception, state: TableState) -> None:
    standing = Standing()
    standing.failed(error)
    assert standing.state is state_after(error) is state
    assert isinstance(error, TailbitError) == bool(standing.remedy)


def test_the_pauses_double_up_to_the_longest_and_never_end() -> None:
    now = 0.0
    standing = Standing(clock=lambda: now)
    pauses = []
    for _ in range(2000):
        standing.failed(StorageError(path="t", reason="slow"))
        pauses.append(standing.retry_at - now)
        assert not standing.is_due
        now = standing.retry_at
        assert standing.is_due
    assert pauses[:4] == [0.5, 1.0, 2.0, 4.0]
    assert pauses[-1] == LONGEST_S
    standing.worked()
    standing.failed(StorageError(path="t", reason="slow"))
    assert standing.retry_at - now == 0.5


def test_a_failure_of_java_is_one_line_that_does_not_change() -> None:
    standing = Standing()
    said = (
        "An error occurred while calling o{}.collect.\n: org.apache.spark.SparkException: lost\n\tat x.Y(Z)"
    )
    assert standing.failed(ValueError(said.format(12)))
    assert standing.reason == "ValueError: org.apache.spark.SparkException: lost"
    assert not standing.failed(ValueError(said.format(13)))


def test_states_that_could_not_be_written_are_written_at_the_next_chance(tmp_path: Path) -> None:
    tables = SimpleNamespace(
        states=lambda: [{"id": "orders", "state": "refused", "reason": "no"}],
        standings=lambda: [("orders", "refused", "no")],
    )
    place = open_storage(str(tmp_path / "lease"))
    before = application._write_states(tables, place, "")  # type: ignore[arg-type]
    assert (before, states_of(place)) == ("", {})
    place.make_root()
    after = application._write_states(tables, place, before)  # type: ignore[arg-type]
    assert after
    assert states_of(place)["orders"]["state"] == "refused"
