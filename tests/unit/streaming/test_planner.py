"""The planner: freezing, looking, describing."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.drive import Drive
from support.tables import append
from tailbit.index.maintenance.create import ask_for_round
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.planner import CHECK_EVERY, Planner
from tailbit.streaming.settings import StreamSettings
from tailbit.tables import open_table
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


def test_a_frozen_planner_reads_nothing_that_came_later(drive: Drive, table: str) -> None:
    append(table)
    found = Planner(open_table(table), MetadataTable.open(drive.index.path), StreamSettings())
    found.freeze()
    append(table)
    end = found.next(drive.position)
    assert end.stands_at == 2
    drive.indexer.apply(drive.position, end, drive.origin)
    assert found.next(end) == end


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
