"""The Delta table of a session that is written to, and when only Delta's own statement may change it.

A transaction takes the rows of data files by path and position. Only a session with the settings in
`SAME_SQL` reads values and conditions as the index does.
"""

from __future__ import annotations

import datetime
import os
import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
from pyroaring import BitMap

from tailbit.answer import Answer
from tailbit.api import IndexedTable, open_indexed
from tailbit.arguments.values import path_text, seconds, texts_by_name, whole
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import NotATableError, UsageError
from tailbit.base.once import once
from tailbit.base.system import check_system
from tailbit.base.wording import quoted
from tailbit.spark.compiled import java_object
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, numpy_of
from tailbit.tables.open import folder_of, names_folder
from tailbit.tables.positions import PORTABLE_MAGIC, bitmap_of
from tailbit.tables.schema import name_parts
from tailbit.tables.storage.local import local_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SAME_SQL = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.icu.caseMappings.enabled": "true",
    "spark.sql.readSideCharPadding": "true",
    "spark.sql.preserveCharVarcharTypeInfo": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate": "false",
    "spark.sql.legacy.literal.pickMinimumPrecision": "true",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    "spark.sql.legacy.interval.enabled": "false",
    "spark.sql.legacy.nullInEmptyListBehavior": "false",
    "spark.sql.legacy.charVarcharAsString": "false",
    "spark.sql.legacy.noCharPaddingInPredicate": "false",
}
"""Settings under which a condition of Spark means the same as that of an answer, of the same values."""


_OWN_LETTERS = frozenset(("az", "el", "hy", "lt", "tr"))
"""Languages whose upper or lower case of a letter is another one, in Java's String or in ICU."""


def otherwise_set(spark: Any, settings: Mapping[str, str]) -> str | None:
    """Return the first of some settings that a session has otherwise, as name=value; None if none is.

    The language of its JVM counts as a setting where `lower` or `upper` go by it.
    """
    for name, value in settings.items():
        if (given := spark.conf.get(name, value) or value).lower() != value.lower():
            return f"{name}={given}"
    language = str(spark._jvm.java.util.Locale.getDefault().getLanguage())
    return f"user.language={language}" if language in _OWN_LETTERS else None


_DEFAULTS = {
    **SAME_SQL,
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.databricks.delta.delete.deletionVectors.persistent": "true",
    "spark.databricks.delta.merge.deletionVectors.persistent": "true",
    "spark.databricks.delta.schema.autoMerge.enabled": "false",
}
"""Settings with which conditions mean what they mean to the index, Delta deletes by deletion vectors, and
MERGE casts values as an upsert by the index does."""

_OLDER = re.compile(r"@(v\d+|\d{17})`?$")
"""How Delta's paths name an older version, by its number or its time."""

_LEGACY = "spark.sql.legacy."

REPLAYED = "the table has this transaction of the application already"


@dataclass(frozen=True, eq=False)
class Target:
    """A Delta table of a session.

    `name`: as in SQL. `index`: where the index is, if not at its usual place. `application`: the identifier
    and number of a transaction of the caller's application (Delta protocol, Transaction Identifiers).
    `max_staleness`: how many seconds the index may be behind; `wait`: for how many the index is waited for.
    """

    spark: SparkSession
    name: str
    index: str | None
    storage_options: Mapping[str, str]
    application: tuple[str, int] | None
    max_staleness: float | None = None
    wait: float | None = None

    @classmethod
    def of(
        cls,
        table: Any,
        spark: SparkSession | None,
        index: Any,
        storage_options: Any,
        application: Any,
        max_staleness: Any = None,
        wait: Any = None,
    ) -> Target:
        """Return the target of checked arguments (see `tailbit.spark.delete`)."""
        check_system()
        return cls(
            _session(spark),
            sql_name(path_text("table", table)),
            None if index is None else path_text("index", index),
            texts_by_name("storage_options", storage_options),
            _application(application),
            None if max_staleness is None else seconds("max_staleness", max_staleness),
            None if wait is None else seconds("wait", wait),
        )

    def begin(self) -> Any:
        """Return a new transaction, a `RowChanges` of Java.

        Raises:
            UsageError: the name is that of a view.
            NotATableError: there is no Delta table of that name.
        """
        changes = java_object(self.spark, __package__, "RowChanges")
        if changes.isView(self.spark._jsparkSession, self.name):
            raise UsageError(
                reason=f"{self.name} is a view, and only rows of a table can be changed",
                hint="Name the Delta table that the view reads.",
            )
        begun = changes.begin(self.spark._jsparkSession, self.name)
        if begun.version() < 0:
            raise NotATableError(
                path=self.name, reason="it has no commit", kind="Delta table", log="_delta_log"
            )
        return begun

    def is_replayed(self, changes: Any) -> bool:
        """Return whether the table has the transaction of the application already."""
        if self.application is None:
            return False
        identifier, number = self.application
        return bool(changes.lastOf(identifier) >= number)

    def opened(self, changes: Any) -> IndexedTable:
        """Return the table of a transaction with its index, which lags no more than it may."""
        options = self.storage_options
        table = open_indexed(
            changes.location(), self.index, max_staleness=self.max_staleness, storage_options=options
        )
        if self.wait is not None:
            table.wait_for(changes.version(), self.wait)
        return table

    def obstacle(self, changes: Any) -> str | None:
        """Return why only Delta's own statement may change the table; None if `RowChanges` may."""
        return _session_obstacle(self.spark, changes) or changes.obstacle()

    @once
    def frame(self) -> DataFrame:
        """Return the rows of the table as Spark reads them."""
        return self.spark.table(self.name)

    def frame_of(self, rows: pa.Table) -> DataFrame:
        """Return rows given as an Arrow table, for a statement about the table.

        Timestamps without a zone stay so where the column of the table is TIMESTAMP_NTZ. Elsewhere they are
        of the session's zone, in which some hours do not exist.
        """
        from pyspark.sql.pandas.types import from_arrow_schema
        from pyspark.sql.types import StructType

        types = {field.name.lower(): field.dataType.simpleString() for field in self.frame.schema}
        zoned = from_arrow_schema(rows.schema, prefer_timestamp_ntz=False)
        plain = from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
        if not rows.num_rows:
            rows = rows.schema.empty_table()  # Spark takes no column without a chunk
        fields = [
            without if "timestamp_ntz" in types.get(without.name.lower(), "") else of_session
            for of_session, without in zip(zoned, plain, strict=True)
        ]
        return self.spark.createDataFrame(rows, schema=StructType(fields))

    def refresh(self) -> None:
        """Refresh what the session has cached of the table, as Delta's own statements do."""
        session = self.spark._jsparkSession
        cached = session.sharedState().cacheManager()
        if not cached.isEmpty():
            plan = self.frame._jdf.queryExecution().analyzed()
            cached.recacheByPlan(session, plan.collectLeaves().head())

    @property
    def transaction(self) -> tuple[str | None, int]:
        """Return the transaction of the application, as the classes of Java take it."""
        return self.application or (None, 0)

    @once
    def view(self) -> str:
        """Return the name of a view that no other statement has."""
        return f"tailbit_given_{uuid4().hex}"

    def by_delta(self, statement: str, rows: DataFrame | None = None) -> tuple[Any, int | None]:
        """Return the row of a statement of Delta's, and the version that it committed, if any.

        `rows`: those of `view` in the statement. The transaction of the application is committed with it, and
        with nothing else that the session writes meanwhile.
        """
        delta = java_object(self.spark, __package__, "DeltaStatement")
        given = None if rows is None else rows._jdf
        with refusals_named():
            row = delta.run(self.spark._jsparkSession, statement, self.view, given, *self.transaction)
        return row, None if delta.version() < 0 else delta.version()


@contextmanager
def refusals_named() -> Iterator[None]:
    """Raise the error with which Delta or Spark refuses a row, in place of the failure of the writing task.

    Raises:
        pyspark.errors.SparkRuntimeException: the innermost cause that has a condition of Spark's or Delta's.
    """
    from py4j.java_gateway import is_instance_of
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext
    from pyspark.errors.exceptions.captured import SparkRuntimeException

    try:
        yield
    except Py4JJavaError as failed:
        cause, refusal = failed.java_exception, None
        while cause is not None:
            if is_instance_of(SparkContext._gateway, cause, "org.apache.spark.SparkThrowable"):
                refusal = cause if cause.getCondition() else refusal
            cause = cause.getCause()
        if refusal is None:
            raise
        raise SparkRuntimeException(origin=refusal) from None


def retention_of(changes: Any) -> datetime.timedelta:
    """Return how long VACUUM keeps a file that the table of a transaction does not name any more."""
    return datetime.timedelta(milliseconds=changes.retention())


def column_name(name: str) -> str:
    """Return a column as SQL names it; dots that are not between backticks lead to fields."""
    return quoted(*(name_parts(name) or (name,)))


def _session(spark: SparkSession | None) -> SparkSession:
    """Return a session with a JVM beside this process: `spark`, or else the thread's active session."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() if spark is None else spark
    if session is None:
        raise UsageError(reason="no Spark session is active", hint="Give one: spark=...")
    if not hasattr(session, "_jsparkSession"):
        raise UsageError(
            reason="a session of Spark Connect has no transaction of Delta's",
            hint="Run this in the driver of a classic session, or use DELETE or MERGE.",
        )
    return session


def sql_name(table: str) -> str:
    """Return a table as SQL names it: a folder as delta.`folder`; the name of a catalog's table as it is."""
    if _OLDER.search(table):
        raise UsageError(
            reason=f"{table} is an older version, and only the newest can be changed",
            hint="Leave out what stands behind the @.",
        )
    if table.startswith("file:"):
        return f"delta.{quoted(local_name(table))}"
    folder = folder_of(table)
    if folder is None and not names_folder(table):
        return table
    folder = folder or table
    place = folder if "://" in folder else os.path.abspath(folder)
    return f"delta.{quoted(place)}"


def _application(given: Any) -> tuple[str, int] | None:
    if given is None:
        return None
    if not isinstance(given, tuple) or len(given) != 2 or not isinstance(given[0], str):
        raise UsageError(
            reason=f"application is no identifier with a number: {given!r}",
            hint='Give both: application=("daily erasure", 7).',
        )
    return given[0], whole("the number of application", given[1])


def _session_obstacle(spark: SparkSession, changes: Any) -> str | None:
    """Return which setting of a session forbids to answer by the index; None if all are as they must be."""
    otherwise = otherwise_set(spark, _DEFAULTS) or changes.settingThatBegins(_LEGACY)
    return None if otherwise is None else f"the session has {otherwise}"


RowsByPath = Mapping[str, BitMap]
"""Per file, by its path as in the log but decoded, the 0-based physical positions of rows."""


def places_of_answer(answer: Answer) -> RowsByPath:
    """Return where the rows of an answer lie."""
    return {hit.slice_.path: bitmap_of(hit.positions) for hit in answer._selection.hits()}


def places_of_keys(located: pa.Table) -> RowsByPath:
    """Return where the rows of keys lie; `located`: what `locate` returns, path and position last."""
    *_, path, position = located.column_names
    rows = located.select([path, position]).filter(located[path].is_valid())
    grouped = rows.group_by(path).aggregate([(position, "list")])
    positions = grouped[f"{position}_list"]
    return {
        name: bitmap_of(numpy_of(positions[number].values))
        for number, name in enumerate(grouped[path].to_pylist())
    }


@dataclass(frozen=True)
class Hidden:
    """Rows that a deletion vector hides from a file already, and the identity of the vector."""

    id: str
    positions: BitMap


class LocatedRows(NamedTuple):
    """Rows of data files, and by the paths of files what is hidden of them already."""

    rows: RowsByPath
    hidden: Mapping[str, Hidden]


def with_hidden(rows: RowsByPath, answer: Answer) -> LocatedRows:
    """Return rows with what is hidden of their files already, at the version of an answer.

    The index has what it covers; of other files the deletion vector is read.
    """
    coverage, files = answer._selection.coverage, answer._selection.snapshot.files
    numbers = numpy_of(pc.index_in(arrow_array([*rows], pa.string()), files.paths))
    hidden = {}
    for path, number in zip(rows, numbers.tolist(), strict=True):
        positions = coverage.hidden_of(number)
        if positions:
            hidden[path] = Hidden(files[number].hidden_id, positions)
    return LocatedRows(rows, hidden)


def packed(rows: RowsByPath, hidden: Mapping[str, Hidden]) -> bytes:
    """Return what to delete per file, each part behind its length in bytes.

    The parts: the path; a RoaringBitmapArray of one bitmap, the rows; the identity of the deletion vector
    that the file has, empty if it is not known; the array of the rows that this hides. See the Delta
    protocol, Deletion Vector Format: a magic number (4 bytes), the number of bitmaps (8), and each behind the
    upper half of its values (4), all little endian.
    """
    none = Hidden("", BitMap())
    fields = []
    for path, positions in rows.items():
        vector = hidden.get(path, none)
        fields += [path.encode(), _array(positions), vector.id.encode(), _array(vector.positions)]
    return b"".join(struct.pack(">i", len(content)) + content for content in fields)


def _array(positions: BitMap) -> bytes:
    return struct.pack("<IqI", PORTABLE_MAGIC, 1, 0) + positions.serialize()
