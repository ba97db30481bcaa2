"""An application for the tables of a configuration: one Spark session, one query, until a signal.

SIGHUP reads the configuration again; a wrong configuration is reported, and the old one stays in force.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote

import orjson

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import ConfigError, NotATableError, TailbitError
from tailbit.base.wording import Tell, counted, tell_nobody
from tailbit.checkpoints.builds import Builds
from tailbit.checkpoints.claim import Claim, application_lease
from tailbit.checkpoints.liveness import Liveness
from tailbit.streaming.config.check import check_jars, check_tables
from tailbit.streaming.config.read import ReadConfig, read_config
from tailbit.streaming.java.session import Session, build_session, check_requirements, is_submitted
from tailbit.streaming.java.sources import innermost_cause
from tailbit.streaming.life.cluster import await_master, check_master
from tailbit.streaming.life.watchdog import Supervision
from tailbit.streaming.many.followed_table import Shared
from tailbit.streaming.many.states import STATES, checkpoint_of, lease_place
from tailbit.streaming.many.tables import Tables
from tailbit.streaming.query.command import started_spark, supervised
from tailbit.streaming.query.failures import Restarts, spark_errors_named
from tailbit.streaming.query.launch import make_checkpoint_folder
from tailbit.streaming.query.planner_socket import make_folder
from tailbit.streaming.query.query import start_query
from tailbit.streaming.query.sampler import Sampler
from tailbit.streaming.query.warming import warming_up
from tailbit.streaming.seen.server import SeenApplication
from tailbit.streaming.seen.view import View
from tailbit.streaming.upkeep.patience import WAIT_S
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailbit.streaming.batch import OnProgress


def run_config(
    file: str,
    on_progress: OnProgress | None,
    tell: Tell,
    supervision: Supervision | None,
    builds: Builds | None = None,
) -> int:
    """Keep the indexes of all tables of a configuration up to date until SIGTERM or SIGINT: status 0.

    SIGHUP reads the configuration again. A table that fails is told of, and tried again without end.
    `builds`: gets the records of all builds.

    Raises:
        ConfigError: the configuration is wrong; nothing was started.
        HungError: the application gave no sign of life for the limit in `supervision`.
        NotDrainedError: the application was killed because it did not end in time.
        TailbitError: another named error ended the application.
    """
    check_requirements()
    life, reload = Liveness("checking the configuration"), threading.Event()
    supervision = supervision or Supervision()
    with supervised(file, life, tell, supervision, reload) as (stop, _):
        run = Running(file, stop, reload, on_progress, tell, life, supervision, builds=builds or Builds())
        _run(run)
    return 0


def _run(run: Running) -> None:
    """Check the configuration, show the pages, start Spark, and follow the tables."""
    read = read_whole(run.file, run.tell, run.life, run.stop)
    lease, file = lease_place(read.config, run.file).root, os.path.abspath(run.file)
    view = View(run.life, run.supervision.stall_limit_s, lease=lease, file=file)
    address = read.config.application.metrics
    place = f"{run.file}:{read.problems.line(('application', 'metrics'))}"
    with SeenApplication(address, view, run.supervision.announce, run.tell, place) as seen:
        _with_spark(replace(run, seen=seen), read)


def _with_spark(run: Running, read: ReadConfig) -> None:
    application, checkpoint = read.config.application, checkpoint_of(read.config, run.file)
    make_checkpoint_folder(checkpoint)
    if not is_submitted():
        check_master(application.master)
        await_master(application.master, run.stop, run.life, run.tell, WAIT_S)
    if run.stop.is_set():
        return
    tables, announce = counted(len(read.config.table), "table"), run.supervision.announce

    def build() -> Session:
        return build_session(application.name, application.master, application.ui, dict(application.spark))

    with (
        Sampler(run.life) as sampler,
        started_spark(build, tables, checkpoint, application.master, run.life, announce) as spark,
        warming_up(spark),
    ):
        run.life.begun = True
        keep_indexes(replace(run, sampler=sampler), read, spark)


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
            # Without a look at its tables, which takes too long while nobody works.
            force.read = _again(run, force.read, lambda: read_config(run.file))
            _at_work(run, force, spark, lease)
        finally:
            lease.release()


def _ask_java(spark: SparkSession, read: ReadConfig, file: str) -> None:
    """Return once Java answers, without which an application that stands by could take over nothing."""
    with spark_errors_named(checkpoint_of(read.config, file), str(spark.sparkContext.master)):
        spark.sparkContext._jsc.sc().isStopped()


def _at_work(run: Running, force: _InForce, spark: SparkSession, lease: Claim) -> None:
    """Keep the indexes until `stop` is set or the lease is lost; `force` changes with each reload."""
    config = force.read.config
    checkpoint = checkpoint_of(config, run.file)
    make_checkpoint_folder(checkpoint)
    at_work = make_folder()
    shared = Shared(
        spark,
        lease,
        threading.Lock(),
        run.life,
        run.tell,
        run.on_progress,
        lambda name: place_in_catalog(spark, name),
        str(at_work),
        lease_place(config, run.file),
    )
    tables = Tables(config.table, shared, config.application.threads, config.application.name)
    if run.seen is not None:
        run.seen.view.is_lost = lambda: lease.lost is not None
        run.seen.view.tables = tables.states
    try:
        restarts = Restarts(checkpoint, run.stop, run.tell, run.life)
        restarts.keep(lambda: _attended(run, force, shared, tables, checkpoint))
    finally:
        if run.seen is not None:
            run.seen.view.tables = None
        tables.close()
        shutil.rmtree(at_work, ignore_errors=True)
        if lease.lost is None:
            _write_states(tables, lease_place(config, run.file))


def _lease(run: Running, read: ReadConfig) -> Claim:
    """Return the lease of the application, not claimed yet; create its folder, which machines may share."""
    place = lease_place(read.config, run.file)
    place.make_root()
    return application_lease(place, run.life, run.builds)


def _attended(run: Running, force: _InForce, shared: Shared, tables: Tables, checkpoint: str) -> bool:
    """Run the query until it ends, `stop` is set or the lease is lost, and reload when SIGHUP asks for it.

    Return whether the application is over.
    """
    spark, lease, config = shared.spark, shared.lease, force.read.config
    shown, place = "", lease_place(config, run.file)

    def look() -> None:
        nonlocal shown
        if run.reload.is_set() and not run.stop.is_set():
            run.reload.clear()
            force.read = _reloaded(run, force.read, tables)
        shown = _write_states(tables, place, shown)

    with spark_errors_named(checkpoint, shared.master):
        query = start_query(spark, tables, config.application.name, checkpoint, False, run.tell)
    try:
        run.supervision.on_up()
        if run.sampler is not None:
            run.sampler.follow(tables.sampled(query.running, spark))
        query.attend(run.stop, look, lambda: lease.lost is not None)
        if lease.lost is not None:
            run.tell(f"another application has taken over while this one gave no sign of life: {lease.lost}")
        if run.stop.is_set() or lease.lost is not None:
            return True
        failure = query.failure()
        if failure is not None:
            raise failure
        return False
    finally:
        if run.sampler is not None:
            run.sampler.follow(None)
        query.socket.close()


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


_LOCATION = "Location"


def place_in_catalog(spark: SparkSession, name: str) -> str:
    """Return the path or URI of a table by its name in the catalog."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    except (PySparkException, Py4JJavaError) as refused:
        of_java = isinstance(refused, Py4JJavaError)
        reason = innermost_cause(refused) if of_java else str(refused).splitlines()[0]
        raise NotATableError(
            path=name, kind="table of Spark's catalog", reason=reason, log="a table"
        ) from refused
    places = [row.data_type for row in rows if row.col_name == _LOCATION]
    if not places:
        raise NotATableError(
            path=name, kind="table of Spark's catalog", reason="it has no location", log="a table"
        )
    place = str(places[-1])
    return unquote(place.removeprefix("file:").replace("///", "/", 1)) if place.startswith("file:") else place
