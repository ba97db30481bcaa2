"""What the log of an index names is the index's own, and what was committed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tailbit
from support.drive import Drive
from support.tables import index_of, three_commits
from tailbit.errors import IndexLogError
from tailbit.index.maintenance.vacuum import Sweeper
from tailbit.index.store.table import MetadataTable


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = three_commits(str(tmp_path / "t"))
    index_of(path, ["v"]).drain()
    return path


def newest(path: str) -> Path:
    """The newest commit of the index's log."""
    return max(Path(path, "_tailbit/_delta_log").glob("*.json"))


def altered(commit: Path, old: str, new: str) -> None:
    lines = commit.read_text().splitlines()
    at = next(n for n, line in enumerate(lines) if "kind=value_counts" in line and old in line)
    lines[at] = lines[at].replace(old, new, 1)
    commit.write_text("\n".join(lines))


@pytest.mark.parametrize(
    ("old", "new"),
    [('{"add"', '{"adl"'), ("kind=value_counts/", "kind=walue_counts/"), ("counts-", "coents-")],
)
def test_a_log_of_the_index_that_names_other_files_than_were_committed_is_damaged(
    path: str, old: str, new: str
) -> None:
    known = MetadataTable.open(f"{path}/_tailbit")
    index_of(path).index.commit([], [], None)
    first = sorted(newest(path).parent.glob("*.json"))[1]
    altered(first, old, new)
    with pytest.raises(IndexLogError):
        MetadataTable.open(f"{path}/_tailbit")
    opened = tailbit.open(path)
    assert opened.where().facets("v") == {"v0": 10, "v1": 10, "v2": 10}
    assert "log of the index" in str(opened.damage)
    assert opened.repair().anew == ("v",)
    assert known.refresh()
    assert tailbit.open(path).verify().sound


def test_who_has_an_index_open_finds_that_a_new_commit_of_it_names_other_files(path: str) -> None:
    known = MetadataTable.open(f"{path}/_tailbit")
    three_commits(path)
    Drive(path, f"{path}/_tailbit").drain()
    whole = newest(path).read_text()
    altered(newest(path), "counts-", "coents-")
    for _ in range(2):
        with pytest.raises(IndexLogError, match="it names other files than were committed"):
            known.refresh()
    newest(path).write_text(whole)
    assert known.refresh()
    assert known.state.files == MetadataTable.open(known.path).state.files


def removed(path: str, victim: str) -> None:
    """Add to the newest commit of the index that it removes a file that is none of it."""
    action = {"remove": {"path": victim, "dataChange": True, "deletionTimestamp": 1}}
    newest(path).write_text(f"{newest(path).read_text()}\n{json.dumps(action)}")


@pytest.mark.parametrize("absolute", [True, False])
def test_a_file_that_is_none_of_the_index_is_never_deleted_whatever_its_log_says(
    path: str, absolute: bool
) -> None:
    victim = min(Path(path).glob("*.parquet"))
    removed(path, str(victim) if absolute else f"kind=files/../../{victim.name}")
    Sweeper(MetadataTable.open(f"{path}/_tailbit"), kept_s=0.0).sweep()
    assert victim.exists()


def test_a_live_file_elsewhere_makes_the_log_of_an_index_damaged(path: str) -> None:
    victim = min(Path(path).glob("*.parquet"))
    action = {"add": {"path": str(victim), "size": 1, "partitionValues": {}, "modificationTime": 1}}
    newest(path).write_text(f"{newest(path).read_text()}\n{json.dumps(action)}")
    with pytest.raises(IndexLogError, match="is no file of an index"):
        MetadataTable.open(f"{path}/_tailbit")
