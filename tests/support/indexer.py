"""The indexer without Spark: the planner and the batch core that the stream composes, driven by hand."""

from __future__ import annotations

from collections.abc import Sequence

from tailbit.checkpoints.ledger import Origin
from tailbit.checkpoints.offset import Offset
from tailbit.index.build import BuildTask, TaskResult, run_task
from tailbit.index.plan import TaskLimits
from tailbit.streaming.indexer import Indexer
from tailbit.streaming.planner import Planner
from tailbit.streaming.settings import StreamSettings, prepare_index
from tailbit.tables import open_table


class HandIndexer:
    """Brings the index of a table up to date, a batch at a time; a new one restarts without Spark checkpoint.

    `files`: most files a batch, so that a small number leaves a first build half done.
    """

    def __init__(self, path: str, columns: Sequence[str] | None, files: int = 2000) -> None:
        table = open_table(path)
        self.index = prepare_index(table, f"{path}/_tailbit", columns)
        settings = StreamSettings(files=files, wait_ms=0)
        self.planner = Planner(table, self.index, settings)
        self.core = Indexer(table, self.index, TaskLimits(worth_bytes=1), run_tasks)
        self.offset: Offset | None = None

    def drain(self, batches: int | None = None) -> int:
        """Apply what is in the log, at most so many batches; the number applied."""
        start = self.offset if self.offset is not None else self.planner.initial()
        applied = 0
        while batches is None or applied < batches:
            end = self.planner.next(start)
            if end == start:
                break
            self.core.apply(start, end, Origin("by hand", applied))
            start, applied = end, applied + 1
        self.offset = start
        return applied


def run_tasks(tasks: Sequence[BuildTask]) -> list[TaskResult]:
    """All tasks, one after the other, in this process."""
    return [run_task(task) for task in tasks]
