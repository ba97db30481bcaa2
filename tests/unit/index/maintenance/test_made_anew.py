"""An index whose log, settings or format cannot be read is made anew by `repair`, with its columns."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from click.testing import CliRunner

import tailbit
from support.contents import contents_of
from support.drive import Drive
from support.golden import PLAIN, unpack
from support.tables import flipped_pages, gone, index_files, index_of, rows, three_commits
from tailbit.checkpoints.claim import Claim
from tailbit.cli.main import cli
from tailbit.errors import (
    CorruptIndexError,
    ForeignIndexError,
    IndexFormatError,
    IndexLogError,
    SettingsError,
)
from tailbit.index.kinds.settings import NEWEST_FORMAT
from tailbit.index.maintenance.create import start_over
from tailbit.index.model import IndexFile
from tailbit.index.store.table import MetadataTable
from tailbit.tables.storage import NO_OPTIONS, open_storage


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table of three commits; v is indexed, one commit after the other."""
    path = three_commits(str(tmp_path / "t"))
    for first in (30, 40):
        index_of(path, ["v"])
        deltalake.write_deltalake(path, rows(first), mode="append")
    index_of(path)
    return path


def commits(path: str) -> list[Path]:
    return sorted(Path(path, "_tailbit/_delta_log").glob("*.json"))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:200])


def torn_checkpoint(path: str) -> None:
    """A log checkpoint and none of the commits before it: what is there when it is torn."""
    MetadataTable.open(f"{path}/_tailbit").checkpoint_log()
    cut(next(Path(path, "_tailbit/_delta_log").glob("*.checkpoint.parquet")))
    gone(commits(path)[0])


DAMAGE: dict[str, Callable[[str], None]] = {
    "a commit in the middle is cut": lambda path: cut(commits(path)[1]),
    "the newest commit is empty": lambda path: commits(path)[-1].write_bytes(b""),
    "the first commit is missing": lambda path: gone(commits(path)[0]),
    "the log checkpoint is torn": torn_checkpoint,
}


def is_whole(path: str, whole: Path) -> None:
    """The index of v is what one built in one go is, everything that looks after it works, and it goes on."""
    index = f"{path}/_tailbit"
    Drive(path, whole, ["v"]).drain()
    assert tailbit.open(path).verify(derive=9).problems == []
    assert contents_of(index) == contents_of(str(whole))
    tailbit.open(path).vacuum(older_than_hours=0)
    deltalake.write_deltalake(path, rows(90), mode="append")
    drive = Drive(path, index)
    drive.drain()
    drive.index.checkpoint_log()
    answer = tailbit.open(path).where("v = 'v1'")
    assert (answer.files_scanned, answer.damaged) == (0, [])
    live = {file.removeprefix(f"{index}/") for file in deltalake.DeltaTable(index).file_uris()}
    assert live == set(MetadataTable.open(index).state.files)


@pytest.mark.parametrize("what", DAMAGE)
def test_repair_makes_an_index_anew_whose_own_log_cannot_be_read(
    path: str, tmp_path: Path, what: str
) -> None:
    held = tailbit.open(path)
    DAMAGE[what](path)
    done = tailbit.open(path).repair()
    assert (done.anew, done.left, done.indexer) == (("v",), (), None)
    assert (held.where("v = 'v1'").count(), held.where("v = 'v1'").files_scanned) == (17, 0)
    is_whole(path, tmp_path / "whole")


@pytest.mark.parametrize("what", DAMAGE)
def test_questions_over_an_index_whose_own_log_cannot_be_read_are_right_and_say_so(
    path: str, what: str
) -> None:
    DAMAGE[what](path)
    answer = tailbit.open(path).where("v = 'v1'")
    assert (answer.count(), answer.files_scanned, len(answer.damaged)) == (17, 5, 1)
    told = CliRunner().invoke(cli, ["count", path, "v = 'v1'"])
    assert (told.exit_code, told.stdout) == (0, "17\n")
    assert "the log of the index" in told.stderr


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_log_of_an_index_is_named_with_the_command_that_mends_it(path: str, what: str) -> None:
    DAMAGE[what](path)
    with pytest.raises(IndexLogError, match="_tailbit") as told:
        Drive(path, f"{path}/_tailbit")
    assert "tailbit repair" in told.value.hint
    assert "new round" not in told.value.describe()


def test_a_running_indexer_goes_on_in_an_index_that_repair_made_anew_beside_it(
    path: str, tmp_path: Path
) -> None:
    drive = Drive(path, f"{path}/_tailbit")
    heartbeat = Claim(open_storage(drive.index.path))
    heartbeat.acquire()
    cut(commits(path)[-1])
    done = tailbit.open(path).repair()
    assert (done.anew, done.indexer is None) == (("v",), False)
    deltalake.write_deltalake(path, rows(50), mode="append")
    drive.drain()
    heartbeat.release()
    is_whole(path, tmp_path / "whole")


def test_an_index_made_anew_has_the_columns_of_the_newest_settings_that_can_be_read(path: str) -> None:
    tailbit.open(path).alter(add=["k"])
    cut(commits(path)[1])
    done = CliRunner().invoke(cli, ["repair", path, "--json"], standalone_mode=False)
    assert json.loads(done.output)["made_anew"] == ["v", "k"]


def test_columns_are_given_to_repair_where_the_settings_are_lost(path: str, tmp_path: Path) -> None:
    for file in Path(path, "_tailbit/kind=settings").glob("*.parquet"):
        flipped_pages(file)
    with pytest.raises(CorruptIndexError) as told:
        tailbit.open(path).repair()
    assert "tailbit repair TABLE --columns" in told.value.hint
    done = CliRunner().invoke(cli, ["repair", path, "--columns", "v"], standalone_mode=False)
    assert (done.return_value, "made anew, with columns v" in done.output) == (0, True)
    is_whole(path, tmp_path / "whole")


@pytest.mark.parametrize("damaged", [False, True])
def test_repair_refuses_columns_other_than_those_of_the_index(path: str, damaged: bool) -> None:
    if damaged:
        cut(commits(path)[1])
    before = commits(path)
    with pytest.raises(SettingsError):
        tailbit.open(path).repair(columns=["k"])
    assert commits(path) == before


@pytest.fixture
def old(tmp_path: Path) -> str:
    return unpack(2, tmp_path)


def test_an_index_of_an_older_format_is_made_anew_by_repair_with_its_columns(
    old: str, tmp_path: Path
) -> None:
    answer = tailbit.open(old).where("k = -120")
    assert (answer.count(), answer.files_scanned) == (1, 4)
    assert ["format 2" in str(damage) for damage in answer.damaged] == [True]
    with pytest.raises(IndexFormatError, match="format 2") as told:
        Drive(old, f"{old}/_tailbit")
    assert "tailbit repair" in told.value.hint
    assert tailbit.open(old).repair().anew == PLAIN
    Drive(old, tmp_path / "whole", PLAIN).drain()
    assert contents_of(f"{old}/_tailbit") == contents_of(str(tmp_path / "whole"))
    assert tailbit.open(old).verify(derive=9).problems == []
    assert tailbit.open(old).where("k = -120").files_scanned == 0


def test_an_index_of_a_newer_format_is_refused_by_name_and_left_alone(path: str) -> None:
    index = MetadataTable.open(f"{path}/_tailbit")
    index.commit([], [], None, settings=replace(index.state.settings, format=NEWEST_FORMAT + 1))
    before = commits(path)
    for ask in (
        lambda: tailbit.open(path),
        lambda: Drive(path, f"{path}/_tailbit"),
        lambda: start_over(f"{path}/_tailbit", lambda: None, NO_OPTIONS),
    ):
        with pytest.raises(IndexFormatError, match=f"format {NEWEST_FORMAT + 1}") as told:
            ask()
        assert "repair" not in told.value.hint
    assert commits(path) == before


@pytest.mark.parametrize("partition_by", [None, ["kind"]])
@pytest.mark.parametrize("lost", [False, True])
def test_what_is_not_an_index_is_never_made_anew_though_its_log_cannot_be_read(
    path: str, tmp_path: Path, partition_by: list[str] | None, lost: bool
) -> None:
    other = tmp_path / "other"
    deltalake.write_deltalake(other, pa.table({"v": ["a"], "kind": ["x"]}), partition_by=partition_by)
    if lost:
        for file in list(other.rglob("*.parquet")):
            shutil.rmtree(file.parent) if partition_by else file.unlink()
    (commit,) = (other / "_delta_log").glob("*.json")
    cut(commit)
    before = sorted(other.rglob("*"))
    with pytest.raises(ForeignIndexError, match="other"):
        tailbit.open(path, index=str(other)).repair(columns=["v"])
    assert sorted(other.rglob("*")) == before


def test_what_is_missing_of_an_index_that_is_made_anew_is_not_named_by_its_log(path: str) -> None:
    held = MetadataTable.open(f"{path}/_tailbit")
    gone(index_files(path, "bitmap_index")[0])
    start_over(held.path, lambda: None, NO_OPTIONS)
    assert held.refresh()
    assert set(held.state.files) == set(MetadataTable.open(held.path).state.files)
    assert all(isinstance(file, IndexFile) for file in held.state.files.values())


STATUS: dict[str, Callable[[str], None]] = {
    "files": lambda path: flipped_pages(index_files(path, "files")[0]),
    "files missing": lambda path: gone(index_files(path, "files")[0]),
    "settings": lambda path: flipped_pages(index_files(path, "settings")[0]),
    "settings missing": lambda path: gone(index_files(path, "settings")[0]),
    "ledger": lambda path: flipped_pages(index_files(path, "ledger")[0]),
    "the log": lambda path: cut(commits(path)[1]),
}


@pytest.mark.parametrize("what", STATUS)
def test_status_of_a_damaged_index_names_the_damage_and_what_mends_it_and_says_what_it_can(
    path: str, what: str
) -> None:
    STATUS[what](path)
    told = CliRunner().invoke(cli, ["status", path, "--json"], standalone_mode=False)
    assert told.exception is None
    found = json.loads(told.stdout)
    assert (found["index"], found["head"]) == (f"{path}/_tailbit", 4)
    assert "_tailbit" in found["damage"] or what.split()[0] in found["damage"]
    assert "tailbit repair" in found["remedy"]
    assert (found.get("columns"), found.get("covered_version")) == (
        (["v"], 4) if what.startswith("files") else (None, None)
    )
    lines = CliRunner().invoke(cli, ["status", path], standalone_mode=False).stdout
    assert "tailbit repair" in lines
    columns = ["--columns", "v"] if what.startswith("settings") else []
    CliRunner().invoke(cli, ["repair", path, *columns], standalone_mode=False, catch_exceptions=False)
    assert "damage" not in json.loads(CliRunner().invoke(cli, ["status", path, "--json"]).stdout)
