"""The merges of a running indexer: how many come between two batches, and what they do about damage."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.tables import break_bitmaps, index_of
from support.waiting import HANG_S
from tailbit.errors import CorruptIndexError
from tailbit.index.maintenance.merge import merge_due, run_merge
from tailbit.index.store.table import MetadataTable
from tailbit.streaming import merging
from tailbit.streaming.executors import by_pickles
from tailbit.streaming.filler import SpacesAtWork
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
