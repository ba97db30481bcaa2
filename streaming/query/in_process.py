"""A run that ends by itself indexes what is left in its own process, without Java, where that is little.

Spark takes some ten seconds to start, in which this process indexes some hundred million values.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from tailbit.base.errors import TailbitError
from tailbit.checkpoints.offset import Offset
from tailbit.index.maintenance.build_extent import build_extent_of
from tailbit.streaming.batch import Batch
from tailbit.streaming.executors import ThreadExecutor
from tailbit.streaming.planner import Planner
from tailbit.streaming.query.attend import Run
from tailbit.streaming.query.launch import Prepared
from tailbit.streaming.query.sampler import Sampled

LITTLE_BYTES = 1 << 30
"""Most bytes of data files that are indexed in the process of the run: some 30 to 80 s of CPU."""

_STEP_BYTES = 256 << 20
"""Bytes of a batch: the most that is done again after a kill, and that a signal waits for."""


def index_in_process(run: Run) -> bool:
    """Index all commits so far in this process; return False if more is left than `LITTLE_BYTES`.

    Ends early, with True, once the run is to stop. Transient failures are retried.

    Raises:
        TailbitError: the run cannot go on.
    """
    restarts, executor = run.restarts(), ThreadExecutor()
    while not run.stop.is_set():
        batch = _batch(run, executor)
        try:
            planner = _planner(run.prepared)
            start = planner.initial()
            if _bytes_left(run.prepared, planner, start, planner.next(start)) > LITTLE_BYTES:
                return False
            run.life.begun = True
            run.supervision.on_up()
            if _indexed(run, batch, planner, start):
                return True
        except TailbitError as met:
            restarts.worked = batch.latest() is not None
            restarts.pause_after(met)
        finally:
            if run.sampler is not None:
                run.sampler.follow(None)
    return True


def _planner(prepared: Prepared) -> Planner:
    """Return a planner that reads the log up to its present head, in small batches."""
    planner = Planner(prepared.table, prepared.index, replace(prepared.settings, bytes=_STEP_BYTES))
    planner.freeze()
    return planner


def _batch(run: Run, executor: ThreadExecutor) -> Batch:
    """Return what indexes the batches, watched by the sampler of the run."""
    prepared = run.prepared
    batch = Batch(
        prepared.table,
        prepared.index,
        prepared.settings,
        executor,
        run.heartbeat,
        run.on_progress,
        run.tell,
        run.life,
    )
    if run.sampler is not None:
        own = threading.get_native_id()
        run.sampler.follow(Sampled(threads=lambda: {own, *executor.threads}))
    return batch


def _bytes_left(prepared: Prepared, planner: Planner, start: Offset, end: Offset) -> int:
    """Return the bytes of the data files that are to be indexed. `start`, `end`: of the first batch."""
    snapshot = start if start.in_snapshot else end
    if snapshot.in_snapshot:
        return build_extent_of(prepared.index.state, prepared.table.snapshot(snapshot.version)).left.bytes
    return planner.lag(start).bytes


def _indexed(run: Run, batch: Batch, planner: Planner, start: Offset) -> bool:
    """Index batch by batch until nothing is left or the run is to stop; return False if damage was mended."""
    for number, (begin, end) in enumerate(planner.batches(start)):
        batch.index_range(begin, end, number)
        run.heartbeat.renew()
        if run.stop.is_set():
            break
    mended = batch.merger.finish(2.0 if run.stop.is_set() else 60.0)
    if batch.merger.failure is not None:
        raise batch.merger.failure
    return not mended
