"""Which part of the source log the next batch reads: admission, new rounds, lag. No Spark.

The memory of a planner is a cache: every answer follows from the log, the ledger and the offset passed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CommitGapError, CorruptIndexError, VersionNotFoundError
from tailbit.checkpoints.lag import Backlog, Lag
from tailbit.checkpoints.offset import Offset, log_start, snapshot_start
from tailbit.checkpoints.recovery import LogState, Resume, decide
from tailbit.index.maintenance.definitions import requirements_of
from tailbit.index.maintenance.rebuild import left_to_fill
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.settings import StreamSettings
from tailbit.tables.model import Version, after
from tailbit.tables.storage import one_look
from tailbit.tables.table import Table

BLANK_MS = 10_000
"""Milliseconds for which a newest commit without an action counts as still being written."""

CHECK_EVERY, CHECK_ALL_EVERY = 20, 60
"""In an object store, polls for the next commit between two looks for commits to the index, and between two
checks of the index and of the log's past."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """An offset that the ledger confirmed.

    `index_version`: version of the index whose ledger did. `stat`: changes as soon as an older commit is
    replaced.
    """

    offset: Offset
    resume: Resume
    index_version: Version
    stat: object


class Planner:
    """The answers to Spark's questions about offsets (positions in the source log); one planner per query.

    Cost: an idle poll is a few stats; in an object store one request, every 20th time two, every 60th
    four. The ledger (progress recorded in the index) is read again only when the offset, the index or an
    older commit changed.
    """

    def __init__(
        self,
        table: Table,
        index: MetadataTable,
        settings: StreamSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._table, self._index, self._settings = table, index, settings
        self._clock = clock
        self._backlog = Backlog(table)
        self._agreed: Agreement | None = None
        self._initial: Offset | None = None
        self._frozen: Version | None = None
        self._seen_head: Version = -1
        self._polls, self._polled = 0, 0.0

    def initial(self) -> Offset:
        """Return the first offset of a query without a Spark checkpoint; pinned at the first call."""
        if self._initial is None:
            with one_look():
                self._index.refresh()
                settings_version = self._index.state.settings.version
                self._initial = decide(self._index.state.ledger, None, self._log(), settings_version).offset
        return self._initial

    def freeze(self) -> None:
        """Fix the head of the log: later commits are not read."""
        self._frozen = self._table.head()

    def next(self, start: Offset) -> Offset:
        """Return the end of the next batch; `start` if there is nothing to do."""
        with one_look():
            return self._look(start) if self._is_due(start) else start

    def batches(self, start: Offset) -> Iterator[tuple[Offset, Offset]]:
        """Yield the start and the end of each batch from `start` on, until `next` finds nothing to do."""
        while (end := self.next(start)) != start:
            yield start, end
            start = end

    def report(self) -> dict[str, Any] | None:
        """Return the head as an offset, with the lag behind it; None before the first poll."""
        if self._agreed is None:
            return None
        offset, lag = self._agreed.offset, self.lag(self._agreed.offset)
        return Offset(offset.round, after(lag.head)).to_json() | {"behind": lag.account()}

    def lag(self, offset: Offset) -> Lag:
        """Return how far `offset` is behind the log; where a look is a request, behind the head last seen."""
        with one_look():
            head = self._seen_head if self._table.polled_by_requests else self._head()
            return self._backlog.lag(offset.read_through, head)

    def _is_due(self, start: Offset) -> bool:
        """Return whether to look for more work now.

        Where a poll costs a request, to an object store or a catalog, one probe decides.
        """
        agreed = self._agreed
        if agreed is not None and not agreed.offset == start == agreed.resume.offset:
            agreed = None
        if not self._table.polled_by_requests or agreed is None or self._frozen is not None:
            self._polls, self._polled = 0, self._clock()
            return True
        if self._clock() - self._polled < self._settings.poll_ms / 1000:
            return False
        self._polls, self._polled = (self._polls + 1) % CHECK_ALL_EVERY, self._clock()
        if self._polls == 0 or self._table.moved_on(self._seen_head):
            return True
        return self._polls % CHECK_EVERY == 0 and self._index.moved_on(agreed.index_version)

    def _look(self, start: Offset) -> Offset:
        base = self._agree(start)
        if base.round != start.round:
            return base
        try:
            return self._admit_files(base) if base.in_snapshot else self._admit_versions(base)
        except (CommitGapError, VersionNotFoundError):
            head = self._head()
            return snapshot_start(start.round + 1, self._table.fingerprint(head), head)

    def _agree(self, start: Offset) -> Offset:
        """Return where the stream continues, by the ledger.

        The ledger is read again only if the offset, the index or an older commit changed, whoever saw that
        first: others may share the object of the index.
        """
        if (
            not self._index.refresh()
            and self._agreed is not None
            and self._agreed.index_version == self._index.version
            and self._agreed.offset == start
            and self._agreed.stat == self._past(start)
        ):
            return self._agreed.resume.offset
        # The version first: a commit in between leads to one more look, never to one less.
        version, state = self._index.version, self._index.state
        # A run with `once` has no time beside the stream in which files are filled.
        lacking = self._frozen is not None and left_to_fill(self._table, state)
        resume = decide(state.ledger, start, self._log(), state.settings.version, lacking=lacking)
        self._agreed = Agreement(start, resume, version, self._past(start))
        return resume.offset

    def _past(self, offset: Offset) -> object:
        return self._table.fingerprint_stat(offset.stands_at)

    def _log(self) -> LogState:
        return LogState.of(self._table, self._head())

    def _head(self) -> Version:
        self._seen_head = self._table.head()
        return self._seen_head if self._frozen is None else min(self._seen_head, self._frozen)

    def _admit_files(self, base: Offset) -> Offset:
        """Return the offset after the next files of the round's snapshot that fit the limits of a batch.

        Files that have postings already cost nothing and count towards no limit.
        """
        snapshot = self._table.snapshot(base.version)
        files = snapshot.files
        required = requirements_of(self._index.state.settings.definitions, snapshot.schema)
        count = size = 0
        for number in range(base.file or 0, len(files)):
            slice_ = files[number]
            if self._is_done(slice_.path, required.of(slice_.partition)):
                continue
            count, size = count + 1, size + slice_.size
            if count > 1 and (count > self._settings.files or size > self._settings.bytes):
                return replace(base, file=number)
        return base.after_snapshot()

    def _is_done(self, path: str, required: Collection[str]) -> bool:
        """Return whether a file has counts and all `required` postings; False if its records are damaged."""
        try:
            record = self._index.state.recorded.get(path)
        except CorruptIndexError:
            return False
        posted = record is not None and record.space is not None and set(required).issubset(record.built)
        return record is not None and posted and record.counted

    def _admit_versions(self, base: Offset) -> Offset:
        """Return the offset after the next versions within a batch's limits, at least one if there is one."""
        limits, head = self._settings, self._head()
        last: Version | None = None
        files = size = 0
        for version in self._table.versions(base.version, head, limits.versions):
            try:
                commit = self._table.changes(version, version).commits[0]
            except CommitGapError:
                if last is None:
                    raise
                break
            files, size = files + commit.files_added + commit.files_removed, size + commit.bytes_added
            if last is not None and (files > limits.files or size > limits.bytes):
                break
            if commit.blank and version == head and time.time() * 1000 - commit.timestamp_ms < BLANK_MS:
                break
            last = version
        return base if last is None else log_start(base.round, self._table.fingerprint(last), last)


def versions_between(table: Table, start: Offset, end: Offset) -> Sequence[Version]:
    """Return the versions that a batch reads: those of the log, or the pinned one of a snapshot.

    If the log no longer has all of them, the last one alone; never an empty sequence.
    """
    if start.in_snapshot or start.round != end.round:
        return [end.stands_at]
    try:
        return table.versions(start.version, end.stands_at) or [end.stands_at]
    except CommitGapError:
        return [end.stands_at]
