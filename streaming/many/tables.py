"""The tables of an application: which are looked at, which have work, and what became of each.

The ledger in each index is the truth. Spark's offset may run ahead of a ledger, as when a table's part of a
batch failed or still goes on: the planner of that table then continues from the ledger. So a batch of the
query never fails for one table, and never waits long for one.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tailbit.base.errors import UsageError
from tailbit.base.wording import counted
from tailbit.checkpoints.liveness import IDLE
from tailbit.checkpoints.offset import Offset
from tailbit.streaming.config.model import TableEntry
from tailbit.streaming.config.read import changed, real_place
from tailbit.streaming.executors import beside, processes_at_work
from tailbit.streaming.many.followed_table import FollowedTable, Shared
from tailbit.streaming.many.member import Member, TableLife, end_hung_beside, give_up_stuck, tell_behind
from tailbit.streaming.many.states import Standing
from tailbit.streaming.metrics import Progress
from tailbit.streaming.query.sampler import Sampled
from tailbit.streaming.query.stream import ANSWER_S, Ranges, Row, row_of
from tailbit.streaming.query.stream import Standing as Shown
from tailbit.streaming.watch.processes import EVERY_S
from tailbit.streaming.watch.thread_pool import Job, ThreadPool, run_each
from tailbit.streaming.watch.view import TableState
from tailbit.tables.model import Version, after

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

TOGETHER_S = 0.2
"""Most seconds that a batch of the query waits for its tables' parts; a longer part goes on beside the query.

The other tables wait for their next batch as long."""

FRESH_PART = 0.1
"""A table is looked at again after this part of the time since its last commit was found."""

TURN_S = 30.0
"""Seconds after which the thread that starts the looks counts as hung; it turns once a second."""

DESCRIBED = 3
"""Most tables that the description of a job names."""

CLOSE_S = 8.0
"""Most seconds that a table has to be closed."""


class Tables:
    """All tables of an application, as the stream of its query. Safe to use from any thread.

    Its offset is `{"tables": {id: offset}}`. A table that is in the end of a batch and not in its start is
    new: its work begins with the next batch, from the offset in that end. `name`: of the query, for the
    descriptions of its jobs. `threads`: most tables at work at once; half of them, at least one, may be at
    work on large parts.
    """

    def __init__(
        self, entries: Iterable[TableEntry], shared: Shared, threads: int, name: str = "tailbit"
    ) -> None:
        self._shared, self._name = shared, name
        self._changed = threading.Condition()
        self._members: dict[str, Member] = {}
        self._leaving: list[Member] = []
        self._looks = ThreadPool("tailbit-look", max(4, threads))
        self._quick = ThreadPool("tailbit-table", threads)
        self._bulk = ThreadPool("tailbit-large", max(1, threads // 2))
        self._draining = self._ended = False
        self._batches, self._described = 0, list[tuple[str, Version, Version]]()
        self._sampled, self._turned = 0.0, time.monotonic()
        self.apply(entries)
        self._scheduler = threading.Thread(target=self._schedule, name="tailbit-looks", daemon=True)
        self._scheduler.start()

    # What the query asks.

    def initial(self) -> dict[str, Any]:
        """Return the offset without any table: each enters when it was opened."""
        return {"tables": {}}

    def freeze(self) -> None:
        """Do nothing: an application reads what comes."""

    def rows(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[Row]:
        """Return a row for each table whose offset moves on."""
        before = start["tables"]
        return [
            row_of(id_, before[id_], to)
            for id_, to in end["tables"].items()
            if id_ in before and before[id_] != to
        ]

    def next(self, start: Mapping[str, Any]) -> dict[str, Any]:
        """Return the end of the query's next batch: `start`, moved on for each table with work.

        Waits for work, but not for longer than `ANSWER_S`.
        """
        if self.is_turning:
            self._shared.life.sign()
        until = time.monotonic() + ANSWER_S
        with self._changed:
            offsets = {
                id_: Offset.from_json(offset)
                for id_, offset in start["tables"].items()
                if id_ in self._members
            }
            for id_, member in self._members.items():
                # The batch that the query was given is done, or will never begin.
                member.given = False
                if not member.at_work and member.offset != offsets.get(id_):
                    member.offset, member.ready = offsets.get(id_), None
            if not any(member.at_work for member in self._members.values()):
                self._shared.life.show(IDLE)
            while not self._draining and not self._ready() and (remaining_s := until - time.monotonic()) > 0:
                self._changed.wait(remaining_s)
            ends = {id_: offset.to_json() for id_, offset in offsets.items()}
            if not self._draining:
                for id_, member in self._ready():
                    assert member.ready is not None
                    member.offset, member.ready = member.ready, None
                    ends[id_] = member.offset.to_json()
                    # A table that was only entered has no part in the batch.
                    member.given = id_ in offsets
                    member.due = 0.0
            return {"tables": ends}

    @property
    def is_turning(self) -> bool:
        """Return whether looks at tables are started, without which the query has nothing to do."""
        return time.monotonic() - self._turned < TURN_S

    def processes(self) -> set[int]:
        """Return the ids of the processes that work for single tables, which no batch waits for."""
        with self._changed:
            ids = {member.entry.id for member in (*self._members.values(), *self._leaving)}
        folders = [os.path.join(self._shared.at_work, id_) for id_ in ids]
        return {
            process
            for folder in folders
            for process in (*processes_at_work(folder), *processes_at_work(beside(folder)))
        }

    def report(self) -> dict[str, Any]:
        """Return the version of each table's head, and how far the tables are behind together."""
        with self._changed:
            now = {id_: member.lag_now for id_, member in self._members.items()}
        lags = {id_: lag for id_, lag in now.items() if lag is not None}
        return {
            "tables": {id_: {"version": after(lag.head)} for id_, lag in lags.items()},
            "behind": {
                "tables": sum(lag.versions > 0 for lag in lags.values()),
                "versions": sum(lag.versions for lag in lags.values()),
                "seconds": round(max((lag.seconds for lag in lags.values()), default=0.0), 3),
            },
        }

    def behind(self) -> str:
        """Return the tables that wait longest with their lags, for the description of a job."""
        with self._changed:
            lags = [(member.lag_now, member) for member in self._members.values()]
            late = [(lag, member) for lag, member in lags if lag is not None and lag.versions]
            late.sort(key=lambda table: -table[0].seconds)
            words = [member.behind for _, member in late[:DESCRIBED]]
        if len(late) > len(words):
            words.append(f"{counted(len(late) - len(words), 'other table')} behind")
        return "; ".join(words) or "up to date"

    def begin_batch(self, batch_id: int) -> str:
        """Return how far the tables are behind as a batch begins, for the description of its job."""
        with self._changed:
            self._batches, self._described = self._batches + 1, self._late()
            return f"{self._name} · batch {batch_id} · {self.behind()}"

    def standing(self) -> Shown | None:
        """Return how far the tables are, where the last batch's description is outdated.

        None while a table has a part for the query. What goes on beside the batches is shown as it is now.
        """
        with self._changed:
            late = self._late()
            waits = any(m.given or m.ready is not None for m in self._members.values())
            if waits or self._draining or late == self._described:
                return None
            return Shown((self._batches, late), f"{self._name} · {self.behind()}")

    def sampled(self, query: StreamingQuery, spark: SparkSession) -> Sampled:
        """Return the query of these tables; work for single tables is not its own."""
        return Sampled(query, spark, others=self.processes, is_well=lambda: self.is_turning)

    def _late(self) -> list[tuple[str, Version, Version]]:
        """Return the tables that are behind, each with the version that is covered and the head."""
        lags = ((id_, member.lag) for id_, member in self._members.items())
        return [(id_, lag.covered, lag.head) for id_, lag in lags if lag is not None and lag.versions]

    def take(self, ranges: Ranges, batch_id: int) -> None:
        """Do the parts of a batch, least served tables first; a failure becomes the state of its table.

        Returns when all are done, or after `TOGETHER_S`: what takes longer goes on beside later batches.
        """
        self._shared.life.sign()
        with self._changed:
            members = [(self._members[id_], ends) for id_, ends in ranges.items() if id_ in self._members]
            # A table that is being opened finds by itself what is left to index.
            work = [(m, ends) for m, ends in members if not m.at_work and self._may_work(m)]
            work.sort(key=lambda item: item[0].served / 2)
            running: list[Job[None]] = []
            for member, (start, end) in work:
                member.at_work, member.given = True, False
                member.served /= 2
                member.large |= start.in_snapshot
                pool = self._bulk if member.large else self._quick
                member.job = pool.submit(partial(self._do, member, start, end, batch_id))
                running.append(member.job)
        wait([job.result for job in running], TOGETHER_S)

    def _ready(self) -> list[tuple[str, Member]]:
        return [(id_, m) for id_, m in self._members.items() if m.ready is not None and not m.at_work]

    def _may_work(self, member: Member) -> bool:
        """Return whether a table is not paused, and its index is not still open by an earlier configuration.

        Such an index would lose the new mark when it is closed. One whose work is stuck is not waited for.
        """
        entry = member.entry
        return not entry.paused and not any(
            (entry.id == left.entry.id or entry.place == left.entry.place) and not left.is_stuck
            for left in self._leaving
        )

    # What the threads do.

    def _schedule(self) -> None:
        """Start the looks that are due, and look for tables in trouble, until the application ends."""
        while not self._ended:
            with self._changed:
                try:
                    wait_s = self._turn()
                except Exception as error:
                    # The boundary of the thread, without which no table is looked at.
                    wait_s = ANSWER_S
                    self._shared.tell(f"looks at tables: {type(error).__name__}: {error}; tried again")
                else:
                    self._turned = time.monotonic()
                self._changed.wait(wait_s)

    def _turn(self) -> float:
        """Start the looks that are due; return the seconds until the next may be."""
        now = time.monotonic()
        free = [m for m in self._members.values() if not m.at_work and not m.given and m.ready is None]
        free = [] if self._draining else [m for m in free if self._may_work(m)]
        for member in [m for m in free if m.due <= now and m.standing.is_due]:
            member.at_work, member.large = True, False
            try:
                member.job = self._looks.submit(partial(self._look, member))
            except RuntimeError:
                member.at_work = False
                raise
        if now - self._sampled >= EVERY_S:
            self._sampled = now
            members = [*self._members.values(), *self._leaving]
            tell_behind(members, self._shared.tell)
            # Work of tables that were changed or removed may hold the threads of others.
            end_hung_beside(members, self._looks, self._shared)
            give_up_stuck(members, self._looks, (self._looks, self._quick, self._bulk), self._shared)
        later = [max(m.due, m.standing.retry_at) - now for m in free if not m.at_work]
        return min([max(0.01, left) for left in later], default=ANSWER_S)

    @contextmanager
    def _guarded(self, member: Member) -> Iterator[None]:
        """If the block fails, close the table and set its state; in any case let it be looked at again."""
        try:
            yield
        except Exception as error:
            # The boundary of one table: whatever the error is, the others go on.
            cause = error if member.followed is None else member.followed.cause(error)
            member.stopped_at = member.stopped_at if member.followed is None else member.progress
            self._close(member)
            if member.failed(cause):
                state, remedy = member.standing.state.value, member.standing.remedy
                self._shared.tell(f"{member.entry.id}: {state}: {member.standing.reason}. {remedy}".strip())
        finally:
            with self._changed:
                is_over = member.gone or self._ended
                if not is_over:
                    member.at_work = False
                    self._changed.notify_all()
            if is_over:
                self._close(member)
                with self._changed:
                    member.at_work = False
                    self._leaving = [other for other in self._leaving if other is not member]
                    self._changed.notify_all()

    def _opened(self, member: Member) -> FollowedTable:
        """Return the table, opened; each of its batches is counted and reported."""

        def on_progress(progress: Progress) -> None:
            member.work.add(progress)
            if self._shared.on_progress is not None:
                self._shared.on_progress(progress)

        locate = partial(self._located, member)
        if member.entry.path is not None:
            self._take_place(member, member.entry.path)
        return FollowedTable(
            member.entry,
            replace(self._shared, on_progress=on_progress, locate=locate),
            member.life,
            member.stands_at,
        )

    def _located(self, member: Member, name: str) -> str:
        """Return the path or URI of a table by its name in the catalog; raise as `_take_place` does."""
        root = self._shared.locate(name)
        self._take_place(member, root)
        return root

    def _take_place(self, member: Member, root: str) -> None:
        """Note where a table is."""
        real = real_place(root)
        with self._changed:
            others = [m for m in self._members.values() if m is not member]
            same = next((m.entry.id for m in others if m.real == real), None)
            if same is not None:
                place = member.entry.place
                reason = f"{place} is at {root}, where the table {same} of the configuration is too"
                raise UsageError(reason=reason, hint="Take one of the two out of the configuration.")
            member.root, member.real = root, real

    def _look(self, member: Member) -> None:
        """Open a table if need be, and see whether it has work."""
        with self._guarded(member):
            if member.gone:
                return
            member.life.sign("looking for commits")
            if member.followed is None:
                member.followed = self._opened(member)
                end = member.followed.catch_up(member.offset)
            else:
                end = member.followed.look(member.offset)
            now = time.monotonic()
            if end != member.offset:
                start = member.offset or end
                lag = member.followed.lag(start)
                member.stands_at(lag, member.followed.table)
                member.large = member.followed.is_large(start, lag)
                member.ready, member.moved = end, now
                if member.offset is None and not member.is_stopped:
                    self._stands(member, end)
            else:
                member.stands_at(member.followed.lag(end), member.followed.table)
                self._went_well(member, end)
            entry = member.entry
            member.due = now + min(max(FRESH_PART * (now - member.moved), entry.trigger), entry.idle_poll)

    def _went_well(self, member: Member, offset: Offset) -> None:
        """Forget the failures of a table after a look or a part without one, if the index has moved on.

        On a full disk, a look and small writes may succeed time and again, and the index stands still.
        """
        if not member.is_stopped:
            member.stopped_at = None
            member.standing.worked()
            self._stands(member, offset)

    def _stands(self, member: Member, offset: Offset) -> None:
        """Set the state of a table that was looked at or indexed without a failure."""
        assert member.lag is not None
        state = TableState.FOLLOWING
        if offset.in_snapshot:
            state = TableState.BUILDING
        elif member.is_behind:
            state = TableState.BEHIND
        before = member.standing.state
        if member.standing.becomes(state) and before is not TableState.WAITING:
            self._shared.tell(f"{member.entry.id}: {state.value}, after {before.value}")

    def _do(self, member: Member, start: Offset, end: Offset, batch_id: int) -> None:
        with self._guarded(member):
            if member.gone:
                return
            if member.followed is None:
                member.followed = self._opened(member)
            member.served += member.followed.work(start, end, batch_id)
            member.stands_at(member.followed.lag(end), member.followed.table)
            self._went_well(member, end)
            member.due = 0.0

    def _close(self, member: Member) -> None:
        """Close a table; a failure is ignored, since its mark grows old by itself."""
        followed, member.followed = member.followed, None
        with suppress(Exception):
            if followed is not None:
                followed.close()

    # What people ask.

    def apply(self, entries: Iterable[TableEntry]) -> tuple[list[str], list[str], list[str]]:
        """Add, change and remove tables to match a configuration; unchanged tables are not touched.

        A refused table is tried again. Return the ids of the tables that were added, changed and removed.
        """
        configured = list(entries)
        with self._changed:
            changes = added, other, removed = changed([m.entry for m in self._members.values()], configured)
            by_id = {entry.id: entry for entry in configured}
            for id_ in (*removed, *other):
                member = self._members.pop(id_)
                member.gone = True
                self._leaving.append(member)
                if not member.at_work:
                    member.at_work = True
                    # A look at a table that is gone closes it.
                    member.job = self._looks.submit(partial(self._look, member))
            for id_ in (*added, *other):
                paused = TableState.PAUSED if by_id[id_].paused else TableState.WAITING
                life = TableLife(id_, self._shared.life)
                self._members[id_] = Member(by_id[id_], life, Standing(paused))
            for member in self._members.values():
                if member.standing.state is TableState.REFUSED:
                    member.standing = Standing(TableState.WAITING, member.standing.reason)
            self._changed.notify_all()
        return changes

    def states(self) -> list[dict[str, Any]]:
        """Return an account of each table: state, reason, remedy, versions and lag."""
        with self._changed:
            return [member.account() for member in self._members.values()]

    def standings(self) -> list[tuple[str, str, str]]:
        """Return id, state and reason of each table, which change seldom and cost less than an account."""
        with self._changed:
            members = list(self._members.values())
            return [(m.entry.id, m.standing.state.value, m.standing.reason) for m in members]

    def drain(self) -> None:
        """Start no more looks, and give the query no more work."""
        with self._changed:
            self._draining = True
            self._changed.notify_all()

    @property
    def is_idle(self) -> bool:
        """Return whether no table is at work, besides those that are stuck."""
        with self._changed:
            members = (*self._members.values(), *self._leaving)
            return not any(member.at_work and not member.is_stuck for member in members)

    def close(self) -> None:
        """Wait for the tables at work, and release every index; a table that is stuck is left as it is."""
        self.drain()
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        for pool in (self._looks, self._quick, self._bulk):
            pool.close()
        free = [m for m in (*self._members.values(), *self._leaving) if not m.is_stuck]
        run_each(self._close, free, lambda member: None, threads=8, limit_s=CLOSE_S)
