"""A hand-made Hudi table shows at each version the files of its account, to new readers and to an old one."""

from __future__ import annotations

import random
from pathlib import Path
from urllib.parse import unquote

import pytest

from support.fuzzer.hudi import HudiHistory
from tailbit.errors import CommitGapError, VersionNotFoundError
from tailbit.tables.hudi.table import HudiTable
from tailbit.tables.model import after
from tailbit.tables.snapshot import Snapshot
from tailbit.tables.storage import open_storage

STEPS = 25


def opened(history: HudiHistory) -> HudiTable:
    return HudiTable.open(open_storage(history.path))


def shown(snapshot: Snapshot) -> dict[str, int]:
    return {slice_.path: slice_.size for slice_ in snapshot.files}


def accounted(history: HudiHistory, position: int) -> set[str]:
    return {unquote(path) for path in history.state(position).files}


def check_versions(history: HudiHistory, table: HudiTable) -> None:
    """Compare each version that the account knows with what a new reader says of it."""
    effects = history.account.effects
    numbers = [history.number(effect.instant) for effect in effects]
    assert list(table.versions(0, table.head())) == numbers
    for position, number in enumerate(numbers):
        if position == len(numbers) - 1 or history.is_readable(position):
            names = tuple(column.name[0] for column in table.snapshot(number).schema.columns)
            assert {*shown(table.snapshot(number))} == accounted(history, position)
            assert names == tuple(field.name for field in history.state(position).shape.fields)
        else:
            with pytest.raises(VersionNotFoundError):
                opened(history).snapshot(number)


def check_changes(history: HudiHistory, table: HudiTable) -> None:
    """Compare the changes between readable versions with their snapshots."""
    readable = [v for v in table.versions(0, table.head()) if v >= table.earliest()]
    for low in readable:
        files = shown(table.snapshot(low))
        for change in opened(history).changes(after(low), table.head()).slices:
            assert (None if change.old is None else change.old.size) == files.pop(change.path, None)
            if change.new is not None:
                files[change.path] = change.new.size
        assert files == shown(table.snapshot())


@pytest.mark.supports_hudi("Ways to ask", "every version that the cleaner left", "exact")
@pytest.mark.parametrize("seed", range(12))
def test_every_version_of_a_hand_made_table_shows_the_files_of_its_account(seed: int, tmp_path: Path) -> None:
    history = HudiHistory(str(tmp_path / "table"), random.Random(seed))
    followed = opened(history)
    for _ in range(STEPS):
        history.step()
        assert {*shown(followed.snapshot())} == accounted(history, len(history.account.effects) - 1)
    check_versions(history, opened(history))
    check_changes(history, opened(history))


@pytest.mark.parametrize("seed", range(20, 26))
def test_a_reader_that_follows_is_told_of_each_change_or_that_it_must_begin_anew(
    seed: int, tmp_path: Path
) -> None:
    history = HudiHistory(str(tmp_path / "table"), random.Random(seed))
    table = opened(history)
    covered, files = table.head(), shown(table.snapshot())
    proof = table.fingerprint(covered)
    for _ in range(STEPS):
        history.step()
        head = table.head()
        if table.fingerprint(covered) == proof:
            try:
                for change in table.changes(after(covered), head).slices:
                    files.pop(change.path, None)
                    if change.new is not None:
                        files[change.path] = change.new.size
            except CommitGapError:
                files = shown(table.snapshot())
        else:
            files = shown(table.snapshot())
        covered, proof = head, table.fingerprint(head)
        assert proof is not None
        assert {*files} == accounted(history, len(history.account.effects) - 1), history.done
