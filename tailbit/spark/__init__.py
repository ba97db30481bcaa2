"""Spark SQL asks the index: one call registers a data source and SQL functions with a session.

`tailbit.spark.register(spark)`. Nothing outside of this package imports it: other questions need no pyspark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

__all__ = ["register"]


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
