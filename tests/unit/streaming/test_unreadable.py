"""Data files that cannot be read: left out by name, tried again, posted once they can be read."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.drive import Drive, run_tasks
from support.tables import checked, index_of, rows, three_commits, with_vectors
from tailbit.errors import DataFileError, MalformedLogError, TailbitError
from tailbit.index.store.table import MetadataTable
from tailbit.index.write.work import BuildTask, TaskResult
from tailbit.streaming import sweeping
from tailbit.streaming.patience import is_transient
from tailbit.streaming.sweeping import FIRST_S, Retrier
from tailbit.tables.delta.actions import parse_deletion_vector
from tailbit.upkeep.status import status_of


@pytest.fixture
def table(tmp_path: Path) -> str:
    return three_commits(str(tmp_path / "t"))


@pytest.fixture
def index(tmp_path: Path) -> str:
    return str(tmp_path / "i")


@pytest.fixture
def poisoned(table: str, index: str) -> tuple[Drive, Path, bytes]:
    """A table whose last commit but one adds a file that is not Parquet, and that file's true bytes."""
    drive = Drive(table, index, ["v"])
    drive.drain()
    before = set(DeltaTable(table).file_uris())
    write_deltalake(table, rows(30), mode="append")
    poison = Path((set(DeltaTable(table).file_uris()) - before).pop().removeprefix("file://"))
    good = poison.read_bytes()
    poison.write_bytes(b"x" * len(good))
    write_deltalake(table, rows(5), mode="append")
    return drive, poison, good


@pytest.mark.parametrize("damage", ["missing", "not Parquet", "a page of the column"])
def test_a_live_file_that_cannot_be_read_is_left_out_by_name_and_the_rest_goes_on(
    poisoned: tuple[Drive, Path, bytes], table: str, index: str, damage: str
) -> None:
    drive, poison, good = poisoned
    if damage == "missing":
        poison.unlink()
    elif damage == "a page of the column":
        column = pq.read_metadata(pa.BufferReader(good)).row_group(0).column(1)
        start = column.dictionary_page_offset or column.data_page_offset
        poison.write_bytes(good[:start] + b"\xff" * 60 + good[start + 60 :])
    drive.drain()
    assert drive.index.state.ledger is not None
    assert drive.index.state.ledger.covered == DeltaTable(table).version()
    assert drive.index.state.recorded.unread() == [poison.name]
    [reason] = status_of(table, index)["not_covered"]
    assert poison.name in reason
    opened = tailbit.open(table, index)
    with pytest.raises(DataFileError, match=poison.name):
        opened.where("v = 'v1'").count()
    poison.write_bytes(good)
    data = DeltaTable(table).to_pyarrow_table()
    answer = opened.where("v = 'v1'")
    assert (answer.count(), answer.files_scanned) == (data["v"].to_pylist().count("v1"), 1)


def test_a_file_that_could_not_be_read_is_posted_by_a_new_round_once_it_can_be(
    poisoned: tuple[Drive, Path, bytes], table: str, index: str
) -> None:
    drive, poison, good = poisoned
    drive.drain()
    now = [0.0]
    retrier = Retrier(drive.table, MetadataTable.open(index), lambda: now[0])
    assert not retrier.look()
    poison.write_bytes(good)
    assert not retrier.look(), "it is not due yet"
    now[0] = FIRST_S
    assert retrier.look()
    assert not retrier.look(), "a round was asked for"
    drive.drain()
    assert (drive.index.state.recorded.unread(), drive.index.state.recorded.errors()) == ([], {})
    assert tailbit.open(table, index).where("v = 'v1'").files_scanned == 0
    assert not retrier.look()
    checked(table, index)


def test_a_file_is_tried_again_after_pauses_that_double_up_to_an_hour(
    poisoned: tuple[Drive, Path, bytes], index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive, _, _ = poisoned
    drive.drain()
    now, tried = [0.0], []
    monkeypatch.setattr(sweeping, "why_unreadable", lambda *_: tried.append(now[0]) or "bad")
    retrier = Retrier(drive.table, MetadataTable.open(index), lambda: now[0])
    while now[0] < 4 * 3600:
        assert not retrier.look()
        now[0] += 30
    pauses = [after - before for before, after in pairwise(tried)]
    assert pauses[:7] == [60, 120, 240, 480, 960, 1920, 3600]
    assert set(pauses[7:]) == {3600}


def test_of_many_files_that_cannot_be_read_all_are_left_out_at_once(table: str, index: str) -> None:
    for path in Path(table).glob("*.parquet"):
        path.write_bytes(b"x" * path.stat().st_size)
    runs: list[int] = []

    def run(tasks: Sequence[BuildTask]) -> list[TaskResult]:
        runs.append(len(tasks))
        return run_tasks(tasks)

    drive = Drive(table, index, ["v"], run=run)
    drive.drain()
    assert len(runs) == 2
    assert len(drive.index.state.recorded.unread()) == len(list(Path(table).glob("*.parquet")))


def test_a_file_that_was_away_for_a_moment_is_not_left_out(table: str, index: str) -> None:
    failing = [DataFileError(file=Path(DeltaTable(table).file_uris()[0]).name, reason="it is missing")]

    def run(tasks: Sequence[BuildTask]) -> list[TaskResult]:
        if failing:
            raise failing.pop()
        return run_tasks(tasks)

    drive = Drive(table, index, ["v"], run=run)
    drive.drain()
    assert not failing
    assert drive.index.state.recorded.unread() == []
    checked(table, index)


def test_files_whose_pages_cannot_be_read_are_found_in_two_looks_however_many_they_are(
    table: str, index: str
) -> None:
    Drive(table, index, ["v"]).drain()
    before = set(DeltaTable(table).file_uris())
    for first in range(30, 100, 10):
        write_deltalake(table, rows(first), mode="append")
    for uri in set(DeltaTable(table).file_uris()) - before:
        poison = Path(uri.removeprefix("file://"))
        data = poison.read_bytes()
        column = pq.read_metadata(poison).row_group(0).column(1)
        start = column.dictionary_page_offset or column.data_page_offset
        poison.write_bytes(data[:start] + b"\xff" * 60 + data[start + 60 :])
    runs: list[int] = []

    def run(tasks: Sequence[BuildTask]) -> list[TaskResult]:
        runs.append(len(tasks))
        return run_tasks(tasks)

    drive = Drive(table, index, run=run)
    drive.drain()
    assert (len(drive.index.state.recorded.unread()), len(runs)) == (7, 3)


def test_a_broken_deletion_vector_in_the_log_itself_leaves_its_file_out_by_name(tmp_path: Path) -> None:
    builder = with_vectors(str(tmp_path / "t"), files=3)
    vector = builder.inline_vector([0, 4])
    vector["pathOrInlineDv"] = "0" * len(vector["pathOrInlineDv"])
    builder.commit(builder.hide("f1.parquet", vector))
    drive = index_of(builder.path)
    assert drive.index.state.recorded.unread() == ["f1.parquet"]
    [reason] = status_of(builder.path)["not_covered"]
    assert "data file f1.parquet: deletion vector inline" in reason


def test_a_file_that_this_user_may_not_read_is_left_out_by_name_and_the_rest_goes_on(
    poisoned: tuple[Drive, Path, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    drive, poison, good = poisoned
    poison.write_bytes(good)

    def opened(path: str, mode: str = "rb") -> pa.NativeFile:
        if path == str(poison):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return file_of(path, mode)

    file_of = pa.OSFile
    monkeypatch.setattr(pa, "OSFile", opened)
    drive.drain()
    assert drive.index.state.recorded.unread() == [poison.name]
    [reason] = drive.index.state.recorded.errors()
    assert f"data file {poison.name}: it cannot be read: Permission denied" in reason


@pytest.mark.parametrize("field", ["sizeInBytes", "offset"])
def test_a_deletion_vector_of_a_size_or_place_that_none_can_have_is_refused_by_name(field: str) -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "0" * 20, "offset": 1, "sizeInBytes": 5, "cardinality": 1}
    assert parse_deletion_vector(vector, "f") is not None
    with pytest.raises(MalformedLogError, match="deletion vector"):
        parse_deletion_vector(vector | {field: 2**31}, "f")


@pytest.mark.parametrize("name", ["y" * 300, "_delta_log"])
def test_a_path_that_no_file_can_have_leaves_its_file_or_deletion_vector_out_by_name(
    tmp_path: Path, name: str
) -> None:
    builder = with_vectors(str(tmp_path / "t"), files=3)
    vector = builder.inline_vector([0, 4])
    builder.commit(
        builder.hide("f1.parquet", vector | {"storageType": "p", "pathOrInlineDv": f"{builder.path}/{name}"})
    )
    added = builder.data_file(rows(50), "g.parquet")["add"]
    builder.commit([{"add": added | {"path": name}}])
    drive = index_of(builder.path)
    assert sorted(drive.index.state.recorded.unread()) == sorted(["f1.parquet", name])


@pytest.fixture
def drive(tmp_path: Path) -> Drive:
    """A stream that has covered three versions, and a fourth to come."""
    table, index = tmp_path / "t", tmp_path / "i"
    for value in "abc":
        write_deltalake(table, pa.table({"v": [value]}), mode="append")
    drive = Drive(table, index, ["v"])
    drive.drain()
    write_deltalake(table, pa.table({"v": ["d"]}), mode="append")
    return drive


def meets_what_passes(drive: Drive) -> None:
    with pytest.raises(TailbitError) as met:
        drive.drain()
    assert is_transient(met.value), repr(met.value)


def went_on(drive: Drive) -> None:
    drive.drain()
    opened = tailbit.open(drive.table.root, index=drive.index.path)
    answer = opened.where("v >= 'a'")
    assert (answer.count(), answer.files_scanned, answer.covered_version) == (4, 0, 3)
    assert opened.verify().problems == []


@pytest.mark.parametrize("which", ["t", "i"])
def test_a_folder_that_vanishes_for_a_moment_is_gone_on_with_when_it_comes_back(
    drive: Drive, tmp_path: Path, which: str
) -> None:
    os.rename(tmp_path / which, tmp_path / "away")
    meets_what_passes(drive)
    assert not (tmp_path / which).exists()
    os.rename(tmp_path / "away", tmp_path / which)
    went_on(drive)


@pytest.mark.parametrize("share", [0.3, 0.99])
def test_a_newest_commit_that_is_half_written_is_gone_on_with_when_it_is_whole(
    drive: Drive, tmp_path: Path, share: float
) -> None:
    newest = tmp_path / "t" / "_delta_log" / f"{3:020}.json"
    whole = newest.read_bytes()
    newest.write_bytes(whole[: int(len(whole) * share)])
    meets_what_passes(drive)
    newest.write_bytes(whole)
    went_on(drive)


def test_an_empty_newest_commit_is_covered_once_it_is_no_longer_new(drive: Drive, tmp_path: Path) -> None:
    newest = tmp_path / "t" / "_delta_log" / f"{3:020}.json"
    whole = newest.read_bytes()
    newest.write_bytes(b"")
    drive.drain()
    assert drive.index.state.ledger.covered == 2
    newest.write_bytes(whole)
    went_on(drive)


def test_an_empty_commit_that_nobody_goes_on_with_is_covered(drive: Drive, tmp_path: Path) -> None:
    newest = tmp_path / "t" / "_delta_log" / f"{3:020}.json"
    newest.write_bytes(b"")
    for commit in newest.parent.glob("*.json"):
        os.utime(commit, (1, 1))
    drive.drain()
    opened = tailbit.open(drive.table.root, index=drive.index.path)
    assert (opened.where("v >= 'a'").count(), opened.where().covered_version) == (3, 3)


def test_a_newest_commit_of_the_index_that_is_half_written_is_gone_on_with_when_it_is_whole(
    drive: Drive, tmp_path: Path
) -> None:
    (newest,) = sorted((tmp_path / "i" / "_delta_log").glob("*.json"))[-1:]
    whole = newest.read_bytes()
    newest.write_bytes(whole[: len(whole) // 2])
    newest.with_name("kept").write_bytes(whole)
    with pytest.raises(TailbitError) as met:
        MetadataTable.open(str(tmp_path / "i"))
    assert is_transient(met.value), repr(met.value)
    newest.write_bytes(whole)
    newest.with_name("kept").unlink()
    went_on(Drive(tmp_path / "t", tmp_path / "i"))
