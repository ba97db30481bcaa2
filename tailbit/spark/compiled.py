"""Java classes compiled in the JVM of a session, and the rule by which it plans each query anew.

Spark's own compiler of generated code (Janino) compiles them: no class file is built or shipped, and a class
fits the Spark that runs.

Spark plans the partitions of a Python data source once per relation, and views and DataFrames keep the
relation. The rule plans the partitions again for each query, so that views and DataFrames over
`format("tailbit")` read the table's head, as those over Delta do. Spark Connect has no JVM beside the client:
there a relation stays at the version of its first query for as long as the server keeps the plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLASSES: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
"""Compiled classes by the gateway of their JVM and by name."""


def java_object(spark: SparkSession, package: str, name: str) -> Any:
    """Return a new object of Java class `tailbit.<name>`, whose source is in a package of Python.

    The class has a constructor without arguments, and is compiled once for each JVM.
    """
    jvm, gateway = spark.sparkContext._jvm, spark.sparkContext._gateway
    assert jvm is not None
    assert gateway is not None
    compiled = _CLASSES.setdefault(gateway, {})
    if name not in compiled:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader())
        compiler.cook((files(package) / f"{name}.java").read_text("utf-8"))
        compiled[name] = compiler.getClassLoader().loadClass(f"tailbit.{name}")
    constructor = compiled[name].getConstructor(gateway.new_array(jvm.java.lang.Class, 0))
    return constructor.newInstance(gateway.new_array(jvm.java.lang.Object, 0))


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
