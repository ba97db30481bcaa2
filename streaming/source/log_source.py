"""The Python streaming data source `tailbit_log`: ranges of the commit log of a table, never data.

A batch needs only its two offsets, and derives its work from the recorded state. The offsets are in a row for
each version that the batch reads, so that the input rows in Spark's UI and progress events count commits.
Everything but `read` runs in one planner process beside the driver; `read` runs in a worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tailbit.base.errors import TailbitError
from tailbit.checkpoints.offset import Offset
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.control import Control
from tailbit.streaming.settings import StreamSettings
from tailbit.streaming.source.planner import Planner, versions_between
from tailbit.tables import Table, open_table
from tailbit.tables.model import Version
from tailbit.tables.storage import NO_OPTIONS, StorageOptions

FORMAT = "tailbit_log"

SCHEMA = "version bigint, range string"
"""A row: a version that the batch reads, and the two offsets of the batch as JSON."""


class LogSource(DataSource):
    """The data source. Options: `path`, `index`, `control` (a folder) and the fields of StreamSettings.

    Spark shows options in its UI, so `storage_options` are not among them: see `source_with`.
    """

    storage_options = NO_OPTIONS

    @classmethod
    def name(cls) -> str:
        """Return the format's name in `readStream.format(...)`."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns of a row."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader; Spark creates one for planning and pickles another for `read`."""
        return LogReader(dict(self.options), self.storage_options)


def source_with(options: StorageOptions) -> type[LogSource]:
    """Return the data source for stores that need options; the options are pickled with the class."""

    class LogSourceWithOptions(LogSource):
        storage_options = options

    return LogSourceWithOptions if options.items else LogSource


class LogRange(InputPartition):
    """The range of the log that a batch covers: its two offsets, as Spark passes them, and its versions."""

    def __init__(self, start: Mapping[str, Any], end: Mapping[str, Any], versions: Sequence[Version]) -> None:
        self.start, self.end, self.versions = dict(start), dict(end), versions

    def rows(self) -> Iterator[tuple[int, str]]:
        """Yield the rows of `SCHEMA`; at least one, since a batch reads at least one version."""
        text = orjson.dumps({"start": self.start, "end": self.end}).decode()
        for version in self.versions:
            yield version, text


def offsets_of(text: str) -> tuple[Offset, Offset]:
    """Return the start and the end of a range, as a row has them."""
    ends = orjson.loads(text)
    return Offset.from_json(ends["start"]), Offset.from_json(ends["end"])


class LogReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The planner as Spark sees it: offsets are JSON."""

    def __init__(self, options: Mapping[str, str], storage_options: StorageOptions = NO_OPTIONS) -> None:
        self._storage_options = storage_options
        self._options = {name.lower(): value for name, value in options.items()}

    @cached_property
    def _control(self) -> Control | None:
        folder = self._options.get("control")
        return Control(Path(folder)) if folder else None

    @cached_property
    def _table(self) -> Table:
        return open_table(self._options["path"], self._storage_options)

    @cached_property
    def _planner(self) -> Planner:
        settings = StreamSettings.from_options(self._options)
        index = MetadataTable.open(self._options["index"], options=self._storage_options)
        return Planner(self._table, index, settings, self._control)

    @contextmanager
    def _named(self) -> Iterator[Planner]:
        """Yield the planner; an error of the planner is reported by name to the driver."""
        with self._reported():
            yield self._planner

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Report an error by name to the driver, and each answer as a sign of life."""
        try:
            yield
        except TailbitError as error:
            if self._control is not None:
                self._control.report(error)
            raise
        finally:
            if self._control is not None:
                self._control.answered()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return a limit on files; the source also limits versions and bytes, which Spark cannot combine."""
        return ReadMaxFiles(StreamSettings.from_options(self._options).files)

    def initialOffset(self) -> dict[str, Any]:
        """Return the first offset of a query without a Spark checkpoint."""
        with self._named() as planner:
            return planner.initial().to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        """Freeze the head: later commits are not read."""
        with self._named() as planner:
            planner.freeze()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch, within the limits of the source."""
        with self._named() as planner:
            end = planner.next(Offset.from_json(start))
            return end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the head of the log and the lag behind it, for progress events."""
        with self._named() as planner:
            return planner.report()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the range between two offsets. Cost: none once the table is open."""
        if start == end:
            return []
        with self._reported():
            versions = versions_between(self._table, Offset.from_json(start), Offset.from_json(end))
        return [LogRange(start, end, versions)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, str]]:
        """Yield the rows of a range."""
        assert isinstance(partition, LogRange)
        yield from partition.rows()
