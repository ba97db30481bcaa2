"""A Column of pyspark is a condition: it means here what it means to Spark."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
import pytest

from support.function_cells import rows, schema
from support.truth import matches
from tailbit.arguments.conditions import condition_text
from tailbit.index.sql.bind import bind


def test_a_column_of_pyspark_selects_the_rows_that_spark_selects(
    spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from pyspark.sql import functions as f

    path = tmp_path_factory.mktemp("columns") / "rows.parquet"
    pq.write_table(rows(), path)
    c = f.col
    conditions = [
        c("i") > 0,
        (c("i") == 1) | ~(c("s") == "abc"),
        c("s").isin("a", "it's", "a\\c"),
        c("s").like("a%"),
        c("s").startswith("a") & c("s").contains("b"),
        c("i").isNull() | c("i").between(1, 65),
        c("d").eqNullSafe(0.5),
        f.upper(c("s")) == "ABC",
        f.length(c("s")) + 1 > f.lit(3),
        f.year(c("dt")) == 2020,
        f.when(c("i") > 0, "p").otherwise("n") == "p",
        f.coalesce(c("i"), f.lit(0)) == 0,
        f.substring(c("s"), 1, 1) == "a",
        c("dt") >= f.lit("2020-01-01").cast("date"),
        c("bo"),
    ]
    asked = [condition.alias(f"c{n}") for n, condition in enumerate(conditions)]
    frame = spark.read.parquet(str(path)).coalesce(1)
    theirs = frame.select("row", *asked).orderBy("row").toArrow()
    for n, condition in enumerate(conditions):
        written = condition_text("sql", condition)
        found = matches(bind(written, schema()), rows(), {})
        assert found.tolist() == [value is True for value in theirs[f"c{n}"].to_pylist()], written
