"""An application for the tables of a configuration: one Spark session, one query, until a signal.

SIGHUP reads the configuration again; a wrong configuration is reported, and the old one stays in force.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote

import orjson

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import ConfigError, NotATableError, TailbitError
from tailbit.base.wording import Tell, counted
from tailbit.checkpoints.builds import Builds
from tailbit.checkpoints.claim import Claim
from tailbit.checkpoints.liveness import Liveness
from tailbit.streaming.batch import OnProgress
from tailbit.streaming.config.check import check_jars, check_tables
from tailbit.streaming.config.read import ReadConfig, read_config
from tailbit.streaming.java.session import Session, build_session, check_requirements, is_submitted
from tailbit.streaming.java.sources import innermost_cause
from tailbit.streaming.many.followed_table import Shared
from tailbit.streaming.many.states import STATES, checkpoint_of, lease_place
from tailbit.streaming.many.tables import Tables
from tailbit.streaming.patience import WAIT_S
from tailbit.streaming.query.failures import Restarts, spark_errors_named
from tailbit.streaming.query.launch import make_checkpoint_folder
from tailbit.streaming.query.planner_socket import make_folder
from tailbit.streaming.query.query import start_query, started_spark, supervised
from tailbit.streaming.query.sampler import Sampler
from tailbit.streaming.query.warming import warming_up
from tailbit.streaming.watch.cluster import await_master, check_master
from tailbit.streaming.watch.server import SeenApplication
from tailbit.streaming.watch.view import View
from tailbit.streaming.watch.watchdog import Supervision
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    """
    check_requirements()
    life, reload = Liveness("checking the configuration"), threading.Event()
    supervision = supervision or Supervision()
    with supervised(file, life, tell, supervision, reload) as (stop, _):
        read = read_whole(file, tell, life, stop)
        lease, whole_file = lease_place(read.config, file).root, os.path.abspath(file)
        view = View(life, supervision.stall_limit_s, lease=lease, file=whole_file)
        address = read.config.application.metrics
        place = f"{file}:{read.problems.line(('application', 'metrics'))}"
        with SeenApplication(address, view, supervision.announce, tell, place):
            watched = (life, Sampler(life), supervision, view, builds or Builds())
            Application(file, read, stop, reload, on_progress, tell, *watched).run()
    return 0


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
class Application:
    """The application of a configuration. `reload`: set by SIGHUP; `stop`: by the other signals.

    `read`: the configuration in force, as it was read last without a problem. `sampler`: observes the work of
    the query. `view`: what the pages show. `builds`: gets the records of all builds.
    """

    file: str
    read: ReadConfig
    stop: threading.Event
    reload: threading.Event
    on_progress: OnProgress | None
    tell: Tell
    life: Liveness
    sampler: Sampler
    supervision: Supervision
    view: View
    builds: Builds

    @property
    def _checkpoint(self) -> str:
        return checkpoint_of(self.read.config, self.file)

    @property
    def _place(self) -> Storage:
        """Return the storage of the lease, beside which the states of the tables are written."""
        return lease_place(self.read.config, self.file)

    def run(self) -> None:
        """Start Spark, and follow the tables until `stop` is set."""
        application = self.read.config.application
        make_checkpoint_folder(self._checkpoint)
        if not is_submitted():
            check_master(application.master)
            await_master(application.master, self.stop, self.life, self.tell, WAIT_S)
        if self.stop.is_set():
            return
        tables, announce = counted(len(self.read.config.table), "table"), self.supervision.announce

        def build() -> Session:
            return build_session(
                application.name, application.master, application.ui, dict(application.spark)
            )

        with (
            self.sampler,
            started_spark(build, tables, self._checkpoint, application.master, self.life, announce) as spark,
            warming_up(spark),
        ):
            self.life.begun = self.view.has_started = True
            self._keep_indexes(spark)

    def _keep_indexes(self, spark: SparkSession) -> None:
        """Keep the indexes up to date until `stop` is set.

        While another application holds the lease, this one stands by. The file is read again when the lease
        is claimed, since it may have changed in the meantime.
        """
        while not self.stop.is_set():
            place = self._place
            # Machines may share it.
            place.make_root()
            lease = Claim(place, life=self.life, builds=self.builds, of_application=True)
            could_take_over = partial(self._ask_java, spark)
            if not lease.acquire_when_free(self.stop, self.tell, self.supervision.on_up, could_take_over):
                return
            try:
                # Without a look at its tables, which takes too long while nobody works.
                self._read_again(lambda: read_config(self.file))
                self._follow_tables(spark, lease)
            finally:
                lease.release()

    def _ask_java(self, spark: SparkSession) -> None:
        """Return once Java answers, without which an application that stands by could take over nothing."""
        with spark_errors_named(self._checkpoint, str(spark.sparkContext.master)):
            spark.sparkContext._jsc.sc().isStopped()

    def _follow_tables(self, spark: SparkSession, lease: Claim) -> None:
        """Keep the indexes until `stop` is set or the lease is lost."""
        config, checkpoint, place = self.read.config, self._checkpoint, self._place
        make_checkpoint_folder(checkpoint)
        at_work = make_folder()
        shared = Shared(
            spark,
            lease,
            threading.Lock(),
            self.life,
            self.tell,
            self.on_progress,
            lambda name: place_in_catalog(spark, name),
            str(at_work),
            place,
        )
        tables = Tables(config.table, shared, config.application.threads, config.application.name)
        self.view.is_lost = lambda: lease.lost is not None
        self.view.tables = tables.states
        try:
            restarts = Restarts(checkpoint, self.stop, self.tell, self.life)
            restarts.keep(lambda: self._attended(shared, tables, checkpoint))
        finally:
            self.view.tables = None
            tables.close()
            shutil.rmtree(at_work, ignore_errors=True)
            if lease.lost is None:
                _write_states(tables, place)

    def _attended(self, shared: Shared, tables: Tables, checkpoint: str) -> bool:
        """Run the query until it ends, `stop` is set or the lease is lost; reload when SIGHUP asks for it.

        Return whether the application is over.
        """
        spark, lease, name = shared.spark, shared.lease, self.read.config.application.name
        shown, place = "", self._place

        def look() -> None:
            nonlocal shown
            if self.reload.is_set() and not self.stop.is_set():
                self.reload.clear()
                self._reload(tables)
            shown = _write_states(tables, place, shown)

        with spark_errors_named(checkpoint, shared.master):
            query = start_query(spark, tables, name, checkpoint, False, self.tell)
        try:
            self.supervision.on_up()
            self.sampler.follow(tables.sampled(query.running, spark))
            query.attend(self.stop, look, lambda: lease.lost is not None)
            if lease.lost is not None:
                lost = lease.lost
                self.tell(f"another application has taken over while this one gave no sign of life: {lost}")
            if self.stop.is_set() or lease.lost is not None:
                return True
            failure = query.failure()
            if failure is not None:
                raise failure
            return False
        finally:
            self.sampler.follow(None)
            query.socket.close()

    def _reload(self, tables: Tables) -> None:
        """Read the configuration again and apply it; the old one stays in force if the new one is wrong."""
        if not self._read_again(lambda: read_whole(self.file, self.tell, self.life, self.stop, self.read)):
            return
        added, other, removed = tables.apply(self.read.config.table)
        words = (("added", added), ("changed", other), ("removed", removed))
        said = "; ".join(f"{word} {', '.join(ids)}" for word, ids in words if ids)
        self.tell(f"the configuration is read again: {said or 'no table has changed'}")

    def _read_again(self, reader: Callable[[], ReadConfig]) -> bool:
        """Put in force what `reader` reads, but for [application], with which Spark was started.

        If `reader` fails, tell why, and return False.
        """
        try:
            new = reader()
        except Exception as wrong:
            # Whatever is wrong with the file, the tables are followed as before.
            kind = "" if isinstance(wrong, ConfigError) else f"{type(wrong).__name__}: "
            for problem in str(wrong).splitlines() or [""]:
                self.tell(f"the configuration is not taken, and the one before stays: {kind}{problem}")
            return False
        application = self.read.config.application
        if new.config.application != application:
            self.tell("what is changed in [application] holds from the next start on")
        self.read = replace(new, config=new.config.model_copy(update={"application": application}))
        return True


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
