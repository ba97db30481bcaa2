"""An application for the tables of a configuration: one Spark session, one query, until a signal.

SIGHUP reads the configuration again; a wrong configuration is reported, and the old one stays in force.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import ConfigError, StorageError, StreamError, TailbitError
from tailbit.checkpoints.builds import Builds
from tailbit.checkpoints.claim import Claim, application_lease
from tailbit.checkpoints.liveness import Liveness
from tailbit.streaming.config.check import check_tables
from tailbit.streaming.config.jars import check_jars
from tailbit.streaming.config.read import ReadConfig, read_config
from tailbit.streaming.control import Control
from tailbit.streaming.java.collecting import collected
from tailbit.streaming.java.sources import register
from tailbit.streaming.life.watchdog import Supervision
from tailbit.streaming.many.catalog import place_in_catalog
from tailbit.streaming.many.door import Door
from tailbit.streaming.many.followed import Shared
from tailbit.streaming.many.source import FORMAT, LogsSource, ranges_of
from tailbit.streaming.many.states import STATES, checkpoint_of, lease_place
from tailbit.streaming.many.tables import Tables
from tailbit.streaming.query.launch import make_checkpoint_folder, query_failed, spark_errors_named
from tailbit.streaming.query.sampler import Sampled, Sampler
from tailbit.streaming.query.up_to_date import Standing, UpToDate
from tailbit.streaming.seen.server import SeenApplication
from tailbit.streaming.upkeep import spark_checkpoint
from tailbit.streaming.upkeep.mending import Tell, tell_nobody
from tailbit.streaming.upkeep.patience import Patience
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from tailbit.streaming.batch import OnProgress

_LOOK_S = 0.2

_SHORT = (
    "Make space there, or set TMPDIR to a folder whose path is short: that of a socket has 107 bytes at most."
)


@dataclass(frozen=True)
class Running:
    """The inputs and callbacks of one application. `reload`: set by SIGHUP; `stop`: by the other signals.

    `sampler`: observes the work of the query. `builds`: gets the records of all builds.
    """

    file: str
    stop: threading.Event
    reload: threading.Event
    on_progress: OnProgress | None = None
    tell: Tell = tell_nobody
    life: Liveness = field(default_factory=Liveness)
    supervision: Supervision = field(default_factory=Supervision)
    sampler: Sampler | None = None
    seen: SeenApplication | None = None
    builds: Builds = field(default_factory=Builds)


def read_whole(
    file: str, tell: Tell, life: Liveness, stop: threading.Event, before: ReadConfig | None = None
) -> ReadConfig:
    """Read a configuration and compare it with its tables; tell its warnings, and which tables are missing.

    The wait for the tables is recorded in `life`, and ends once `stop` is set. `before`: the configuration in
    force, where an application at work reads the file again; its query then gives the signs of life.

    Raises:
        ConfigError: names every problem with file and line.
    """
    read = read_config(file)
    check_jars(read)
    looking = life.wait_for if before is None else life.show
    entries = None if before is None else before.config.table
    on_wait = partial(looking, "looking at the tables of the configuration")
    waiting = [result for result in check_tables(read, on_wait, stop, entries) if result.waits]
    for warning in read.problems.warnings:
        tell(f"warning: {warning}")
    for result in waiting:
        tell(f"{read.line_of(result.table)}: {result.table.id}: waiting: {result.waits}")
    return read


@dataclass
class _InForce:
    """The configuration in force: as it was read last without a problem."""

    read: ReadConfig


def keep_indexes(run: Running, read: ReadConfig, spark: SparkSession) -> None:
    """Keep the indexes of a configuration up to date until `stop` is set.

    While another application holds the lease, this one stands by. The file is read again when the lease is
    claimed, since it may have changed in the meantime.

    Raises:
        StorageError: the lease cannot be written.
        TailbitError: the query ended, again and again, for a reason that lies in no single table.
    """
    if run.seen is not None:
        run.seen.view.has_started = True
    force = _InForce(read)
    while not run.stop.is_set():
        lease = _lease(run, force.read)
        could_take_over = partial(_ask_java, spark, force.read, run.file)
        if not lease.acquire_when_free(run.stop, run.tell, run.supervision.on_up, could_take_over):
            return
        try:
            force.read = _as_it_is_now(run, force.read)
            _at_work(run, force, spark, lease)
        finally:
            lease.release()


def _ask_java(spark: SparkSession, read: ReadConfig, file: str) -> None:
    """Return once Java answers, without which an application that stands by could take over nothing.

    Raises:
        StreamError: the Java process is gone.
    """
    with spark_errors_named(checkpoint_of(read.config, file), str(spark.sparkContext.master)):
        spark.sparkContext._jsc.sc().isStopped()


def _at_work(run: Running, force: _InForce, spark: SparkSession, lease: Claim) -> None:
    """Keep the indexes until `stop` is set or the lease is lost; `force` changes with each reload."""
    config = force.read.config
    checkpoint = checkpoint_of(config, run.file)
    make_checkpoint_folder(checkpoint)
    at_work = _made_control()
    shared = Shared(
        spark,
        lease,
        threading.Lock(),
        run.life,
        run.tell,
        run.on_progress,
        lambda name: place_in_catalog(spark, name),
        str(at_work.path),
        lease_place(config, run.file),
    )
    tables = Tables(config.table, shared, config.application.threads)
    if run.seen is not None:
        run.seen.view.is_lost = lambda: lease.lost is not None
        run.seen.view.tables = tables.states
    try:
        _until_stopped(run, force, shared, tables, checkpoint)
    finally:
        if run.seen is not None:
            run.seen.view.tables = None
        tables.close()
        at_work.remove()
        if lease.lost is None:
            _write_states(tables, lease_place(config, run.file))


def _lease(run: Running, read: ReadConfig) -> Claim:
    """Return the lease of the application, not claimed yet; create its folder, which machines may share."""
    place = lease_place(read.config, run.file)
    place.make_root()
    return application_lease(place, run.life, run.builds)


def _until_stopped(run: Running, force: _InForce, shared: Shared, tables: Tables, checkpoint: str) -> None:
    """Run the query, again after a transient failure."""
    patience = Patience()
    while not run.stop.is_set() and shared.lease.lost is None:
        began = time.monotonic()
        try:
            _attended(run, force, shared, tables, checkpoint)
        except (StreamError, StorageError) as failed:
            if time.monotonic() - began > patience.limit_s:
                patience.worked()
            unusable = spark_checkpoint.why_unusable(checkpoint)
            mended = unusable is not None and spark_checkpoint.reset(checkpoint, unusable, run.tell)
            pause = patience.pause(failed, mended)
            if pause is None:
                raise
            run.tell(f"{type(failed).__name__}: {failed}; tried again in {pause:.1f} s")
            run.life.pause(run.stop, pause, f"waiting after {failed}")


def _attended(run: Running, force: _InForce, shared: Shared, tables: Tables, checkpoint: str) -> None:
    """Run the query until it ends, `stop` is set or the lease is lost, and reload when SIGHUP asks for it.

    Raises:
        StreamError: the query ended by itself, or did not start.
        StorageError: this machine has no place for the folder of the run, or refused to write the checkpoint.
    """
    control, door = _opened_door(tables)
    spark, lease, config = shared.spark, shared.lease, force.read.config
    try:
        with spark_errors_named(checkpoint, shared.master):
            query = _started(spark, tables, control, checkpoint, config.application.name)
            run.supervision.on_up()
            if run.sampler is not None:
                run.sampler.follow(
                    Sampled(query, spark, others=tables.processes, is_well=lambda: tables.is_turning)
                )
            newest = _up_to_date(spark, tables, config.application.name)
            shown, place = "", lease_place(config, run.file)
            while query.isActive and lease.lost is None and not run.stop.wait(_LOOK_S):
                if run.reload.is_set():
                    run.reload.clear()
                    force.read = _reloaded(run, force.read, tables)
                shown = _write_states(tables, place, shown)
                newest.look(time.monotonic())
            if lease.lost is not None:
                run.tell(
                    f"another application has taken over while this one gave no sign of life: {lease.lost}"
                )
            if run.stop.is_set() or lease.lost is not None:
                _drain(tables, query)
                return
            ended = query.exception()
            if ended is not None:
                raise query_failed(str(ended), checkpoint, shared.master)
    finally:
        if run.sampler is not None:
            run.sampler.follow(None)
        door.close()
        control.remove()


def _opened_door(tables: Tables) -> tuple[Control, Door]:
    """Return the folder of a run of the query, and the open door in it.

    Raises:
        StorageError: this machine has no place for the folder.
    """
    control = _made_control()
    try:
        door = Door(control.path, _answers(tables))
    except OSError as refused:
        control.remove()
        raise StorageError(
            path=str(control.path), reason=f"no socket there: {refused}", hint=_SHORT
        ) from refused
    door.open()
    return control, door


def _made_control() -> Control:
    """Return a new folder for a run on this machine.

    Raises:
        StorageError: this machine has no place for the folder.
    """
    try:
        return Control.make()
    except OSError as refused:
        reason = f"no folder for the run: {refused.strerror or refused}"
        raise StorageError(path=tempfile.gettempdir(), reason=reason) from refused


def _answers(tables: Tables) -> Any:
    """Return the function that answers the questions of the planner process."""

    def answer(question: Mapping[str, Any]) -> Mapping[str, Any]:
        return tables.next(question["next"]) if "next" in question else tables.report()

    return answer


def _started(
    spark: SparkSession, tables: Tables, control: Control, checkpoint: str, name: str
) -> StreamingQuery:
    unusable = spark_checkpoint.why_unusable(checkpoint)
    if unusable is not None:
        spark_checkpoint.reset(checkpoint, unusable, tell_nobody)
    register(spark, LogsSource)

    def index(rows: DataFrame, batch_id: int) -> None:
        spark.sparkContext.setJobDescription(f"{name} · batch {batch_id} · {tables.begin_batch()}")
        tables.take(ranges_of(collected(rows)), batch_id)

    return (
        spark.readStream.format(FORMAT)
        .option("control", str(control.path))
        .load()
        .writeStream.foreachBatch(index)
        .option("checkpointLocation", checkpoint)
        .queryName(name)
        .trigger(processingTime="0 seconds")
        .start()
    )


def _up_to_date(spark: SparkSession, tables: Tables, name: str) -> UpToDate:
    """Return the job that shows how far the tables are once the query is idle."""

    def standing() -> Standing | None:
        idle = tables.idle_since_batch()
        return None if idle is None else Standing(idle[0], f"{name} · {idle[1]}")

    return UpToDate(spark, standing)


def _drain(tables: Tables, query: StreamingQuery) -> None:
    """Let the tables at work finish, then stop the query, which is idle by then."""
    tables.drain()
    while query.isActive and (query.status["isTriggerActive"] and query.status["isDataAvailable"]):
        time.sleep(0.05)
    while not tables.is_idle:
        time.sleep(0.05)
    query.stop()


def _reloaded(run: Running, read: ReadConfig, tables: Tables) -> ReadConfig:
    """Read the configuration again and apply it; return the old one if the new one is wrong."""
    new = _again(run, read, lambda: read_whole(run.file, run.tell, run.life, run.stop, read))
    if new is read:
        return read
    added, other, removed = tables.apply(new.config.table)
    words = (("added", added), ("changed", other), ("removed", removed))
    said = "; ".join(f"{word} {', '.join(ids)}" for word, ids in words if ids)
    run.tell(f"the configuration is read again: {said or 'no table has changed'}")
    return new


def _as_it_is_now(run: Running, read: ReadConfig) -> ReadConfig:
    """Read the configuration again without a look at its tables, which takes too long while nobody works."""
    return _again(run, read, lambda: read_config(run.file))


def _again(run: Running, read: ReadConfig, reader: Callable[[], ReadConfig]) -> ReadConfig:
    """Return what `reader` reads, with the [application] of `read`, which was started with it.

    Return `read` itself, and tell why, if `reader` fails.
    """
    try:
        new = reader()
    except Exception as wrong:
        # Whatever is wrong with the file, the tables are followed as before.
        kind = "" if isinstance(wrong, ConfigError) else f"{type(wrong).__name__}: "
        for problem in str(wrong).splitlines() or [""]:
            run.tell(f"the configuration is not taken, and the one before stays: {kind}{problem}")
        return read
    application = read.config.application
    if new.config.application != application:
        run.tell("what is changed in [application] holds from the next start on")
    return replace(new, config=new.config.model_copy(update={"application": application}))


def _write_states(tables: Tables, place: Storage, before: str = "") -> str:
    """Write the states of the tables if they differ from `before`; return them as text for the next call.

    Return `before` if they could not be written.
    """
    text = repr(tables.standings())
    if text != before:
        try:
            place.put(STATES, orjson.dumps({"tables": tables.states()}))
        except (TailbitError, OSError):
            return before
    return text
