"""The index's own log: if it stays unreadable for longer than a writer takes, the index is rebuilt.

In every supported store a commit gets its name only once it is complete: a log that stays unreadable for ten
seconds, while no other indexer gives a sign of life, is damaged.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from tailbit.checkpoints.heartbeat import Heartbeat
from tailbit.errors import (
    IndexerRunningError,
    IndexFormatError,
    IndexLogError,
    MalformedLogError,
    TailbitError,
)
from tailbit.index.maintenance.start_over import start_over_with
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.upkeep.mending import Tell
from tailbit.streaming.upkeep.patience import Patience, worth_a_restart
from tailbit.tables.storage import Storage, StorageOptions, open_storage

SURE_S = 10.0
"""Seconds after which an unreadable log is damaged, because no writer is in the middle of a commit."""

P = TypeVar("P")


def in_time(
    prepare: Callable[[bool], P],
    storage_options: Mapping[str, str] | None,
    stop: threading.Event,
    tell: Tell,
    sure_s: float = SURE_S,
) -> P | None:
    """Return the result of `prepare` once the index's own log can be read; None if `stop` is set before.

    `prepare(False)` opens the index, `prepare(True)` rebuilds it. The index is rebuilt once its log was
    unreadable for `sure_s` seconds, or at once if an older release wrote it. `tell` receives notices.

    Raises:
        IndexFormatError: a newer release wrote the index.
        IndexerRunningError: another indexer is at work, which may be writing.
        CorruptIndexError: the settings of the index are lost, and the caller named no columns.
        MalformedLogError: the log of the source is torn; a restart may find it whole.
        TailbitError: `prepare` raised it.
    """
    try:
        return _in_time(prepare, storage_options, stop, tell, sure_s)
    except IndexerRunningError:
        if stop.is_set():
            return None
        raise


def _in_time(
    prepare: Callable[[bool], P],
    storage_options: Mapping[str, str] | None,
    stop: threading.Event,
    tell: Tell,
    sure_s: float,
) -> P | None:
    patience = Patience(sure_s)
    while not stop.is_set():
        try:
            return prepare(False)
        except IndexFormatError as older:
            if not older.is_older:
                raise
            return _made_anew(prepare, older, storage_options, stop, tell)
        except IndexLogError as damage:
            pause = patience.pause(damage)
            if pause is None:
                return _made_anew(prepare, damage, storage_options, stop, tell)
            tell(f"{damage}; tried again in {pause:.1f} s")
            stop.wait(pause)
        except MalformedLogError as torn:
            # The source's log is torn: it may be whole once its writer goes on.
            raise worth_a_restart(torn) from torn
    return None


def _made_anew(
    prepare: Callable[[bool], P],
    damage: IndexLogError | IndexFormatError,
    storage_options: Mapping[str, str] | None,
    stop: threading.Event,
    tell: Tell,
) -> P:
    """Return the result of `prepare(True)`, which may rebuild the index, while no other indexer is there."""
    options = StorageOptions.of(storage_options)
    with alone(open_storage(str(damage.fields.get("file") or damage.fields["path"]), options), stop):
        prepared = prepare(True)
    tell(f"mended: {damage}; the index is made anew with its columns, and built again")
    return prepared


@contextmanager
def alone(storage: Storage, stop: threading.Event | None = None) -> Iterator[None]:
    """Hold the heartbeat of the index in a store, so that no other indexer is at work in the block.

    Raises:
        IndexerRunningError: another indexer is at work, or `stop` was set while this was unknown.
    """
    heartbeat = Heartbeat(storage)
    heartbeat.claim(stop)
    try:
        yield
    finally:
        heartbeat.release()


def mended_log(index: MetadataTable, failed: TailbitError, patience: Patience, tell: Tell) -> None:
    """Rebuild the index when runs keep failing because the index's own Delta log is damaged.

    Raises:
        StorageError: the store refused.
    """
    if not isinstance(failed, IndexLogError) or patience.lasts() < SURE_S:
        return
    known = index.state.settings.definitions
    start_over_with(index.path, lambda: known, index.storage.options, index.kinds)
    tell(f"mended: {failed}; the index is built again")
