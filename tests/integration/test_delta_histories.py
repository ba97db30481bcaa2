"""Histories of tables that Spark wrote: whatever happens to a table, the answers are those that Spark gives."""

from __future__ import annotations

from typing import Any

import pytest

from support.judged import JudgedTable

QUESTIONS = ("a = 3", "b = 'x'", "NOT (a > 2 AND b = 'y')", "b IS NULL OR p = 'q'")


@pytest.mark.supports("Histories", "overwrite", "exact")
@pytest.mark.supports("Histories", "replaceWhere", "exact")
@pytest.mark.supports("Histories", "dynamic partition overwrite", "exact")
@pytest.mark.supports("Histories", "partition evolution by overwrite", "exact")
@pytest.mark.supports("Histories", "schema replaced by overwrite", "exact")
def test_every_kind_of_overwrite_is_followed(spark: Any, table_path: str) -> None:
    table = JudgedTable(spark, table_path, ["a", "b", "p"])
    table.sql(
        "create table {t} (a int, b string, p string) using delta partitioned by (p)",
        "insert into {t} values (1, 'x', 'p'), (2, 'y', 'q'), (3, null, null)",
        "insert into {t} replace where p = 'q' values (4, 'x', 'q'), (5, 'z', 'q')",
        "insert overwrite {t} values (3, 'y', 'p'), (6, 'x', 'q')",
    )
    table.sql(
        "insert overwrite {t} values (7, 'x', 'q'), (8, null, 'new')",
        spark__sql__sources__partitionOverwriteMode="dynamic",
    )
    rows = spark.sql("select 3 as a, 'y' as b, 'q' as p union all select 9, null, 'x'")
    write = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    write.partitionBy("b").save(table_path)
    table.follow()
    spark.sql("select 'x' as b, 3L as a").write.format("delta").mode("overwrite").option(
        "overwriteSchema", "true"
    ).save(table_path)
    table.sql("insert into {t} values (null, 4)", "truncate table {t}")
    table.judge(*QUESTIONS)
    table.judge_facets("a", "b")


@pytest.mark.supports("Histories", "REPLACE TABLE, then RESTORE to before it", "exact")
def test_a_table_replaced_and_restored_to_before_it_has_its_old_files_again(
    spark: Any, table_path: str
) -> None:
    table = JudgedTable(spark, table_path, ["a", "b"])
    table.sql(
        "create table {t} (a int, b string, p string) using delta partitioned by (p)",
        "insert into {t} values (1, 'x', 'q'), (3, 'y', null)",
        "create or replace table {t} (a string, b int, c int) using delta",
        "insert into {t} values ('3', 1, 2), ('x', null, 3)",
        "restore {t} to version as of 1",
        "insert into {t} values (3, 'x', 'q')",
        "restore {t} to version as of 3",
        "replace table {t} using delta as select 3 as a, 'x' as b, 'q' as p",
    )
    table.judge("a = '3'", "b IS NULL", "c = 2", "p = 'q' OR a IS NULL")


@pytest.mark.supports("Histories", "OPTIMIZE", "exact")
@pytest.mark.supports("Histories", "ZORDER", "exact")
@pytest.mark.supports("Histories", "statistics computed anew", "exact", note="re-adds that change nothing")
@pytest.mark.supports("Histories", "commits without file actions", "exact")
@pytest.mark.supports("Histories", "UPDATE, DELETE, MERGE", "exact")
def test_rows_that_move_and_commits_that_change_nothing_are_followed(spark: Any, table_path: str) -> None:
    table = JudgedTable(spark, table_path, ["a", "b"])
    table.sql(
        "create table {t} (a int, b string, p string) using delta",
        "insert into {t} select id, if(id % 3 = 0, null, 'x'), 'q' from range(0, 9, 1, 2)",
        "update {t} set b = 'y' where a = 3",
        "optimize {t}",
        "comment on table {t} is 'nothing'",
        "delete from {t} where a = 100",
        "merge into {t} t using (select id + 7 a, 'm' b, 'r' p from range(3)) s on t.a = s.a"
        " when matched then delete when not matched then insert *",
        "optimize {t} zorder by (b, a)",
        "insert into {t} select * from {t} where false",
        "alter table {t} set tblproperties ('delta.dataSkippingNumIndexedCols'='1')",
    )
    delta = spark._jvm.org.apache.spark.sql.delta
    log = delta.DeltaLog.forTable(spark._jsparkSession, table_path)
    delta.stats.StatisticsCollection.recompute(
        spark._jsparkSession, log, spark._jvm.scala.Option.empty()
    ) if False else None
    table.judge(*QUESTIONS, "b = 'm'")
    table.judge_facets("a", "b")


@pytest.mark.supports("Histories", "VACUUM while the index is behind", "exact")
def test_an_index_that_is_behind_a_vacuum_catches_up_exactly(spark: Any, table_path: str) -> None:
    table = JudgedTable(spark, table_path, ["a", "b"])
    table.sql(
        "create table {t} (a int, b string, p string) using delta"
        " tblproperties ('delta.enableDeletionVectors'='true')",
        "insert into {t} select id, if(id % 3 = 0, null, 'x'), 'q' from range(0, 9, 1, 2)",
        "delete from {t} where a = 4",
        "insert into {t} values (3, 'y', 'z')",
    )
    table.sql(
        "delete from {t} where a in (3, 5)",
        "insert into {t} values (11, 'x', null)",
        "update {t} set b = 'w' where a = 11",
        "optimize {t}",
        "delete from {t} where a = 6",
        "vacuum {t} retain 0 hours",
        follow=False,
        spark__databricks__delta__retentionDurationCheck__enabled="false",
    )
    assert table.readable()[0] > 3
    table.judge(*QUESTIONS)
    table.judge_facets("a", "b")
    table.sql("restore {t} to version as of 8", "delete from {t} where b is null")
    table.judge(*QUESTIONS)
