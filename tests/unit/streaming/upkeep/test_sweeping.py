"""Upkeep beside a query: it sweeps by itself, and trouble of a pass is no trouble of the query."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.index_records import counts, ledger, new_index, record
from support.waiting import wait_until
from tailbit.errors import NoIndexError
from tailbit.index.maintenance.merge import merge_all
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.upkeep.mending import Mender
from tailbit.streaming.upkeep.sweeping import Upkeep


def mender_of(index: MetadataTable) -> Mender:
    """What mends an index; its source is of no account here, so the index stands for it."""
    return Mender(index.log, index)


def test_an_index_at_work_is_swept_without_being_asked_while_commits_go_on(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    upkeep = Upkeep(mender_of(index), every_s=0.02, kept_s=0.0)
    upkeep.start()
    written: set[str] = set()
    for number in range(30):
        index.commit([record(f"f{number}")], [counts(index, "c", {b"x": 1})], ledger(number))
        written |= set(index.state.files)
        merge_all(index)
    wait_until(
        lambda: {str(p.relative_to(tmp_path)) for p in tmp_path.glob("kind=*/*")} == set(index.state.files)
    )
    upkeep.stop()
    assert len(written - set(index.state.files)) > 30
    assert upkeep.failure is None


def test_a_pass_that_fails_is_made_again(tmp_path: Path) -> None:
    index = tmp_path / "i"
    upkeep = Upkeep(mender_of(new_index(str(index))), every_s=0.02)
    shutil.copytree(index, tmp_path / "kept")
    upkeep.start()
    shutil.rmtree(index)
    wait_until(lambda: isinstance(upkeep.failure, NoIndexError))
    shutil.copytree(tmp_path / "kept", index)
    before = upkeep.passes
    wait_until(lambda: upkeep.passes > before)
    upkeep.stop()
