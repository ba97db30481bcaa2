"""The location of a table according to Spark's catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from tailbit.base.errors import NotATableError
from tailbit.streaming.java.sources import innermost_cause

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCATION = "Location"


def place_in_catalog(spark: SparkSession, name: str) -> str:
    """Return the path or URI of a table by its name in the catalog.

    Raises:
        NotATableError: the catalog has no such table, or does not say where it is.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    except (PySparkException, Py4JJavaError) as refused:
        of_java = isinstance(refused, Py4JJavaError)
        reason = innermost_cause(refused) if of_java else str(refused).splitlines()[0]
        raise NotATableError(
            path=name, kind="table of Spark's catalog", reason=reason, log="a table"
        ) from refused
    places = [row.data_type for row in rows if row.col_name == _LOCATION]
    if not places:
        raise NotATableError(
            path=name, kind="table of Spark's catalog", reason="it has no location", log="a table"
        )
    place = str(places[-1])
    return unquote(place.removeprefix("file:").replace("///", "/", 1)) if place.startswith("file:") else place
