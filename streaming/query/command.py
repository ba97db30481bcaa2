"""What the commands that run a query share: they are watched, obey signals, and start Spark."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tailbit.base.errors import NotDrainedError
from tailbit.base.wording import Tell
from tailbit.checkpoints.liveness import Liveness
from tailbit.streaming.java.session import Session, master_told, releases_found
from tailbit.streaming.memory import take_from_the_system
from tailbit.streaming.query.failures import spark_errors_named
from tailbit.streaming.watch.processes import end_stopped
from tailbit.streaming.watch.watchdog import Supervision, Watchdog, signals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def supervised(
    name: str, life: Liveness, tell: Tell, supervision: Supervision, reload: threading.Event | None = None
) -> Iterator[tuple[threading.Event, Watchdog]]:
    """Yield the event that signals set, and the watchdog, which ends the block where it hangs.

    `name`: of what is run, for people. `reload`: an event that SIGHUP sets instead. A run that is killed
    before its query began ends the block without an error, as no batch was in flight.

    Raises:
        HungError: the run gave no sign of life for the limit in `supervision`.
        NotDrainedError: the run was killed because it did not end in time.
    """
    take_from_the_system()
    take_short_turns()
    try:
        with signals(reload) as stop, Watchdog(name, life, stop, tell, supervision) as watchdog:
            yield stop, watchdog
    except NotDrainedError:
        if life.begun:
            raise


@contextmanager
def started_spark(
    build: Callable[[], Session],
    purpose: str,
    checkpoint: str,
    master: str,
    life: Liveness,
    announce: Tell,
) -> Iterator[SparkSession]:
    """Yield a Spark session that `build` makes; the session ends with the block.

    `purpose`: what it is started for. `checkpoint`: of the query, for errors.
    """
    announce(f"starting Spark for {purpose} …")
    announce(releases_found())
    life.sign(f"starting Spark with {master_told(master)}")
    try:
        with spark_errors_named(checkpoint, master):
            session = build()
        with session as spark:
            url = spark.sparkContext.uiWebUrl
            if url:
                announce(f"Spark UI: {url}")
            yield spark
            life.sign("stopping Spark")
    finally:
        end_stopped()


TURN_S = 0.0005
"""Longest turn of a thread that computes while others wait, in seconds."""


def take_short_turns() -> None:
    """Let the threads of this process take turns of `TURN_S`, unless they are shorter already."""
    sys.setswitchinterval(min(sys.getswitchinterval(), TURN_S))
