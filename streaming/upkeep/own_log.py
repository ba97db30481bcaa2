"""The index's own log: where it cannot be read for longer than a writer takes, the index is made anew.

A commit gets its name once it is whole, in every store that is supported: a log that stays as it is for ten
seconds, while no other indexer gives a sign of life, is damaged.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

from tailbit.checkpoints.heartbeat import Heartbeat
from tailbit.errors import IndexFormatError, IndexLogError, TailbitError
from tailbit.index.maintenance.start_over import start_over_with
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.upkeep.mending import Tell
from tailbit.streaming.upkeep.patience import Patience
from tailbit.tables.storage import StorageOptions, open_storage

SURE_S = 10.0
"""A log that cannot be read for this many seconds is damaged: no writer is in the middle of a commit."""

P = TypeVar("P")


def in_time(
    prepare: Callable[[bool], P],
    storage_options: Mapping[str, str] | None,
    stop: threading.Event,
    tell: Tell,
    sure_s: float = SURE_S,
) -> P | None:
    """What `prepare` gives once the index's own log can be read; None where `stop` is set before.

    After `sure_s` seconds it is called with True, to make the index anew; at once where an older release
    wrote the index.

    Raises:
        IndexFormatError: a newer release wrote the index.
        IndexerRunningError: another indexer is at work, which may be writing.
        CorruptIndexError: the settings are lost, and no columns are asked for.
        TailbitError: as `prepare` raises it.
    """
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
    return None


def _made_anew(
    prepare: Callable[[bool], P],
    damage: IndexLogError | IndexFormatError,
    storage_options: Mapping[str, str] | None,
    stop: threading.Event,
    tell: Tell,
) -> P:
    """What `prepare` gives when it may make the index anew, while no other indexer is there."""
    options = StorageOptions.of(storage_options)
    heartbeat = Heartbeat(open_storage(str(damage.fields.get("file") or damage.fields["path"]), options))
    heartbeat.claim(stop)
    try:
        prepared = prepare(True)
    finally:
        heartbeat.release()
    tell(f"mended: {damage}; the index is made anew with its columns, and built again")
    return prepared


def mended_log(index: MetadataTable, failed: TailbitError, patience: Patience, tell: Tell) -> None:
    """Make the index of a run anew, if what it failed of is the index's own log, and for long enough.

    Raises:
        StorageError: the store refused.
    """
    if not isinstance(failed, IndexLogError) or patience.waited() < SURE_S:
        return
    start_over_with(index.path, index.state.settings.columns, index.storage.options, index.kinds)
    tell(f"mended: {failed}; the index is built again")
