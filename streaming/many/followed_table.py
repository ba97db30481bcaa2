"""An open table of an application: looked at, indexed and closed, by the engine of `tailbit run TABLE`.

Its index is opened or made, compared with the entry of the configuration, and completed. The statements of
each index are kept beside the lease: an application makes an index that is gone anew from its configuration,
which may say less than the index had. Cost of that: a read when a table is opened, and a write when its
indexes have changed.
"""

from __future__ import annotations

import os
import random
import shlex
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import (
    IndexNameTakenError,
    NoIndexError,
    NotATableError,
    SourceError,
    StatementError,
    TailbitError,
)
from tailbit.base.wording import Tell
from tailbit.checkpoints.builds import BuildProgress, lag_of_build
from tailbit.checkpoints.claim import Claim
from tailbit.checkpoints.lag import Lag
from tailbit.checkpoints.liveness import Liveness
from tailbit.checkpoints.offset import Offset, log_start, snapshot_start
from tailbit.index.advice.estimate import decided
from tailbit.index.maintenance.create import indexed_columns
from tailbit.index.maintenance.definitions import add, define, find, statements_of
from tailbit.index.model import Definition, LedgerState, Settings
from tailbit.index.sql.ddl.parser import Scripted, parse_script, script_of
from tailbit.index.sql.ddl.statements import TableReference
from tailbit.index.store.place import index_path, is_made
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.batch import Batch, OnProgress, TableAtWork
from tailbit.streaming.config.check import NEEDS_COLUMNS, checks_of, statement_of
from tailbit.streaming.config.model import TableEntry
from tailbit.streaming.executors import SparkExecutor, beside
from tailbit.streaming.opening import SURE_S, open_index
from tailbit.streaming.planner import Planner
from tailbit.streaming.settings import StreamSettings
from tailbit.streaming.sweeping import Upkeep, retry_now
from tailbit.tables import open_table
from tailbit.tables.storage import SMALL, Storage, StorageOptions, open_storage
from tailbit.tables.storage.refusals import may_pass
from tailbit.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def opened_index(entry: TableEntry, table: Table, tell: Tell, sure_s: float = SURE_S) -> MetadataTable:
    """Return the index of a table, with whatever it has; one that is made has what the entry says.

    Raises:
        NoIndexError: there is no index, and the entry does not say what it has.
        TailbitError: the index cannot be opened or made, as of `open_index`.
    """
    place = index_path(table.root, entry.index)
    says_nothing = entry.columns is None and not entry.indexes
    if says_nothing and not is_made(open_storage(place, table.storage.options)):
        raise NoIndexError(path=place, hint=NEEDS_COLUMNS)
    first = partial(_first_definitions, entry, table)
    index = open_index(table, place, first, must_match=False, tell=tell, sure_s=sure_s)
    # Without an event to set, the wait for a log does not end early.
    assert index is not None
    return index


def _first_definitions(entry: TableEntry, table: Table) -> Sequence[Definition] | None:
    """Return what a new index of an entry has at first; None if the entry does not say."""
    if entry.columns is not None:
        return indexed_columns(table, entry.columns)
    if not entry.indexes:
        return None
    first = entry.indexes[0]
    return (define(statement_of(first, table.root), table.snapshot().schema, first.zone),)


def differences(entry: TableEntry, table: Table, index: MetadataTable) -> list[str]:
    """Return a line for each difference between an entry and its index, which goes on with what it has."""
    lines = []
    for check in checks_of(entry, table, index):
        try:
            check.run()
        except TailbitError as differs:
            if may_pass(differs) or isinstance(differs, SourceError):
                raise
            if check.goes_on:
                lines.append(f"{differs}; the index goes on with what it has. {differs.hint}")
    return lines


def define_missing(entry: TableEntry, table: Table, index: MetadataTable) -> None:
    """Create the indexes by name that the entry has and the index lacks.

    One whose terms the index has under another name is left out: `differences` names it.
    """
    for written in entry.indexes:
        if find(index.state.settings.definitions, written.name) is None:
            schema = table.snapshot().schema
            definition = define(statement_of(written, table.root), schema, written.zone)
            with suppress(IndexNameTakenError):
                add(index, decided(table, [definition])[0], schema)


FILL_LOOK_S, REMOTE_FILL_LOOK_S = 10.0, 600.0
"""Seconds between two looks of one table for files to fill, on disk and in an object store."""

UPKEEP_S, REST_S = 600.0, 10_800.0
"""Seconds between two passes of a table's upkeep: by default, and at most if its index does not change."""

CHANGED_S = 60.0
"""Least seconds until the filling looks again for work because the index has changed."""


@dataclass(frozen=True)
class Shared:
    """What the tables of an application share.

    `lease`: the application's; the mark on each index refers to it, so no index needs a heartbeat. `workers`:
    held by the one table that uses Spark's workers. `at_work`: the folder that shows, by table, the processes
    with a task. `locate`: returns the path or URI of a table by its name in the catalog. `place`: the storage
    of the lease, where the statements of indexes are remembered. `told`: what was told once, each with the id
    of its table.
    """

    spark: SparkSession
    lease: Claim
    workers: threading.Lock
    life: Liveness
    tell: Tell
    on_progress: OnProgress | None
    locate: Callable[[str], str]
    at_work: str
    place: Storage
    told: set[tuple[str, str]] = field(default_factory=set)

    def tell_once(self, id_: str, line: str) -> None:
        """Tell a line of one table, if it was not told before."""
        if (id_, line) not in self.told:
            self.told.add((id_, line))
            _tell_of(id_, self.tell, line)

    @property
    def master(self) -> str:
        """Return the URL of Spark's master."""
        return str(self.spark.sparkContext.master)


class FollowedTable:
    """An open table with its index. Used by one thread at a time, besides its own threads.

    Invariant: while the table is open, this application's mark is on the index.
    """

    def __init__(
        self, entry: TableEntry, shared: Shared, life: Liveness, unclaimed: Callable[[Lag, Table], None]
    ) -> None:
        """Open table and index, claim the index, create its missing indexes by name, and start the threads.

        An index whose own log is damaged, or which an older release wrote, is made anew. `life`: the signs of
        life of the table. `unclaimed`: receives the lag of an index that cannot be claimed, as where its disk
        is full.
        """
        options = StorageOptions.of(entry.storage_options)
        path = entry.path if entry.name is None else shared.locate(entry.name)
        assert path is not None
        tell = partial(_tell_of, entry.id, shared.tell)
        self.table = open_table(path, options)
        life.sign("opening the index")
        self._remembered = IndexMemory(shared.place, entry.id, self.table)
        self.index = self._opened_index(entry, tell)
        self._whole = shared.life
        at_work = os.path.join(shared.at_work, entry.id)
        for folder in (at_work, beside(at_work)):
            os.makedirs(folder, exist_ok=True)
        self._mark = Claim(self.index.storage, lease=shared.lease)
        settings = StreamSettings(
            versions=entry.max_versions, files=entry.max_files, bytes=entry.max_bytes, poll_ms=1
        )
        self._planner = Planner(self.table, self.index, settings)
        try:
            self._mark.acquire()
        except TailbitError:
            with suppress(TailbitError, OSError):
                unclaimed(self.lag(self._planner.initial()), self.table)
            raise
        try:
            self._start(entry, shared, life, tell, settings)
        except BaseException:
            self._mark.release()
            raise

    def _opened_index(self, entry: TableEntry, tell: Tell) -> MetadataTable:
        """Return the index of the table, opened or made; a refusal to make one says what is remembered."""
        try:
            return opened_index(entry, self.table, tell)
        except NoIndexError as unmade:
            hint = f"{unmade.hint} {self._remembered.remedy}".strip()
            raise NoIndexError(**{**unmade.fields, "hint": hint}) from unmade

    @property
    def lost(self) -> tuple[str, ...]:
        """Return the names of the indexes that were lost with an earlier index of the table."""
        return self._remembered.lost

    def _start(
        self, entry: TableEntry, shared: Shared, life: Liveness, tell: Tell, settings: StreamSettings
    ) -> None:
        for line in differences(entry, self.table, self.index):
            shared.tell_once(entry.id, line)
        define_missing(entry, self.table, self.index)
        self._remembered.note(self.index.state.settings)
        if self._remembered.told:
            shared.tell_once(entry.id, self._remembered.told)
        retry_now(self.table, self.index, tell)
        batch = Batch(
            self.table,
            self.index,
            settings,
            SparkExecutor(shared.spark),
            self._mark,
            shared.on_progress,
            tell,
            life,
            workers=shared.workers,
            processes=os.path.join(shared.at_work, entry.id),
            id_=entry.id,
        )
        self.inline_bytes = settings.inline_bytes
        look_s = REMOTE_FILL_LOOK_S if self.index.storage.remote else FILL_LOOK_S
        # All tables begin together: passes of all of them at one time would hold up every batch.
        first_s = random.uniform(0.0, UPKEEP_S)
        upkeep = Upkeep(batch.mender, UPKEEP_S, entry.retention, REST_S, first_s=first_s)
        self._at_work = TableAtWork(self._planner, batch, batch.fill_thread(look_s), upkeep)
        self._filled_at, self._fill_due = self.index.version, 0.0
        self._at_work.filling.start()
        upkeep.start()

    def look(self, start: Offset | None) -> Offset:
        """Return the end of the table's next batch after `start`; its first offset if that is None."""
        self._mark.renew()
        end = self._at_work.look(start)
        self._note_changes()
        self._remembered.note(self.index.state.settings)
        return end

    def _note_changes(self) -> None:
        """Wake the filling and the upkeep if the index has changed, every `CHANGED_S` seconds at most."""
        now = time.monotonic()
        if self.index.version != self._filled_at and now >= self._fill_due:
            self._filled_at, self._fill_due = self.index.version, now + CHANGED_S
            self._at_work.filling.wake()
            self._at_work.upkeep.wake()

    def catch_up(self, offset: Offset | None) -> Offset:
        """Index what follows an offset in the log if it is not large; return the end of the next batch.

        So an application that takes over indexes new commits before Spark's query has started. The batch in
        which Spark later covers the same commits changes nothing. `offset`: None for the first offset.
        """
        start = self.look(None) if offset is None else offset
        lag = self.lag(start)
        if not lag.versions or self.is_large(start, lag):
            return start if offset is None else self.look(offset)
        end = self.look(start)
        if end != start:
            self.work(start, end, self._whole.batch)
        return end

    def lag(self, offset: Offset) -> Lag:
        """Return how far the index is behind the log, of which the query was given the part up to an offset.

        The offset may be ahead of the index, as after a part that failed: what was only given does not count.
        While a snapshot is built, files and bytes are those that are still to be built.
        """
        ledger = self.index.state.ledger
        if ledger is None:
            lag = self._planner.lag(offset if offset.in_snapshot else Offset(offset.round, 0))
        else:
            offset_at = snapshot_start if ledger.state is LedgerState.BUILDING else log_start
            covers = offset_at(ledger.round, None, ledger.version)
            lag = self._planner.lag(min(offset, covers, key=lambda each: each.read_through))
        if ledger is not None and ledger.state is not LedgerState.BUILDING:
            return lag
        return lag_of_build(lag, self._mark.builds.of(self.index.state.index_id, shown_s=0.0))

    def is_large(self, start: Offset, lag: Lag) -> bool:
        """Return whether a batch may take long: files of a snapshot, or many bytes."""
        return start.in_snapshot or lag.bytes > self.inline_bytes

    def work(self, start: Offset, end: Offset, batch_id: int) -> int:
        """Index a table's part of a batch, from `start` to `end`; return the number of bytes read."""
        self._mark.renew()
        return self._at_work.work(start, end, batch_id)

    def cause(self, error: Exception) -> Exception:
        """Return why work failed: NotATableError where the whole table is gone and not only its index."""
        if isinstance(error, NoIndexError):
            try:
                self.table.head()
            except NotATableError as gone:
                return gone
            except (TailbitError, OSError):
                return error
        return error

    @property
    def build(self) -> BuildProgress | None:
        """Return the build at work for the index; None if there is none to show."""
        return self._mark.builds.of(self.index.state.index_id)

    def close(self) -> None:
        """Stop the threads of the table and release its index; safe to call twice."""
        self._at_work.stop(10.0)
        self._mark.builds.forget(self.index.state.index_id)
        self._mark.release()


def _tell_of(id_: str, tell: Tell, line: str) -> None:
    tell(f"{id_}: {line}")


FOLDER = "indexes"
"""The folder of the files with statements, below that of the lease."""

_INDEX, _LOST = "-- index ", "-- lost with an earlier index:"


@dataclass(frozen=True)
class Memory:
    """What is remembered of the indexes of a table: the id of the index, its statements, and what is lost."""

    index_id: str = ""
    known: tuple[Scripted, ...] = ()
    lost: tuple[Scripted, ...] = ()

    def now(self, settings: Settings, known: Sequence[Scripted]) -> Memory:
        """Return the memory of an index with these settings and statements.

        What the same index no longer has was dropped; what another one in its place lacks is lost, until it
        has an index of that name again.
        """
        before = self.lost if self.index_id in ("", settings.index_id) else (*self.known, *self.lost)
        lost = tuple(s for s in before if find(settings.definitions, s.statement.name) is None)
        return Memory(settings.index_id, tuple(known), lost)

    @property
    def lost_names(self) -> tuple[str, ...]:
        """Return the names of the indexes that are lost."""
        return tuple(dict.fromkeys(scripted.statement.name for scripted in self.lost))

    def text(self) -> str:
        """Return the memory as a script, which creates all of it again."""
        lost = f"{_LOST}\n{script_of(self.lost)}" if self.lost else ""
        # The first part ends in UTC, in which each part begins.
        return f"{_INDEX}{self.index_id}\n{script_of(self.known)}SET TIME ZONE 'UTC';\n{lost}"

    @classmethod
    def of(cls, text: str) -> Memory:
        """Parse what `text` returned."""
        first, _, rest = text.partition("\n")
        statements, _, lost = rest.partition(f"{_LOST}\n")
        scripts = (tuple(parse_script(script)) for script in (statements, lost))
        return cls(first.removeprefix(_INDEX), *scripts)


class IndexMemory:
    """The memory of the indexes of one table, in a file that the application writes and people can use."""

    def __init__(self, place: Storage, id_: str, table: Table) -> None:
        """Read what an earlier run wrote; a file that is none of ours is replaced."""
        self._place, self._name, self._table = place, f"{FOLDER}/{id_}.sql", table
        self._memory, self._written = Memory(), ""
        self._seen: tuple[str, int] | None = None
        with suppress(OSError, TailbitError, StatementError, UnicodeDecodeError):
            self._written = place.read(self._name, SMALL).decode("utf-8")
            self._memory = Memory.of(self._written)

    @property
    def lost(self) -> tuple[str, ...]:
        """Return the names of the indexes that were lost with an earlier index, and are not there again."""
        return self._memory.lost_names

    @property
    def file(self) -> str:
        """Return the path or URL of the file."""
        return f"{self._place.root}/{self._name}"

    def note(self, settings: Settings) -> None:
        """Remember the indexes of a table as they are now, if they have changed.

        A file that cannot be written is tried again at the next change: it is no part of an index.
        """
        seen = settings.index_id, settings.version
        if seen == self._seen:
            return
        self._seen = seen
        table = TableReference("path", (self._table.address,), format=self._table.words.sql_name)
        statements = statements_of(settings.definitions, self._table.snapshot().schema, table)
        self._memory = self._memory.now(settings, statements)
        text = self._memory.text()
        if text != self._written:
            with suppress(OSError, TailbitError):
                self._place.put(self._name, text.encode())
                self._written = text

    @property
    def told(self) -> str:
        """Return what is lost and how it comes back; empty if nothing is."""
        if not self.lost:
            return ""
        lost = ", ".join(self.lost)
        return (
            f"its index was gone and is made anew from the configuration, which lacks {lost}. {self.remedy}"
        )

    @property
    def remedy(self) -> str:
        """Return how what is remembered comes back; empty if nothing is."""
        if not self._written:
            return ""
        again = shlex.join(["tailbit", "index", "create", self._table.address, "--from", self.file])
        return f"To have again what it had: {again}; to forget it, delete that file."
