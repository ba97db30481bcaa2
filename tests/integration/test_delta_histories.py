"""Whatever happens to a table that Spark wrote, the answers at every version are those that Spark gives."""

from __future__ import annotations

from typing import Any

import pytest

from support.judged import JudgedTable
from tailbit.tables import open_table


@pytest.fixture
def spark(replayed_spark: Any) -> Any:
    """A session for what is not recorded."""
    return replayed_spark


QUESTIONS = ("a = 3", "b = 'x'", "NOT (a > 2 AND b = 'y')", "b IS NULL OR p = 'q'")


def compute_statistics(spark: Any, path: str) -> None:
    """What ANALYZE TABLE ... COMPUTE DELTA STATISTICS does, for which this Spark has no SQL."""
    delta, session = spark._jvm.org.apache.spark.sql.delta, spark._jsparkSession
    collection = delta.stats.StatisticsCollection
    rest = [getattr(collection, f"recompute$default${n}")() for n in (4, 5)]
    nothing = spark._jvm.scala.Option.empty()
    collection.recompute(session, delta.DeltaLog.forTable(session, path), nothing, *rest)


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

    def overwrite(query: str, *partition_by: str) -> None:
        def act() -> None:
            writer = spark.sql(query).write.format("delta").mode("overwrite")
            writer.option("overwriteSchema", "true").partitionBy(*partition_by).save(table_path)

        table.write(["overwrite", query, partition_by], act)

    overwrite("select 3 as a, 'y' as b, 'q' as p union all select 9, null, 'x'", "b")
    table.follow()
    overwrite("select 'x' as b, 3L as a")
    table.sql("insert into {t} values (null, 4)", "truncate table {t}")
    table.judge(*QUESTIONS)
    table.judge_facets("a", "b")


@pytest.mark.supports("Histories", "REPLACE TABLE, then RESTORE to before it", "exact")
def test_a_table_replaced_and_restored_to_before_it_has_its_old_files_again(
    spark: Any, table_path: str
) -> None:
    table = JudgedTable(spark, table_path, ["a", "b", "p"])
    using = f"using delta partitioned by (p) location '{table_path}'"
    table.sql(
        f"create table replaced (a int, b string, p string) {using}",
        "insert into {t} values (1, 'x', 'q'), (3, 'y', null)",
        f"create or replace table replaced (a string, b int, c int, p int) {using}",
        "insert into {t} values ('3', 1, 2, 1), ('4', null, 3, null)",
        "restore {t} to version as of 1",
        "insert into {t} values (3, 'x', 'q')",
        "restore {t} to version as of 3",
        "create or replace table replaced using delta as select 3 as a, 'q' as p",
        "insert into {t} values (4, '1')",
        "drop table replaced",
    )
    ids = [open_table(table_path).snapshot(version).table_id for version in range(8)]
    assert ids[0] == ids[1] == ids[4] != ids[2] == ids[6] != ids[7]
    table.judge("a = '3'", "b IS NULL", "c = 2", "p IS NULL")


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
    table.write("compute statistics", lambda: compute_statistics(spark, table_path))
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
    assert set(range(1, 6)).isdisjoint(table.readable())
    table.judge(*QUESTIONS)
    table.judge_facets("a", "b")
    table.sql("restore {t} to version as of 8", "delete from {t} where b is null")
    table.judge(*QUESTIONS)
