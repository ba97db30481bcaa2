"""Data sources are registered with Spark, and rows collected; errors name what stands in the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailbit.base.errors import RequirementError

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.datasource import DataSource


def register(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a data source.

    Spark first looks for a source of the same name in all jars. If the source of some jar cannot be loaded,
    as with a jar made for another Spark, Spark wrongly says that the name is taken.

    Raises:
        RequirementError: a jar cannot be loaded; the error says why, in Java's words.
    """
    from pyspark.errors import PySparkException

    try:
        spark.dataSource.register(source)
    except PySparkException:
        reason = _why_not_found(spark, source.name())
        if not reason:
            raise
        release = ".".join(spark.version.split(".")[:2])
        raise RequirementError(
            reason=f"Spark cannot load the data sources of its jars: {reason}",
            remedy=f"Name jars for Spark {release} in spark.jars, with those that they need, or "
            f"io.delta:delta-spark_{release}_2.13:VERSION in spark.jars.packages, which brings them along.",
        ) from None


def _why_not_found(spark: SparkSession, name: str) -> str:
    """Return why Spark cannot look up a data source, as Java says; empty if it exists or is unknown."""
    from py4j.protocol import Py4JJavaError

    jvm: Any = spark._jvm
    try:
        conf = spark._jsparkSession.sessionState().conf()
        jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(name, conf)
    except Py4JJavaError as failed:
        unknown = "DATA_SOURCE_NOT_FOUND" in str(failed.java_exception.getMessage())
        return "" if unknown else innermost_cause(failed)
    return ""


def innermost_cause(failed: Py4JJavaError) -> str:
    """Return the first line of the innermost cause of an error of Java."""
    cause: Any = failed.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.toString()).splitlines()[0]


def collected(frame: DataFrame) -> list[Row]:
    """Return the rows of a frame, as `frame.collect()` does.

    Raises:
        ConnectionError: Java ended after it had computed the rows and before Python could fetch them.
            pyspark 4.2 raises an UnboundLocalError there, since `_load_from_socket` closes a socket that
            was never opened.
    """
    try:
        rows: list[Row] = frame.collect()
        return rows
    except UnboundLocalError as failed:
        raise ConnectionError("Java ended before the rows of a job were fetched") from failed
