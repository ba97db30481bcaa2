"""The jars that the settings of Spark name: that they are there, and of the Spark that runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from tailbit.streaming.config.read import ReadConfig
from tailbit.streaming.java.requirements import installed, release

FILES, PACKAGES = "spark.jars", "spark.jars.packages"

_RELEASES = re.compile(r"(?:_(?P<spark>\d+\.\d+))?_(?P<scala>2\.\d\d)[-:]\d")
"""The end of a name such as `delta-spark_4.2_2.13-4.4.0`: of which Spark and which Scala it is."""

_SCALA = "2.13"
"""The Scala of every Spark that an application runs on."""


def check_jars(read: ReadConfig) -> None:
    """Note each jar of the settings of Spark that is not there, or of another release, with its line.

    Such a jar keeps Spark from finding any data source, also those that need no jar.
    """
    for key in (FILES, PACKAGES):
        for jar in filter(None, map(str.strip, read.config.application.spark.get(key, "").split(","))):
            for misfit in _misfits(jar, is_file=key == FILES):
                read.problems.add(("application", "spark", key), f"{jar}: {misfit}")


def _misfits(jar: str, is_file: bool) -> Iterator[str]:
    """Yield what is wrong with a jar, by its name and its place."""
    path = jar.removeprefix("file://").removeprefix("file:")
    if is_file and "://" not in path and "*" not in path and not os.path.isfile(path):
        yield "there is no such file"
    named, spark = _RELEASES.search(os.path.basename(jar)), installed("pyspark")
    if named is None or spark is None:
        return
    if named["spark"] is not None and release(named["spark"]) != release(spark):
        yield f"it is of Spark {named['spark']}, and pyspark {spark} is installed"
    elif named["scala"] != _SCALA:
        yield f"it is of Scala {named['scala']}, and Spark {spark} has {_SCALA}"
