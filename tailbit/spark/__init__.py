"""Spark SQL asks the index: one call registers a data source and an SQL function with a session.

`tailbit.spark.register(spark)`, and `tailbit.spark.sql(spark, "CREATE INDEX ...")`. `tailbit.spark.delete`
and `tailbit.spark.upsert` change the rows that the index finds; `tailbit.spark.locate` tells where the keys
of a DataFrame live. After `tailbit.spark.accelerate(spark)` the
session's own queries of Delta tables use the index. Nothing outside of this package imports it: other
questions need no pyspark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tailbit.arguments.conditions import Condition
    from tailbit.spark.acceleration import Acceleration
    from tailbit.spark.table import SparkTable
    from tailbit.spark.writing.deletion import Deletion
    from tailbit.spark.writing.upsert import Upsert

__all__ = [
    "accelerate",
    "acceleration_conf",
    "delete",
    "locate",
    "open",
    "register",
    "report",
    "sql",
    "upsert",
]


def accelerate(
    spark: SparkSession,
    tables: Sequence[str] | None = None,
    serve: Sequence[str] | None = None,
    budget_ms: int | None = None,
) -> Acceleration:
    """Let a session's own queries of Delta tables use their indexes; nothing has to be written differently.

    `tables`: the paths of tables that are served, or of folders above them, as Spark takes them; by default
    every table is. `serve`: which of "files", "counts", "groups" and "rows" are served; by default
    all. `budget_ms`: how long a query waits for the index at most, before it runs as without the
    index; by default for 0.7 of what Spark's own scan takes. A process of this
    Python beside Spark's driver answers from the indexes; it reaches object stores with its environment.
    `last()` of the result says what became of the last query, `stop()` ends the use of the index. Where the
    jar or the release of Spark does not fit, or that process does not start, a line is logged, `last()` says
    why, and queries run as without tailbit.

    Raises:
        RequirementError: this system is not Linux.
        UsageError: an argument is not of its type, or the session is one of Spark Connect; its server
            takes `acceleration_conf`.
    """
    from tailbit.spark.acceleration import accelerated

    return accelerated(spark, tables, serve, budget_ms)


def acceleration_conf() -> dict[str, str]:
    """Return the settings with which Spark starts accelerated: spark-submit, spark-sql, a Connect server.

    `spark.jars` and `spark.sql.extensions` may have to be joined with yours by commas.

    Raises:
        RequirementError: the jar has not been built.
    """
    from tailbit.spark.acceleration import settings_of_start

    return settings_of_start()


def report(spark: SparkSession) -> DataFrame:
    """Return what became of the scans of a session's last 200 statements: a row for each scan, in order.

    `time` and text of the `statement` (NULL for a DataFrame's), `table` and `version`; the mode that `served`
    the scan, or the `reason` why it was left to Spark; `files` that were read `of` those without the index;
    `summary`, the line of EXPLAIN; and `index`, the columns of which an index would have told more, or NULL.
    In SQL, also by JDBC and Spark Connect, `SELECT * FROM tailbit_report()` is the same.

    Raises:
        pyspark.errors.AnalysisException: the session is not accelerated, and has no such function.
    """
    return spark.sql("SELECT * FROM tailbit_report()")


def open(
    spark: SparkSession,
    path: str,
    index: str | None = None,
    at_least: int | None = None,
    max_staleness: float | None = None,
    storage_options: Mapping[str, str] | None = None,
    task_bytes: int | None = None,
) -> SparkTable:
    """Open a table whose questions are answered by the executors of a session.

    For tables that no single machine should answer for: `where(...)` of the result has the words of
    `tailbit.open` and gives its answers, `count`, `facets`, `top`, `distinct`, `min`, `max` and so on, at one
    version and at any lag; `dataframe(columns)` gives the rows. The driver holds what log and index record of
    files; postings and data are read by tasks, which send counts and groups. Executors need this release of
    tailbit, and reach table and index by the same path; `storage_options` travel with the code of the tasks.

    `task_bytes`: bytes of postings and data from which on a question is a job, by default 64 MiB; one with
    less to read is answered by the driver, and with 0 none is. `explain()["evaluated"]` says what was chosen.

    Raises:
        UsageError: the session is one of Spark Connect, or an argument is not of its type.
        NotATableError: no table of a known format at `path`.
        NoIndexError: `index` was given and there is none.
    """
    from tailbit.api import open_indexed
    from tailbit.arguments.values import whole
    from tailbit.spark.portions import TASK_BYTES
    from tailbit.spark.table import spark_table

    size = TASK_BYTES if task_bytes is None else whole("task_bytes", task_bytes)
    table = open_indexed(path, index, at_least, max_staleness, storage_options)
    return spark_table(spark, table, index, storage_options, size)


def register(spark: SparkSession, storage_options: Mapping[str, str] | None = None) -> None:
    """Register `spark.read.format("tailbit")` and the SQL function `tailbit_locate` with a session.

    Views and DataFrames over the data source read the table's head in each query, as those over Delta do.

    Executors need
    tailbit installed, since Spark finds data source and function there by their names. `storage_options` are
    those of the stores that the data source reads, named as in delta-rs; Spark never shows them. The
    function takes them from the environment of the executors. Predicates are read in the time zone that the
    session has now (`spark.sql.session.timeZone`); option `timeZone` of a load names another.

    Raises:
        UsageError: `storage_options` is no mapping of texts.
        RequirementError: pyspark is not installed.
    """
    from tailbit.arguments.values import texts_by_name
    from tailbit.base.errors import RequirementError
    from tailbit.tables.storage import StorageOptions

    options = StorageOptions.of(texts_by_name("storage_options", storage_options))
    try:
        from tailbit.spark.compiled import active, plan_each_query_anew
        from tailbit.spark.locating import register_functions
        from tailbit.spark.source import source_with
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "pyspark":
            raise
        remedy = "Install it: pip install 'tailbit[spark]'."
        raise RequirementError(reason="pyspark is not installed", remedy=remedy) from None
    with active(spark):
        spark.dataSource.register(source_with(options, spark))
    plan_each_query_anew(spark)
    register_functions(spark)


def sql(
    spark: SparkSession,
    statement: str,
    storage_options: Mapping[str, str] | None = None,
    index: str | None = None,
) -> DataFrame:
    """Carry out an index statement, or pass any other statement to `spark.sql` unchanged.

    CREATE, DROP, ALTER, REFRESH, SHOW or DESCRIBE before INDEX makes an index statement, also where the rest
    is wrong; so the function can stand in for `spark.sql`. The session finds tables by the names of its
    catalogs, and its time zone (`spark.sql.session.timeZone`) is used for terms. The statement is carried out
    at once; the result has a row per index, none after DROP INDEX.

    Raises:
        StatementError: it is an index statement that is wrong; says where.
        NotATableError: the table of an index statement is no Delta table.
        TailbitError: as of `tailbit.sql`; what Spark refuses is raised as Spark raises it.
    """
    from tailbit.arguments.values import text
    from tailbit.index.sql.ddl.refusals import is_about_index

    if not is_about_index(text("statement", statement)):
        return spark.sql(statement)
    from tailbit.spark.statements import run_in

    return run_in(spark, statement, storage_options, index)


def delete(
    table: str,
    rows: str | Condition | Any,
    on: str | Iterable[str] | None = None,
    spark: SparkSession | None = None,
    application: tuple[str, int] | None = None,
    dry_run: bool = False,
    index: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    max_staleness: float | None = None,
    wait: float | None = None,
) -> Deletion:
    """Delete rows of a Delta table where the index says that they lie, in one transaction of Delta's own.

    `table`: a path, or a name in a catalog of the session. `rows`: a condition (text or `tailbit.col`), or
    keys: a list of values of the column `on`, of tuples for several, or a table with the key columns, as
    `locate` takes them. Data files that the index covers are not read: deletion vectors hide the rows, and
    files without a row left are removed. Right at any lag of the index, and without any.

    Delta's detection of conflicts holds as for a DELETE: where a commit in between has changed one of the
    files, or added rows that may belong to the condition, nothing is deleted and Delta's error is raised.
    `application` is an identifier and a number that are committed with the deletion, also where no row is
    found: a call with a number that the table has already does nothing, so a batch of a stream may be
    replayed. `dry_run` returns what would be done. Where an answer of the index might differ from Delta's
    (the table lacks deletion vectors, or has a change data feed or row tracking; a function of the session;
    settings such as ANSI off), Delta's own DELETE or MERGE is run, and the result says why. What the index
    does not cover is scanned; but with `max_staleness`, commits older than these seconds must be covered, and
    with `wait` the head within these seconds. Rows leave the files physically by `REORG TABLE ... APPLY
    (PURGE)` and VACUUM.

    Raises:
        UsageError: no session is active, or it is of Connect; `table` is no table or a view; keys do not fit.
        StaleIndexError: the index lags more than `max_staleness` or `wait` allow.
        pyspark.errors.PySparkException: Delta or Spark refuses, as for a DELETE.
    """
    from tailbit.spark.writing.deletion import deletion_of
    from tailbit.spark.writing.target import Target

    target = Target.of(table, spark, index, storage_options, application, max_staleness, wait)
    return deletion_of(target, rows, on).run(dry_run)


def locate(
    table: str,
    keys: DataFrame,
    on: str | Iterable[str] | None = None,
    version: int | str | None = None,
    as_of: datetime.date | str | None = None,
    index: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    since: int | str | None = None,
) -> DataFrame:
    """Return where the rows with the keys of a DataFrame lie: the keys, with `path` and `position` of rows.

    This is `locate` of an opened table for keys that no driver should hold: each executor looks up its share,
    and needs tailbit installed. `table`: a path, also as ``hudi.`path` ``, or a name in a catalog of the
    session. `on`: the key columns; by default all of the frame. The result has the distinct keys: a key
    without a row with path and position null, a key of several rows once for each. The version is fixed by
    this call, so that the frame tells the same whenever it is computed. `as_of` and partition values without
    an offset are in the session's time zone. With `since`, an older version, `change` tells what became of
    each row, as `locate` of a table does. Right at any lag, as everywhere. In SQL, `tailbit_locate` tells it
    of few keys.

    Raises:
        UsageError: `keys` is no DataFrame or lacks a column; when the frame is computed: a key is NULL.
        VersionNotFoundError: the version is gone or not yet there.
    """
    from tailbit.spark.locating import located

    return located(table, keys, on, version, as_of, index, storage_options, since)


def upsert(
    table: str,
    source: Any,
    on: str | Iterable[str],
    set: str | Iterable[str] | Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
    application: tuple[str, int] | None = None,
    dry_run: bool = False,
    index: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    max_staleness: float | None = None,
    wait: float | None = None,
) -> Upsert:
    """Update the rows of a Delta table that have a key of the source; insert the source's other rows.

    This is MERGE with UPDATE SET * and INSERT *, in one transaction of Delta's own. `source`: a Spark
    DataFrame, a table of pyarrow, polars, pandas or DuckDB, or a list of dicts; `on`: its key columns. The
    index says where the rows of the keys lie, at any lag: deletion vectors hide them, no data file that the
    index covers is read, and Delta's own writer appends the rows of the source, with its checks of
    constraints, generated columns and partitions. Values are cast as an INSERT casts them.

    `table`, `application`, `dry_run`, `max_staleness`, `wait`, conflicts and when Delta's own MERGE is run:
    as of `delete`. MERGE is run also where `set` names the columns to update, where a key stands in several
    rows of the table, and for columns of type CHAR or VARCHAR and identity columns. `set` may map names to
    expressions, as {"n": "target.n + source.n"}; other columns keep their values, and new rows have what the
    source has. Generated columns that the source lacks are computed.

    Raises:
        UsageError: a key is NULL or stands twice in the source; the source lacks a column that is named, or
            without `set` one of the table; `table` is a view.
        StaleIndexError: the index lags more than `max_staleness` or `wait` allow.
        pyspark.errors.PySparkException: Delta or Spark refuses, as for a MERGE.
    """
    from tailbit.spark.writing.target import Target
    from tailbit.spark.writing.upsert import upsert_of

    target = Target.of(table, spark, index, storage_options, application, max_staleness, wait)
    return upsert_of(target, source, on, set).run(dry_run)
