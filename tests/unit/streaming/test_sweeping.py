"""Upkeep beside a query: it sweeps by itself, and trouble of a pass is no trouble of the query."""

from __future__ import annotations

import gc
import shutil
from pathlib import Path

from support.index_records import counts, ledger, new_index, record
from support.waiting import wait_until
from tailbit.errors import NoIndexError
from tailbit.index.maintenance.merge import merge_all
from tailbit.index.maintenance.repair import Scrubber
from tailbit.index.maintenance.vacuum import Sweeper, Swept
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.opening import Mender
from tailbit.streaming.sweeping import Upkeep


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


def test_the_first_pass_has_a_time_of_its_own(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    index.commit([record("f")], [counts(index, "c", {b"x": 1})], ledger(0))
    upkeep = Upkeep(mender_of(index), every_s=1e6, first_s=0.01)
    upkeep.start()
    wait_until(lambda: upkeep.passes == 1)
    upkeep.stop()
    assert upkeep.failure is None


def test_an_index_without_changes_rests_until_it_changes_or_the_rest_is_over(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    index.commit([record("f")], [counts(index, "c", {b"x": 1})], ledger(0))
    now = [0.0]
    upkeep = Upkeep(mender_of(index), kept_s=0.0, rest_s=100.0, clock=lambda: now[0])

    def passes_at(moment: float) -> int:
        now[0] = moment
        upkeep.look_if_due()
        return upkeep.passes

    assert (passes_at(0.0), passes_at(99.0), passes_at(101.0)) == (1, 1, 2)
    upkeep.wake()
    assert (passes_at(102.0), passes_at(103.0)) == (3, 3)
    assert upkeep.failure is None


def test_an_index_that_files_have_left_does_not_rest_until_they_are_deleted(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    upkeep = Upkeep(mender_of(index), kept_s=3600.0, rest_s=1e9)
    upkeep.look_if_due()
    for number in range(9):
        index.commit([record(f"f{number}")], [counts(index, "c", {b"x": 1})], ledger(number))
    merge_all(index)
    upkeep.wake()
    upkeep.look_if_due()
    upkeep.look_if_due()
    assert upkeep.passes == 3


def test_between_two_passes_an_index_is_in_memory_once_and_the_next_pass_goes_on(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    upkeep = Upkeep(mender_of(index), kept_s=0.0)
    for number in range(9):
        index.commit([record(f"f{number}")], [counts(index, "c", {b"x": 1})], ledger(number))
    before = set(index.state.files)
    merge_all(index)
    for _ in range(2):
        upkeep.look()
        gc.collect()
        held = [one for one in gc.get_objects() if isinstance(one, MetadataTable)]
        assert [one for one in held if one.path == index.path] == [index]
    assert (upkeep.passes, upkeep.failure) == (2, None)
    assert not [path for path in before - set(index.state.files) if (tmp_path / path).exists()]


def test_a_file_that_waits_is_remembered_by_a_sweeper_with_another_index(tmp_path: Path) -> None:
    index, now, memory = new_index(str(tmp_path)), [0.0], Swept()
    for number in range(9):
        index.commit([record(f"f{number}")], [counts(index, "c", {b"x": 1})], ledger(number))
    before = set(index.state.files)
    merge_all(index)

    def swept_at(moment: float) -> list[str]:
        now[0] = moment
        return Sweeper(MetadataTable.open(index.path), 100.0, lambda: now[0], memory).sweep()

    assert swept_at(0.0) == []
    assert swept_at(99.0) == []
    assert before - set(index.state.files) <= set(swept_at(101.0))


def test_a_scrubber_is_through_once_it_has_read_every_file(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    for number in range(4):
        index.commit([record(f"f{number}")], [counts(index, "c", {b"x": 1})], ledger(number))
    files = len(index.state.files)
    scrubber = Scrubber(MetadataTable.open(str(tmp_path)), bytes_a_pass=1)

    def passes_of_a_round() -> int:
        for passes in range(1, 2 * files):
            assert scrubber.look() == []
            if scrubber.is_through:
                return passes
        return 0

    assert [passes_of_a_round() for _ in range(3)] == [files, files, files]


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
