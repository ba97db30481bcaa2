"""A session whose queries use the index, for tests that judge the answers."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from support.spark_session import JAVA, SETTINGS, session_settings
from support.waiting import HANG_S
from tailbit.spark import accelerate, acceleration_conf, jar
from tailbit.spark.acceleration import Acceleration

PATIENT = 30_000
"""Milliseconds: what is judged is the answer, on a machine at work."""


@contextmanager
def patiently_accelerated(spark: Any, serve: Sequence[str] | None = None) -> Iterator[Acceleration]:
    """Accelerate a session until the end of the block; the jar is built before."""
    jar.build()
    with session_settings(spark, {"spark.tailbit.startMs": str(2 * PATIENT)}):
        acceleration = accelerate(spark, serve=serve, budget_ms=PATIENT)
        yield acceleration
        acceleration.stop()


def helper_of(acceleration: Acceleration) -> int:
    """Return the id of the helper's process, or -1."""
    return int(acceleration._entry.helper())


def kill(process: int, with_signal: signal.Signals) -> None:
    """Send a signal to a process, where there is one; numbers below 2 would mean others."""
    if process > 1:
        with suppress(ProcessLookupError):
            os.kill(process, with_signal)


def rows_of(spark: Any, statement: str, enabled: bool = True) -> list[str]:
    """Return the rows of a statement as sorted texts, with acceleration or without."""
    spark.conf.set("spark.tailbit.enabled", str(enabled).lower())
    try:
        return sorted(map(str, spark.sql(statement).collect()))
    finally:
        spark.conf.set("spark.tailbit.enabled", "true")


def run_patiently(command: Sequence[str], folder: Path, typed: str = "") -> str:
    """Run a program that starts a Spark of its own in a folder, and types into it; return what it printed."""
    return printed_and_logged(command, folder, typed=typed)[0]


def printed_and_logged(
    command: Sequence[str], folder: Path, helped: bool = True, typed: str = ""
) -> tuple[str, str]:
    """Run a program that starts a Spark of its own in a folder; return what it prints and what it logs.

    `helped`: whether it must not lose its helper.
    """
    ran = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "SPARK_SUBMIT_OPTS": JAVA},
        input=typed,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_S,
    )
    assert ran.returncode == 0, ran.stderr
    assert not helped or "The helper of tailbit is gone" not in ran.stderr
    return ran.stdout, ran.stderr


def patient_settings() -> dict[str, str]:
    """Return the settings of a session of its own that waits for the helper as long as it takes."""
    waiting = {"spark.tailbit.startMs": "60000", "spark.tailbit.budgetMs": "60000"}
    return {**SETTINGS, **acceleration_conf(), **waiting}


@contextmanager
def logged(spark: Any) -> Iterator[Callable[[], list[str]]]:
    """Yield what returns the lines of tailbit that Spark logs meanwhile."""
    log4j, context = spark._jvm.org.apache.logging.log4j, None
    written = spark._jvm.java.io.StringWriter()
    layout = log4j.core.layout.PatternLayout.createDefaultLayout()
    appender = log4j.core.appender.WriterAppender.createAppender(layout, None, written, "told", False, False)
    appender.start()
    context = log4j.LogManager.getContext(False)
    context.getRootLogger().addAppender(appender)
    spark.sparkContext.setLogLevel("WARN")
    try:
        yield lambda: [line for line in written.toString().splitlines() if "tailbit" in line]
    finally:
        spark.sparkContext.setLogLevel("ERROR")
        context.getRootLogger().removeAppender(appender)
