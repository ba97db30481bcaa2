"""Spark's own queries of plain Delta tables use the index, and answer as Spark does without it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from support.acceleration import PATIENT, logged, patiently_accelerated, rows_of
from support.tables import index_of
from tailbit.errors import RequirementError, UsageError
from tailbit.spark import accelerate, acceleration_conf, jar
from tailbit.spark.acceleration import AcceleratedScan, Acceleration

TABLE = "accelerated.t"
SERVE = ("files", "counts", "groups")


@pytest.fixture(scope="module")
def accelerated(spark: Any) -> Iterator[Acceleration]:
    with patiently_accelerated(spark, SERVE) as acceleration:
        yield acceleration


@pytest.fixture(scope="module")
def table(spark: Any, accelerated: Acceleration, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Twelve files with deletion vectors, indexed, and two commits that the index does not cover."""
    path = str(tmp_path_factory.mktemp("a folder ä+#") / "table %41")
    (
        spark.range(1200)
        .selectExpr(
            "id",
            "cast(id AS int) i",
            "concat('k', lpad(cast(id % 400 AS string), 3, '0')) k",
            "date_add(DATE'2020-01-01', cast(id % 300 AS int)) d",
            "cast(id % 500 AS decimal(10,2)) p",
            "timestamp_micros(id * 1000000000) t",
            "cast(id AS double) f",
            "named_struct('a', id % 600, 'b', 'x') st",
            "concat('p %2F:ä ', cast(id % 2 AS string)) part",
        )
        .repartition(6)
        .write.format("delta")
        .partitionBy("part")
        .option("delta.enableDeletionVectors", "true")
        .save(path)
    )
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id IN (7, 8, 407)")
    index_of(path, ["i", "k", "d", "p", "t", "f", "st.a"])
    spark.sql("CREATE DATABASE accelerated")
    spark.sql(f"CREATE TABLE {TABLE} USING delta LOCATION '{path}'")
    spark.sql(f"UPDATE delta.`{path}` SET k = 'k017' WHERE id = 900")
    spark.sql(f"INSERT INTO delta.`{path}` SELECT * FROM delta.`{path}` WHERE id = 17")
    yield path
    spark.sql("DROP DATABASE accelerated CASCADE")


def both(accelerated: Acceleration, statement: str) -> tuple[list[str], list[AcceleratedScan]]:
    """The rows of a statement, which are the same without the rule, and what became of its scans."""
    spark = accelerated._spark
    expected = rows_of(spark, statement, enabled=False)
    assert rows_of(spark, statement) == expected
    return expected, accelerated.last()


SERVED = [
    "SELECT * FROM {t} t WHERE i = 77",
    "SELECT count(*) FROM {t} t WHERE k IN ('k001', 'nothing', NULL)",
    "SELECT id FROM {t} t WHERE st.a = 251 AND part = 'p %2F:ä 1'",
    "SELECT id FROM {t} t WHERE d = DATE'2020-03-01' AND f > 1",
    "SELECT id FROM {t} t WHERE p = 12.00",
    "SELECT id FROM {t} t WHERE t = TIMESTAMP'1970-01-01 00:16:40Z'",
    "SELECT id FROM {t} t WHERE i = 3 OR (k = 'k009' AND NOT i > 500)",
    "SELECT id FROM {t} t WHERE lower(k) = 'k011' AND startswith(k, 'k')",
    "SELECT id FROM {t} t WHERE i IN (1,2,3,4,5,6,7,8,9,10,11,12,NULL) AND i <=> 9",
    "SELECT id, input_file_name() <> '' FROM {t} t WHERE i = 77",
    "SELECT id, _metadata.row_index FROM {t} t WHERE i = 77",
    "SELECT id FROM {t} VERSION AS OF 0 WHERE k = 'k007'",
    "SELECT id FROM {t} VERSION AS OF 1 WHERE k = 'k007'",
    "WITH a AS (SELECT * FROM {t} t WHERE k = 'k030') SELECT x.id, y.id FROM a x JOIN a y ON x.k = y.k",
    "SELECT (SELECT max(id) FROM {t} t WHERE i = 5), (SELECT sum(id) FROM {t} t WHERE i = 6)",
    "SELECT x.id FROM {t} x LEFT JOIN {t} y ON x.i = y.i AND y.k = 'k040' WHERE x.k = 'k040'",
    "SELECT id FROM {t} t WHERE k = 'k050' AND i IN (SELECT i FROM {t} t WHERE d = DATE'2020-02-20')",
    "SELECT id FROM {t} x WHERE k = 'k050' AND EXISTS (SELECT 1 FROM {t} y WHERE y.i = x.i AND y.k = 'k050')",
]
"""Statements whose scans are served, each at least once."""


@pytest.mark.parametrize("number", range(len(SERVED)))
def test_a_statement_is_answered_from_fewer_files_as_spark_answers_it(
    accelerated: Acceleration, table: str, number: int
) -> None:
    rows, scans = both(accelerated, SERVED[number].format(t=TABLE))
    assert any(scan.served == "files" and (scan.files or 0) < (scan.of or 0) for scan in scans), scans
    assert rows


def test_texts_with_quotes_and_backslashes_are_understood(accelerated: Acceleration, table: str) -> None:
    texts = (
        r"k IN ('k017', 'it\'s', 'a\\b', 'ä \n`')",
        r"k NOT LIKE '\%\_\\\\%'",
        "k <> '\"\\''",
        "hash(k) <> 5",
    )
    rows, (scan,) = both(accelerated, f"SELECT id FROM {TABLE} WHERE {' AND '.join(texts)}")
    assert len(rows) == 5
    assert (scan.served, scan.left) == ("files", ("hash(k)",)), scan


DECLINED = {
    "SELECT id FROM {t} TABLESAMPLE (100 PERCENT) WHERE k = 'k060'": "non-deterministic",
    "SELECT id FROM (SELECT * FROM {t} t WHERE i % 3 = 0 AND d = DATE'2020-02-20') TABLESAMPLE (50 PERCENT)"
    " REPEATABLE (5)": "non-deterministic",
    "SELECT id FROM {t} t": "no-filter",
    "SELECT id FROM {t} t WHERE k IS NOT NULL": "no-filter",
    "SELECT id FROM {t} t WHERE f = 3": "not-in-words",
    "SELECT id FROM {t} t WHERE id = 3 AND part = 'p %2F:ä 1'": "not-indexed",
    "SELECT id FROM {t} t WHERE i = 3 AND rand(7) < 0.9": "non-deterministic",
    "SELECT id FROM {t} t WHERE hash(k) = 3": "not-in-words",
    "SELECT id FROM {t} t WHERE k > 'k'": "keeps-all",
    "SELECT id FROM {t} t WHERE k COLLATE UTF8_LCASE = 'K007'": "not-in-words",
    "SELECT id FROM {t} t WHERE date_format(t, 'y') = '1971'": "not-in-words",
}


@pytest.mark.parametrize("statement", DECLINED)
def test_a_statement_that_cannot_gain_is_left_to_spark_with_a_reason(
    accelerated: Acceleration, table: str, statement: str
) -> None:
    _, scans = both(accelerated, statement.format(t=TABLE))
    assert [(scan.served, scan.reason) for scan in scans] == [(None, DECLINED[statement])]
    assert {scan.table for scan in scans} == {table}


def test_the_parts_of_a_seeded_split_are_the_same_with_the_rule_and_without(
    accelerated: Acceleration, table: str
) -> None:
    """Else a part read with the index and one read without would share rows, and lose others."""
    spark, found = accelerated._spark, []
    frame = spark.table(TABLE).where("k = 'k070'").select("id")
    splits = zip(*(frame.randomSplit([0.5, 0.5], seed) for seed in range(12)), strict=True)
    for parts, enabled in zip(splits, ("false", "true"), strict=True):
        spark.conf.set("spark.tailbit.enabled", enabled)
        found += [row.id for row in functools.reduce(DataFrame.union, parts).collect()]
    assert sorted(found) == sorted([70, 470, 870] * 12)


PLACES = [
    "SELECT id, input_file_block_start() FROM {t} WHERE i = 77",
    "SELECT id, _metadata.file_block_length FROM {t} WHERE i = 77",
    "SELECT id, _metadata FROM {t} WHERE i = 77",
    "SELECT m.file_block_start FROM (SELECT _metadata m FROM {t} WHERE i = 77 DISTRIBUTE BY id)",
    "SELECT max(m.file_block_length) FROM (SELECT DISTINCT _metadata m FROM {t} WHERE i = 77)",
    "SELECT id, to_json(_metadata), struct(_metadata, 1) FROM {t} WHERE i = 77",
    "SELECT id, (SELECT max(_metadata.file_block_length) FROM {t} WHERE i = 77) FROM {t} WHERE i = 78",
    "SELECT *, _metadata FROM {t} WHERE i = 77 UNION ALL SELECT *, _metadata FROM {t} WHERE i = 78",
]


@pytest.mark.parametrize("number", range(len(PLACES)))
def test_the_places_of_splits_are_those_of_all_files(
    accelerated: Acceleration, table: str, number: int
) -> None:
    spark = accelerated._spark
    spark.conf.set("spark.sql.files.openCostInBytes", "1")
    spark.conf.set("spark.sql.files.minPartitionNum", "20")
    try:
        _, scans = both(accelerated, PLACES[number].format(t=TABLE))
        assert {scan.reason for scan in scans} == {"non-deterministic"}
    finally:
        spark.conf.unset("spark.sql.files.openCostInBytes")
        spark.conf.unset("spark.sql.files.minPartitionNum")


def test_a_query_that_cannot_gain_asks_the_helper_nothing(accelerated: Acceleration, table: str) -> None:
    spark = accelerated._spark
    statement = f"SELECT count(*) FROM {TABLE} WHERE id = 3"
    spark.conf.set("spark.tailbit.knownMs", "600000")
    accelerated._entry.forget()
    rows_of(spark, statement)
    asked = accelerated.questions()
    rows_of(spark, statement)
    spark.conf.unset("spark.tailbit.knownMs")
    assert accelerated.questions() == asked


def test_explain_names_the_files_of_the_index(accelerated: Acceleration, table: str) -> None:
    spark = accelerated._spark
    spark.conf.set("spark.sql.maxPlanStringLength", "10000")
    spark.conf.set("spark.sql.debug.maxToStringFields", "100")
    statement = f"EXPLAIN SELECT * FROM {TABLE} WHERE i = 77"
    assert "IndexedFiles" in rows_of(spark, statement)[0]
    assert "IndexedFiles" not in rows_of(spark, statement, enabled=False)[0]
    spark.conf.set("spark.sql.maxPlanStringLength", "100")
    spark.conf.set("spark.sql.debug.maxToStringFields", "1")


def test_tables_that_are_not_named_are_left_to_spark(accelerated: Acceleration, table: str) -> None:
    spark, parent = accelerated._spark, Path(table).parent
    statement = f"SELECT * FROM {TABLE} WHERE i = 77"
    named = [table, f"{table}/", str(parent), f"{parent}/", f"file:{table}", f"file://{parent}", "/"]
    others = [
        "/elsewhere",
        table[:-1],
        f"{parent}/tab",
        f"{table}/below",
        f"s3a://bucket{table}",
        "hdfs://a/b",
        ":",
    ]
    became = {}
    for path in [*named, *others, f"/elsewhere,{table}"]:
        spark.conf.set("spark.tailbit.tables", path)
        _, (scan,) = both(accelerated, statement)
        became[path] = scan.served or scan.reason
    spark.conf.set("spark.tailbit.tables", "")
    expected = dict.fromkeys([*named, f"/elsewhere,{table}"], "files") | dict.fromkeys(others, "not-served")
    assert became == expected


@pytest.mark.parametrize("path", ["s3a://b/t", "s3://b/t/", "s3a://b", "s3://b/"])
def test_a_table_in_a_store_is_served_by_each_name_of_its_scheme(
    accelerated: Acceleration, path: str
) -> None:
    spark, loader = accelerated._spark, accelerated._entry.getClass().getClassLoader()
    types = spark.sparkContext._gateway.new_array(spark._jvm.java.lang.Class, 2)
    types[0] = types[1] = spark._jvm.java.lang.Class.forName("java.lang.String")
    served = loader.loadClass("io.tailbit.spark.Roots").getDeclaredMethod("isAtOrBelow", types)
    served.setAccessible(True)
    given = spark.sparkContext._gateway.new_array(spark._jvm.java.lang.Object, 2)
    given[1] = path
    became = []
    for given[0] in ("s3://b/t", "s3://b/t/x", "s3://bc/t", "gs://b/t"):
        became.append(served.invoke(None, given))
    assert became == [True, True, False, False]


@pytest.mark.parametrize("path", ["s3a://b/t", "file:/data/t", "file:///data/t", "/data/t"])
def test_tables_are_named_to_accelerate_as_to_spark(accelerated: Acceleration, path: str) -> None:
    accelerate(accelerated._spark, tables=[path], serve=SERVE, budget_ms=PATIENT)
    assert accelerated._spark.conf.get("spark.tailbit.tables") == path
    accelerate(accelerated._spark, serve=SERVE, budget_ms=PATIENT)


def test_a_session_that_has_stopped_reads_as_without_the_rule(accelerated: Acceleration, table: str) -> None:
    accelerated.stop()
    before = accelerated.last()
    rows_of(accelerated._spark, f"SELECT * FROM {TABLE} WHERE i = 78")
    assert accelerated.last() == before
    accelerate(accelerated._spark, serve=SERVE, budget_ms=PATIENT)
    both(accelerated, f"SELECT * FROM {TABLE} WHERE i = 78")
    assert accelerated.last() != before


@pytest.mark.parametrize(
    "wrong", [{"serve": ["columns"]}, {"tables": ["/a,b"]}, {"tables": "/a"}, {"budget_ms": "soon"}]
)
def test_wrong_arguments_are_refused_by_name(spark: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        accelerate(spark, **wrong)


def test_a_mode_that_is_gone_is_refused_with_what_to_give(spark: Any) -> None:
    with pytest.raises(UsageError, match="'positions' is gone") as refused:
        accelerate(spark, serve=["files", "positions"])
    assert '"rows"' in refused.value.hint


@pytest.mark.parametrize(
    ("given", "told"), [("positions", "is gone: give rows"), ("row", "is no mode: these")]
)
def test_a_mode_that_there_is_none_of_is_told_once_and_the_others_are_served(
    accelerated: Acceleration, table: str, given: str, told: str
) -> None:
    spark = accelerated._spark
    with logged(spark) as lines:
        spark.conf.set("spark.tailbit.serve", f"{given},files")
        for number in (77, 78):
            _, (scan,) = both(accelerated, f"SELECT * FROM {TABLE} WHERE i = {number}")
            assert scan.served == "files"
        assert len([line for line in lines() if told in line]) == 1, lines()
    spark.conf.set("spark.tailbit.serve", ",".join(SERVE))


def test_without_its_jar_it_says_how_to_build_it(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jar, "_JAR", tmp_path / "none.jar")
    with pytest.raises(RequirementError, match="has not been built") as raised:
        acceleration_conf()
    assert "python -m tailbit.spark.jar" in raised.value.hint
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(RequirementError, match="no javac"):
        jar.build()
