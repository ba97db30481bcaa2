"""The merges of a running indexer: how many come between two batches, and what they do about damage."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.definitions import define
from support.drive import Drive, run_tasks
from support.tables import break_bitmaps, index_of
from support.waiting import HANG_S
from tailbit.errors import CorruptIndexError
from tailbit.index.maintenance.merge import merge_due, run_merge
from tailbit.index.store.table import MetadataTable
from tailbit.index.write.work import BuildTask, TaskLimits, TaskResult
from tailbit.streaming import merging
from tailbit.streaming.executors import by_pickles
from tailbit.streaming.filler import Filler, SpacesAtWork
from tailbit.streaming.indexer import RunTasks
from tailbit.streaming.merging import Merger
from tailbit.tables import open_table


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Eight files in eight row spaces, whose bitmaps do not decode."""
    table = str(tmp_path / "t")
    for n in range(8):
        write_deltalake(table, pa.table({"v": [n, n, 7]}), mode="append")
        index_of(table, ["v"])
    break_bitmaps(table)
    return table


def test_merges_that_are_due_at_once_are_spread_over_batches_while_commits_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "_PORTION_BYTES", 1)
    table = str(tmp_path / "t")
    for n in range(8):
        write_deltalake(table, pa.table({"v": [n, n, 7]}), mode="append")
        index_of(table, ["v"])
    index = MetadataTable.open(f"{table}/_tailbit")
    groups = len(merge_due(index.state)[0].groups)
    assert groups > 1
    no_spark_is_needed = cast(Any, None)
    merger = Merger(open_table(table), index, no_spark_is_needed)
    write_deltalake(table, pa.table({"v": [9]}), mode="append")
    for done in range(1, 3):
        merger.after_batch()
        assert len(merge_due(index.state)[0].groups) == groups - done
    index_of(table, ["v"])
    index.refresh()
    merger.after_batch()
    assert merge_due(index.state) == []
    assert tailbit.open(table).verify(derive=20).problems == []


def test_a_small_merge_of_broken_bitmaps_takes_them_out_of_the_index(path: str) -> None:
    index = MetadataTable.open(f"{path}/_tailbit")
    no_spark_is_needed = cast(Any, None)
    Merger(open_table(path), index, no_spark_is_needed).after_batch()
    (why,) = index.state.recorded.errors()
    assert "a bitmap is damaged" in why


def test_a_merge_for_which_no_thread_can_be_started_waits_for_the_next_batch(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "INLINE_BYTES", 0)
    index, at_work = MetadataTable.open(f"{path}/_tailbit"), SpacesAtWork()
    no_spark_is_needed = cast(Any, None)
    merger = Merger(open_table(path), index, no_spark_is_needed, at_work=at_work)

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refused)
        merger.after_batch()
    assert at_work.merging == frozenset()
    assert not merger.finish(0.0)
    begun: list[object] = []
    monkeypatch.setattr(merger, "_on_a_worker", begun.append)
    merger.after_batch()
    merger.wait(HANG_S)
    assert len(begun) == 1


def test_what_a_merge_on_a_worker_found_damaged_is_mended_though_no_batch_comes(path: str) -> None:
    index = MetadataTable.open(f"{path}/_tailbit")
    [plan] = merge_due(index.state)
    no_spark_is_needed = cast(Any, None)
    merger = Merger(open_table(path), index, no_spark_is_needed)
    with pytest.raises(CorruptIndexError) as met:
        run_merge(index, plan)
    merger.failure = met.value
    assert merger.finish(0.0)
    assert merger.failure is None
    assert sum(index.state.recorded.errors().values()) == 1
    assert not merger.finish(0.0)


def test_a_large_merge_of_broken_bitmaps_brings_the_named_error_from_the_worker(path: str) -> None:
    index = MetadataTable.open(f"{path}/_tailbit")
    [plan] = merge_due(index.state)
    on_a_worker = by_pickles(lambda plan: run_merge(index, plan))
    argument = pa.array([pickle.dumps(plan)], pa.binary())
    [result] = on_a_worker([pa.record_batch({"argument": argument})])
    error = pickle.loads(result.column("result")[0].as_py())
    assert isinstance(error, CorruptIndexError)
    assert not error.retryable


@pytest.fixture
def drive(tmp_path: Path) -> Drive:
    """Eight files in eight row spaces, due to be merged, all of which lack a definition."""
    table = str(tmp_path / "t")
    for n in range(8):
        write_deltalake(table, pa.table({"v": [n, n, 7]}), mode="append")
        index_of(table, ["v"])
    return define(table, "v % 2", drain=False)


def filler_of(drive: Drive, at_work: SpacesAtWork, run: RunTasks = run_tasks) -> Filler:
    return Filler(drive.table, drive.index, TaskLimits(), run, threading.Lock(), 10, 1 << 20, at_work=at_work)


def spaces(drive: Drive) -> set[str | None]:
    drive.index.refresh()
    return {record.space for record in drive.index.state.recorded.live()}


def test_row_spaces_of_a_step_that_is_built_are_merged_after_it(drive: Drive) -> None:
    at_work, runs = SpacesAtWork(), []
    no_spark_is_needed = cast(Any, None)
    merger = Merger(drive.table, drive.index, no_spark_is_needed, at_work=at_work)

    def run(tasks: Sequence[BuildTask]) -> list[TaskResult]:
        runs.append(len(tasks))
        results = run_tasks(tasks)
        merger.after_batch()
        return results

    outcome = filler_of(drive, at_work, run).step()
    assert outcome is not None
    assert (outcome.files, len(runs), len(spaces(drive))) == (8, 1, 8)
    merger.after_batch()
    assert len(spaces(drive)) == 1
    assert tailbit.open(drive.table.root).verify(derive=20).problems == []


def test_a_step_that_nobody_could_be_told_of_leaves_its_row_spaces_to_the_merges(drive: Drive) -> None:
    at_work = SpacesAtWork()

    def broken(line: str) -> None:
        assert at_work.filling
        raise ConnectionError(line)

    filler = filler_of(drive, at_work)
    filler._on_step = broken
    with pytest.raises(ConnectionError, match="filling"):
        filler.step()
    assert not at_work.filling


def test_files_whose_row_space_is_merged_on_a_worker_are_filled_after_the_merge(drive: Drive) -> None:
    [group] = [group for group in merge_due(drive.index.state)[0].groups if group.spaces]
    at_work = SpacesAtWork(merging=frozenset(group.spaces[:5]))
    filler = filler_of(drive, at_work)
    step = filler.step()
    assert step is not None
    assert step.files == 3
    assert filler.step() is None
    at_work.merging = frozenset()
    step = filler.step()
    assert step is not None
    assert step.files == 5
    assert tailbit.open(drive.table.root).verify(derive=20).problems == []
