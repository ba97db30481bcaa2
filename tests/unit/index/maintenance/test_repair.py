"""`repair` builds again what `verify` finds wrong, and nothing else; each depth of `verify` finds its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import tailbit
from support.contents import contents_of
from support.drive import Drive
from support.tables import WRONG, flipped_pages, gone, index_files, moved, tamper, with_vectors
from tailbit.checkpoints.claim import Claim
from tailbit.cli.main import cli
from tailbit.errors import UnknownColumnError, UsageError
from tailbit.index.store.table import MetadataTable
from tailbit.tables.storage import open_storage


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Two files of ten rows, v0 v1 v2 v0 ..., two rows of the first hidden; indexed."""
    with_vectors(str(tmp_path / "t"))
    return str(tmp_path / "t")


@pytest.mark.by_thirds
@pytest.mark.parametrize("what", WRONG)
def test_repair_builds_again_what_verify_finds_wrong(path: str, tmp_path: Path, what: str) -> None:
    WRONG[what](path)
    assert not tailbit.open(path).verify().sound
    done = tailbit.open(path).repair()
    assert (bool(done.problems), done.left, done.indexer) == (True, (), None)
    assert tailbit.open(path).verify(derive=9).problems == []
    Drive(path, tmp_path / "whole", ["v"]).drain()
    assert contents_of(f"{path}/_tailbit") == contents_of(str(tmp_path / "whole"))
    answer = tailbit.open(path).where("v = 'v1'")
    assert (answer.count(), answer.files_scanned) == (6, 0)


def test_repair_of_a_sound_index_commits_nothing(path: str) -> None:
    before = MetadataTable.open(f"{path}/_tailbit").version
    assert tailbit.open(path).repair().problems == ()
    assert MetadataTable.open(f"{path}/_tailbit").version == before


def test_repair_takes_out_in_one_commit_what_is_wrong_and_leaves_the_rest_to_the_running_indexer(
    path: str,
) -> None:
    drive = Drive(path, f"{path}/_tailbit")
    drive.drain()
    heartbeat = Claim(open_storage(f"{path}/_tailbit"))
    heartbeat.acquire()
    gone(index_files(path, "bitmap_index")[0])
    before = MetadataTable.open(f"{path}/_tailbit").version
    done = tailbit.open(path).repair()
    assert done.indexer is not None
    assert MetadataTable.open(f"{path}/_tailbit").version == before + 1
    answer = tailbit.open(path).where("v = 'v1'")
    assert (answer.count(), answer.files_scanned, answer.damaged) == (6, 2, [])
    drive.drain()
    heartbeat.release()
    assert tailbit.open(path).verify(derive=9).problems == []
    assert tailbit.open(path).where("v = 'v1'").files_scanned == 0


def test_deriving_a_column_again_finds_one_value_that_is_posted_elsewhere(path: str) -> None:
    tamper(path, moved)
    told = [problem.found for problem in tailbit.open(path).verify(samples=0, columns=["v"]).problems]
    assert "1 of 10 values are posted otherwise" in told
    first = tailbit.open(path).verify(samples=0, files=["f0.parquet"])
    assert (first.derived, [p for p in first.problems if "otherwise" in p.found]) == (1, [])


def test_a_file_or_column_that_cannot_be_derived_again_is_refused_by_name(path: str) -> None:
    with pytest.raises(UsageError, match=r"has no data file nosuch\.parquet"):
        tailbit.open(path).verify(files=["f0.parquet", "nosuch.parquet"])
    with pytest.raises(UnknownColumnError, match="nosuch"):
        tailbit.open(path).verify(columns=["nosuch"])
    with pytest.raises(UsageError, match="column k is not indexed") as told:
        tailbit.open(path).verify(columns=["v", "k"])
    assert told.value.hint == "Indexed are v."
    for named in ("--file", "--column"):
        with pytest.raises(UsageError, match="nosuch"):
            cli(["verify", path, named, "nosuch"], standalone_mode=False)


def test_checksums_are_read_of_every_file_of_every_kind(path: str) -> None:
    report = tailbit.open(path).verify(samples=0)
    assert report.files_read == len(MetadataTable.open(f"{path}/_tailbit").state.files)


def test_verify_and_repair_tell_by_exit_status_and_json(path: str) -> None:
    flipped_pages(index_files(path, "bitmap_index")[0])
    run = CliRunner().invoke
    wrong = run(cli, ["verify", path, "--json"], standalone_mode=False)
    found = json.loads(wrong.output)
    assert (wrong.return_value, found["sound"]) == (1, False)
    assert any("bitmap_index" in problem["where"] for problem in found["problems"])
    done = run(cli, ["repair", path, "--json"], standalone_mode=False)
    assert (done.return_value, json.loads(done.output)["files_to_post"]) == (0, 2)
    assert run(cli, ["verify", path, "--derive", "4"], standalone_mode=False).return_value == 0
    again = run(cli, ["repair", path], standalone_mode=False)
    assert (again.return_value, again.output) == (0, "nothing to repair\n")
