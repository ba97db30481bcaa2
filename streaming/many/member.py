"""A table in the memory of its application: its state, its offset, its work in progress and its troubles."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, field, replace
from functools import partial
from typing import Any

from tailbit.base.dataclass import dataclass
from tailbit.base.wording import Tell
from tailbit.checkpoints.lag import Lag
from tailbit.checkpoints.liveness import Liveness
from tailbit.checkpoints.offset import Offset
from tailbit.streaming.config.model import TableEntry
from tailbit.streaming.executors import beside, end_jobs, processes_at_work
from tailbit.streaming.java.session import on_one_machine
from tailbit.streaming.many.followed_table import FollowedTable, Shared
from tailbit.streaming.many.states import Standing
from tailbit.streaming.metrics import Progress, names_of
from tailbit.streaming.watch.processes import BUSY, Rate, cpu_of_process, cpu_of_thread, sees_cpu_time
from tailbit.streaming.watch.thread_pool import Job, ThreadPool
from tailbit.streaming.watch.view import TableState
from tailbit.tables.model import Version, VersionName
from tailbit.tables.table import Table

LARGE_STALL_S = 1800.0
"""Seconds without a sign of life after which a large part of a batch counts as stuck if the CPU time of its
workers is not known, as on other machines."""

LATE_S = 1.0
"""Seconds by which a look may be late before the table counts as not seen."""


class TableLife(Liveness):
    """The signs of life of one table. The application shows the work of its tables, but lives by its query.

    A look at a quiet table, or a large part that goes on beside the batches, says nothing about the query
    that serves all tables. `signed`: when the last sign was given, by `time.monotonic`.
    """

    def __init__(self, id_: str, whole: Liveness) -> None:
        super().__init__("opening the table")
        self._id, self._whole = id_, whole
        self.signed = 0.0

    def sign(self, doing: str | None = None) -> None:
        """Record progress, and the present work if `doing` is given."""
        super().sign(doing)
        self.signed = time.monotonic()
        if doing is not None:
            self._whole.show(f"{self._id}: {doing}")

    def wait_for(self, reason: str) -> None:
        """Record that the table is well but waits for something outside, named by `reason`."""
        super().wait_for(reason)
        self.signed = time.monotonic()
        self._whole.show(f"{self._id}: {reason}")


@dataclass
class Done:
    """What was done for a table since the application began to follow it."""

    batches: int = 0
    files: int = 0
    rows: int = 0
    seconds: float = 0.0
    failures: int = 0

    def add(self, progress: Progress) -> None:
        """Count a batch."""
        self.batches += 1
        self.files += progress.files
        self.rows += progress.rows
        self.seconds += progress.batch_ms / 1000


@dataclass
class Member:
    """A table with its standing.

    `at_work`: whether its part of a batch, or a look at it, is submitted or running; `job` is that work.
    `ready`: the end of its next part, which the query does not have yet. `given`: the query was given that
    end, and has not begun the batch. `served`: bytes read lately; in a batch, tables with less come first.
    `ending`: the job that cancels its jobs on Spark's workers. `gone`: removed from the configuration, or
    replaced. `stopped_at`: the progress at which work on the open table failed last; None once the index has
    moved on. `signed_beside`: when the work beside the batches was last seen to use CPU time. `due`: when to
    look next, and `moved`: when a commit was last found, by `time.monotonic`. `looked`: when the log was last
    looked at, by `time.time`. `names`: of the versions of `lag` that are not called by their numbers.
    `root`: path or URI of the table; empty for a table of the catalog that was not found there yet. `real`:
    the same without links, once it was opened.
    """

    entry: TableEntry
    life: TableLife
    standing: Standing = field(default_factory=Standing)
    followed: FollowedTable | None = None
    offset: Offset | None = None
    ready: Offset | None = None
    lag: Lag | None = None
    names: Mapping[Version, VersionName] = field(default_factory=dict)
    large: bool = False
    at_work: bool = False
    given: bool = False
    gone: bool = False
    due: float = 0.0
    moved: float = field(default_factory=time.monotonic)
    served: float = 0.0
    job: Job[None] | None = None
    ending: Job[None] | None = None
    work: Done = field(default_factory=Done)
    looked: float | None = None
    root: str = ""
    real: str = ""
    stopped_at: tuple[Version, int] | None = None
    cpu: Rate = field(default_factory=lambda: Rate(BUSY))
    cpu_beside: Rate = field(default_factory=lambda: Rate(BUSY))
    signed_beside: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.root = self.root or self.entry.path or ""

    def stands_at(self, lag: Lag, table: Table | None = None) -> None:
        """Note how far the table is behind now. `table`: asked for the names of versions that are new."""
        before = self.lag
        if table is not None and (before is None or (before.covered, before.head) != (lag.covered, lag.head)):
            self.names = names_of(table, lag.covered, lag.head)
        self.lag, self.looked = lag, time.time()

    def failed(self, error: Exception) -> bool:
        """Note a failure; return whether state or reason changed."""
        self.work.failures += 1
        return self.standing.failed(error)

    def sign_if_busy(self, at_work: str) -> None:
        """Give a sign of life if the thread and the Spark tasks at work for the table use CPU time.

        `at_work`: the folder that shows the processes with a task of the table.
        """
        job = self.job
        if job is not None and self.at_work and job.began is not None:
            workers = sum(map(cpu_of_process, processes_at_work(at_work)))
            if self.cpu.is_busy(cpu_of_thread(job.thread) + workers):
                self.life.sign()

    def seconds_stuck_beside(self, at_work: str) -> float:
        """Return for how long the Spark tasks beside the batches of the table have used no CPU time.

        `at_work`: the folder that shows the processes with such a task.
        """
        processes, now = processes_at_work(at_work), time.monotonic()
        if not processes or self.cpu_beside.is_busy(sum(map(cpu_of_process, processes))):
            self.signed_beside = now
        return now - self.signed_beside

    def seconds_stuck(self) -> float:
        """Return for how long the work that goes on has given no sign of life."""
        job = self.job
        if job is None or not self.at_work or job.began is None or job.result.done():
            return 0.0
        return time.monotonic() - max(job.began, self.life.signed)

    @property
    def is_stuck(self) -> bool:
        """Return whether the table's work was given up as stuck, and still goes on."""
        return self.at_work and self.standing.state is TableState.STUCK

    @property
    def progress(self) -> tuple[Version, int]:
        """Return the version that the index covers, and the number of files that were indexed."""
        return -1 if self.lag is None else self.lag.covered, self.work.files

    @property
    def is_stopped(self) -> bool:
        """Return whether commits wait, and nothing was indexed since work on the table failed."""
        return self.lag is not None and self.lag.versions > 0 and self.stopped_at == self.progress

    @property
    def is_unseen(self) -> bool:
        """Return whether the table should have been looked at since the last look, and was not.

        So it is while attempts fail, a store does not answer, or no thread is free for the look.
        """
        since_due, since_look = time.monotonic() - self.due, time.time() - (self.looked or 0.0)
        return not self.entry.paused and min(since_due, since_look) > LATE_S

    @property
    def lag_now(self) -> Lag | None:
        """Return the lag behind the head that was seen last, and the time since it was seen.

        That time counts where commits waited then, or others may have come since. None if the table was never
        looked at.
        """
        lag, looked = self.lag, self.looked
        if lag is None or looked is None or not (lag.versions or self.is_unseen):
            return lag
        return replace(lag, seconds=lag.seconds + max(0.0, time.time() - looked))

    @property
    def is_behind(self) -> bool:
        """Return whether a commit waits, or may wait unseen, for longer than the lag contract allows."""
        lag = self.lag_now
        return lag is not None and lag.seconds > self.entry.max_lag

    @property
    def behind(self) -> str:
        """Return how far the table is behind, for the description of a job."""
        lag = self.lag_now
        assert lag is not None
        covered = "none" if lag.covered < 0 else f"v{self._name_of(lag.covered)}"
        return f"{self.entry.id} {covered} of v{self._name_of(lag.head)}: {lag.text}"

    def _name_of(self, version: Version) -> VersionName:
        return self.names.get(version, version)

    def account(self) -> dict[str, Any]:
        """Return state, reason, remedy, versions, lag and build, JSON-able."""
        lag, standing, followed = self.lag_now, self.standing, self.followed
        build = None if followed is None else followed.build
        return {
            "id": self.entry.id,
            "table": self.entry.place,
            "root": self.root,
            "state": standing.state.value,
            "since": round(standing.since, 3),
            "reason": standing.reason,
            "remedy": standing.remedy,
            "failures": standing.failures,
            "retry_in": None if standing.retry_in is None else round(standing.retry_in, 1),
            "last_error": {"reason": standing.last_error, "at": round(standing.erred, 3)}
            if standing.last_error
            else None,
            "covered": None if lag is None else lag.covered,
            "head": None if lag is None else lag.head,
            "covered_name": None if lag is None or lag.covered < 0 else self._name_of(lag.covered),
            "head_name": None if lag is None else self._name_of(lag.head),
            "lag": None if lag is None else lag.account(),
            "lost_indexes": [] if followed is None else list(followed.lost),
            "build": None if build is None else build.account(),
            "max_lag": self.entry.max_lag,
            "looked": self.looked,
            "work": asdict(self.work),
        }


_UNSTUCK = (
    "The other tables go on, and so does this one once its store answers; what it had on Spark's workers is "
    "ended and done again. If the store is well, start again."
)


def tell_behind(members: Iterable[Member], tell: Tell) -> None:
    """Set the state of tables whose commits wait for too long while a part goes on, or none can begin."""
    for member in members:
        if member.standing.state is TableState.FOLLOWING and member.is_behind:
            member.standing.becomes(TableState.BEHIND)
            tell(f"{member.entry.id}: behind, after following")


def give_up_stuck(
    members: Iterable[Member], looks: ThreadPool, pools: Sequence[ThreadPool], shared: Shared
) -> None:
    """Give up work without a sign of life: its thread counts no more, its Spark jobs are cancelled.

    `looks`: the pool that cancels the jobs. `pools`: all pools whose threads may be at work on a table.
    """
    for member in members:
        if member.gone and member.is_stuck:
            # Given up already; the jobs by its id are those of the table as it is configured now.
            continue
        at_work = os.path.join(shared.at_work, member.entry.id)
        member.sign_if_busy(at_work)
        limit = member.entry.stuck_after
        limit = max(large_stall_s(shared), limit) if member.large else limit
        seconds = member.seconds_stuck()
        if member.job is None or seconds <= limit:
            continue
        if member.ending is None or member.ending.result.done():
            # Other tables wait for the workers. Asked again, since a job may begin after a cancellation.
            member.ending = looks.submit(partial(end_jobs, shared.spark, at_work))
        if member.is_stuck:
            continue
        for pool in pools:
            pool.give_up(member.job)
        reason = f"no sign of life for {seconds:.0f} s: {member.life.doing}"
        member.standing.becomes(TableState.STUCK, reason, _UNSTUCK)
        shared.tell(f"{member.entry.id}: stuck: {reason}. {_UNSTUCK}")


def end_hung_beside(members: Iterable[Member], looks: ThreadPool, shared: Shared) -> None:
    """End the Spark jobs beside the batches whose tasks hang: all tables wait for the workers that they hold.

    Such a job (a fill, a merge) is begun again later. `looks`: the pool that ends them.
    """
    for member in members:
        at_work = beside(os.path.join(shared.at_work, member.entry.id))
        seconds = member.seconds_stuck_beside(at_work)
        if seconds <= max(large_stall_s(shared), member.entry.stuck_after):
            continue
        member.signed_beside = time.monotonic()
        looks.submit(partial(end_jobs, shared.spark, at_work))
        doing = f"work on Spark's workers beside the batches gave no sign of life for {seconds:.0f} s"
        shared.tell(f"{member.entry.id}: {doing}; it is ended, and begun again later")


def large_stall_s(shared: Shared) -> float:
    """Return the seconds that a large part may give no sign of life; 0 if CPU time shows that it works."""
    seen = sees_cpu_time() and on_one_machine(shared.master)
    return 0.0 if seen else LARGE_STALL_S
