"""Java classes of this package are compiled by Spark's own compiler of generated code (Janino).

No class file is built or shipped, and a class fits the Spark that runs.
"""

from __future__ import annotations

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
