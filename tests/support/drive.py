"""A stream without Spark: planner and indexer in turn, and the offsets that Spark's checkpoint would hold."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from tailbit.checkpoints.offset import Offset
from tailbit.checkpoints.recovery import Origin
from tailbit.errors import CorruptIndexError, IndexFormatError, IndexLogError, NoIndexError
from tailbit.index.maintenance.create import indexed_columns
from tailbit.index.store.table import MetadataTable
from tailbit.index.write.run import run_task
from tailbit.index.write.work import BuildTask, TaskLimits, TaskResult
from tailbit.streaming.filler import Filler
from tailbit.streaming.indexer import BatchOutcome, Indexer, RunTasks
from tailbit.streaming.opening import open_index
from tailbit.streaming.planner import Planner
from tailbit.streaming.settings import StreamSettings
from tailbit.tables import Table, open_table
from tailbit.tables.storage import NO_OPTIONS, StorageOptions

NO_WAIT = StreamSettings(poll_ms=1)


def run_tasks(tasks: Sequence[BuildTask]) -> list[TaskResult]:
    """All tasks, one after the other, in this process."""
    return [run_task(task) for task in tasks]


def _opened(table: str | Path | Table, options: StorageOptions) -> Table:
    return table if isinstance(table, Table) else open_table(str(table), options)


def indexed_by(table: Table, path: str, columns: Sequence[str] | None) -> MetadataTable:
    """The index of a table, opened, or made with these columns; one with an unreadable log stays."""
    try:
        MetadataTable.open(path, options=table.storage.options)
    except (IndexLogError, IndexFormatError):
        raise
    except (NoIndexError, CorruptIndexError):
        pass
    wanted = None if columns is None else indexed_columns(table, columns)
    index = open_index(table, path, lambda: wanted, sure_s=0.0)
    assert index is not None
    return index


class Drive:
    """One query: `ends` are the offsets logged before each batch, `committed` how many batches are done.

    `table`: a path, or a table of any format. `run` runs the tasks of a batch.
    A new Drive over the same `ends` is a restart; over fewer, a Spark checkpoint put back from a backup.
    """

    def __init__(
        self,
        table: str | Path | Table,
        index: str | Path,
        columns: Sequence[str] | None = None,
        settings: StreamSettings = NO_WAIT,
        start: Offset | None = None,
        ends: Sequence[Offset] = (),
        committed: int = 0,
        run: RunTasks = run_tasks,
        options: StorageOptions = NO_OPTIONS,
    ) -> None:
        self.table = _opened(table, options)
        self.index = indexed_by(self.table, str(index), columns)
        self.settings = settings
        self.planner = Planner(
            _opened(table, options),
            MetadataTable.open(str(index), options=self.table.storage.options),
            self.settings,
        )
        self.indexer = Indexer(self.table, self.index, TaskLimits(), run)
        self.filler = Filler(
            self.table, self.index, TaskLimits(), run, threading.Lock(), settings.files, settings.bytes
        )
        self.start, self.ends, self.committed = start, list(ends), committed
        self.outcomes: list[BatchOutcome] = []
        self.origin = Origin("drive")

    @property
    def position(self) -> Offset:
        """Where the next batch begins."""
        if self.ends:
            return self.ends[-1]
        self.start = self.start or self.planner.initial()
        return self.start

    def replay(self) -> BatchOutcome:
        """The last logged batch once more, as Spark does after a crash."""
        ends = [self.start or self.planner.initial(), *self.ends]
        outcome = self.indexer.apply(ends[-2], ends[-1], self.origin)
        self.outcomes.append(outcome)
        return outcome

    def step(self) -> BatchOutcome | None:
        """One batch, or a step of filling where the log has nothing; None where there is nothing to do."""
        begin = self.position
        end = self.planner.next(begin)
        if end == begin:
            return self.fill()
        assert end.key > begin.key, "an offset went back"
        self.ends.append(end)
        outcome = self.indexer.apply(begin, end, self.origin)
        self.outcomes.append(outcome)
        return outcome

    def fill(self) -> BatchOutcome | None:
        """One step of filling; None where no file lacks a definition."""
        outcome = self.filler.step()
        if outcome is not None:
            self.outcomes.append(outcome)
        return outcome

    def drain(self, most: int = 200) -> list[BatchOutcome]:
        """Batches until there is nothing to do."""
        done: list[BatchOutcome] = []
        for _ in range(most):
            outcome = self.step()
            if outcome is None:
                return done
            done.append(outcome)
        raise AssertionError(f"still busy after {most} batches: {self.ends[-5:]}")
