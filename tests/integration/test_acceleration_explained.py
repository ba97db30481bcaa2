"""EXPLAIN and `last()` say in a line what the index did for each scan, or what it would have needed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from support.acceleration import rows_of
from support.spark_session import session_settings
from support.tables import index_of
from tailbit.spark import report
from tailbit.spark.acceleration import Acceleration

FILES = 6


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("explained") / "table")
    for file in range(FILES):
        ids = range(100 * file, 100 * file + 100)
        rows = {"id": ids, "k": [id_ % 100 for id_ in ids], "other": [2 * id_ for id_ in ids]}
        # Delta's statistics leave every file, whichever is asked.
        tags = ["a", *[f"file {file}"] * 98, "z"]
        write_deltalake(path, pa.table({**rows, "tag": tags}), mode="append")
    index_of(path, ["k", "tag"])
    return path


TOLD = {
    "SELECT * FROM {t} WHERE k = 7": "6 rows of 6 files by (`k` = 7L); without the index: 6 files",
    "SELECT count(*) FROM {t} WHERE k = 7": "counts of all files by (`k` = 7L), and no file is read",
    "SELECT k, count(*) FROM {t} GROUP BY k": "groups of all files, and no file is read",
    "SELECT input_file_name(), id FROM {t} WHERE tag = 'file 3' AND other >= 0": "1 of 6 files by (`tag`",
    "SELECT id FROM {t}": "left to Spark (no-filter): needs a condition, or counts",
    "SELECT id FROM {t} WHERE other = 5": "left to Spark (not-indexed): needs an index of other",
    "SELECT id FROM {t} WHERE pmod(k, 7) = 3": "unlike pmod(k, 7",
    "SELECT id FROM {t} WHERE id % 7 = 3": "unlike (id % 7",
    "SELECT id FROM {t} WHERE k >= 0 AND rand() < 0.9": "left to Spark (non-deterministic)",
}


def lines(accelerated: Acceleration, statement: str) -> list[str]:
    """The lines of EXPLAIN about the index."""
    (text,) = (row[0] for row in accelerated._spark.sql(f"EXPLAIN {statement}").collect())
    return [line for line in text.partition("\n== Index ==\n")[2].splitlines() if line]


@pytest.mark.parametrize("statement", TOLD)
def test_explain_says_what_the_index_did_or_would_have_needed(
    accelerated: Acceleration, path: str, statement: str
) -> None:
    text = statement.format(t=f"delta.`{path}`")
    (line,) = lines(accelerated, text)
    assert line.startswith(f"{path} at version {FILES - 1}: ")
    assert TOLD[statement] in line
    rows_of(accelerated._spark, text)
    assert [scan.summary for scan in accelerated.last()] == [line]


def test_explain_has_a_line_for_each_scan(accelerated: Acceleration, path: str) -> None:
    statement = (
        f"SELECT 1 FROM delta.`{path}` x JOIN delta.`{path}` y ON x.other = y.other WHERE x.tag = 'file 1'"
    )
    assert len(lines(accelerated, statement)) == 2
    assert lines(accelerated, "SELECT 1") == []
    assert lines(accelerated, f"FORMATTED SELECT id FROM delta.`{path}` WHERE tag = 'file 2'")


def test_rows_that_would_gain_nothing_are_the_reason_and_not_the_files_that_hold_them(
    accelerated: Acceleration, path: str
) -> None:
    accelerated._spark.conf.set("spark.tailbit.mostShare", "0")
    (line,) = lines(accelerated, f"SELECT * FROM delta.`{path}` WHERE k = 8")
    accelerated._spark.conf.unset("spark.tailbit.mostShare")
    assert "left to Spark (no-gain): 6 rows in 6 files" in line


def test_last_tells_of_no_scan_after_a_query_without_any(accelerated: Acceleration, path: str) -> None:
    spark = accelerated._spark
    rows_of(spark, f"SELECT * FROM delta.`{path}` WHERE k = 9")
    assert [scan.served for scan in accelerated.last()] == ["rows"]
    spark.sql("SET spark.tailbit.budgetMs").collect()
    assert accelerated.last() != []
    spark.range(5).selectExpr("id + 1").collect()
    assert accelerated.last() == []


def test_last_tells_of_a_statement_and_not_of_what_delta_lists_for_it(
    accelerated: Acceleration, spark: Any, path: str, tmp_path: Any
) -> None:
    fresh = str(tmp_path / "fresh")
    spark.range(10).write.format("delta").save(fresh)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    rows_of(spark, f"SELECT x.id FROM delta.`{path}` x JOIN delta.`{fresh}` y ON x.id = y.id WHERE x.k = 3")
    assert [scan.table for scan in accelerated.last()] == [path, fresh]


def test_the_report_has_the_scans_of_the_last_statements_and_the_index_that_each_lacks(
    accelerated: Acceleration, path: str
) -> None:
    spark, table = accelerated._spark.newSession(), f"delta.`{path}`"
    statements = {
        f"SELECT * FROM {table} WHERE k = 11": ("rows", None, None),
        f"SELECT id FROM {table} WHERE other = 12": (None, "not-indexed", "other"),
        f"SELECT other, count(*) FROM {table} WHERE k >= 0 GROUP BY other": ("rows", None, "other"),
    }
    for statement in statements:
        spark.sql(statement).collect()
        spark.range(3).count()
    rows = spark.sql("SELECT * FROM tailbit_report()").collect()
    assert {row.statement: (row.served, row.reason, row["index"]) for row in rows} == statements
    assert [(row.table, row.version) for row in rows] == [(path, FILES - 1)] * len(statements)
    assert [row.time for row in rows] == sorted(row.time for row in rows)


def test_the_report_is_of_a_session_that_is_accelerated(accelerated: Acceleration, path: str) -> None:
    spark = accelerated._spark
    other = spark.newSession()
    assert report(other).count() == 0
    rows_of(other, f"SELECT * FROM delta.`{path}` WHERE k = 12")
    (row,) = report(other).collect()
    assert (row.served, row.files, row.of) == ("rows", FILES, FILES)
    with pytest.raises(Exception, match="takes no argument"):
        spark.sql("SELECT * FROM tailbit_report(1)").collect()


def test_scans_by_the_second_connector_of_delta_are_left_and_told(
    accelerated: Acceleration, path: str
) -> None:
    spark, statement = accelerated._spark, f"SELECT count(*) FROM delta.`{path}` WHERE k = 7"
    with session_settings(spark, {"spark.databricks.delta.v2.enableMode": "STRICT"}):
        assert rows_of(spark, statement) == ["Row(count(1)=6)"]
        (scan,) = accelerated.last()
        (line,) = lines(accelerated, statement)
    assert (scan.served, scan.reason, scan.summary) == (None, "not-served", line)
    assert "second connector" in line
    with session_settings(spark, {"spark.databricks.delta.v2.enableMode": "AUTO"}):
        assert rows_of(spark, statement) == ["Row(count(1)=6)"]
    assert [scan.served for scan in accelerated.last()] == ["counts"]
