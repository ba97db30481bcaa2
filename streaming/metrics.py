"""Metrics of a running indexer: the progress of a batch, the job description in the Spark UI."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from functools import cached_property
from typing import Protocol

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import TailbitError
from tailbit.checkpoints.lag import Backlog, Lag
from tailbit.tables import open_table
from tailbit.tables.model import Version, VersionName
from tailbit.tables.storage import StorageOptions, one_look, open_storage
from tailbit.tables.table import Table

_REMOTE_S = 10.0


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of one batch, or of one look at an idle table, for people.

    `table`: the root of the table. `id`: its name in a configuration, else empty. `covered`: the version the
    index covers, None until its first build is complete. `first` and `target`: the batch read the versions
    after `first` up to `target`. `files`, `rows`: numbers indexed or counted anew. `lag`: what is left to
    index. `building`: the first snapshot is not complete yet. `idle`: no batch runs, and all is covered.
    `look`: this is a look at an idle table, in which nothing was indexed.
    """

    table: str
    covered: Version | None
    first: Version
    target: Version
    head: Version
    files: int
    rows: int
    lag: Lag
    batch_ms: float
    building: bool = False
    batch_id: int = -1
    idle: bool = False
    look: bool = False
    id: str = ""
    names: Mapping[Version, VersionName] = field(default_factory=dict)
    """The names of versions that are not called by their numbers, as with Hudi instants."""

    def name_of(self, version: Version) -> VersionName:
        """Return the name of a version in messages and JSON: its number if it has no other."""
        return self.names.get(version, version)


def names_of(table: Table, *versions: Version | None) -> dict[Version, VersionName]:
    """Return the names of versions of a table that are not their numbers. Cost: in Hudi one look."""
    with one_look():
        named = {
            version: table.name_of(version) for version in versions if version is not None and version >= 0
        }
    return {version: name for version, name in named.items() if name != version}


def describe(
    table: str, first: Version | None, target: Version, lag: Lag, names: Mapping[Version, VersionName] = {}
) -> str:
    """Return the job description in the Spark UI. `names`: of versions that are not called by their numbers.

    >>> describe("orders", 120, 124, Lag(124, 131, versions=7, files=12, seconds=3.2))
    'orders · v120→v124 of v131 · 7 versions, 12 files, 3.2 s behind'
    >>> describe("orders", None, 17, Lag(17, 17), {17: "20261126120704151"})
    'orders · v20261126120704151 of v20261126120704151 · up to date'
    """
    span = "none" if target < 0 else f"v{names.get(target, target)}"
    if first is not None and first >= 0:
        span = f"v{names.get(first, first)}→{span}"
    return f"{table} · {span} of v{names.get(lag.head, lag.head)} · {lag.text}"


class Worker(Protocol):
    """Any object that records batches; `busy` while it records one."""

    busy: bool

    def latest(self) -> Progress | None:
        """Return the progress of the last batch."""


class IdleWatch:
    """The progress of an idle query, or of a query in a long batch, once a second.

    In an object store once in ten seconds, since each look is two requests. The watch has a table handle of
    its own, so it can run in another thread than the batches.
    """

    def __init__(
        self,
        path: str,
        worker: Worker,
        on_progress: Callable[[Progress], None] | None,
        options: StorageOptions,
    ) -> None:
        self._path, self._options = path, options
        self._every = _REMOTE_S if open_storage(path, options).remote else 1.0
        self._worker, self._on_progress = worker, on_progress
        self._next = 0.0

    @cached_property
    def _table(self) -> Table:
        """Return the table, opened on first use; a store that refuses is tried again at the next look."""
        return open_table(self._path, self._options)

    @cached_property
    def _backlog(self) -> Backlog:
        return Backlog(self._table)

    def look(self, now: float) -> None:
        """Report how far the index is behind the head, if the watch's interval has passed.

        Nothing is reported while the table cannot be read: the batch that reads it reports the error.
        """
        if self._on_progress is None or now < self._next:
            return
        self._next = now + self._every
        busy, latest = self._worker.busy, self._worker.latest()
        if latest is None:
            return
        with suppress(TailbitError, OSError):
            head = self._table.head()
            lag = self._backlog.lag(latest.lag.covered, head)
            if latest.building:
                lag = replace(lag, files=latest.lag.files, bytes=latest.lag.bytes)
            idle = not busy and not latest.building and not lag.versions
            done = replace(latest, head=head, lag=lag, files=0, rows=0, batch_ms=0.0, idle=idle, look=True)
            done = replace(done, names=names_of(self._table, done.covered, head))
            self._on_progress(done)
