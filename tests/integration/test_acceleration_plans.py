"""What the index answers is a scan of its table in every plan, which is evaluated when the query runs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from support.acceleration import rows_of
from support.spark_session import session_settings
from support.tables import index_of
from tailbit.spark.acceleration import Acceleration

TABLE = "plans.t"
WANTED = "k IN ('k7', 'k19')"
"""Twelve rows, two of which have no `z`: a divisor of 0 among them."""


@pytest.fixture(scope="module")
def table(spark: Any, accelerated: Acceleration, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Six files with deletion vectors that the index covers, and a text in each row that no plan may show."""
    path = str(tmp_path_factory.mktemp("plans") / "table")
    frame = spark.range(600).selectExpr(
        "id",
        "concat('k', id % 100) k",
        "cast(id AS int) i",
        "cast(id % 6 - 1 AS int) z",
        "concat('secret', id) s",
        "cast(id % 3 AS int) part",
    )
    writer = frame.repartition(2).write.format("delta").partitionBy("part")
    writer.option("delta.enableDeletionVectors", "true").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 17")
    index_of(path, ["k", "i", "z"])
    spark.sql("CREATE DATABASE plans")
    spark.sql(f"CREATE TABLE {TABLE} USING delta LOCATION '{path}'")
    yield path
    spark.sql("DROP DATABASE plans CASCADE")


LONG = {"spark.sql.maxPlanStringLength": "100000", "spark.sql.debug.maxToStringFields": "100"}
SCANS = {
    "rows, early": ("rows", True, f"SELECT id, s FROM {TABLE} WHERE {WANTED}"),
    "rows, late": (
        "rows",
        False,
        f"SELECT id, s FROM {TABLE} WHERE {WANTED} UNION ALL SELECT id, s FROM {TABLE} WHERE i = 9",
    ),
    "counts, early": ("counts", True, f"SELECT count(*), max(i) FROM {TABLE} WHERE {WANTED}"),
    "counts, late": (
        "counts",
        False,
        f"SELECT count(*) FROM {TABLE} WHERE {WANTED} UNION ALL SELECT max(i) FROM {TABLE} WHERE z = 2",
    ),
    "groups": (
        "groups",
        True,
        f"SELECT part, z, count(*), min(k) FROM {TABLE} WHERE {WANTED} GROUP BY part, z",
    ),
    "rows of a version": ("rows", True, f"SELECT id FROM {TABLE} VERSION AS OF 0 WHERE k = 'k17'"),
}
"""Statements by how each scan of them is served."""


def served(accelerated: Acceleration) -> set[tuple[str | None, bool]]:
    return {(scan.served, scan.early) for scan in accelerated.last()}


@pytest.mark.parametrize("name", SCANS)
def test_the_files_of_a_query_are_those_of_its_table_and_its_plan_names_both(
    accelerated: Acceleration, table: str, name: str
) -> None:
    spark, (mode, early, statement) = accelerated._spark, SCANS[name]
    spark.conf.set("spark.tailbit.enabled", "false")
    files, leaves = spark.sql(statement).inputFiles(), _leaves(spark.sql(statement))
    spark.conf.set("spark.tailbit.enabled", "true")
    frame = spark.sql(statement)
    assert set(files) <= set(frame.inputFiles())
    assert _leaves(frame) == leaves
    assert served(accelerated) == {(mode, early)}, accelerated.last()
    relation = frame._jdf.queryExecution().optimizedPlan().collectLeaves().apply(0)
    assert relation.catalogTable().get().identifier().unquotedString() == f"spark_catalog.{TABLE}"
    assert relation.relation().location().rootPaths().apply(0).toString() == f"file:{table}"


def _leaves(frame: Any) -> list[str]:
    leaves = frame._jdf.queryExecution().optimizedPlan().collectLeaves()
    return [leaves.apply(number).nodeName() for number in range(leaves.size())]


@pytest.mark.parametrize("name", SCANS)
def test_explain_names_the_table_and_its_version_and_shows_no_cell(
    accelerated: Acceleration, table: str, name: str
) -> None:
    spark, (_, _, statement) = accelerated._spark, SCANS[name]
    version = 0 if "VERSION" in statement else 1
    told = f"Table: spark_catalog.{TABLE}, Version: {version}, Location: file:{table}"
    for kind in ("", "EXTENDED", "FORMATTED", "COST"):
        with session_settings(spark, LONG):
            (text,) = rows_of(spark, f"EXPLAIN {kind} {statement}")
        assert ("IndexedAnswer" in text, told in text, "secret" in text) == (True, True, False), text


RAISING = {
    "SELECT id, 1 / z y FROM {t} WHERE {w}": "rows",
    "SELECT id FROM {t} WHERE {w} AND i DIV z > 0": "rows",
    "SELECT id, raise_error(s) FROM {t} WHERE {w}": "rows",
    "SELECT CAST(s AS INT), array(1)[i] FROM {t} WHERE {w}": "rows",
    "SELECT sum(1 / z) FROM {t} WHERE {w}": "rows",
    "SELECT 1 / (count(*) - 12) FROM {t} WHERE {w}": "counts",
    "SELECT CAST(min(k) AS INT) FROM {t} WHERE {w}": "counts",
    "SELECT k, 1 / (count(*) - 6) FROM {t} WHERE {w} GROUP BY k": "groups",
    "SELECT x.id FROM (SELECT id, i DIV z y FROM {t} WHERE {w}) x JOIN (SELECT 1 id) y ON x.y = y.id": "rows",
}
PLANNED: dict[str, Callable[[Any], object]] = {
    "schema": lambda frame: frame.schema,
    "optimized plan": lambda frame: frame._jdf.queryExecution().optimizedPlan().toString(),
    "executed plan": lambda frame: frame._jdf.queryExecution().executedPlan().toString(),
    "explain": lambda frame: frame.explain(True),
    "cache": lambda frame: frame.cache().unpersist(),
    "view": lambda frame: frame.createOrReplaceTempView("never_run"),
    "input files": lambda frame: frame.inputFiles(),
    "statistics": lambda frame: frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes(),
}


@pytest.mark.parametrize("statement", RAISING)
def test_a_query_that_raises_does_so_when_it_runs_and_as_without_the_index(
    accelerated: Acceleration, table: str, statement: str
) -> None:
    spark, text = accelerated._spark, statement.format(t=TABLE, w=WANTED)
    with session_settings(spark, {"spark.sql.ansi.enabled": "true"}):
        for plan in PLANNED.values():
            plan(spark.sql(text))
        assert {scan.served for scan in accelerated.last()} == {RAISING[statement]}
        raised = []
        for enabled in ("false", "true"):
            spark.conf.set("spark.tailbit.enabled", enabled)
            with pytest.raises(pyspark.errors.PySparkException) as error:
                spark.sql(text).collect()
            raised.append((type(error.value).__name__, error.value.getCondition()))
    assert raised[0] == raised[1]


NOT_MET = [
    "SELECT * FROM (SELECT id, 1 / z y FROM {t} WHERE {w}) LIMIT 0",
    "SELECT count(*) > 0 FROM (SELECT id, 1 / z y FROM {t} WHERE {w})",
    "SELECT id FROM (SELECT id, 1 / z y FROM {t} WHERE {w})",
    "SELECT 1 / z FROM {t} WHERE {w} AND z <> 0",
    "SELECT id FROM {t} WHERE {w} AND (z = 0 OR i DIV z > 0)",
    "SELECT 1 WHERE EXISTS (SELECT 1 / z FROM {t} WHERE {w})",
    "SELECT CASE WHEN count(*) = 12 THEN 0 ELSE 1 / (count(*) - 12) END FROM {t} WHERE {w}",
    "SELECT try_divide(1, z) FROM {t} WHERE {w}",
]


@pytest.mark.parametrize("statement", NOT_MET)
def test_an_error_that_spark_does_not_meet_is_not_met_with_the_index(
    accelerated: Acceleration, table: str, statement: str
) -> None:
    spark, text = accelerated._spark, statement.format(t=TABLE, w=WANTED)
    with session_settings(spark, {"spark.sql.ansi.enabled": "true"}):
        assert rows_of(spark, text) == rows_of(spark, text, enabled=False)
        if "LIMIT 0" not in statement:
            assert {scan.served for scan in accelerated.last()} <= {"rows", "counts"}


def test_no_row_is_evaluated_beyond_those_that_are_taken(accelerated: Acceleration, table: str) -> None:
    spark = accelerated._spark
    with session_settings(spark, {"spark.sql.ansi.enabled": "true"}):
        ids = [row.id for row in spark.sql(f"SELECT id FROM {TABLE} WHERE k = 'k7'").collect()]
        frame = spark.sql(f"SELECT 1 / (id - {ids[1]}) FROM {TABLE} WHERE k = 'k7'")
        assert len(frame.take(1)) == 1
        assert not frame.isEmpty()
        with pytest.raises(pyspark.errors.PySparkException, match="DIVIDE_BY_ZERO"):
            frame.take(2)


IN_TASK = """
package brought;
public class InTask implements org.apache.spark.sql.api.java.UDF1<Object, Boolean> {
  public Boolean call(Object value) {
    return org.apache.spark.TaskContext.get() != null;
  }
}
"""


@pytest.fixture(scope="module")
def in_task(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A function of Java, in a jar of an application, that tells whether a task calls it."""
    folder = tmp_path_factory.mktemp("brought")
    (folder / "InTask.java").write_text(IN_TASK)
    jars = f"{Path(pyspark.__file__).parent}/jars/*"
    subprocess.run(["javac", "-cp", jars, "-d", folder, folder / "InTask.java"], check=True)
    subprocess.run(["jar", "cf", folder / "brought.jar", "-C", folder, "brought"], check=True)
    spark.sql(f"ADD JAR '{folder / 'brought.jar'}'")
    spark.udf.registerJavaFunction("in_task", "brought.InTask", "boolean")
    return "in_task"


BROUGHT = {
    "SELECT id, {f}(id) FROM {t} WHERE {w}": "rows",
    "SELECT id FROM {t} WHERE {w} AND {f}(id) AND id > 10": "rows",
    "SELECT k, {f}(count(*)) FROM {t} WHERE {w} GROUP BY k": "groups",
    "SELECT {f}(max(i)) FROM {t} WHERE {w}": "counts",
    "SELECT x.id FROM {t} x JOIN range(600) y ON x.id = y.id AND {f}(x.id) WHERE {w}": "rows",
}


@pytest.mark.parametrize("statement", BROUGHT)
def test_functions_that_an_application_brings_are_called_by_tasks_alone(
    accelerated: Acceleration, table: str, in_task: str, statement: str
) -> None:
    spark, text = accelerated._spark, statement.format(t=TABLE, w=WANTED, f=in_task)
    rows = rows_of(spark, text)
    assert [scan.served for scan in accelerated.last()] == [BROUGHT[statement]]
    assert rows == rows_of(spark, text, enabled=False)
    assert rows
    assert not any("=False" in row for row in rows)


RUN: dict[str, Callable[[Any], Any]] = {
    "collect": lambda frame: frame.collect(),
    "take": lambda frame: len(frame.take(5)),
    "tail": lambda frame: len(frame.tail(3)),
    "first": lambda frame: frame.first() is not None,
    "is empty": lambda frame: frame.isEmpty(),
    "iterated": lambda frame: [*frame.toLocalIterator()],
    "rdd": lambda frame: frame._jdf.queryExecution().toRdd().count(),
    "checkpoint": lambda frame: frame.localCheckpoint().collect(),
    "count": lambda frame: frame.count(),
    "arrow": lambda frame: frame.toArrow().to_pylist(),
    "sorted": lambda frame: frame.orderBy(frame.columns[0]).collect(),
}


@pytest.mark.parametrize("name", SCANS)
def test_whatever_a_frame_is_asked_for_it_gives_as_without_the_index(
    accelerated: Acceleration, table: str, name: str
) -> None:
    spark, (_, _, statement) = accelerated._spark, SCANS[name]
    with session_settings(
        spark, {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
    ):
        answers = []
        for enabled in ("false", "true"):
            spark.conf.set("spark.tailbit.enabled", enabled)
            frame = spark.sql(statement)
            given = {what: run(frame) for what, run in RUN.items()}
            answers.append({w: sorted(map(str, a)) if isinstance(a, list) else a for w, a in given.items()})
        assert answers[0] == answers[1]


JOINS = {
    "reused": "SELECT x.k, x.n, y.n FROM (SELECT k, sum(id) n FROM {t} WHERE {w} GROUP BY k) x"
    " JOIN (SELECT k, sum(id) n FROM {t} WHERE {w} GROUP BY k) y ON x.k = y.k",
    "not reused": "SELECT x.k, x.n, y.n FROM (SELECT k, sum(id) n FROM {t} WHERE k = 'k7' GROUP BY k) x"
    " FULL JOIN (SELECT k, sum(id) n FROM {t} WHERE k = 'k19' GROUP BY k) y ON x.k = y.k",
    "of other columns": "SELECT x.k, x.n, y.n FROM (SELECT k, sum(id) n FROM {t} WHERE {w} GROUP BY k) x"
    " JOIN (SELECT k, sum(i + 1) n FROM {t} WHERE {w} GROUP BY k) y ON x.k = y.k",
    "of subqueries": "SELECT (SELECT count(*) FROM {t} WHERE {w}), (SELECT count(*) FROM {t} WHERE {w}),"
    " (SELECT count(*) FROM {t} WHERE k = 'k7')",
}


@pytest.mark.parametrize("adaptive", ["false", "true"])
@pytest.mark.parametrize("name", JOINS)
def test_what_two_scans_answer_alike_is_computed_once_and_nothing_else_is(
    accelerated: Acceleration, table: str, name: str, adaptive: str
) -> None:
    spark, text = accelerated._spark, JOINS[name].format(t=TABLE, w=WANTED)
    with session_settings(
        spark, {"spark.sql.adaptive.enabled": adaptive, "spark.sql.shuffle.partitions": "2"} | LONG
    ):
        assert rows_of(spark, text) == rows_of(spark, text, enabled=False)
        assert {scan.served for scan in accelerated.last()} <= {"rows", "counts", "groups"}
        reused = []
        for enabled in ("false", "true"):
            spark.conf.set("spark.tailbit.enabled", enabled)
            frame = spark.sql(text)
            frame.collect()
            reused.append("ReusedExchange" in frame._jdf.queryExecution().executedPlan().toString())
    assert reused == [name == "reused"] * 2


def test_a_cached_frame_is_used_by_queries_that_ask_the_same(accelerated: Acceleration, table: str) -> None:
    spark, (_, _, statement) = accelerated._spark, SCANS["rows, early"]
    frame = spark.sql(statement).cache()
    try:
        assert frame.count() == 12
        assert "InMemoryTableScan" in spark.sql(statement)._jdf.queryExecution().executedPlan().toString()
        assert rows_of(spark, statement) == rows_of(spark, statement, enabled=False)
    finally:
        frame.unpersist(True)


def test_a_plan_that_is_made_runs_after_the_acceleration_has_stopped(
    accelerated: Acceleration, table: str
) -> None:
    spark, (_, _, statement) = accelerated._spark, SCANS["rows, early"]
    frame = spark.sql(statement)
    frame._jdf.queryExecution().optimizedPlan()
    accelerated.stop()
    try:
        assert len(frame.collect()) == 12
    finally:
        accelerated._entry.attachWithNewSessions(spark._jsparkSession)
    assert served(accelerated) == {("rows", True)}


def test_few_rows_are_broadcast_whatever_the_catalog_says_of_the_size_of_the_table(
    accelerated: Acceleration, table: str
) -> None:
    spark = accelerated._spark
    identify = spark._jvm.org.apache.spark.sql.catalyst.TableIdentifier
    catalog, some = spark._jsparkSession.sessionState().catalog(), spark._jvm.scala.Option.apply
    spark.sql("CREATE TABLE plans.larger USING parquet AS SELECT id FROM range(2000)")
    spark.sql("ANALYZE TABLE plans.larger COMPUTE STATISTICS")
    large = catalog.getTableMetadata(identify("larger", some("plans"))).stats()
    catalog.alterTableStats(identify("t", some("plans")), large)
    try:
        with session_settings(spark, {"spark.sql.autoBroadcastJoinThreshold": "1000"} | LONG):
            joined = f"SELECT x.id FROM {TABLE} x JOIN range(2000) y ON x.id = y.id WHERE x.{WANTED}"
            plan = spark.sql(joined)._jdf.queryExecution().executedPlan().toString()
        assert served(accelerated) == {("rows", True)}
        assert "BroadcastHashJoin" in plan
    finally:
        catalog.alterTableStats(identify("t", some("plans")), some(None))


@pytest.mark.parametrize("operation", ["collect", "sum"])
def test_the_rows_of_a_scan_are_counted_as_those_of_other_scans(
    accelerated: Acceleration, table: str, operation: str
) -> None:
    spark, (_, _, statement) = accelerated._spark, SCANS["rows, early"]
    frame = spark.sql(f"SELECT sum(id) FROM ({statement})" if operation == "sum" else statement)
    frame.collect()
    leaf = frame._jdf.queryExecution().executedPlan().collectLeaves().apply(0)
    assert leaf.nodeName() == "IndexedAnswer", accelerated.last()
    assert leaf.metrics().apply("numOutputRows").value() == 12
