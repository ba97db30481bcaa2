"""The index of a table: opened, made if there is none, and made anew if it cannot be read.

Unreadable are an index of an older release, one whose records are lost, and one whose own log is damaged. In
every supported store a commit gets its name only once it is complete: a log that stays unreadable for ten
seconds, while no other indexer gives a sign of life, is damaged. A passing error of a store looks like damage
too, so a file of records is read once more before the index is given up.
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
from tailbit.index.maintenance.create import check_columns, check_remembered, open_or_create, start_over
from tailbit.index.maintenance.repair import why_damaged
from tailbit.index.model import Definition
from tailbit.index.store.place import refuse_index_as_table
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.patience import Patience
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
