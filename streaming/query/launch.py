"""A prepared job of one table and its query: checked before Spark starts, with named errors at its end."""

from __future__ import annotations

import errno
import os
import re
import tempfile
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, Union

from tailbit.arguments.values import names, path_text, text, texts_by_name
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import (
    MalformedLogError,
    NoIndexError,
    NotATableError,
    StorageError,
    TailbitError,
    UnusableStorageError,
)
from tailbit.base.wording import Tell, tell_nobody
from tailbit.checkpoints.claim import Claim
from tailbit.checkpoints.liveness import Liveness
from tailbit.index.maintenance.create import indexed_columns
from tailbit.index.store.place import index_path, is_made
from tailbit.index.store.table import MetadataTable
from tailbit.streaming import spark_checkpoint
from tailbit.streaming.batch import Batch, OnProgress, TableAtWork
from tailbit.streaming.executors import Executor, SparkExecutor
from tailbit.streaming.filler import LOOK_S, REMOTE_LOOK_S
from tailbit.streaming.opening import SURE_S, open_index
from tailbit.streaming.patience import worth_a_restart
from tailbit.streaming.planner import Planner
from tailbit.streaming.query.one_table import OneTable
from tailbit.streaming.query.query import Query, start_query
from tailbit.streaming.settings import REMOTE_POLL_MS, StreamSettings, milliseconds, own_state
from tailbit.streaming.sweeping import Upkeep
from tailbit.tables import open_table
from tailbit.tables.storage import StorageOptions
from tailbit.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

Path = Union[str, "os.PathLike[str]"]

CHECKPOINT_FOLDER = "_checkpoint"
CONTINUOUS_MS = 1000
"""Largest trigger at which the next commit is read at once."""

_REFUSED_FOR_GOOD = frozenset(
    (
        *(errno.EACCES, errno.EPERM, errno.EROFS),
        *(errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL),
    )
)
"""Errors of the operating system that waiting does not mend: no permission, or a path that is no folder's."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A table and its index, checked before Spark starts."""

    table: Table
    index: MetadataTable
    checkpoint: str
    settings: StreamSettings
    trigger_ms: int

    @property
    def pace_s(self) -> float:
        """Return the least seconds between two batches; 0 if each commit is read at once."""
        return 0.0 if self.trigger_ms <= CONTINUOUS_MS else self.trigger_ms / 1000

    @property
    def name(self) -> str:
        """Return the query's name: the table's folder name, and enough of the index id to be unique."""
        folder = re.sub(r"\W", "_", PurePath(self.table.root).name)
        return f"{folder}_{self.index.state.index_id[:6]}"


@dataclass(frozen=True, slots=True)
class Job:
    """A running query of one table, and the resources to release when it ends."""

    started: Query
    stream: OneTable
    heartbeat: Claim
    prepared: Prepared

    @property
    def query(self) -> StreamingQuery:
        """Return Spark's query."""
        return self.started.running

    @property
    def batch(self) -> Batch:
        """Return the batches of the table."""
        return self.stream.at_work.batch

    def close(self) -> None:
        """Release the heartbeat, and stop the threads beside the query."""
        self.heartbeat.release()
        self.end()

    def end(self, merge_s: float = 0.0) -> bool:
        """Stop what works beside the query, and answer its planner no more; the heartbeat stays.

        What Spark created in place of a table or an index that has vanished is removed too. A merge at work
        is waited for, `merge_s` seconds at most; return whether it mended damage.
        """
        mended = self.stream.at_work.stop(merge_s)
        self.started.socket.close()
        with suppress(TailbitError):
            refuse_vanished(self.prepared)
        return mended

    def failure(self) -> TailbitError | None:
        """Return why the query ended, or why a merge beside it failed, by name; None after a success."""
        return self.stream.error or self.batch.merger.failure or self.started.failure()


def prepare(
    path: Path,
    columns: Iterable[str] | None,
    index: Path | None,
    checkpoint: Path | None,
    trigger: str,
    storage_options: Mapping[str, str] | None = None,
    stop: threading.Event | None = None,
    tell: Tell = tell_nobody,
    sure_s: float = SURE_S,
) -> Prepared | None:
    """Return the table and its index, opened or made as `open_index` does; None if `stop` is set before.

    Raises:
        UsageError: the table, a column, the index or the trigger is not valid.
        IndexerRunningError: the index cannot be read, and another indexer is at work.
        TailbitError: the index cannot be opened or made.
    """
    trigger_ms = milliseconds(text("trigger", trigger))
    columns = None if columns is None else names("columns", columns)
    index, checkpoint = (
        None if given is None else path_text(name, given)
        for name, given in (("index", index), ("checkpoint", checkpoint))
    )
    options = StorageOptions.of(texts_by_name("storage_options", storage_options))
    try:
        table = open_table(path_text("path", path), options)
        required = None if columns is None else indexed_columns(table, columns)
        place = index_path(table.root, index or None)
        index_log = open_index(table, place, lambda: required, stop=stop, tell=tell, sure_s=sure_s)
    except MalformedLogError as torn:
        # The table's log may be whole once its writer goes on.
        raise worth_a_restart(torn) from torn
    if index_log is None:
        return None
    settings = StreamSettings(
        poll_ms=REMOTE_POLL_MS if table.polled_by_requests else StreamSettings().poll_ms
    )
    if checkpoint or index_log.storage.remote:
        make_checkpoint_folder(checkpoint or _checkpoint_of(index_log))
    return Prepared(table, index_log, checkpoint or _checkpoint_of(index_log), settings, trigger_ms)


def _checkpoint_of(index: MetadataTable) -> str:
    """Return the path of Spark's checkpoint: below the index; on this machine if the index is remote.

    The checkpoint is a cache: without it, a query continues where the ledger of the index says.
    """
    if not index.storage.remote:
        return os.path.join(index.path, CHECKPOINT_FOLDER)
    return str(own_state() / "checkpoints" / index.state.index_id)


def make_checkpoint_folder(checkpoint: str) -> None:
    """Create the folder of a checkpoint that is on this machine.

    Raises:
        UnusableStorageError: this user may not create the folder or write to it, or its path is not a folder;
            a person must choose another place.
        StorageError: the disk is full, or does not answer.
    """
    if "://" in checkpoint:
        return
    try:
        os.makedirs(checkpoint, exist_ok=True)
        with tempfile.TemporaryFile(dir=checkpoint):
            pass
    except OSError as refused:
        reason = f"the Spark checkpoint cannot be made there: {os.strerror(refused.errno or 0)}"
        if refused.errno not in _REFUSED_FOR_GOOD:
            raise StorageError(path=checkpoint, reason=reason) from refused
        raise UnusableStorageError(
            path=checkpoint,
            reason=reason,
            hint="Name a folder that can be made: --checkpoint PATH, `checkpoint` of a configuration; of a "
            "systemd unit: StateDirectory=.",
        ) from refused


def launch(
    spark: SparkSession,
    prepared: Prepared,
    heartbeat: Claim,
    once: bool,
    on_progress: OnProgress | None = None,
    tell: Tell = tell_nobody,
    life: Liveness | None = None,
) -> Job:
    """Start the query of a prepared job; first reset a Spark checkpoint that cannot be continued from."""
    refuse_vanished(prepared)
    life = life or Liveness()
    at_work = table_at_work(prepared, SparkExecutor(spark), heartbeat, on_progress, tell, life)
    stream = OneTable(prepared.table, at_work, life, prepared.settings.poll_ms / 1000, prepared.pace_s)
    query = start_query(spark, stream, prepared.name, prepared.checkpoint, once, tell)
    at_work.upkeep.start()
    if not once:
        at_work.filling.start()  # With `once`, a new round fills the files instead.
    return Job(query, stream, heartbeat, prepared)


def table_at_work(
    prepared: Prepared,
    executor: Executor,
    heartbeat: Claim,
    on_progress: OnProgress | None,
    tell: Tell,
    life: Liveness,
) -> TableAtWork:
    """Return a prepared table at work; its threads are not started."""
    table, index, settings = prepared.table, prepared.index, prepared.settings
    batch = Batch(table, index, settings, executor, heartbeat, on_progress, tell, life)
    filling = batch.fill_thread(REMOTE_LOOK_S if index.storage.remote else LOOK_S)
    return TableAtWork(Planner(table, index, settings), batch, filling, Upkeep(batch.mender))


def refuse_vanished(prepared: Prepared) -> None:
    """Check that table and index exist; if not, remove what Spark created in their place.

    Spark creates every folder above its checkpoint. A folder created in place of a vanished one would keep
    the vanished folder from coming back under its name.

    Raises:
        NotATableError, NoIndexError: the table or its index has vanished, perhaps for a moment.
        StorageError: the store does not answer.
    """
    try:
        prepared.table.head()
        if not is_made(prepared.index.storage):
            raise NoIndexError(path=prepared.index.path)
    except (NotATableError, NoIndexError):
        spark_checkpoint.make_way(prepared.checkpoint, prepared.index.path, prepared.table.root)
        raise
