"""Rows of MERGE_ON_READ tables are hidden alike however they are found, and however a reader came there."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fuzzer.hudi_merged import MergedHistory
from support.fuzzer.model import path_of
from tailbit.tables.hudi.log_files.blocks import Header, list_blocks
from tailbit.tables.hudi.log_files.merge import Merged, Merging, merge
from tailbit.tables.hudi.log_files.plan import MergePlan
from tailbit.tables.hudi.log_files.slices import MergedRows, merged_rows
from tailbit.tables.hudi.table import HudiTable
from tailbit.tables.open import open_source, open_table
from tailbit.tables.snapshot import Snapshot

STEPS = 20


def histories(seed: int, folder: Path) -> Iterator[MergedHistory]:
    """Yield a history after each of its steps."""
    history = MergedHistory(str(folder / "table"), random.Random(seed))
    for _ in range(STEPS):
        history.step()
        yield history


def shown(snapshot: Snapshot) -> dict[str, tuple[int, str]]:
    return {slice_.path: (slice_.size, slice_.hidden_id) for slice_ in snapshot.files}


def plans(snapshot: Snapshot) -> set[MergePlan]:
    hidden = (slice_.hidden for slice_ in snapshot.files)
    return {MergePlan.parse(rows.plan) for rows in hidden if isinstance(rows, MergedRows)}


@pytest.mark.supports_hudi(
    "MERGE_ON_READ", "positions in the headers of log blocks, or keys where there are none", "exact"
)
@pytest.mark.parametrize("seed", range(8))
def test_positions_in_headers_hide_the_same_rows_as_a_join_by_key(seed: int, tmp_path: Path) -> None:
    positioned = 0
    for history in histories(seed, tmp_path):
        storage = open_source(history.path, ".hoodie")
        for plan in plans(open_table(history.path).snapshot()):
            assert merge(storage, plan).hidden == merge(storage, plan, by_key=True).hidden
            for block in plan.blocks:
                known = list_blocks(storage, plan.path(block.log))[block.number]
                positioned += Header.POSITIONS in known.places
    assert positioned or history.version < 8


@pytest.mark.parametrize("seed", range(8, 14))
def test_blocks_that_are_added_to_what_was_merged_hide_what_a_new_merge_hides(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added: list[bool] = []
    merge_on = Merging.upto

    def upto(merging: Merging, plan: MergePlan) -> Merged:
        added.append(bool(merging.plan.blocks))
        return merge_on(merging, plan)

    for history in histories(seed, tmp_path):
        storage = open_source(history.path, ".hoodie")
        for plan in plans(open_table(history.path).snapshot()):
            fresh = merge(storage, plan)
            with monkeypatch.context() as spied:
                spied.setattr(Merging, "upto", upto)
                assert merged_rows(storage, plan) == fresh
            for number in range(len(plan.blocks)):
                assert merged_rows(storage, plan.upto(number)) == merge(storage, plan.upto(number))
    assert any(added)


@pytest.mark.parametrize("seed", range(20, 26))
def test_a_reader_that_follows_a_merge_on_read_table_sees_what_a_new_one_sees(
    seed: int, tmp_path: Path
) -> None:
    followed: HudiTable | None = None
    for history in histories(seed, tmp_path):
        table = open_table(history.path)
        assert isinstance(table, HudiTable)
        followed = followed or table
        assert shown(followed.snapshot()) == shown(table.snapshot())
        state = history.head()
        assert {*shown(table.snapshot())} == {path_of(path) for path in state.files}


@pytest.mark.parametrize("seed", range(40, 46))
def test_hidden_rows_of_one_identity_are_the_same_rows_at_every_version(seed: int, tmp_path: Path) -> None:
    known: dict[tuple[str, str], set[int]] = {}
    kept = 0
    for history in histories(seed, tmp_path):
        table = open_table(history.path)
        for slice_ in table.snapshot().files:
            if slice_.hidden is not None:
                rows, key = set(slice_.hidden.read(table.storage)), (slice_.path, slice_.hidden_id)
                kept += key in known
                assert known.setdefault(key, rows) == rows
    assert kept


@pytest.mark.parametrize("seed", range(30, 36))
def test_changes_of_a_merge_on_read_table_lead_from_each_version_to_the_head(
    seed: int, tmp_path: Path
) -> None:
    *_, history = histories(seed, tmp_path)
    table = open_table(history.path)
    head, earliest = table.head(), table.earliest()
    assert earliest == min(state.version for state in history.readable())
    for low in table.versions(earliest, head):
        files = shown(table.snapshot(low))
        for change in open_table(history.path).changes(low + 1, head).slices:
            old = None if change.old is None else (change.old.size, change.old.hidden_id)
            assert old == files.pop(change.path, None)
            if change.new is not None:
                files[change.path] = (change.new.size, change.new.hidden_id)
        assert files == shown(table.snapshot())
