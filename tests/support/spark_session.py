"""A real Spark session with Delta Lake, small enough for two cores."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
}


def start_spark(folder: Path) -> Any:
    """Start Spark with everything it writes below `folder`.

    The thread stack is large: when a query stops, Spark matches a regular expression over Python tracebacks.
    The compiler is the quick one: tests are too short for the optimising one to pay off. Its code cache is as
    large as the other's: when it is full, nothing is compiled any more.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from delta import configure_spark_with_delta_pip
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2,3]").appName("tailbit tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    builder = builder.config(
        "spark.driver.extraJavaOptions",
        "-Xss8m -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -Duser.timezone=UTC",
    )
    session = configure_spark_with_delta_pip(builder).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
