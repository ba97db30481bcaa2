"""A real Spark session with Delta Lake, small enough for two cores."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.profiles import PROOF
from support.shared_classes import use_archive
from tailbit.streaming.java.gateway import QUICK_COMPILER
from tailbit.streaming.java.session import variables_of_workers

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "1",
    # Else VACUUM and RESTORE run ten thousand tasks.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    # What the UI would show is kept without it too, and fills the driver in runs of many statements.
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
}

QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.writeChecksumFile.enabled": "false",
    "spark.sql.maxPlanStringLength": "100",
    "spark.sql.debug.maxToStringFields": "1",
    "spark.sql.ui.explainMode": "simple",
}
"""For tables of a few rows: expressions are interpreted, since to generate and compile their code costs more
than to evaluate them. It halves what a statement costs. Checksum files, which tailbit does not read, and
plans as text, which nobody reads, cost a sixth of what is left. `make proof` runs without these settings."""

COLLECTOR = "-XX:+UseSerialGC"

JAVA = f"{QUICK_COMPILER} {COLLECTOR}"
"""As for a run that ends soon. The optimising compiler pays off after some five minutes of one JVM at work:
from then on a statement costs a quarter less."""


_GIVEN = os.environ.get("SPARK_SUBMIT_OPTS")
"""The options of whoever runs the tests, which are left as they are."""


def quick_java() -> None:
    """Let every JVM that a test starts from now on start and compile quickly, in whatever process."""
    _options_of_java(JAVA)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", JAVA)


def _options_of_java(options: str) -> None:
    if _GIVEN is None:
        os.environ["SPARK_SUBMIT_OPTS"] = f"{options} {use_archive()}"


@contextmanager
def session_settings(spark: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """Set some settings of a session, and put them back."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def start_spark(folder: Path, *, lives_long: bool = False) -> Any:
    """Start Spark with everything it writes below `folder`; `lives_long`: with the optimising compiler.

    The thread stack is large: when a query stops, Spark matches a regular expression over Python tracebacks.
    """
    options = COLLECTOR if lives_long else JAVA
    _options_of_java(options)
    # For Java alone: a program that a test starts later may have another Python.
    with pytest.MonkeyPatch.context() as environment:
        for name, value in variables_of_workers(one_machine=True).items():
            environment.setenv(name, value)
        return _session(folder, options)


def _session(folder: Path, options: str) -> Any:
    from delta import configure_spark_with_delta_pip
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2,3]").appName("tailbit tests")
    for name, value in (SETTINGS if PROOF else SETTINGS | QUICK).items():
        builder = builder.config(name, value)
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    builder = builder.config("spark.driver.extraJavaOptions", f"-Xss8m {options} -Duser.timezone=UTC")
    session = configure_spark_with_delta_pip(builder).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def rows_of(spark: Any, path: str) -> list[tuple[Any, ...]]:
    """Return the rows that Spark reads of a table, in order."""
    return sorted(map(tuple, spark.read.format("delta").load(path).collect()))


def ids(spark: Any, path: str) -> list[int]:
    """Return the ids of the rows that Spark reads of a table, in order."""
    return sorted(row.id for row in spark.read.format("delta").load(path).select("id").collect())
