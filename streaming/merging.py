"""Merging between batches: small merges at once, large ones on a worker while the stream goes on.

A batch must not wait for the merge of a whole history: merges before a batch are bounded in bytes, the rest
becomes a Spark task that commits by itself. Of two concurrent commits the later one is computed again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from tailbit.base.errors import CorruptIndexError, TailbitError
from tailbit.index.kinds.kind import MergeGroup
from tailbit.index.maintenance.merge import MergePlan, merge_due, run_merge
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.executors import Executor
from tailbit.streaming.filler import SpacesAtWork
from tailbit.streaming.memory import FREED
from tailbit.streaming.opening import Mender
from tailbit.tables.table import Table

EARLIEST_EVERY_S = 60.0
"""Seconds between two listings of the log for the earliest version that can still be read."""

INLINE_BYTES = 512 << 10
"""Most bytes of a merge between two batches; a larger one runs on a worker."""

_PORTION_BYTES = 256 << 10
"""Bytes of merges that go into one commit; after it, a batch that waits comes first."""


class Merger:
    """The merges that are due after a batch; at most one of them runs on Spark's workers at a time.

    `failure`: the error of a merge on a worker; None if it succeeded or only lost to another writer's commit.
    `workers`: lock held while a merge runs on a worker, so that one worker is left to the batches.
    `processes`: a folder that shows which process has a merge; see `on_workers`.
    """

    def __init__(
        self,
        table: Table,
        index: MetadataTable,
        executor: Executor,
        mender: Mender | None = None,
        workers: AbstractContextManager[object] | None = None,
        at_work: SpacesAtWork | None = None,
        processes: str | None = None,
    ) -> None:
        self._processes = processes
        self._at_work = at_work or SpacesAtWork()
        self._mender, self._workers = mender or Mender(table, index), workers or nullcontext()
        self._table, self._index, self._executor = table, index, executor
        self._earliest: tuple[float, int] | None = None
        self._thread: threading.Thread | None = None
        self.failure: TailbitError | None = None

    def after_batch(self) -> None:
        """Merge small segments that are due, and start a worker to merge large ones.

        Once the log has a commit for the next batch, only a first portion is merged: a merge after many
        alterations is spread over batches.

        If a segment is damaged, it is removed from the index to be built again; the other merges wait for the
        next batch.
        """
        self._mender.mend_noted()
        try:
            self._raise_failure()
            self._merge_due()
        except CorruptIndexError as damage:
            self._mender.mend(damage)

    def finish(self, seconds: float) -> bool:
        """Wait for a merge on a worker after the last batch, and mend the damage that the merge met.

        Returns True if something was mended, so that another batch has work; `failure` has any other error.
        """
        self.wait(seconds)
        if not isinstance(self.failure, CorruptIndexError):
            return False
        damage, self.failure = self.failure, None
        try:
            self._mender.mend(damage)
        except TailbitError as error:
            self.failure = error
            return False
        return True

    def _raise_failure(self) -> None:
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    def _merge_due(self) -> None:
        for plan in merge_due(self._index.state, self._earliest_version()):
            free = [group for group in plan.groups if self._at_work.filling.isdisjoint(group.spaces)]
            large = [group for group in free if self._bytes(group) > INLINE_BYTES]
            for number, portion in enumerate(self._portions(free)):
                if number and self._is_behind():
                    break
                run_merge(self._index, replace(plan, groups=tuple(portion)))
            if large and (self._thread is None or not self._thread.is_alive()):
                self._start(replace(plan, groups=(large[0],)))

    def _portions(self, groups: Sequence[MergeGroup]) -> list[list[MergeGroup]]:
        """Divide the small groups into portions, the largest group first, so that none waits for ever."""
        portions: list[list[MergeGroup]] = []
        remaining = 0
        for group in sorted(groups, key=self._bytes, reverse=True):
            size = self._bytes(group)
            if size > INLINE_BYTES:
                continue
            if not portions or size > remaining:
                portions.append([])
                remaining = _PORTION_BYTES
            portions[-1].append(group)
            remaining -= size
        return portions

    def _is_behind(self) -> bool:
        ledger = self._index.state.ledger
        return ledger is not None and self._table.head() > ledger.version

    def wait(self, seconds: float) -> None:
        """Wait up to `seconds` for a merge on a worker; `failure` is its error."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _bytes(self, group: MergeGroup) -> int:
        live = self._index.state.files
        return sum(live[path].size for path in group.inputs if path in live)

    def _earliest_version(self) -> int:
        now = time.monotonic()
        if self._earliest is None or now - self._earliest[0] > EARLIEST_EVERY_S:
            self._earliest = (now, self._table.earliest())
        return self._earliest[1]

    def _start(self, plan: MergePlan) -> None:
        """Start a merge on a worker; if no thread can be started now, the merge waits for the next batch."""
        self._at_work.merging = frozenset(plan.groups[0].spaces)
        thread = threading.Thread(target=self._on_a_worker, args=(plan,), name="tailbit-merge", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._at_work.merging = frozenset()
            return
        self._thread = thread

    def _on_a_worker(self, plan: MergePlan) -> None:
        """Run a merge as one task; if the session ends, nothing is committed."""
        path, kinds, options = self._index.path, self._index.kinds, self._index.storage.options

        def merge(plan: MergePlan) -> bool:
            try:
                return run_merge(MetadataTable.open(path, kinds, options), plan)
            finally:
                FREED.give_back(at_once=True)

        group = plan.groups[0]
        try:
            self._executor.describe(f"merge {len(group.inputs)} {group.kind} files")
            with self._workers:
                self._executor.run(merge, [plan], self._processes)
        except TailbitError as error:
            if not error.retryable:
                self.failure = error
        except self._executor.ended:
            return
        finally:
            self._at_work.merging = frozenset()
