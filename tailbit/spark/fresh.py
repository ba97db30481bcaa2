"""Views and DataFrames over `format("tailbit")` read the table's head in each query, as those over Delta do.

Spark plans the partitions of a Python data source once per relation, and views and DataFrames keep the
relation. An optimizer rule of the session plans the partitions again for each query; the rule is written in
Java and compiled by Spark's own compiler of generated code. Spark Connect has no JVM beside the client: there
a relation stays at the version of its first query for as long as the server keeps the plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tailbit.spark.compiled import java_object

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RULE = "tailbit.FreshScans"


@contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """Make a session the active one for a block, if it has a JVM beside this process.

    Spark looks for the name of a data source in the active session, whichever session registers the source.
    """
    if not hasattr(spark, "_jsparkSession"):
        yield
        return
    sessions: Any = spark._jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def plan_each_query_anew(spark: SparkSession) -> None:
    """Add the rule to a session that has a JVM beside this process, once per session."""
    if not hasattr(spark, "_jsparkSession"):
        return
    experimental = spark._jsparkSession.experimental()
    rules = experimental.extraOptimizations()
    names = [rules.apply(place).ruleName() for place in range(rules.size())]
    if _RULE in names:
        return
    rule = java_object(spark, __package__, "FreshScans")
    getattr(experimental, "extraOptimizations_$eq")(rules.appended(rule))
