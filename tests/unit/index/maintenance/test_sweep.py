"""An index at work: what has left it is deleted in time, what somebody may still read is not."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.index_records import counts, ledger, new_index, record
from support.tables import index_of
from tailbit.index.kinds.files import FILES
from tailbit.index.maintenance.merge import merge_all
from tailbit.index.maintenance.vacuum import KEPT_S, LIST_EVERY_S, UNCOMMITTED_HOURS, Sweeper
from tailbit.index.store.table import MetadataTable
from tailbit.tables.storage import LocalStorage


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def on_disk(path: Path) -> list[str]:
    return sorted(str(p.relative_to(path)) for p in path.glob("kind=*/*"))


def test_the_folder_of_an_index_at_work_holds_no_more_than_what_lives_and_what_left_in_the_last_ten_minutes(
    tmp_path: Path,
) -> None:
    index, clock = new_index(str(tmp_path)), Clock()
    sweeper = Sweeper(MetadataTable.open(str(tmp_path)), clock=clock)
    for number in range(60):
        index.commit([record(f"f{number}")], [counts(index, "c", {b"x": 1})], ledger(number))
        merge_all(index)
        clock.now += KEPT_S / 10
        sweeper.sweep()
        per_kind = Counter(path.partition("/")[0] for path in on_disk(tmp_path))
        assert max(per_kind.values()) <= 11 + 2 * 8, per_kind
    clock.now += KEPT_S
    sweeper.sweep()
    assert on_disk(tmp_path) == sorted(index.state.files)
    assert MetadataTable.open(str(tmp_path)).state.value_counts("c")[1].tolist() == [60]


def test_an_open_answer_keeps_working_for_ten_minutes_while_merge_and_sweep_run(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    for number in range(9):
        write_deltalake(table, pa.table({"v": [number, 7]}), mode="append")
        index_of(table, ["v"])
    index, clock = MetadataTable.open(f"{table}/_tailbit"), Clock()
    sweeper = Sweeper(MetadataTable.open(f"{table}/_tailbit"), clock=clock)
    answer = tailbit.open(table).where("v = 7")
    assert merge_all(index) > 0
    sweeper.sweep()
    clock.now += KEPT_S - 1
    assert sweeper.sweep() == []
    assert (answer.count(), answer.files_scanned, answer.damaged) == (10, 0, [])
    clock.now += 1
    assert sweeper.sweep() != []
    late = tailbit.open(table).where("v = 7")
    assert (late.count(), late.files_scanned) == (10, 0)


def test_a_sweep_spares_what_a_batch_in_flight_has_written_and_not_yet_committed(tmp_path: Path) -> None:
    index, clock = new_index(str(tmp_path)), Clock()
    sweeper = Sweeper(MetadataTable.open(str(tmp_path)), clock=clock)
    written = counts(index, "c", {b"x": 1})
    for _ in range(3):
        clock.now += KEPT_S
        sweeper.sweep()
    index.commit([record("f")], [written], ledger(0))
    assert written.path in on_disk(tmp_path)


def test_a_sweep_deletes_what_a_killed_writer_left_six_hours_ago(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    orphan = FILES.write(index.storage, FILES.schema.empty_table()).path
    os.utime(tmp_path / orphan, (1, 1))
    assert Sweeper(MetadataTable.open(str(tmp_path))).sweep() == [orphan]


def test_where_the_clock_jumps_by_a_day_while_a_batch_is_in_flight_its_files_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, clock, start = new_index(str(tmp_path)), Clock(), time.time()
    jump = 0.0
    monkeypatch.setattr(LocalStorage, "clock_ms", lambda _: int((start + clock.now + jump) * 1000))
    sweeper = Sweeper(MetadataTable.open(str(tmp_path)), clock=clock)
    written, orphan = (counts(index, "c", {b"x": 1}) for _ in range(2))
    jump = 86400.0
    for _ in range(int(UNCOMMITTED_HOURS) - 1):
        assert sweeper.sweep() == []
        clock.now += LIST_EVERY_S
    index.commit([record("f")], [written], ledger(0))
    clock.now += 2 * LIST_EVERY_S
    assert sweeper.sweep() == [orphan.path]
    assert written.path in on_disk(tmp_path)


def test_files_that_an_index_put_back_from_a_backup_names_again_stay(tmp_path: Path) -> None:
    index, clock = new_index(str(tmp_path / "i")), Clock()
    for number in range(9):
        index.commit([record(f"f{number}")], [counts(index, "c", {b"x": 1})], ledger(number))
    shutil.copytree(tmp_path / "i", tmp_path / "backup")
    sweeper = Sweeper(MetadataTable.open(str(tmp_path / "i")), clock=clock)
    merge_all(index)
    sweeper.sweep()
    shutil.rmtree(tmp_path / "i")
    shutil.copytree(tmp_path / "backup", tmp_path / "i")
    clock.now += KEPT_S
    sweeper.sweep()
    found = MetadataTable.open(str(tmp_path / "i"))
    assert set(found.state.files) <= set(on_disk(tmp_path / "i"))
    assert found.state.value_counts("c")[1].tolist() == [9]
