"""What vanishes or is half written for a moment is named by an error that passes, and gone on from."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.drive import Drive
from tailbit.errors import TailbitError
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.patience import is_transient


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
