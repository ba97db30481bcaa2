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

_DELTA = re.compile(r"delta-(?:spark|core)_2\.\d\d[-:](?P<major>\d+)\.(?P<minor>\d+)")
"""The name of a jar of Delta without a release of Spark: up to Delta 4.0, each was of one release."""

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
    name, spark = os.path.basename(jar), installed("pyspark")
    named = _RELEASES.search(name)
    if named is None or spark is None:
        return
    of_spark = named["spark"] or _spark_of_delta(name)
    if of_spark is not None and release(of_spark) != release(spark):
        yield f"it is of Spark {of_spark}, and pyspark {spark} is installed"
    elif named["scala"] != _SCALA:
        yield f"it is of Scala {named['scala']}, and Spark {spark} has {_SCALA}"


def _spark_of_delta(jar: str) -> str | None:
    """Return the release of Spark that a jar of Delta 4.0 or older is of; None of any other jar.

    Source: the table of releases in Delta's documentation; Delta 3 is of Spark 3.5, all before it of older.
    """
    delta = _DELTA.search(jar)
    if delta is None or (int(delta["major"]), int(delta["minor"])) > (4, 0):
        return None
    return "4.0" if int(delta["major"]) == 4 else "3.5"
