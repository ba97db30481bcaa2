"""Spark SQL asks the index: one call registers a data source and SQL functions with a session.

`tailbit.spark.register(spark)`, and `tailbit.spark.sql(spark, "CREATE INDEX ...")`. Nothing outside of this
package imports it: other questions need no pyspark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["register", "sql"]


def register(spark: SparkSession, storage_options: Mapping[str, str] | None = None) -> None:
    """Register `spark.read.format("tailbit")` and three SQL functions with a session.

    Views and DataFrames over the data source read the table's head in each query, as those over Delta do.

    The functions are `tailbit_rows`, `tailbit_facets` (table functions) and `tailbit_count`. Executors need
    tailbit installed, since Spark finds data source and functions there by their names. `storage_options` are
    those of the stores that the data source reads, named as in delta-rs; Spark never shows them. The
    functions take them from the environment of the executors. Predicates are read in the time zone that the
    session has now (`spark.sql.session.timeZone`); option `timeZone` of a load names another.

    Raises:
        UsageError: `storage_options` is no mapping of texts.
        RequirementError: pyspark is not installed.
    """
    from tailbit.arguments.values import texts_by_name
    from tailbit.errors import RequirementError
    from tailbit.tables.storage import StorageOptions

    options = StorageOptions.of(texts_by_name("storage_options", storage_options))
    try:
        from tailbit.spark.fresh import plan_each_query_anew
        from tailbit.spark.functions import register_functions, session_zone
        from tailbit.spark.source import source_with
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "pyspark":
            raise
        remedy = "Install it: pip install 'tailbit[spark]'."
        raise RequirementError(reason="pyspark is not installed", remedy=remedy) from None
    spark.dataSource.register(source_with(options, session_zone(spark)))
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
    catalogs, and its time zone (`spark.sql.session.timeZone`) is that of terms. The statement is carried out
    at once; the result has a row per index, none after DROP INDEX.

    Raises:
        StatementError: it is an index statement that is wrong; says where.
        NotATableError: the table of an index statement is no Delta table.
        TailbitError: as of `tailbit.sql`; what Spark refuses is raised as Spark raises it.
    """
    from tailbit.arguments.values import text
    from tailbit.index.sql.ddl.other_statements import is_about_index

    if not is_about_index(text("statement", statement)):
        return spark.sql(statement)
    from tailbit.spark.statements import run_in

    return run_in(spark, statement, storage_options, index)
