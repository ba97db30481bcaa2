"""A table that a stream keeps indexed: its planner, its batches, and the threads beside them."""

from __future__ import annotations

from tailbit.base.dataclass import dataclass
from tailbit.checkpoints.offset import Offset
from tailbit.streaming.batch import Batch
from tailbit.streaming.filling.fill_thread import FillThread
from tailbit.streaming.planner import Planner
from tailbit.streaming.upkeep.sweeping import Upkeep


@dataclass(frozen=True)
class TableAtWork:
    """A table with its index, which this process has claimed. Used by one thread at a time, besides its own.

    Whoever holds the claim renews it. `filling`, `upkeep`: the threads beside the batches, not started.
    """

    planner: Planner
    batch: Batch
    filling: FillThread
    upkeep: Upkeep

    def look(self, start: Offset | None) -> Offset:
        """Return the end of the next batch after `start`; the first offset of the table if that is None.

        Raises:
            TailbitError: table or index cannot be read.
        """
        with self.batch.turn:
            return self.planner.initial() if start is None else self.planner.next(start)

    def work(self, start: Offset, end: Offset, batch_id: int) -> int:
        """Index a range of the log; return the number of bytes read.

        Raises:
            TailbitError: the range could not be indexed.
        """
        return self.batch.index_range(start, end, batch_id)

    def stop(self, merge_s: float) -> bool:
        """Stop the threads beside the batches; safe to call twice.

        A merge at work is waited for, `merge_s` seconds at most; return whether it mended damage.
        """
        self.filling.stop()
        self.upkeep.stop()
        return self.batch.merger.finish(merge_s)
