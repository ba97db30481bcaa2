"""The tables of an application: which are looked at, which have work, and what became of each.

The ledger in each index is the truth. Spark's offset may run ahead of it, as when a table's part of a batch
failed or still goes on: the planner of that table then goes on behind its ledger. So a batch of the query
never fails for one table, and never waits long for one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tailbit.checkpoints.lag import Lag
from tailbit.checkpoints.liveness import IDLE
from tailbit.checkpoints.offset import Offset
from tailbit.streaming.config.model import TableEntry
from tailbit.streaming.config.read import changed
from tailbit.streaming.many.followed import Followed, Shared
from tailbit.streaming.many.source import Ranges
from tailbit.streaming.many.states import Standing, TableState
from tailbit.tables.model import after

ANSWER_S = 1.0
"""Most seconds until the planner process is answered, so that it is seen to be alive."""

TOGETHER_S = 1.0
"""Most seconds that a batch of the query waits for its tables; one that takes longer goes on beside it."""

FRESH_PART = 0.1
"""A table is looked at again after this part of the time since its last commit."""


@dataclass
class _Member:
    """A table with its standing.

    `at_work`: its part of a batch, or a look at it, goes on. `given`: the query was given the end of a batch,
    and has not begun that batch. `served`: bytes that were read of late; a table that got less comes first.
    """

    entry: TableEntry
    standing: Standing = field(default_factory=Standing)
    followed: Followed | None = None
    offset: Offset | None = None
    ready: Offset | None = None
    lag: Lag | None = None
    large: bool = False
    at_work: bool = False
    given: bool = False
    gone: bool = False
    due: float = 0.0
    moved: float = field(default_factory=time.monotonic)
    served: float = 0.0


class Tables:
    """All tables of an application. Safe to use from any thread.

    `threads`: most tables at work at once; half of them, at least one, may be at work on large parts.
    """

    def __init__(self, entries: Iterable[TableEntry], shared: Shared, threads: int) -> None:
        self._shared = shared
        self._changed = threading.Condition()
        self._members: dict[str, _Member] = {}
        self._looks = ThreadPoolExecutor(max(4, threads), "tailbit-look")
        self._quick = ThreadPoolExecutor(threads, "tailbit-table")
        self._bulk = ThreadPoolExecutor(max(1, threads // 2), "tailbit-large")
        self._draining = self._ended = False
        self.apply(entries)
        self._scheduler = threading.Thread(target=self._schedule, name="tailbit-looks", daemon=True)
        self._scheduler.start()

    # What the query asks.

    def next(self, start: Mapping[str, Any]) -> dict[str, Any]:
        """Return the end of the query's next batch: `start`, moved on for each table with work.

        Waits for work, but not for longer than `ANSWER_S`.
        """
        self._shared.life.sign()
        until = time.monotonic() + ANSWER_S
        with self._changed:
            known = {id_: Offset.from_json(at) for id_, at in start["tables"].items() if id_ in self._members}
            for id_, member in self._members.items():
                # The batch before is done, or will not be.
                member.given = False
                if not member.at_work and member.offset != known.get(id_):
                    member.offset, member.ready = known.get(id_), None
            if not any(member.at_work for member in self._members.values()):
                self._shared.life.sign(IDLE)
            while not self._draining and not self._ready() and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
            ends = {id_: at.to_json() for id_, at in known.items()}
            if not self._draining:
                for id_, member in self._ready():
                    assert member.ready is not None
                    member.offset, member.ready = member.ready, None
                    ends[id_] = member.offset.to_json()
                    # A table that was only entered has no part in the batch.
                    member.given = id_ in known
                    member.due = 0.0
            return {"tables": ends}

    def report(self) -> dict[str, Any]:
        """Return the version of each table's head, and how far the tables are behind together."""
        with self._changed:
            lags = {id_: member.lag for id_, member in self._members.items() if member.lag is not None}
        return {
            "tables": {id_: {"version": after(lag.head)} for id_, lag in lags.items()},
            "behind": {
                "tables": sum(lag.versions > 0 for lag in lags.values()),
                "versions": sum(lag.versions for lag in lags.values()),
                "seconds": round(max((lag.seconds for lag in lags.values()), default=0.0), 3),
            },
        }

    def take(self, ranges: Ranges, batch_id: int) -> None:
        """Do the parts of a batch, those of the least served tables first; a failure is its table's state.

        Returns when all are done, or after `TOGETHER_S`: what takes longer goes on beside later batches.
        """
        with self._changed:
            known = [(self._members[id_], ends) for id_, ends in ranges.items() if id_ in self._members]
            # A table that is opened just now finds by itself what this part lacks.
            parts = [(m, ends) for m, ends in known if not m.at_work and not m.entry.paused]
            for member, _ in parts:
                member.at_work, member.given = True, False
                member.served /= 2
        parts.sort(key=lambda part: part[0].served)
        running: list[Future[None]] = []
        for member, (start, end) in parts:
            pool = self._bulk if member.large or start.in_snapshot else self._quick
            running.append(pool.submit(self._do, member, start, end, batch_id))
        wait(running, TOGETHER_S)

    def _ready(self) -> list[tuple[str, _Member]]:
        return [(id_, m) for id_, m in self._members.items() if m.ready is not None and not m.at_work]

    # What the threads do.

    def _schedule(self) -> None:
        """Start the looks that are due, until the end."""
        while True:
            with self._changed:
                if self._ended:
                    return
                now = time.monotonic()
                free = [
                    m for m in self._members.values() if not m.at_work and not m.given and m.ready is None
                ]
                free = [] if self._draining else [m for m in free if not m.entry.paused]
                due = [m for m in free if m.due <= now and m.standing.is_due]
                for member in due:
                    member.at_work = True
                    self._looks.submit(self._look, member)
                later = [max(m.due, m.standing.retry_at) - now for m in free if not m.at_work]
                self._changed.wait(min([max(0.01, left) for left in later], default=ANSWER_S))

    @contextmanager
    def _guarded(self, member: _Member) -> Iterator[None]:
        """Make a failure of the block the table's state, and let the table be looked at again."""
        try:
            yield
        except Exception as error:
            # The boundary of one table: whatever it met, the others go on, and it is tried again.
            self._close(member)
            if member.standing.failed(error):
                state, remedy = member.standing.state.value, member.standing.remedy
                self._shared.tell(f"{member.entry.id}: {state}: {member.standing.reason}. {remedy}".strip())
        finally:
            with self._changed:
                member.at_work = False
                if member.gone:
                    self._looks.submit(self._close, member)
                self._changed.notify_all()

    def _look(self, member: _Member) -> None:
        """Open a table if need be, and see whether it has work."""
        with self._guarded(member):
            if member.followed is None:
                member.followed = Followed(member.entry, self._shared)
            end = member.followed.look(member.offset)
            now = time.monotonic()
            if end != member.offset:
                start = member.offset or end
                member.lag = member.followed.lag(start)
                member.large = member.followed.is_large(start, member.lag)
                member.ready, member.moved = end, now
            else:
                member.lag = member.followed.lag(end)
                self._stands(member, end)
            entry = member.entry
            member.due = now + min(max(FRESH_PART * (now - member.moved), entry.trigger), entry.idle_poll)

    def _stands(self, member: _Member, offset: Offset) -> None:
        """Set the state of a table that was looked at or indexed without a failure."""
        assert member.lag is not None
        state = TableState.FOLLOWING
        if offset.in_snapshot:
            state = TableState.BUILDING
        elif member.lag.versions and member.lag.seconds > member.entry.max_lag:
            state = TableState.BEHIND
        before = member.standing.state
        if member.standing.becomes(state) and before is not TableState.WAITING:
            self._shared.tell(f"{member.entry.id}: {state.value}, after {before.value}")

    def _do(self, member: _Member, start: Offset, end: Offset, batch_id: int) -> None:
        """Index a table's part of a batch."""
        with self._guarded(member):
            if member.gone:
                return
            if member.followed is None:
                member.followed = Followed(member.entry, self._shared)
            member.served += member.followed.work(start, end, batch_id)
            member.lag = member.followed.lag(end)
            member.standing.worked()
            self._stands(member, end)
            member.due = 0.0

    def _close(self, member: _Member) -> None:
        followed, member.followed = member.followed, None
        if followed is not None:
            followed.close()

    # What people ask.

    def apply(self, entries: Iterable[TableEntry]) -> tuple[list[str], list[str], list[str]]:
        """Add, change and remove tables, so that they are those of a configuration; others are not touched.

        A table that was refused is tried again. Return the ids that were added, changed and removed.
        """
        wanted = list(entries)
        with self._changed:
            changes = added, other, removed = changed([m.entry for m in self._members.values()], wanted)
            by_id = {entry.id: entry for entry in wanted}
            for id_ in (*removed, *other):
                member = self._members.pop(id_)
                member.gone = True
                if not member.at_work:
                    self._looks.submit(self._close, member)
            for id_ in (*added, *other):
                paused = TableState.PAUSED if by_id[id_].paused else TableState.WAITING
                self._members[id_] = _Member(by_id[id_], Standing(paused))
            for member in self._members.values():
                if member.standing.state is TableState.REFUSED:
                    member.standing = Standing(TableState.WAITING, member.standing.reason)
            self._changed.notify_all()
        return changes

    def states(self) -> list[dict[str, Any]]:
        """Return an account of each table: state, reason, remedy, versions and lag."""
        with self._changed:
            return [_account(id_, member) for id_, member in self._members.items()]

    def drain(self) -> None:
        """Give out no more work."""
        with self._changed:
            self._draining = True
            self._changed.notify_all()

    @property
    def is_idle(self) -> bool:
        """Return whether no table is at work."""
        with self._changed:
            return not any(member.at_work for member in self._members.values())

    def close(self) -> None:
        """Wait for the tables at work, and release every index."""
        self.drain()
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        for pool in (self._looks, self._quick, self._bulk):
            pool.shutdown(wait=True, cancel_futures=True)
        with ThreadPoolExecutor(8, "tailbit-close") as closing:
            list(closing.map(self._close, self._members.values()))


def _account(id_: str, member: _Member) -> dict[str, Any]:
    lag, standing = member.lag, member.standing
    return {
        "id": id_,
        "table": member.entry.place,
        "state": standing.state.value,
        "since": round(standing.since, 3),
        "reason": standing.reason,
        "remedy": standing.remedy,
        "failures": standing.failures,
        "head": None if lag is None else lag.head,
        "lag": None if lag is None else {"versions": lag.versions, "seconds": round(lag.seconds, 3)},
    }
