"""The index of a table: opened, made if there is none, and made anew if it cannot be read.

Unreadable are an index of an older release, one whose records are lost, and one whose own log is damaged. In
every supported store a commit gets its name only once it is complete: a log that stays unreadable for ten
seconds, while no other indexer gives a sign of life, is damaged.

A damaged file of the index is mended while the stream goes on, and the batch that met it is retried. A file
is read once more before it is removed or the index is given up: a passing error of a store, a folder that
vanished for a moment, or a process out of file handles, looks like damage too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from tailbit.base.errors import (
    CorruptIndexError,
    IndexerRunningError,
    IndexFormatError,
    IndexLogError,
    StorageError,
    TailbitError,
    UsageError,
)
from tailbit.base.wording import Tell, tell_nobody
from tailbit.checkpoints.claim import Claim
from tailbit.index.advice.estimate import decided
from tailbit.index.kinds.kind import Problem
from tailbit.index.maintenance.create import check_columns, check_remembered, open_or_create, start_over
from tailbit.index.maintenance.repair import damage_of, is_of_records, mend, why_damaged
from tailbit.index.model import Definition
from tailbit.index.store.place import refuse_index_as_table
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.patience import Patience
from tailbit.tables import open_table
from tailbit.tables.storage import Storage, open_storage
from tailbit.tables.table import Table

SURE_S = 10.0
"""Seconds after which an unreadable log is damaged, because no writer is in the middle of a commit."""

_ATTEMPTS = 3
"""How often an index is opened whose records could be read after an error."""

Required = Callable[[], Sequence[Definition] | None]
"""A function that returns what a new index of a table records; None if nobody says."""


def open_index(
    table: Table,
    path: str,
    required: Required,
    *,
    must_match: bool = True,
    stop: threading.Event | None = None,
    tell: Tell = tell_nobody,
    sure_s: float = SURE_S,
) -> MetadataTable | None:
    """Open the index at `path`, and make it if there is none or it cannot be read; None if `stop` is set.

    The index's store is opened with the options of the table's store. An index that is made anew keeps its
    definitions, or has the required ones if its own are lost. `must_match`: whether an existing index must
    have the required columns, if some are required. `tell`: receives notices. `sure_s`: how long a log that
    cannot be read is waited for.

    Raises:
        IndexerRunningError: the index cannot be read, and another indexer is at work, which may be writing.
        IndexFormatError: a newer release wrote the index.
        CorruptIndexError: the settings of the index are lost, and nothing is required.
        StorageError: the records cannot be read for a reason that says nothing about them.
        UsageError: no index exists, and nothing is required.
        SettingsError: the index has other columns than those that it must have.
        TailbitError: the index cannot be opened or made.
    """
    stop = stop or threading.Event()
    try:
        return _open_index(table, path, required, must_match, stop, tell, Patience(sure_s))
    except IndexerRunningError:
        if stop.is_set():
            return None
        raise


def _open_index(
    table: Table,
    path: str,
    required: Required,
    must_match: bool,
    stop: threading.Event,
    tell: Tell,
    patience: Patience,
) -> MetadataTable | None:
    storage, attempts, is_new = open_storage(path, table.storage.options), 0, False
    while not stop.is_set():
        try:
            return _opened(table, path, required, must_match)
        except IndexLogError as unreadable:
            pause = patience.pause(unreadable)
            if pause is not None:
                tell(f"{unreadable}; tried again in {pause:.1f} s")
                stop.wait(pause)
                continue
            damage: TailbitError = unreadable
        except IndexFormatError as older:
            if not older.is_older:
                raise
            damage = older
        except CorruptIndexError as lost:
            damage = lost
        if is_new:
            # A store that gives back something else than was written: another index would fare no better.
            raise damage
        with _claimed(storage, stop):
            if _is_readable(storage, damage):
                attempts += 1
                if attempts == _ATTEMPTS:
                    file = f"{path}/{damage.fields['file']}"
                    raise StorageError(path=file, reason="it was read now and then, and then again not")
                continue
            if must_match:
                check_remembered(path, required(), storage.options)
            start_over(path, partial(_decided, table, required), storage.options)
        is_new = True
        tell(f"mended: {damage}; the index is made anew with its columns, and built again")
    return None


def _opened(table: Table, path: str, required: Required, must_match: bool) -> MetadataTable:
    """Open the index at `path`, or make it if there is none."""
    make, options = partial(_first_definitions, table, path, required), table.storage.options
    index, is_new = open_or_create(path, make, options)
    definitions = required() if must_match and not is_new else None
    if definitions is not None:
        check_columns(path, index.state.settings.columns, definitions)
    return index


def _first_definitions(table: Table, path: str, required: Required) -> Sequence[Definition]:
    refuse_index_as_table(table)
    definitions = _decided(table, required)
    if definitions is None:
        raise UsageError(
            reason=f"no index at {path} yet, and no columns are given", hint="Give --columns a,b,c."
        )
    return definitions


def _decided(table: Table, required: Required) -> Sequence[Definition] | None:
    """Return what is required, with the decision whether values are counted."""
    definitions = required()
    return None if definitions is None else decided(table, definitions)


def _is_readable(storage: Storage, damage: TailbitError) -> bool:
    """Return whether the records that an error names can be read now, as after a passing error of a store."""
    if isinstance(damage, (IndexLogError, IndexFormatError)):
        return False
    return why_damaged(storage, str(damage.fields["file"])) is None


@contextmanager
def _claimed(storage: Storage, stop: threading.Event) -> Iterator[None]:
    """Hold the heartbeat of the index in a store, so that no other indexer is at work in the block."""
    heartbeat = Claim(storage)
    heartbeat.acquire(stop)
    try:
        yield
    finally:
        heartbeat.release()


def start_over_in_time(index: MetadataTable, failed: TailbitError, patience: Patience, tell: Tell) -> None:
    """Make the index anew when runs keep failing because its own log is damaged."""
    if not isinstance(failed, IndexLogError) or patience.lasts() < SURE_S:
        return
    definitions = index.state.settings.definitions
    start_over(index.path, lambda: definitions, index.storage.options, index.kinds)
    tell(f"mended: {failed}; the index is built again")


class Mender:
    """The removal of damaged files from one index, for the thread that commits to it; `mended` counts them.

    `tell`: shows the lines of notice.
    """

    def __init__(self, table: Table, index: MetadataTable, tell: Tell = tell_nobody) -> None:
        self.table, self.index, self.tell = table, index, tell
        self._noted: dict[str, CorruptIndexError] = {}
        self.mended = 0

    def of_another_thread(self) -> Mender:
        """Return a mender of the same index with handles of its own, for another thread.

        If both commit at once, the second one starts again.
        """
        index = MetadataTable.open(self.index.path, options=self.index.storage.options)
        return Mender(open_table(self.table.root, self.table.storage.options), index, self.tell)

    def note(self, error: CorruptIndexError) -> None:
        """Record damage that another thread met, of each file once; `mend_noted` mends it."""
        self._noted[str(error.fields["file"])] = error.with_traceback(None)

    def mend_noted(self) -> None:
        """Mend the damage that other threads noted, and report what was mended in the log meanwhile."""
        for line in self.index.take_mended():
            self.tell(f"mended: {line}")
        while self._noted:
            self.mend(self._noted.popitem()[1])

    def mend(self, error: CorruptIndexError) -> None:
        """Remove the files that an error names from the index, unless they can be read after all.

        The caller tries again; the planner finds by itself which files need postings again.

        Raises:
            StorageError: the store refuses for a reason that has nothing to do with the file.
            IndexLogError: the index's own log cannot be read: a writer may be in the middle of a commit.
            TailbitError: the index cannot be mended: its log cannot be written.
        """
        try:
            self.index.refresh()
            if not isinstance(error, IndexLogError):
                # A log that could not be read has no file to remove: `refresh` has read it by now.
                self._mend(error)
        except IndexLogError:
            raise
        except CorruptIndexError as records:
            if not is_of_records(records):
                # Another file was damaged, or found to be, in the meantime.
                self._mend(records)
            elif self._why_damaged(str(records.fields["file"])) is not None:
                # The file records themselves are damaged: neither this process nor the index has them whole.
                self._start_over(records)

    def _mend(self, error: CorruptIndexError) -> None:
        damage = damage_of([Problem.of(error)])
        reason = str(error.fields.get("reason"))
        for path in damage.files:
            if path not in self.index.state.files:
                return
            why = self._why_damaged(path)
            if why is None:
                return
            reason = f"index file {path}: {why}"
        done = mend(self.index, self.table, damage, reason)
        self.mended += 1
        self.tell(f"mended: {reason}; {_what_follows(done.to_post, done.to_count)}")

    def _why_damaged(self, path: str) -> str | None:
        return why_damaged(self.index.storage, path, self.index.kinds)

    def _start_over(self, error: CorruptIndexError) -> None:
        known = self.index.state.settings.definitions
        start_over(self.index.path, lambda: known, self.index.storage.options, self.index.kinds)
        self.index.refresh()
        self.mended += 1
        self.tell(f"mended: {error}; the index is built again")


def _what_follows(to_post: int, to_count: int) -> str:
    if not to_post and not to_count:
        return "nothing is lost"
    posted = f"{to_post} data files are scanned until they are posted again" if to_post else ""
    counted = f"{to_count} data files are counted again" if to_count else ""
    return ", ".join(filter(None, (posted, counted)))
