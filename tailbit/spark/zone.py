"""The time zone of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailbit.arguments.moments import known_zone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session_zone(spark: SparkSession) -> str:
    """Return the current time zone of a session, by the common name of all zones of its fixed offset."""
    zone: str | None = spark.conf.get("spark.sql.session.timeZone")
    return known_zone("spark.sql.session.timeZone", zone or "UTC")
