"""The front door: versions and times, an index that comes, goes, is damaged or belongs to another history."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.tables import DAMAGES, index_files, index_of, rows, three_commits
from tailbit.errors import (
    CorruptIndexError,
    ForeignIndexError,
    NoIndexError,
    UsageError,
    VersionNotFoundError,
)
from tailbit.upkeep.status import status_of


@pytest.fixture
def path(table_path: str) -> str:
    return three_commits(table_path)


def test_an_index_that_was_named_must_be_there_and_be_one(path: str, tmp_path: Path) -> None:
    with pytest.raises(NoIndexError):
        tailbit.open(path, index=str(tmp_path / "none"))
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "data.csv").write_text("1")
    with pytest.raises(ForeignIndexError):
        tailbit.open(path, index=str(tmp_path / "foreign"))
    with pytest.raises(ForeignIndexError):
        tailbit.open(path, index=path)


def test_each_question_sees_the_table_and_the_index_of_its_moment(path: str) -> None:
    opened = tailbit.open(path)
    assert opened.where("v = 'v1'").count() == 10
    drive = index_of(path, ["v"])
    answer = opened.where("v = 'v1'")
    assert (answer.count(), answer.files_scanned, answer.covered_version) == (10, 0, 2)
    write_deltalake(path, rows(30), mode="append")
    answer = opened.where("v = 'v1'")
    assert (answer.count(), answer.files_scanned, answer.covered_version) == (13, 1, 2)
    drive.drain()
    answer = opened.where("v = 'v1'")
    assert (answer.count(), answer.files_scanned, answer.covered_version) == (13, 0, 3)
    assert answer._selection.coverage is opened.where("v = 'v2'")._selection.coverage


def test_an_index_that_is_deleted_while_open_costs_time_and_not_rows(path: str) -> None:
    index_of(path, ["v"])
    opened = tailbit.open(path)
    assert opened.where("v = 'v1'").files_scanned == 0
    shutil.rmtree(f"{path}/_tailbit")
    answer = opened.where("v = 'v1'")
    assert (answer.count(), answer.files_scanned, answer.damaged) == (10, 3, [])
    assert opened.state == "absent"


def test_a_table_dropped_and_made_anew_at_its_path_is_never_answered_from_before(path: str) -> None:
    index_of(path, ["v"])
    opened = tailbit.open(path)
    assert opened.where("v = 'v1'").count() == 10
    index = shutil.move(f"{path}/_tailbit", f"{path}_index")
    shutil.rmtree(path)
    for _ in range(3):
        write_deltalake(path, pa.table({"k": [1], "v": ["v1"]}), mode="append")
    assert opened.where("v = 'v1'").count() == 3
    shutil.move(index, f"{path}/_tailbit")
    for asked in (opened, tailbit.open(path)):
        answer = asked.where("v = 'v1'")
        assert (answer.count(), answer.files_scanned, answer.covered_version) == (3, 3, None)
        assert asked.state == "other history"
    index_of(path)
    assert tailbit.open(path).where("v = 'v1'").files_scanned == 0
    assert opened.where("v = 'v1'").count() == 3


def test_a_table_without_an_index_made_anew_with_as_many_versions_is_read_anew(path: str) -> None:
    opened = tailbit.open(path)
    assert opened.where().count() == 30
    shutil.rmtree(path)
    for first in (0, 1, 2):
        write_deltalake(path, rows(first, 1), mode="append")
    assert opened.where().count() == 3


def test_an_index_built_anew_beside_an_open_table_is_taken_up(path: str) -> None:
    index_of(path, ["v"])
    opened = tailbit.open(path)
    assert opened.where("v = 'v1'").count() == 10
    shutil.rmtree(f"{path}/_tailbit")
    index_of(path, ["k"])
    answer = opened.where("k = 1")
    assert (answer.count(), answer.files_scanned, answer.damaged) == (1, 0, [])


@pytest.mark.parametrize("kind", ["ledger", "settings", "files"])
@pytest.mark.parametrize("harm", DAMAGES)
def test_an_index_that_cannot_be_opened_costs_time_and_not_rows(
    path: str, kind: str, harm: Callable[[Path], None]
) -> None:
    index_of(path, ["v"])
    (file,) = index_files(path, kind)
    saved = file.read_bytes()
    opened = tailbit.open(path)
    harm(file)
    for asked in (tailbit.open(path), tailbit.open(path, index=f"{path}/_tailbit")):
        answer = asked.where("v = 'v1'")
        assert (answer.count(), answer.files_scanned) == (10, 3)
        assert [file.name in str(d) for d in answer.damaged] == [True]
    file.write_bytes(saved)
    assert opened.where("v = 'v1'").files_scanned == 0 or opened.where("v = 'v1'").count() == 10
    assert tailbit.open(path).where("v = 'v1'").damaged == []


@pytest.mark.parametrize("harm", ["not json", "gap"])
def test_a_damaged_log_of_the_index_costs_time_and_not_rows(path: str, harm: str) -> None:
    drive = index_of(path, ["v"])
    opened = tailbit.open(path)
    write_deltalake(path, rows(30), mode="append")
    drive.drain()
    commits = sorted(Path(path, "_tailbit", "_delta_log").glob("*.json"))
    if harm == "gap":
        commits[-2].unlink()
    else:
        commits[-1].write_text("{ not json")
    for asked in (opened, tailbit.open(path)):
        assert asked.where("v = 'v1'").count() == 13
    assert asked.where().damaged
    report = tailbit.open(path).verify()
    assert (report.state, report.sound) == ("damaged", False)
    with pytest.raises(CorruptIndexError):
        tailbit.open(path).compact()
    assert "tailbit repair" in status_of(path)["remedy"]


def test_an_index_repaired_is_taken_up_again(path: str) -> None:
    index_of(path, ["v"])
    (file,) = index_files(path, "ledger")
    saved = file.read_bytes()
    file.unlink()
    opened = tailbit.open(path)
    assert opened.state == "damaged"
    file.write_bytes(saved)
    answer = opened.where("v = 'v1'")
    assert (answer.count(), answer.files_scanned, answer.damaged) == (10, 0, [])


def test_a_version_that_is_gone_or_not_yet_there_is_refused_by_name(path: str) -> None:
    opened = tailbit.open(path)
    for version in (3, -1, 10**9):
        with pytest.raises(VersionNotFoundError, match="readable: 0 to 2"):
            opened.where(version=version)
    DeltaTable(path).create_checkpoint()
    Path(path, "_delta_log", f"{0:020d}.json").unlink()
    with pytest.raises(VersionNotFoundError, match=r"version 0 .*readable: 2 to 2"):
        tailbit.open(path).where(version=0)


def test_an_unknown_time_zone_is_refused_by_name(path: str) -> None:
    for zone in ("Nowhere/Land", "", "../etc/passwd"):
        with pytest.raises(UsageError, match="zone"):
            tailbit.open(path).where("k = 1", as_of="2026-01-01", zone=zone)
        with pytest.raises(UsageError, match="zone"):
            tailbit.open(path).where("k = 1", zone=zone)


def test_a_question_without_news_looks_at_the_index_once(path: str) -> None:
    index_of(path, ["v"])
    opened = tailbit.open(path)
    first = opened.where("v = 'v1'")
    assert opened.where("v = 'v2'")._selection.coverage is first._selection.coverage
    assert opened.where("v = 'v2'", version=1)._selection.coverage is not first._selection.coverage
