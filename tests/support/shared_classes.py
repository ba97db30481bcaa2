"""The classes of Spark, read from its jars once: every JVM that a test starts then maps them into memory.

It saves a quarter of what starting Spark and its first statements cost. The archive is made beside the tests
that need no Spark, and stays in `build/` for the next run; a JVM that it does not fit ignores it.
Source: "Default CDS Archives" and JEP 350, dynamic archives.
"""

from __future__ import annotations

import os
import tempfile
from importlib.metadata import version
from pathlib import Path

SILENT = "-Xlog:disable -Xlog:all=error:stderr"
"""Java says nothing of an archive that does not fit."""

ARCHIVE = Path(__file__).parents[2] / "build" / f"spark-{version('pyspark')}.jsa"


def use_archive() -> str:
    """The options of a JVM that uses the archive; none where it is not there yet."""
    return f"{SILENT} -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else ""


def make_archive() -> None:
    """Start Spark, make and change a table, and write down which classes that took."""
    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as folder:
        made = Path(folder, ARCHIVE.name)
        os.environ["SPARK_SUBMIT_OPTS"] = f"{SILENT} -XX:ArchiveClassesAtExit={made}"
        from pyspark import SparkContext

        from support.spark_session import start_spark

        spark = start_spark(Path(folder))
        table = f"delta.`{folder}/table`"
        spark.sql(f"CREATE TABLE {table} (k INT, v STRING) USING delta")
        spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
        spark.sql(f"DELETE FROM {table} WHERE k = 1")
        spark.sql(f"SELECT v, count(*) FROM {table} WHERE k > 0 GROUP BY v").collect()
        spark.stop()
        java = SparkContext._gateway
        java.shutdown()
        java.proc.stdin.close()
        java.proc.wait()
        if made.exists():
            os.replace(made, ARCHIVE)


if __name__ == "__main__":
    ARCHIVE.parent.mkdir(exist_ok=True)
    if not ARCHIVE.exists():
        make_archive()
