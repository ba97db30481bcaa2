"""A check of the jars in the settings of Spark: each must exist and be built for the installed Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from tailbit.streaming.config.read import ReadConfig
from tailbit.streaming.java.requirements import installed, release

FILES, PACKAGES = "spark.jars", "spark.jars.packages"

_RELEASES = re.compile(r"(?:_(?P<spark>\d+\.\d+))?_(?P<scala>2\.\d\d)[-:]\d")
"""The end of a name such as `delta-spark_4.2_2.13-4.4.0`: the releases of Spark and Scala, and the jar's."""

_SCALA = "2.13"
"""The release of Scala that every supported Spark is built with."""


def check_jars(read: ReadConfig) -> None:
    """Note each jar of the settings of Spark that is not there, or of another release, with its line.

    Such a jar keeps Spark from finding any data source, also those that need no jar.
    """
    for key in (FILES, PACKAGES):
        for jar in filter(None, map(str.strip, read.config.application.spark.get(key, "").split(","))):
            for misfit in _misfits(jar, is_file=key == FILES):
                read.problems.add(("application", "spark", key), f"{jar}: {misfit}")


def _misfits(jar: str, is_file: bool) -> Iterator[str]:
    """Yield each problem of a jar, as text. `is_file`: `jar` is a path or URI, no Maven coordinate."""
    path = jar.removeprefix("file://").removeprefix("file:")
    is_elsewhere = re.match(r"[a-z][\w+.-]*:", path, re.IGNORECASE) is not None
    if is_file and not is_elsewhere and "*" not in path and not os.path.isfile(path):
        yield "there is no such file"
    named, spark = _RELEASES.search(os.path.basename(jar)), installed("pyspark")
    if named is None or spark is None:
        return
    if named["spark"] is not None and release(named["spark"]) != release(spark):
        yield f"it is of Spark {named['spark']}, and pyspark {spark} is installed"
    elif named["scala"] != _SCALA:
        yield f"it is of Scala {named['scala']}, and Spark {spark} has {_SCALA}"
