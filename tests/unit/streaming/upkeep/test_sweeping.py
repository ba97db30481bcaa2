"""Upkeep beside a query: it sweeps by itself, and trouble of a pass is no trouble of the query."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.index_records import counts, ledger, new_index, record
from support.waiting import wait_until
from tailbit.errors import NoIndexError
from tailbit.index.maintenance.merge import merge_all
from tailbit.streaming.upkeep.sweeping import Upkeep


def test_an_index_at_work_is_swept_without_being_asked_while_commits_go_on(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    upkeep = Upkeep(str(tmp_path), every_s=0.02, kept_s=0.0)
    upkeep.start()
    for number in range(30):
        index.commit([record(f"f{number}")], [counts(index, "c", {b"x": 1})], ledger(number))
        merge_all(index)
    wait_until(
        lambda: {str(p.relative_to(tmp_path)) for p in tmp_path.glob("kind=*/*")} == set(index.state.files)
    )
    upkeep.stop()
    assert upkeep.deleted > 30
    assert upkeep.failure is None


def test_a_pass_that_fails_is_made_again(tmp_path: Path) -> None:
    index = tmp_path / "i"
    new_index(str(index))
    shutil.copytree(index, tmp_path / "kept")
    upkeep = Upkeep(str(index), every_s=0.02)
    upkeep.start()
    shutil.rmtree(index)
    wait_until(lambda: isinstance(upkeep.failure, NoIndexError))
    shutil.copytree(tmp_path / "kept", index)
    wait_until(lambda: upkeep.failure is None)
    upkeep.stop()
