"""Definitions are filled beside the stream: exactly once, whatever batches, merges and drops come between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.drive import Drive, run_tasks
from support.tables import index_of
from support.waiting import HANG_S, wait_until
from tailbit.checkpoints.liveness import Liveness
from tailbit.errors import CorruptIndexError
from tailbit.index.maintenance.alter import alter
from tailbit.index.maintenance.rebuild import left_to_fill, rebuild
from tailbit.index.model import BITMAP, DEFERRED, REPLACES, Definition, LedgerState, new_id
from tailbit.index.sql.terms import term_of
from tailbit.index.store.table import MetadataTable
from tailbit.index.write.work import BuildTask, TaskResult
from tailbit.streaming.filler import FillThread, _Stand
from tailbit.streaming.settings import StreamSettings
from tailbit.tables import open_table
from tailbit.upkeep.repairs import build_again
from tailbit.upkeep.status import status_of

ONE = StreamSettings(files=1)


def write(path: str, first: int, partition: Sequence[str] = ()) -> None:
    keys = list(range(first, first + 10))
    columns = {"k": keys, "s": [f"S{k % 3}" for k in keys], "p": [f"p{first // 10 % 2}"] * 10}
    write_deltalake(path, pa.table(columns), mode="append", partition_by=list(partition) or None)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Four files of ten rows."""
    table = str(tmp_path / "t")
    for first in range(0, 40, 10):
        write(table, first)
    return table


def opened(path: str) -> MetadataTable:
    return MetadataTable.open(f"{path}/_tailbit")


def defined(path: str, text: str, **others: object) -> Definition:
    term = term_of(text, open_table(path).snapshot().schema)
    definition = Definition(new_id(), text, BITMAP, (term,))
    return replace(definition, **others)  # type: ignore[arg-type]


def added(path: str, text: str, **others: object) -> Definition:
    definition = defined(path, text, **others)
    alter(opened(path), [definition], [])
    return definition


def built(path: str, id_: str) -> int:
    """How many live files have a definition."""
    return sum(id_ in record.built for record in opened(path).state.recorded.live())


def counts(path: str, id_: str) -> dict[bytes | None, int]:
    keys, rows = opened(path).state.value_counts(id_)
    return dict(zip(keys.to_pylist(), rows.tolist(), strict=True))


def by_scan(path: str, of: Callable[[dict[str, object]], str]) -> dict[bytes | None, int]:
    return dict(Counter(of(row).encode() for row in DeltaTable(path).to_pyarrow_table().to_pylist()))


def lower(row: dict[str, object]) -> str:
    return str(row["s"]).lower()


def between(drive: Drive, act: Callable[[], object]) -> None:
    """Let something happen once between the building of the next step and its commit."""

    def run(tasks: Sequence[BuildTask]) -> list[TaskResult]:
        drive.filler._run = run_tasks
        results = run_tasks(tasks)
        act()
        return results

    drive.filler._run = run


def assert_whole(path: str, definition: Definition) -> None:
    assert counts(path, definition.id) == by_scan(path, lower)
    assert tailbit.open(path).verify(derive=20).problems == []


def test_an_added_definition_begins_no_round_and_new_files_have_it_at_once(path: str) -> None:
    drive = Drive(path, f"{path}/_tailbit", ["k"], ONE)
    drive.drain()
    definition = added(path, "lower(s)")
    write(path, 40)
    assert drive.step() is not None
    record = next(r for r in opened(path).state.recorded.live() if r.entered == 4)
    assert definition.id in record.built
    assert built(path, definition.id) == 1
    ledger = opened(path).state.ledger
    assert ledger is not None
    assert (ledger.round, ledger.state, ledger.covered) == (1, LedgerState.COMPLETE, 4)
    drive.drain()
    assert built(path, definition.id) == 5
    assert_whole(path, definition)


def test_rows_deleted_while_a_file_is_filled_are_not_counted(path: str) -> None:
    drive = index_of(path, ["k"])
    definition = added(path, "lower(s)")

    def delete() -> None:
        DeltaTable(path).delete("k % 2 = 0")
        assert drive.step() is not None

    between(drive, delete)
    drive.fill()
    drive.drain()
    assert_whole(path, definition)


def test_a_merge_between_building_and_commit_of_a_step_loses_nothing(path: str) -> None:
    drive = index_of(path, ["k"])
    for first in range(40, 140, 10):
        write(path, first)
        drive.step()
    definition = added(path, "lower(s)")
    merges: list[int] = []
    between(drive, lambda: merges.append(tailbit.open(path).compact()))
    drive.drain()
    assert merges[0] > 0
    assert_whole(path, definition)


def test_a_drop_between_building_and_commit_of_a_step_leaves_no_trace(path: str) -> None:
    drive = index_of(path, ["k"])
    definition = added(path, "lower(s)")
    between(drive, lambda: alter(opened(path), [], [definition.id]))
    drive.drain()
    assert built(path, definition.id) == 0
    assert list(opened(path).state.stored_counts(definition.id)) == []
    assert tailbit.open(path).verify().problems == []


def test_a_column_dropped_while_it_is_filled_and_added_again_is_counted_once(path: str) -> None:
    drive = Drive(path, f"{path}/_tailbit", ["k"], ONE)
    drive.drain()
    tailbit.open(path).alter(add=["s"])
    drive.fill()

    def drop_and_add() -> None:
        tailbit.open(path).alter(drop=["s"])
        tailbit.open(path).alter(add=["s"])

    between(drive, drop_and_add)
    drive.drain()
    assert counts(path, "s") == by_scan(path, lambda row: str(row["s"]))
    assert tailbit.open(path).verify().problems == []


def test_files_outside_the_condition_of_a_definition_are_not_filled(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for first in range(0, 40, 10):
        write(path, first, ["p"])
    drive = index_of(path, ["k"])
    definition = added(path, "lower(s)", only="p = 'p1'")
    drive.drain()
    write(path, 40, ["p"])
    write(path, 50, ["p"])
    drive.drain()
    inside = [r.path for r in opened(path).state.recorded.live() if definition.id in r.built]
    assert len(inside) == 3
    assert all("p=p1" in path for path in inside)
    assert status_of(path)["files_to_post"] == {}
    assert tailbit.open(path).verify().problems == []


def test_a_deferred_definition_is_filled_once_it_is_rebuilt(path: str) -> None:
    drive = index_of(path, ["k"])
    definition = added(path, "lower(s)", options={DEFERRED: "true"})
    drive.drain()
    assert built(path, definition.id) == 0
    assert rebuild(opened(path), "LOWER(s)", open_table(path).snapshot().schema).options == {}
    drive.drain()
    assert built(path, definition.id) == 4
    assert_whole(path, definition)


@pytest.mark.parametrize("alone", [False, True])
def test_a_rebuilt_definition_takes_the_place_of_the_older_once_every_file_has_it(
    path: str, alone: bool
) -> None:
    drive = index_of(path, ["k"])
    old = added(path, "lower(s)")
    drive.drain()
    newer = rebuild(opened(path), "lower(s)", open_table(path).snapshot().schema)
    assert newer.options == {REPLACES: old.id}
    assert status_of(path)["files_to_post"] == {"lower(s) (rebuilt)": 4}
    assert status_of(path)["rows_to_post"] == {"lower(s) (rebuilt)": 40}
    if alone:
        assert build_again(open_table(path), opened(path)) is None
    else:
        drive.drain()
    assert [d.id for d in opened(path).state.settings.definitions] == ["k", newer.id]
    assert opened(path).state.settings.definition(newer.id).options == {}
    assert built(path, old.id) == 0
    assert list(opened(path).state.stored_counts(old.id)) == []
    assert not left_to_fill(open_table(path), opened(path).state)
    assert_whole(path, newer)


def test_a_second_rebuild_begins_the_first_again(path: str) -> None:
    drive = Drive(path, f"{path}/_tailbit", ["k"], ONE)
    added(path, "lower(s)")
    drive.drain()
    schema = open_table(path).snapshot().schema
    rebuild(opened(path), "lower(s)", schema)
    drive.fill()
    newest = rebuild(opened(path), "lower(s)", schema)
    drive.drain()
    assert [d.id for d in opened(path).state.settings.definitions] == ["k", newest.id]
    assert_whole(path, newest)


def test_a_bitmap_of_a_column_is_built_anew_under_its_id_and_is_a_plain_index_still(path: str) -> None:
    drive = index_of(path, ["k", "s"])
    before = opened(path).state.settings.definitions
    rebuild(opened(path), "s", open_table(path).snapshot().schema)
    answer = tailbit.open(path).where("s = 'S1'")
    assert (answer.count(), answer.files_scanned, built(path, "s")) == (13, 4, 0)
    drive.drain()
    assert (opened(path).state.settings.definitions, built(path, "s")) == (before, 4)
    answer = tailbit.open(path).where("s = 'S1'")
    assert (answer.count(), answer.files_scanned) == (13, 0)
    assert counts(path, "s") == by_scan(path, lambda row: str(row["s"]))
    assert tailbit.open(path).verify().problems == []


def test_a_file_that_cannot_be_read_blocks_no_other(path: str) -> None:
    drive = index_of(path, ["k"])
    definition = added(path, "lower(s)")
    victim = Path(path, next(opened(path).state.recorded.live()).path)
    data = victim.read_bytes()
    victim.write_bytes(data[:20] + bytes(len(data) - 20))
    drive.drain()
    assert built(path, definition.id) == 3
    assert len(opened(path).state.recorded.unread()) == 1
    assert drive.fill() is None


def test_an_expression_that_raises_in_some_rows_is_filled_with_these_apart(path: str) -> None:
    drive = index_of(path, ["k"])
    definition = added(path, "100 div (k % 10)")
    drive.drain()
    assert built(path, definition.id) == 4
    assert tailbit.open(path).verify(derive=20).problems == []
    alter(opened(path), [], [definition.id])
    assert list(opened(path).state.stored_counts(f"{definition.id}#raised")) == []


def test_another_definition_added_meanwhile_costs_a_step_nothing(path: str) -> None:
    drive = index_of(path, ["k"])
    definition = added(path, "lower(s)")
    between(drive, lambda: added(path, "upper(s)"))
    drive.fill()
    assert built(path, definition.id) == 4
    assert_whole(path, definition)


def test_a_step_doubles_while_files_stay_as_they_are_and_halves_where_they_change(path: str) -> None:
    drive = Drive(path, f"{path}/_tailbit", ["k"])
    drive.drain()
    definition = added(path, "lower(s)")
    first = drive.filler._files
    between(drive, lambda: alter(opened(path), [], [definition.id]))
    drive.fill()
    assert drive.filler._files == first // 2
    added(path, "upper(s)")
    drive.fill()
    assert drive.filler._files == first


def test_a_step_waits_only_until_the_stream_has_caught_up(path: str) -> None:
    drive = index_of(path, ["k"])
    added(path, "lower(s)")
    looks: list[int] = []
    passed: list[float] = []

    def slow(tasks: Sequence[BuildTask]) -> list[TaskResult]:
        passed.append(HANG_S)
        return run_tasks(tasks)

    def caught_up() -> bool:
        looks.append(1)
        return len(looks) > 2

    drive.filler._run = slow
    # By this clock the step takes so long that three times as long is a hang.
    beside = FillThread(drive.filler, caught_up, _mend_nothing, Liveness(), print, clock=lambda: sum(passed))
    assert beside.look() == 0.0
    assert (passed, len(looks)) == ([HANG_S], 3)


def test_behind_the_log_a_step_waits_three_times_as_long_as_the_one_before_took(path: str) -> None:
    drive = index_of(path, ["k"])
    added(path, "lower(s)")
    passed = [0.0]

    def slow(tasks: Sequence[BuildTask]) -> list[TaskResult]:
        passed.append(10.0)
        return run_tasks(tasks)

    def never() -> bool:
        passed.append(1.0)
        return False

    drive.filler._run = slow
    beside = FillThread(drive.filler, never, _mend_nothing, Liveness(), print, clock=lambda: sum(passed))
    beside.look()
    assert sum(passed) == 10 + 30


def test_a_change_of_the_index_wakes_the_filling_that_looks_seldom(path: str) -> None:
    drive = index_of(path, ["k"])
    beside = FillThread(drive.filler, lambda: True, _mend_nothing, Liveness(), print, look_s=HANG_S)
    beside.start()
    try:
        wait_until(lambda: drive.filler._done)
        definition = added(path, "lower(s)")
        beside.wake()
        wait_until(lambda: not left_to_fill(open_table(path), opened(path).state))
        assert_whole(path, definition)
    finally:
        beside.stop()


def _mend_nothing(damage: CorruptIndexError) -> None:
    raise damage


def test_what_was_built_for_a_definition_that_has_changed_since_is_not_wanted_any_more(
    tmp_path: Path,
) -> None:
    table = str(tmp_path / "t")
    write_deltalake(table, pa.table({"v": ["a"], "w": ["b"]}))
    state = index_of(table, ["v", "w"]).index.state
    stand = _Stand(state, state.settings, 1)
    v, w = state.settings.definitions
    (term,) = v.terms
    promoted = replace(v, terms=(replace(term, type="binary", key_type="binary"),))
    changed = _Stand(state, replace(state.settings, definitions=(promoted, w)), 1)
    assert [stand.allows(changed, {d.id}) for d in (v, w)] == [False, True]
    assert stand.allows(stand, {v.id, w.id})
