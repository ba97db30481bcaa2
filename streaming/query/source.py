"""The Python streaming data source `tailbit_logs`: ranges of the logs of tables, never data.

Spark keeps the reader of offsets in a planner process beside the driver, which asks the driver everything:
the stream (`stream.py`) answers. A row is a table and its range; `read` runs in a worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tailbit.streaming.query.planner_socket import Driver
from tailbit.streaming.query.stream import Row

FORMAT = "tailbit_logs"

SCHEMA = "table string, range string"
"""A row: the id of a table, and the two offsets of its part of the batch as JSON."""


class LogsSource(DataSource):
    """The data source. Option: `control`, the folder of the run."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name in `readStream.format(...)`."""
        return FORMAT

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader; Spark creates one for planning and pickles another for `read`."""
        return LogsReader(dict(self.options)["control"])


class TableRanges(InputPartition):
    """The rows of one batch."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = [tuple(row) for row in rows]


class LogsReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The planner as Spark sees it; the driver decides."""

    def __init__(self, control: str) -> None:
        self._control = control

    @cached_property
    def _driver(self) -> Driver:
        return Driver(Path(self._control))

    def initialOffset(self) -> dict[str, Any]:
        offset: dict[str, Any] = self._driver.ask("initial")
        return offset

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return no limit: the driver limits each table's part."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._driver.ask("freeze")

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        end: dict[str, Any] = self._driver.ask("next", start)
        return end

    def reportLatestOffset(self) -> dict[str, Any] | None:
        report: dict[str, Any] | None = self._driver.ask("report")
        return report

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the rows of a batch, in one partition."""
        rows = [] if start == end else self._driver.ask("rows", start, end)
        return [TableRanges(rows)] if rows else []

    def read(self, partition: InputPartition) -> Iterator[tuple[str, ...]]:
        assert isinstance(partition, TableRanges)
        yield from partition.rows
