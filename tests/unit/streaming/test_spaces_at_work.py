"""A fill and the merges beside it leave the row spaces alone that the other is at work on."""

from __future__ import annotations

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
from support.tables import index_of
from tailbit.index.maintenance.merge import merge_due
from tailbit.index.write.work import BuildTask, TaskLimits, TaskResult
from tailbit.streaming.filler import Filler, SpacesAtWork
from tailbit.streaming.indexer import RunTasks
from tailbit.streaming.merging import Merger


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
