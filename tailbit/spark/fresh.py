"""Views and DataFrames over `format("tailbit")` read the table's head in each query, as those over Delta do.

Spark plans the partitions of a Python data source once per relation, and views and DataFrames keep the
relation. An optimizer rule of the session plans the partitions again for each query; the rule is written in
Java and compiled by Spark's own compiler of generated code. Spark Connect has no JVM beside the client: there
a relation stays at the version of its first query for as long as the server keeps the plan.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RULE = "tailbit.FreshScans"


def plan_each_query_anew(spark: SparkSession) -> None:
    """Add the rule to a session that has a JVM beside this process, once per session."""
    if not hasattr(spark, "_jsparkSession"):
        return
    experimental = spark._jsparkSession.experimental()
    rules = experimental.extraOptimizations()
    names = [rules.apply(place).ruleName() for place in range(rules.size())]
    if _RULE in names:
        return
    jvm, gateway = spark.sparkContext._jvm, spark.sparkContext._gateway
    assert jvm is not None
    assert gateway is not None
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader())
    compiler.cook((files(__package__) / "FreshScans.java").read_text("utf-8"))
    constructor = (
        compiler.getClassLoader().loadClass(_RULE).getConstructor(gateway.new_array(jvm.java.lang.Class, 0))
    )
    rule = constructor.newInstance(gateway.new_array(jvm.java.lang.Object, 0))
    getattr(experimental, "extraOptimizations_$eq")(rules.appended(rule))
