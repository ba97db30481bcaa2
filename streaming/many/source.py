"""The Python streaming data source `tailbit_logs`: ranges of the logs of many tables, never data.

Its offset is `{"tables": {id: offset}}`. A table that is in the end of a batch and not in its start is new:
its work begins with the next batch, from the offset in that end. A row is a table and its range.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from tailbit.checkpoints.offset import Offset
from tailbit.streaming.many.door import Asking

FORMAT = "tailbit_logs"

SCHEMA = "table string, range string"
"""A row: the id of a table, and the two offsets of its part of the batch as JSON."""

Ranges = dict[str, tuple[Offset, Offset]]
"""Start and end of each table's part of a batch, by the id of the table."""


class LogsSource(DataSource):
    """The data source. Option: `control`, the folder of the run."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name in `readStream.format(...)`."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns of a row."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader; Spark creates one for planning and pickles another for `read`."""
        return LogsReader(dict(self.options)["control"])


class TableRanges(InputPartition):
    """The parts of one batch, by table."""

    def __init__(self, parts: Mapping[str, Any]) -> None:
        self.parts = dict(parts)


class LogsReader(DataSourceStreamReader):
    """The planner as Spark sees it; the driver decides."""

    def __init__(self, control: str) -> None:
        self._control = control

    @cached_property
    def _driver(self) -> Asking:
        return Asking(Path(self._control))

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset without any table."""
        return {"tables": {}}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return no limit: the driver limits each table's part."""
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch; `start` if there is nothing to do."""
        return self._driver.ask({"next": start})

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the lag of the tables, for progress events."""
        return self._driver.ask({"report": True})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the parts of a batch: of tables whose offset moves on."""
        before = start["tables"]
        parts = {
            id_: {"start": before[id_], "end": to}
            for id_, to in end["tables"].items()
            if id_ in before and before[id_] != to
        }
        return [TableRanges(parts)] if parts else []

    def read(self, partition: InputPartition) -> Iterator[tuple[str, str]]:
        """Yield a row for each table."""
        assert isinstance(partition, TableRanges)
        for id_, ends in partition.parts.items():
            yield id_, orjson.dumps(ends).decode()


def ranges_of(rows: Sequence[Any]) -> Ranges:
    """Return the parts of a batch from its rows."""
    ranges: Ranges = {}
    for row in rows:
        ends = orjson.loads(row.range)
        ranges[row.table] = Offset.from_json(ends["start"]), Offset.from_json(ends["end"])
    return ranges
