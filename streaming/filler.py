"""Files that lack a definition are filled beside the stream, a few at a time. No Spark.

An added definition begins no round: batches go on with the log and give new files every wanted definition,
while the other files are filled here. The records alone tell which files are left, so after a kill at any
point the filling simply goes on.

Once and only once. A step is built from the records of its files, and its commit takes only files whose
record has not changed since: a file with other hidden rows or another place in a row space is dropped from
the step. So the counts of a file always belong to the hidden rows that are recorded with them.

A step waits for its turn at the index only to plan and to commit, some milliseconds; files are read and
postings built beside the batches. So no batch waits while a step reads data. While the stream has caught up,
the next step follows at once. While the stream is behind the log, the next step waits until the stream has
caught up, but at most three times as long as the last step took: a busy stream keeps three quarters of the
time, and still every file is filled in the end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import (
    CommitConflictError,
    CommitGapError,
    CorruptIndexError,
    TailbitError,
    VersionNotFoundError,
)
from tailbit.base.faults import Fault, fault_point
from tailbit.base.wording import Tell, tell_nobody
from tailbit.checkpoints.builds import Build
from tailbit.checkpoints.liveness import Liveness
from tailbit.checkpoints.recovery import LogState, Verdict, lineage_holds, uncounted_after
from tailbit.index.maintenance.definitions import Requirements, requirements_of
from tailbit.index.maintenance.rebuild import build_extent_of, lacking, swap_rebuilt
from tailbit.index.model import Definition, FileRecord, Ledger, LedgerState, Settings
from tailbit.index.store.state import IndexState
from tailbit.index.store.table import MetadataTable
from tailbit.index.write.work import BuildTask, Repost, TaskLimits, TaskResult, plan_work
from tailbit.streaming.indexer import ATTEMPTS, BatchOutcome, Building, RunTasks, template_of
from tailbit.tables.snapshot import Snapshot
from tailbit.tables.table import Table


@dataclass
class SpacesAtWork:
    """The row spaces that a fill or a merge is changing: set and read in a turn at the index.

    Cleared at the end of the work. `filling`: of the files of the step that is being built. `merging`: of the
    merge on a worker.
    """

    filling: frozenset[str] = frozenset()
    merging: frozenset[str] = frozenset()


FIRST_FILES, FIRST_BYTES = 256, 4 << 20
"""Limits of the first step. They double with each quick step whose files all stayed unchanged, up to the
limits that the filler is given, and halve with each step of which less than `_MOSTLY` stayed unchanged: so
files that change all the time are filled one by one."""

_MOSTLY = 0.75
"""Part of a step's files that must stay unchanged, or the limits halve. A merge changes a few of the files,
which a later step fills."""

QUICK_HELD_S = 0.05
"""The limits grow only if a step held the turn, which a batch may need, for less than these CPU seconds."""

QUICK_BUILT_S = 2.0
"""The limits grow only if a step was built in less than these seconds, since a kill loses the whole step."""

_TURN_S = 5.0
"""Most seconds to wait for the end of a turn."""


@dataclass(frozen=True)
class _Stand:
    """The state of the index from which a list of files to fill was made.

    While the state is the same, files only leave the list.
    """

    state: IndexState
    settings: Settings
    lineage: int

    def holds(self, other: _Stand) -> bool:
        """Return whether both are of the same index, lineage and version of the settings."""
        return self._is_of(other) and self.settings.version == other.settings.version

    def allows(self, other: _Stand, ids: Collection[str]) -> bool:
        """Return whether the index still wants what was built for the definitions with these `ids`.

        A definition that was changed or dropped meanwhile, even one that came back, is no longer wanted as it
        was built.
        """
        has_all = {definition.id for definition in other.settings.definitions}.issuperset(ids)
        before, after = (stand._known(ids) for stand in (self, other))
        return self._is_of(other) and has_all and before == after

    def _known(self, ids: Collection[str]) -> tuple[dict[str, Definition], set[str]]:
        """Return the definitions with some ids, and those of the ids that were dropped once."""
        definitions = {d.id: d for d in self.settings.definitions if d.id in ids}
        return definitions, set(self.settings.dropped).intersection(ids)

    def _is_of(self, other: _Stand) -> bool:
        return self.state is other.state and self.lineage == other.lineage


@dataclass(frozen=True)
class _Step:
    """The work of one step: some files, and what their tasks share."""

    stand: _Stand
    works: tuple[Repost, ...]
    template: BuildTask


class Filler:
    """The filling of one index, in steps; its thread and the thread of the batches take turns at the index.

    `turn`: held while the index is read or committed to, never while data is read. `files`, `size`: most
    files and bytes of a step. `on_step`: called with what a step fills, in words. `build`: the record of the
    build, to which `run` adds what it finishes. Cost: a look when nothing
    is left is a few stats; a step reads the columns of the definitions from its files; the list of files is
    one pass over the records.
    """

    def __init__(
        self,
        table: Table,
        index: MetadataTable,
        limits: TaskLimits,
        run: RunTasks,
        turn: threading.Lock,
        files: int,
        size: int,
        tell: Tell = tell_nobody,
        on_step: Callable[[str], None] = tell_nobody,
        at_work: SpacesAtWork | None = None,
        build: Build | None = None,
    ) -> None:
        self._build = build or Build(table.root)
        self._at_work = at_work or SpacesAtWork()
        self._table, self._index, self._limits, self._run = table, index, limits, run
        self._turn, self._tell, self._on_step = turn, tell, on_step
        self._most = files, size
        self._files, self._bytes = min(FIRST_FILES, files), min(FIRST_BYTES, size)
        self._held_s = 0.0
        self._stand: _Stand | None = None
        self._queue: list[tuple[str, int]] = []
        self._filling: tuple[str, ...] = ()
        self._done: _Stand | None = None
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Let nothing be read from the index or committed after the present turn; data may still be read."""
        self._stopped.set()
        if self._turn.acquire(timeout=_TURN_S):
            self._turn.release()

    def step(self) -> BatchOutcome | None:
        """Fill the next files, and commit them; None if there is nothing to fill now."""
        self._held_s = 0.0
        with self._held():
            step = self._planned()
        if step is None:
            return None
        try:
            fault_point(Fault.FILL_PLANNED)
            self._on_step(self._doing())
            with self._build.step():
                outcome = self._built(step)
        finally:
            self._at_work.filling = frozenset()
        fault_point(Fault.FILL_COMMITTED)
        return outcome

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Hold the turn while the block runs; note the most CPU seconds that the step held it at a time."""
        with self._turn:
            began = time.thread_time()
            try:
                yield
            finally:
                self._held_s = max(self._held_s, time.thread_time() - began)

    def _doing(self) -> str:
        return f"filling {', '.join(self._filling)}: {len(self._queue):,} files after these"

    def _planned(self) -> _Step | None:
        """Return the next step; if no file is left, let rebuilt definitions replace their older ones."""
        if self._stopped.is_set():
            return None
        self._index.refresh()
        ledger, stand = self._index.state.ledger, self._now()
        if ledger is None or stand is None:
            self._build.end()
            return None
        if self._done is not None and self._done.holds(stand):
            return None
        if not lineage_holds(ledger, LogState.of(self._table, self._table.head())):
            return None
        try:
            snapshot = self._table.snapshot(ledger.version)
        except (CommitGapError, VersionNotFoundError):
            # The planner opens a round.
            return None
        required = requirements_of(stand.settings.definitions, snapshot.schema)
        if self._stand is None or not self._stand.holds(stand):
            self._listed(stand, required)
        works = self._next_works(snapshot, required, ledger)
        if not works:
            # Files that an earlier step lost to a batch or a merge are listed again.
            self._listed(stand, required)
            works = self._next_works(snapshot, required, ledger)
        if not works:
            self._build.end()
            self._finished(stand, required)
            return None
        self._build.begin(self._filling, lambda: build_extent_of(stand.state, snapshot))
        template = template_of(self._table, self._index, snapshot.schema, ledger.lineage, ledger.version)
        self._at_work.filling = frozenset(work.record.space for work in works if work.record.space)
        return _Step(stand, works, template)

    def _now(self) -> _Stand | None:
        """Return the state of the index; None while a round, which looks at every file, is open or due."""
        state = self._index.state
        ledger = state.ledger
        if ledger is None or ledger.state is LedgerState.BUILDING:
            return None
        if ledger.settings_version != state.settings.version:
            return None
        return _Stand(state, state.settings, ledger.lineage)

    def _listed(self, stand: _Stand, required: Requirements) -> None:
        """Make the list of the files to fill, the next one last."""
        unfilled = lacking(stand.state, required)
        rows = unfilled.fillable(stand.lineage)
        self._queue = list(zip(rows["path"].to_pylist(), rows["size"].to_pylist(), strict=True))[::-1]
        ids = {id_ for missing in unfilled.missing for id_ in missing}
        self._filling = tuple(d.name for d in stand.settings.definitions if d.id in ids) or self._filling
        self._stand = stand

    def _next_works(self, snapshot: Snapshot, required: Requirements, ledger: Ledger) -> tuple[Repost, ...]:
        """Take files that still lack a definition from the list until a step is full; return their work.

        A file whose record differs from the covered version is left to the batches. A file whose row space is
        being merged is left to a later step. A step takes at least one file, whatever its size.
        """
        works: list[Repost] = []
        size = 0
        while self._queue and len(works) < self._files and (not works or size < self._bytes):
            path, bytes_ = self._queue.pop()
            slice_ = snapshot.files.get(path)
            if slice_ is None:
                continue
            recorded = self._index.state.recorded.get
            for work in plan_work([(path, slice_)], recorded, required.of, ledger.lineage):
                if isinstance(work, Repost) and _as_covered(work, ledger) and not self._is_merged(work):
                    works.append(work)
                    size += bytes_
        return tuple(works)

    def _is_merged(self, work: Repost) -> bool:
        return work.record.space in self._at_work.merging

    def _finished(self, stand: _Stand, required: Requirements) -> None:
        """Note that nothing is left; rebuilt definitions take the place of those that they replace."""
        if len(lacking(stand.state, required).fillable(stand.lineage)):
            return
        self._done = stand
        for definition in swap_rebuilt(self._index, required):
            self._tell(f"rebuilt: {definition.name}")
        if self._filling:
            self._tell(f"filled: {', '.join(self._filling)}")
            self._filling = ()

    def _built(self, step: _Step) -> BatchOutcome | None:
        """Build a step and commit it; files that changed meanwhile are left out, the others built again."""
        building = Building(self._table, step.template, self._limits, self._run, self._tell, self._build)
        works, began, before = step.works, time.monotonic(), self._build.mark()
        while works:
            results, skipped = building.built(works)
            fault_point(Fault.FILL_BUILT)
            unchanged = self._committed(step.stand, works, results, skipped)
            if unchanged is None:
                self._resize(len(works) / len(step.works), time.monotonic() - began)
                return BatchOutcome(
                    Verdict.APPLY,
                    None,
                    step.template.version,
                    files=len(works),
                    rows=sum(result.rows for result in results),
                    bytes_read=sum(result.bytes_read for result in results),
                    skipped=len(skipped),
                )
            works = unchanged
            self._build.back_to(before)
        self._resize(unchanged=0.0)
        return BatchOutcome(Verdict.SUPERSEDED, None, step.template.version)

    def _committed(
        self,
        stand: _Stand,
        works: Sequence[Repost],
        results: Sequence[TaskResult],
        skipped: Sequence[FileRecord],
    ) -> tuple[Repost, ...] | None:
        """Commit the results, and return None; if a file of the works has changed, commit nothing.

        Then return the works whose files are unchanged, to be built again: none if a definition was dropped.
        """
        with self._held():
            for _ in range(ATTEMPTS):
                if self._stopped.is_set():
                    return ()
                self._index.refresh()
                now = self._now()
                if now is None or not stand.allows(now, {id_ for work in works for id_ in work.post}):
                    return ()
                recorded = self._index.state.recorded.get
                unchanged = tuple(work for work in works if recorded(work.path) == work.record)
                if len(unchanged) < len(works):
                    return unchanged
                try:
                    self._commit(results, skipped)
                except CommitConflictError:
                    continue
                return None
            return tuple(works)

    def _commit(self, results: Sequence[TaskResult], skipped: Sequence[FileRecord]) -> None:
        records = [record for result in results for record in result.records] + list(skipped)
        files = [file for result in results for file in result.files]
        ledger, recorded = self._index.state.ledger, self._index.state.recorded.get
        assert ledger is not None
        uncounted = uncounted_after(ledger.uncounted, records, recorded)
        self._index.commit(records, files, replace(ledger, uncounted=uncounted))

    def _resize(self, unchanged: float, built_s: float = 0.0) -> None:
        """Double, keep or halve the limits of a step.

        `unchanged`: which part of the files of a step stayed as they were. `built_s`: seconds of building.
        """
        if unchanged < _MOSTLY:
            self._files, self._bytes = max(1, self._files // 2), max(1, self._bytes // 2)
        elif unchanged == 1 and self._held_s < QUICK_HELD_S and built_s < QUICK_BUILT_S:
            files, size = self._most
            self._files, self._bytes = min(2 * self._files, files), min(2 * self._bytes, size)


def _as_covered(work: Repost, ledger: Ledger) -> bool:
    """Return whether the record of a file is counted, and agrees with the covered version of the table."""
    record = work.record
    counted = record.counted and record.left is None and record.lineage == ledger.lineage
    return counted and record.hidden == work.target.hidden_id


LOOK_S, REMOTE_LOOK_S = 1.0, 20.0
"""Seconds between two looks for something to fill; in an object store a look costs a request."""

BUSY_FACTOR = 3.0
"""The longest wait for a stream that is behind the log, as a multiple of the duration of the last step."""

_ASK_S = 0.02
"""Seconds between two looks at whether the stream has caught up; a look costs nothing."""

_LONGEST_S = 60.0


class FillThread:
    """The thread that fills files beside one query.

    `caught_up`: returns whether the stream has nothing to do. `mend`: repairs damage of the index that a step
    met. A step that failed is tried again after a pause, which doubles: nothing depends on a step, and a
    batch with the same trouble reports it by name. `failure`: why the last step failed.
    """

    def __init__(
        self,
        filler: Filler,
        caught_up: Callable[[], bool],
        mend: Callable[[CorruptIndexError], None],
        life: Liveness,
        tell: Tell,
        look_s: float = LOOK_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._filler, self._caught_up, self._mend = filler, caught_up, mend
        self._life, self._tell, self._look_s = life, tell, look_s
        self._pause = look_s
        self._stop, self._woken = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._keep, name="tailbit-fill", daemon=True)
        self.failure: Exception | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread: commit nothing more, and discard a step in progress; safe to call twice."""
        self._stop.set()
        self._woken.set()
        self._filler.stop()

    def wake(self) -> None:
        """Let the thread look for work at once, since the index has changed."""
        self._woken.set()

    def _keep(self) -> None:
        pause = 0.0
        while not self._has_stopped(pause):
            pause = self.look()

    def _has_stopped(self, pause: float) -> bool:
        """Wait for `pause` seconds, or until woken; return whether the thread is to end."""
        self._woken.wait(pause)
        self._woken.clear()
        return self._stop.is_set()

    def look(self) -> float:
        """Fill once if there is something to fill; return the seconds to wait before the next look."""
        began = self._clock()
        try:
            outcome = self._filler.step()
        except CorruptIndexError as damage:
            return self._failed(damage, mend=damage)
        except Exception as error:
            # The boundary of the thread, which must outlive every failure: Java is stopping, a worker was
            # lost, the store does not answer. While a session is stopped, pyspark has no Java context.
            return self._look_s if self._stop.is_set() else self._failed(error)
        finally:
            self._life.end_beside()
        self.failure, self._pause = None, self._look_s
        if outcome is None:
            return self._look_s
        self._let_stream_catch_up(BUSY_FACTOR * (self._clock() - began))
        return 0.0

    def _let_stream_catch_up(self, most_s: float) -> None:
        """Wait until the stream has nothing to do, `most_s` seconds at most."""
        until = self._clock() + most_s
        while not self._caught_up() and (remaining_s := until - self._clock()) > 0:
            if self._stop.wait(min(remaining_s, _ASK_S)):
                return

    def _failed(self, error: Exception, mend: CorruptIndexError | None = None) -> float:
        """Note an error, mend the damage that it names, and return the seconds to wait."""
        if not self._stop.is_set() and str(error) != str(self.failure):
            self._tell(f"not filled: {error}; tried again")
        self.failure, self._pause = error, min(2 * self._pause, _LONGEST_S)
        if mend is not None and not self._stop.is_set():
            try:
                self._mend(mend)
            except (TailbitError, OSError) as again:
                self.failure = again
        return self._pause
