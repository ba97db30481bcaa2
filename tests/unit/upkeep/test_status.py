"""The state of an index beside its table, from the first start to another history."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import write_deltalake

from support.drive import Drive
from support.tables import half_built, rows, three_commits
from tailbit.errors import NoIndexError
from tailbit.upkeep.status import status_of


@pytest.fixture
def path(table_path: str) -> str:
    return three_commits(table_path)


def test_status_in_every_state(path: str, tmp_path: Path) -> None:
    with pytest.raises(NoIndexError):
        status_of(path)
    Drive(path, f"{path}/_tailbit", ["v"])
    empty = status_of(path)
    assert (empty["state"], empty["covered_version"], empty["lag"]["versions"]) == ("empty", None, 3)
    assert (empty["columns"], empty["segments"]) == (["v"], 0)
    drive = half_built(path, ["v"])
    building = status_of(path)
    assert (building["state"], building["covered_version"], building["lag"]["versions"]) == (
        "building",
        None,
        3,
    )
    drive.drain()
    complete = status_of(path)
    assert (complete["state"], complete["covered_version"], complete["lag"]) == (
        "complete",
        2,
        {"versions": 0, "files": 0, "bytes": 0, "seconds": 0.0},
    )
    write_deltalake(path, rows(30), mode="append")
    behind = status_of(path)
    assert (behind["state"], behind["covered_version"], behind["head"]) == ("complete", 2, 3)
    assert (behind["lag"]["versions"], behind["lag"]["files"]) == (1, 1)
    elsewhere = str(tmp_path / "elsewhere")
    write_deltalake(elsewhere, rows(0))
    other = status_of(elsewhere, f"{path}/_tailbit")
    assert (other["state"], other["covered_version"], other["lag"]["versions"]) == ("other history", None, 1)
