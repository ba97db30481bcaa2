"""`spark.read.format("tailbit")`: the rows of an answer as a batch data source, read by Spark's workers.

The predicate is an option, so it is known before anything is planned. Filter pushdown is not offered: Spark
4.2.0 would reuse the pushed filters for other scans of the same relation, which would lose rows.

Each query reads one version: that of option `version` or `asOf`, else the head when the query is planned,
even if a view or a DataFrame is older (see `fresh`). The planner divides the files of that version, and each
task finds the matching rows of its own by the index, and reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructType

from tailbit import __version__
from tailbit.answer import Answer
from tailbit.api import IndexedTable, open_indexed
from tailbit.arguments.values import split_names, wrong_type
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import SchemaError, UsageError
from tailbit.outputs.frames import batch_reader
from tailbit.spark.compiled import active
from tailbit.spark.portions import Division, packed, unpacked
from tailbit.spark.session import cores_of, session_zone, spark_schema, told_plainly, without_traceback
from tailbit.tables import open_table
from tailbit.tables.model import Column, Version
from tailbit.tables.parquet.rows import fetch
from tailbit.tables.storage import NO_OPTIONS, StorageOptions
from tailbit.tables.table import Table
from tailbit.vacuumed import told_rows, vacuumed_told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OPTIONS = ("path", "where", "version", "asOf", "index", "columns", "timeZone", "partitionTimeZone", "now")
"""The options of a load; their case does not matter."""

_NO_TABLE = "CREATE TABLE … USING tailbit cannot work: Spark 4.2 keeps no path for a data source in Python"

_VIEW_INSTEAD = (
    "In SQL: CREATE TEMPORARY VIEW name USING tailbit OPTIONS (path '…'), which reads the head in each query."
)


class TailbitSource(DataSource):
    """The rows where option `where` is TRUE, at option `version` or `asOf`, else at each query's head."""

    _pinned: int | None = None
    """The version that option `version` or `asOf` resolved to at the load: Spark keeps this object."""

    _inferred: StructType | None = None
    """The schema given to Spark at the load; None if the user gave Spark a schema."""

    storage_options = NO_OPTIONS
    """Options of the object stores; not options of a load, which Spark shows: see `source_with`."""

    zone = "UTC"
    """Time zone of predicates if the load has no option timeZone."""

    cores = 1
    """Cores of the executors, by which a large table is divided into tasks."""

    format = "tailbit"

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return cls.format

    @told_plainly
    def schema(self) -> StructType:
        """Return the table's columns, or those in option `columns`, with types and nullability."""
        _, answer = self._opened()
        if {"version", "asof"} & self._checked_options().keys():
            self._pinned = answer.version
        self._inferred = spark_schema(*_columns(answer, self._names()))
        return self._inferred

    @told_plainly
    def reader(self, schema: StructType) -> TailbitReader:
        """Return a reader of the rows at the version of the options, else at the head.

        Raises:
            SchemaError: the table's columns are no longer those of the load.
            UsageError: Spark was given a schema that is not the table's.
        """
        names = self._names()
        try:
            table, answer = self._opened()
            own = spark_schema(*_columns(answer, names))
        except SchemaError as wrong:
            if self._inferred is None or self._pinned is not None:
                raise
            raise _changed(str(wrong)) from None
        if _shapes(schema) != _shapes(own):
            if self._inferred is not None:
                was, now = schema.simpleString(), own.simpleString()
                raise _changed(f"{now} at version {answer.version}, {was} before")
            reason = f"the rows are {own.simpleString()}, not {schema.simpleString()}"
            hint = (
                'Leave .schema(...) out; option columns takes some of the columns, such as "carrier, dest".'
            )
            raise UsageError(reason=reason, hint=hint)
        return TailbitReader(table, answer, names, schema, self.cores)

    @told_plainly
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Refuse to write."""
        hint = "Write to the table itself, in its own format; the indexer follows it."
        raise UsageError(reason="format tailbit only reads", hint=hint)

    def _names(self) -> list[str] | None:
        given = self._checked_options().get("columns")
        return None if given is None else split_names(given)

    def _checked_options(self) -> Mapping[str, str]:
        given = {key.lower(): value for key, value in self.options.items()}
        if "paths" in given:
            raise UsageError(reason="format tailbit was given several paths", hint="Give one: load(path).")
        if given.get("provider", "").lower() == TailbitSource.format:
            raise UsageError(reason=_NO_TABLE, hint=_VIEW_INSTEAD)
        unknown = sorted(set(given) - {option.lower() for option in OPTIONS})
        if unknown:
            listed = ", ".join(OPTIONS)
            raise UsageError(reason=f"format tailbit has no option {unknown[0]}", hint=f"It has {listed}.")
        if "path" not in given:
            hint = f"Give one: load(path). {_VIEW_INSTEAD}"
            raise UsageError(reason="format tailbit was given no path", hint=hint)
        return given

    def _opened(self) -> tuple[IndexedTable, Answer]:
        options = self._checked_options()
        version, zone = options.get("version"), options.get("timezone", self.zone)
        stores = dict(self.storage_options)
        table = open_indexed(options["path"], options.get("index"), storage_options=stores)
        if "now" in options:
            now = _micros(options["now"])
            table._clock = lambda: now
        answer = table.where(
            options.get("where"),
            version=version if self._pinned is None else self._pinned,
            as_of=options.get("asof") if self._pinned is None else None,
            zone=zone,
            partition_zone=options.get("partitiontimezone"),
        )
        return table, answer


def source_with(options: StorageOptions, spark: SparkSession) -> type[TailbitSource]:
    """Return the data source class of a session.

    The storage options, the time zone and the cores are pickled with the class.
    """

    class TailbitSourceOfSession(TailbitSource):
        storage_options = options
        zone = session_zone(spark)
        cores = cores_of(spark)

    return TailbitSourceOfSession


@lru_cache
def _source_of_answers(options: StorageOptions, executor_cores: int) -> type[TailbitSource]:
    """Return the data source of answers, which leaves that of the session as the user registered it."""

    class TailbitAnswers(TailbitSource):
        storage_options = options
        cores = executor_cores
        format = "tailbit_answer" if options == NO_OPTIONS else f"tailbit_answer_{uuid4().hex}"

    return TailbitAnswers


_REGISTERED: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()
"""The names of data sources of answers that a session has."""


def data_frame(answer: Answer, spark: SparkSession, columns: list[str] | None) -> DataFrame:
    """Return the rows of an answer as a DataFrame over a data source; see `Answer.dataframe`."""
    if not hasattr(spark, "dataSource"):
        raise wrong_type("spark", spark, "a SparkSession")
    selection = answer._selection
    named = None if columns is None else selection.schema.resolve_all(columns)
    source = _source_of_answers(selection.storage.options, cores_of(spark))
    registered = _REGISTERED.setdefault(spark, set())
    if source.name() not in registered:
        with active(spark):
            spark.dataSource.register(source)
        registered.add(source.name())
    options = {
        "where": answer.predicate,
        "version": str(answer.version_name),
        "index": answer._index_path,
        "columns": None if named is None else ", ".join(column.label for column in named),
        "timeZone": answer._zone,
        "partitionTimeZone": answer._partition_zone,
        "now": str(answer._now),
    }
    given = {name: value for name, value in options.items() if value is not None}
    return spark.read.format(source.name()).options(**given).load(answer._path)


def _shapes(schema: StructType) -> list[tuple[str, DataType, bool]]:
    return [(field.name, field.dataType, field.nullable) for field in schema]


def _changed(how: str) -> SchemaError:
    """Return the error for a view or DataFrame whose table now has other columns."""
    hint = "Load it again, or create the view again; option columns names the columns that it needs."
    return SchemaError(reason=f"the table's columns have changed since this was loaded: {how}", hint=hint)


def _micros(text: str) -> int:
    """Return the moment that option `now` gives."""
    try:
        return int(text)
    except ValueError:
        hint = "Give the microseconds since 1970 in UTC, a whole number."
        raise UsageError(reason=f"option now of format tailbit is {text!r}", hint=hint) from None


def _columns(answer: Answer, names: list[str] | None) -> tuple[list[Column], pa.Schema]:
    schema = answer._selection.schema
    columns = list(schema.columns) if names is None else schema.resolve_all(names)
    return columns, answer.stream(names, limit=0)[0]


@dataclass
class PackedPortion(InputPartition):
    """The files that one task evaluates and reads: a portion of the rows, packed."""

    portion: bytes


@dataclass(frozen=True)
class Loaded:
    """The table that a load is bound to; a worker opens it only to explain why a data file is missing."""

    path: str
    version: Version
    options: StorageOptions

    @property
    def _table(self) -> Table:
        return open_table(self.path, self.options)


class TailbitReader(DataSourceReader):
    """The reader whose tasks find the matching rows of some files and read them.

    When Spark plans, files that have no such row are left out as far as that takes no task to find out. Once
    pickled, the reader holds no index.
    """

    def __init__(
        self, table: IndexedTable, answer: Answer, names: list[str] | None, schema: StructType, cores: int
    ) -> None:
        self._planned: tuple[IndexedTable, Answer] | None = (table, answer)
        self._loaded = Loaded(answer._path, answer.version, answer._selection.storage.options)
        self._columns, self._arrow = _columns(answer, names)
        self._schema, self._cores, self._release = schema, cores, __version__

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planned": None}

    @told_plainly
    def partitions(self) -> list[InputPartition]:
        """Return the files that may have matching rows, row space by row space, packed into tasks."""
        assert self._planned is not None
        table, answer = self._planned
        with vacuumed_told(answer), table._lock:
            division = Division.of(table, answer._selection)
            portions = division.portions(self._cores, whole=False)
            return [PackedPortion(packed(portion)) for portion in portions] or [PackedPortion(b"")]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task, in the order of path and position in each row space."""
        assert isinstance(partition, PackedPortion)
        schema = to_arrow_schema(self._schema, timezone="UTC")
        with without_traceback():
            rows = told_rows(self._loaded, self._tables(partition.portion)) if partition.portion else iter(())
            yield from batch_reader(schema, (table.cast(schema) for table in rows))

    def _tables(self, data: bytes) -> Iterator[pa.Table]:
        portion = unpacked(data, self._loaded.options, self._release)
        for hit in portion.hits():
            for table in fetch(portion.storage, hit.slice_, self._columns, hit.positions):
                yield table.rename_columns(self._arrow.names)
