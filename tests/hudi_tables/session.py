"""The Spark session that writes Hudi tables: Spark 3.5 with Hudi's bundle, in an environment of its own.

As a command it fetches the bundle. Classes of Hudi in Parquet's packages work only where one class loader has
both, and the class path of a session is that of its start.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

BUNDLE = "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0"
FETCHED = Path.home() / ".ivy2" / "jars" / f"{BUNDLE.replace(':', '_', 1).replace(':', '-')}.jar"
CONFIGURATION = {
    "spark.jars.packages": BUNDLE,
    "spark.driver.extraClassPath": str(FETCHED),
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def hudi_session(warehouse: str) -> SparkSession:
    """Start the session; two writers at once need more task slots than a small machine has cores."""
    builder = SparkSession.builder.master("local[4]").config("spark.sql.warehouse.dir", warehouse)
    for key, value in CONFIGURATION.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


if __name__ == "__main__":
    hudi_session("spark-warehouse").stop()
