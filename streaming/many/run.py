"""`tailbit run --config`: the configuration is checked, Spark is started, and the tables are followed."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from tailbit.base.errors import NotDrainedError
from tailbit.base.wording import counted
from tailbit.checkpoints.builds import Builds
from tailbit.checkpoints.liveness import Liveness
from tailbit.streaming.config.read import ReadConfig
from tailbit.streaming.java.requirements import check_requirements
from tailbit.streaming.java.session import Session, build_session, is_submitted, master_told
from tailbit.streaming.life.cluster import await_master, check_master
from tailbit.streaming.life.processes import end_stopped
from tailbit.streaming.life.signals import signals
from tailbit.streaming.life.turns import take_short_turns
from tailbit.streaming.life.watchdog import Supervision, Watchdog
from tailbit.streaming.many.job import Running, keep_indexes, read_whole
from tailbit.streaming.many.states import checkpoint_of, lease_place
from tailbit.streaming.query.launch import make_checkpoint_folder, spark_errors_named
from tailbit.streaming.query.sampler import Sampler
from tailbit.streaming.query.warming import warming_up
from tailbit.streaming.seen.server import SeenApplication
from tailbit.streaming.seen.view import View
from tailbit.streaming.upkeep.memory import take_from_the_system
from tailbit.streaming.upkeep.mending import Tell
from tailbit.streaming.upkeep.patience import WAIT_S

if TYPE_CHECKING:
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
    take_from_the_system()
    take_short_turns()
    check_requirements()
    life, reload = Liveness("checking the configuration"), threading.Event()
    supervision = supervision or Supervision()
    try:
        with signals(reload) as stop, Watchdog(file, life, stop, tell, supervision):
            run = Running(file, stop, reload, on_progress, tell, life, supervision, builds=builds or Builds())
            _run(run)
    except NotDrainedError:
        if life.begun:
            raise
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
    """Start Spark, and follow the tables."""
    application = read.config.application
    make_checkpoint_folder(checkpoint_of(read.config, run.file))
    if not is_submitted():
        check_master(application.master)
        await_master(application.master, run.stop, run.life, run.tell, WAIT_S)
    if run.stop.is_set():
        return
    run.supervision.announce(f"starting Spark for {counted(len(read.config.table), 'table')} …")
    run.life.sign(f"starting Spark with {master_told(application.master)}")
    try:
        with Sampler(run.life) as sampler, _session(read, run.file) as spark:
            url = spark.sparkContext.uiWebUrl
            if url:
                run.supervision.announce(f"Spark UI: {url}")
            with warming_up(spark):
                run.life.begun = True
                keep_indexes(replace(run, sampler=sampler), read, spark)
            run.life.sign("stopping Spark")
    finally:
        end_stopped()


def _session(read: ReadConfig, file: str) -> Session:
    """Return a Spark session with the settings of a configuration.

    Raises:
        ClusterError: the master did not answer, or refused the application.
        StreamError: Spark did not start for another reason.
        RequirementError: Java 17 or pyspark is missing, or the JVM does not start.
    """
    given = read.config.application
    with spark_errors_named(checkpoint_of(read.config, file), given.master):
        return build_session(given.name, given.master, given.ui, dict(given.spark))
