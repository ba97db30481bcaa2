"""A prepared job and its query: checked before Spark starts, with named errors at its end."""

from __future__ import annotations

import errno
import os
import re
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, Union

from tailbit.arguments.values import names, path_text, text, texts_by_name
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import (
    MalformedLogError,
    NoIndexError,
    NotATableError,
    StorageError,
    StreamError,
    TailbitError,
    UnusableStorageError,
)
from tailbit.checkpoints.claim import Claim
from tailbit.checkpoints.liveness import Liveness
from tailbit.index.maintenance.create import indexed_columns
from tailbit.index.store.place import index_path, is_made
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.control import Control
from tailbit.streaming.executors import SparkExecutor
from tailbit.streaming.filling.fill_thread import LOOK_S, REMOTE_LOOK_S, FillThread
from tailbit.streaming.java.sources import register
from tailbit.streaming.life.cluster import ended_by_cluster
from tailbit.streaming.opening import SURE_S, open_index
from tailbit.streaming.settings import REMOTE_POLL_MS, StreamSettings, milliseconds
from tailbit.streaming.upkeep import spark_checkpoint
from tailbit.streaming.upkeep.mending import Tell, tell_nobody
from tailbit.streaming.upkeep.patience import lost_worker, refused_write, worth_a_restart
from tailbit.streaming.upkeep.sweeping import Upkeep
from tailbit.streaming.user_cache import own_state
from tailbit.tables import open_table
from tailbit.tables.storage import StorageOptions
from tailbit.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from tailbit.streaming.batch import Batch, OnProgress

Path = Union[str, "os.PathLike[str]"]

CHECKPOINT_FOLDER = "_checkpoint"
CONTINUOUS_MS = 1000
"""Largest trigger at which the planner itself waits for the next commit, to read it at once."""


_LOST_TASK = re.compile(r".*Job aborted due to stage failure: .* most recent failure: Lost task [^:]*: ")
"""How Spark's message begins about a task that failed; the reason follows."""

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
    def name(self) -> str:
        """Return the query's name: the table's folder name, and enough of the index id to be unique."""
        folder = re.sub(r"\W", "_", PurePath(self.table.root).name)
        return f"{folder}_{self.index.state.index_id[:6]}"


@dataclass(frozen=True, slots=True)
class Job:
    """A running query, and the resources to release when it ends."""

    spark: SparkSession
    query: StreamingQuery
    batch: Batch
    control: Control
    heartbeat: Claim
    prepared: Prepared
    upkeep: Upkeep
    filling: FillThread

    def close(self) -> None:
        """Release the heartbeat, and stop the threads beside the query."""
        self.heartbeat.release()
        self.end()

    def end(self) -> None:
        """Stop filling and upkeep, and remove the control folder; the heartbeat stays.

        What Spark created in place of a table or an index that has vanished is removed too.
        """
        self.filling.stop()
        self.upkeep.stop()
        self.control.remove()
        with suppress(TailbitError):
            refuse_vanished(self.prepared)

    def failure(self) -> TailbitError | None:
        """Return why the query ended, or why a merge beside it failed, by name; None after a success."""
        named = self.batch.error or self.batch.merger.failure or self.control.reported()
        ended = self.query.exception()
        if named is not None or ended is None:
            return named
        return spark_failed(str(ended), self.prepared, self.batch.master)


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
        wait_ms=trigger_ms if trigger_ms <= CONTINUOUS_MS else 0,
        poll_ms=REMOTE_POLL_MS if table.storage.remote else StreamSettings().poll_ms,
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
    """Start the query of a prepared job; first reset a Spark checkpoint that cannot be continued from.

    Raises:
        NotATableError, NoIndexError: the table or its index has vanished, perhaps for a moment.
    """
    refuse_vanished(prepared)
    unusable = spark_checkpoint.why_unusable(prepared.checkpoint)
    if unusable is not None:
        spark_checkpoint.reset(prepared.checkpoint, unusable, tell)
    control = Control.make()
    try:
        return _started(spark, prepared, heartbeat, once, on_progress, tell, life, control)
    except BaseException:
        control.remove()
        raise


def _started(
    spark: SparkSession,
    prepared: Prepared,
    heartbeat: Claim,
    once: bool,
    on_progress: OnProgress | None,
    tell: Tell,
    life: Liveness | None,
    control: Control,
) -> Job:
    """Start the query; `control` is the folder of its run."""
    from tailbit.streaming.batch import Batch

    executor = SparkExecutor(spark)
    batch = Batch(
        prepared.table, prepared.index, prepared.settings, executor, heartbeat, on_progress, tell, life
    )
    writer = (
        _commits(spark, prepared, control)
        .writeStream.foreachBatch(batch)
        .option("checkpointLocation", prepared.checkpoint)
        .queryName(prepared.name)
    )
    wait = 0 if prepared.trigger_ms <= CONTINUOUS_MS else prepared.trigger_ms
    writer = (
        writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{wait} milliseconds")
    )
    beside = Upkeep(batch.mender), batch.fill_thread(_look_s(prepared))
    job = Job(spark, writer.start(), batch, control, heartbeat, prepared, *beside)
    job.upkeep.start()
    if not once:
        job.filling.start()  # With `once`, a new round fills the files instead.
    return job


def _look_s(prepared: Prepared) -> float:
    """Return the seconds between two looks for files to fill."""
    return REMOTE_LOOK_S if prepared.index.storage.remote else LOOK_S


def _commits(spark: SparkSession, prepared: Prepared, control: Control) -> DataFrame:
    """Return the commit log as a stream."""
    from tailbit.streaming.source.log_source import FORMAT, source_with

    register(spark, source_with(prepared.table.storage.options))
    options = prepared.settings.options() | {
        "path": prepared.table.root,
        "index": prepared.index.path,
        "control": str(control.path),
    }
    return spark.readStream.format(FORMAT).options(**options).load()


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


def spark_failed(text: str, prepared: Prepared, master: str = "") -> TailbitError:
    """Return the named error for a message of Spark that it could not start, or that it ended a query.

    `master`: of that Spark; if empty, the end of a cluster is not considered as the cause.
    """
    return query_failed(text, prepared.checkpoint, master)


def query_failed(text: str, checkpoint: str, master: str) -> TailbitError:
    """Return the named error for a message of Spark that it ended the query of a checkpoint.

    `master`: of that Spark; if empty, the end of a cluster is not considered as the cause.
    """
    ended = ended_by_cluster(text, master) if master else None
    if ended is not None:
        return ended
    refused = refused_write(text, checkpoint)
    if refused is not None:
        return refused
    lost = " (a Python process was lost)" if lost_worker(text) else ""
    return StreamError(reason=in_short(text) + lost, checkpoint=checkpoint)


@contextmanager
def spark_errors_named(checkpoint: str, master: str) -> Iterator[None]:
    """Give errors of Spark and of its Java in the block their names, for the query of a checkpoint.

    Raises:
        ClusterError: the master did not answer, or refused or ended the application.
        StreamError: Spark did not start or the query failed, for another reason; or Java is gone.
        StorageError: a write of Spark's was refused.
    """
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except Py4JJavaError as failed:
        raise query_failed(str(failed.java_exception), checkpoint, master) from failed
    except PySparkException as refused:
        raise query_failed(str(refused), checkpoint, "") from refused
    except (OSError, Py4JError) as gone:
        raise java_is_gone(checkpoint, gone) from gone


def java_is_gone(checkpoint: str, gone: Exception) -> StreamError:
    """Return the error for a query whose Java process does not answer any more."""
    return StreamError(
        reason=f"its Java process is gone ({type(gone).__name__})",
        checkpoint=checkpoint,
        hint="Start it again: it goes on where the index was. If nobody ended Java, the kernel's log may say"
        " why: it kills processes where memory runs out.",
    )


def in_short(text: str) -> str:
    """Return a message of Spark in one line: its innermost cause, or its first line with the Python error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["no reason given"]
    caused = [line for line in lines[1:] if line.startswith(": ")]
    if caused:
        return _LOST_TASK.sub("", caused[-1][2:])
    raised = [line for line in lines[1:] if re.match(r"[\w.]+(Error|Exception): ", line)]
    return lines[0] if not raised else f"{lines[0]} ({raised[0]})"
