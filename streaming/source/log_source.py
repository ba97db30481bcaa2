"""The Python streaming data source `tailbit_log`: the commit log of a table as rows that say what happened.

One row per range, version and slice change, never data. Everything but `read` runs in one planner process
beside the driver; `read` runs in a worker and only returns the planned rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tailbit.checkpoints.offset import Offset
from tailbit.errors import TailbitError
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.control import Control
from tailbit.streaming.settings import StreamSettings
from tailbit.streaming.source.descriptors import DESCRIPTOR_SCHEMA, Descriptor
from tailbit.streaming.source.planner import Planner
from tailbit.tables import open_table
from tailbit.tables.storage import NO_OPTIONS, StorageOptions

FORMAT = "tailbit_log"


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
        """Return the columns of a descriptor row."""
        return DESCRIPTOR_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader; Spark creates one for planning and pickles another for `read`."""
        return LogReader(dict(self.options), self.storage_options)


def source_with(options: StorageOptions) -> type[LogSource]:
    """Return the data source for stores that need options; the options are pickled with the class."""

    class LogSourceWithOptions(LogSource):
        storage_options = options

    return LogSourceWithOptions if options.items else LogSource


class Descriptors(InputPartition):
    """The planned rows of a batch, as Spark needs them."""

    def __init__(self, rows: Sequence[Descriptor]) -> None:
        self.rows = tuple(row.as_row() for row in rows)


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
    def _planner(self) -> Planner:
        settings = StreamSettings.from_options(self._options)
        table = open_table(self._options["path"], self._storage_options)
        index = MetadataTable.open(self._options["index"], options=self._storage_options)
        return Planner(table, index, settings, self._control)

    @contextmanager
    def _named(self) -> Iterator[Planner]:
        """Yield the planner; an error of the planner is reported by name to the driver."""
        try:
            yield self._planner
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
        """Return the descriptors of a range; the same range always gives the same descriptors."""
        if start == end:
            return []
        with self._named() as planner:
            return [Descriptors(planner.describe(Offset.from_json(start), Offset.from_json(end)))]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Yield the descriptors, as planned."""
        assert isinstance(partition, Descriptors)
        yield from partition.rows
