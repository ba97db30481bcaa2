"""`tailbit run --config`: the configuration is checked, Spark is started, and the tables are followed."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from tailbit.base.wording import counted
from tailbit.checkpoints.builds import Builds
from tailbit.checkpoints.liveness import Liveness
from tailbit.streaming.config.read import ReadConfig
from tailbit.streaming.java.requirements import check_requirements
from tailbit.streaming.java.session import Session, build_session, is_submitted
from tailbit.streaming.life.cluster import await_master, check_master
from tailbit.streaming.life.watchdog import Supervision
from tailbit.streaming.many.job import Running, keep_indexes, read_whole
from tailbit.streaming.many.states import checkpoint_of, lease_place
from tailbit.streaming.query.command import started_spark, supervised
from tailbit.streaming.query.launch import make_checkpoint_folder
from tailbit.streaming.query.sampler import Sampler
from tailbit.streaming.query.warming import warming_up
from tailbit.streaming.seen.server import SeenApplication
from tailbit.streaming.seen.view import View
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
    """Start Spark, and follow the tables."""
    application = read.config.application
    make_checkpoint_folder(checkpoint_of(read.config, run.file))
    if not is_submitted():
        check_master(application.master)
        await_master(application.master, run.stop, run.life, run.tell, WAIT_S)
    if run.stop.is_set():
        return
    tables = counted(len(read.config.table), "table")
    checkpoint, announce = checkpoint_of(read.config, run.file), run.supervision.announce

    def build() -> Session:
        return build_session(application.name, application.master, application.ui, dict(application.spark))

    with (
        Sampler(run.life) as sampler,
        started_spark(build, tables, checkpoint, application.master, run.life, announce) as spark,
        warming_up(spark),
    ):
        run.life.begun = True
        keep_indexes(replace(run, sampler=sampler), read, spark)
