"""Generated columns prune files of conditions on the columns that they are generated from."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tailbit
from support.scans import candidates
from support.tables import index_of

ROWS = "SELECT id AS k, DATE'2024-01-01' + CAST(id % 90 AS INT) AS day FROM range(900)"


@pytest.fixture(scope="module")
def table(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    from delta.tables import DeltaTable

    path = str(tmp_path_factory.mktemp("generated") / "t")
    (
        DeltaTable.create(spark)
        .location(path)
        .addColumn("k", "BIGINT")
        .addColumn("day", "DATE")
        .addColumn("month", "INT", generatedAlwaysAs="month(day)")
        .addColumn("bucket", "INT", generatedAlwaysAs="pmod(hash(k), 8)")
        .partitionedBy("month", "bucket")
        .execute()
    )
    spark.sql(ROWS).write.format("delta").mode("append").save(path)
    return path


@pytest.fixture(scope="module")
def months(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three files of a month each, with statistics of the generated column alone."""
    from delta.tables import DeltaTable

    path = str(tmp_path_factory.mktemp("months") / "t")
    (
        DeltaTable.create(spark)
        .location(path)
        .addColumn("k", "BIGINT")
        .addColumn("day", "DATE")
        .addColumn("month", "INT", generatedAlwaysAs="month(day)")
        .property("delta.dataSkippingStatsColumns", "month")
        .execute()
    )
    for month in (1, 2, 3):
        rows = spark.sql(ROWS).where(f"month(day) = {month}").selectExpr("k % 30 AS k", "day").coalesce(1)
        rows.write.format("delta").mode("append").save(path)
    return path


@pytest.mark.spark
@pytest.mark.parametrize(
    ("condition", "most"),
    [
        ("k = 7", 3),
        ("k IN (7, 8) AND day < '2024-02-01'", 2),
        ("day = '2024-02-03'", 16),
        ("k = 7 OR day = '2024-02-03'", 19),
        ("NOT (k = 7)", 48),
        ("k = 7 AND month = 1", 1),
        ("k IS NULL", 3),
    ],
)
def test_a_condition_prunes_by_what_it_implies_for_a_generated_partition_column(
    spark: Any, table: str, condition: str, most: int
) -> None:
    rows = spark.read.format("delta").load(table)
    answer = tailbit.open(table).where(condition)
    assert answer.count() == rows.where(condition).count()
    assert answer.files_scanned <= most
    assert len(answer.files()) <= most


@pytest.mark.spark
def test_the_files_of_an_index_are_pruned_so_too(spark: Any, table: str) -> None:
    index_of(table, ["month"])
    answer = tailbit.open(table).where("k = 7")
    assert (answer.count(), answer.files_scanned) == (1, 1)
    pruned = {file["by"] for file in answer.explain()["files"] if file["outcome"] == "pruned"}
    assert "bucket, as it is generated: k = 7 (partition values)" in pruned


@pytest.mark.spark
@pytest.mark.parametrize(
    ("condition", "most"),
    [("day = '2024-02-03'", 1), ("day IN ('2024-02-03', '2024-03-04')", 2), ("k = 1", 3)],
)
def test_a_generated_column_prunes_by_its_statistics_where_its_own_column_has_none(
    months: str, condition: str, most: int
) -> None:
    answer = tailbit.open(months).where(condition)
    assert len(candidates(answer._selection)) == most
    assert answer.count() > 0


@pytest.mark.spark
def test_what_a_session_without_ansi_mode_has_stored_loses_no_row(spark: Any, tmp_path: Path) -> None:
    from delta.tables import DeltaTable

    path = str(tmp_path / "t")
    generated = {
        "day": ("DATE", "CAST(s AS DATE)"), "number": ("INT", "CAST(s AS INT)"), "next": ("INT", "n + 1"),
        "part": ("INT", "100 div n"), "first": ("STRING", "left(s, 1)"), "ten": ("INT", "n % 10"),
    }  # fmt: skip
    builder = DeltaTable.create(spark).location(path).addColumn("s", "STRING").addColumn("n", "INT")
    for name, (type_, expression) in generated.items():
        stored = type_ if name != "part" else "BIGINT"
        builder = builder.addColumn(name, stored, generatedAlwaysAs=expression)
    builder.partitionedBy(*generated).execute()
    rows = [
        ("5", 0),
        ("x", 2147483647),
        ("", -2147483648),
        ("2024-02-03", 7),
        (None, None),
        ("05", 10),
        ("12345678901", 5),
    ]
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        spark.createDataFrame(rows, "s STRING, n INT").write.format("delta").mode("append").save(path)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    frame = spark.createDataFrame(rows, "s STRING, n INT")
    for condition in [
        "s = 'x'", "s = ''", "s IN ('5', 'x')", "s < '1'", "s IS NULL", "n = 0", "n IN (0, 7)", "n = 2147483647", "n > 6", "n < 0", "n IS NULL",
        "s = '12345678901'", "n BETWEEN -5 AND 5", "s LIKE '2%'", "s = 'x' AND n > 5", "n = 10 OR s = ''",
    ]:  # fmt: skip
        assert tailbit.open(path).where(condition).count() == frame.where(condition).count(), condition
