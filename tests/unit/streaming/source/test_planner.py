"""The planner: waiting, draining, freezing, describing."""

from __future__ import annotations

import pickle
import shutil
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from support.drive import Drive
from tailbit.checkpoints.offset import Offset
from tailbit.index.maintenance.new_round import ask_for_round
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.control import Control
from tailbit.streaming.settings import StreamSettings
from tailbit.streaming.source.log_source import LogReader, offsets_of
from tailbit.streaming.source.planner import CHECK_EVERY, Planner
from tailbit.tables import open_table
from tailbit.tables.storage.local import LocalStorage


def append(path: str, count: int = 3) -> None:
    write_deltalake(path, pa.table({"v": ["a"] * count}), mode="append")


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


class Clock:
    """A clock that only sleeping moves; `at_sleep` happens in the second nap."""

    def __init__(self, at_sleep: list[object] | None = None) -> None:
        self.now, self.naps = 0.0, 0
        self.at_sleep = at_sleep or []

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.naps += 1
        if self.naps == 2:
            for act in self.at_sleep:
                assert callable(act)
                act()


def planner(drive: Drive, clock: Clock, control: Control | None = None) -> Planner:
    settings = StreamSettings(poll_ms=50, wait_ms=475)
    table, index = open_table(drive.table.root), MetadataTable.open(drive.index.path)
    return Planner(table, index, settings, control, clock.sleep, lambda: clock.now)


def test_an_idle_planner_answers_after_its_wait(drive: Drive) -> None:
    clock = Clock()
    assert planner(drive, clock).next(drive.position) == drive.position
    assert (clock.naps, round(clock.now, 3)) == (10, 0.5)


def test_a_commit_is_picked_up_while_waiting(drive: Drive, table: str) -> None:
    clock = Clock([lambda: append(table)])
    end = planner(drive, clock).next(drive.position)
    assert (end.stands_at, clock.naps) == (2, 2)


def test_a_planner_that_is_asked_to_drain_says_so_and_starts_nothing(drive: Drive, table: str) -> None:
    append(table)
    control = Control.make()
    control.ask_to_drain()
    assert planner(drive, Clock(), control).next(drive.position) == drive.position
    assert control.drained
    control.remove()


def test_a_wait_ends_when_the_run_is_to_drain(drive: Drive) -> None:
    control = Control.make()
    clock = Clock([control.ask_to_drain])
    assert planner(drive, clock, control).next(drive.position) == drive.position
    assert clock.naps == 2
    control.remove()


def test_a_frozen_planner_reads_nothing_that_came_later(drive: Drive, table: str) -> None:
    append(table)
    clock = Clock()
    found = planner(drive, clock)
    found.freeze()
    append(table)
    end = found.next(drive.position)
    assert end.stands_at == 2
    drive.indexer.apply(drive.position, end, drive.origin)
    assert found.next(end) == end
    assert clock.naps == 0


@pytest.mark.parametrize("polls", [1, CHECK_EVERY])
def test_a_planner_in_an_object_store_finds_what_another_user_of_its_objects_has_seen_before(
    polls: int, drive: Drive, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an application the filling shares the objects of table and index with the planner."""
    monkeypatch.setattr(LocalStorage, "remote", True)
    clock, settings = Clock(), StreamSettings(poll_ms=50, wait_ms=0)
    shared, index = open_table(table), MetadataTable.open(drive.index.path)
    found = Planner(shared, index, settings, clock=lambda: clock.now)
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
        clock.now += 0.051
        ends.append(found.next(start))
    assert ends[:-1] == [start] * (polls - 1)
    assert ends[-1] != start
    assert found.lag(start).versions == (1 if polls == 1 else 0)


def rows_of(table: str, start: Offset, end: Offset) -> list[tuple[int, str]]:
    """The rows that Spark reads for a range, which passes from the planner to a worker by pickle."""
    return read_by(LogReader({"path": table}), start, end)


def read_by(reader: LogReader, start: Offset, end: Offset) -> list[tuple[int, str]]:
    partitions = pickle.loads(pickle.dumps(reader.partitions(start.to_json(), end.to_json())))
    return [row for partition in partitions for row in reader.read(partition)]


def test_spark_counts_a_row_for_each_version_of_a_range(drive: Drive, table: str) -> None:
    for _ in range(3):
        append(table)
    DeltaTable(table).optimize.compact()
    start = drive.position
    end = planner(drive, Clock()).next(start)
    rows = rows_of(table, start, end)
    assert [version for version, _ in rows] == [2, 3, 4, 5]
    assert {offsets_of(text) for _, text in rows} == {(start, end)}
    assert rows_of(table, end, end) == []


def test_spark_counts_one_row_for_a_part_of_a_snapshot(table: str) -> None:
    parts = [Offset(2, 7, 0), Offset(2, 7, 20), Offset(2, 7, 40), Offset(2, 8)]
    assert [len(rows_of(table, start, end)) for start, end in pairwise(parts)] == [1, 1, 1]
    assert [version for version, _ in rows_of(table, Offset(1, 3), parts[0])] == [7]


def test_a_range_is_planned_without_a_look_at_the_log(table: str) -> None:
    reader = LogReader({"path": table})
    before = read_by(reader, Offset(1, 0), Offset(1, 2))
    shutil.rmtree(Path(table, "_delta_log"))
    assert read_by(reader, Offset(1, 0), Offset(1, 2)) == before


def test_the_report_has_the_head_and_the_lag_behind_it(drive: Drive, table: str) -> None:
    found = planner(drive, Clock())
    assert found.report() is None
    append(table)
    append(table)
    found.next(drive.position)
    report = found.report()
    assert report is not None
    assert report["version"] == 4
    assert (report["behind"]["versions"], report["behind"]["files"]) == (2, 2)
    assert report["behind"]["bytes"] > 0
