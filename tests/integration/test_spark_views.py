"""Views and DataFrames over `format("tailbit")` as the table goes on; the same over `delta` is the judge."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql.datasource import DataSource, DataSourceReader

import tailbit
import tailbit.spark
from support.tables import index_of

ROWS = pa.table({"c": ["a", "b"] * 20, "k": range(40)})


def load(spark: Any, path: str, **options: Any) -> Any:
    return spark.read.format("tailbit").options(**options).load(path)


@pytest.fixture
def path(tmp_path: Path) -> str:
    table = str(tmp_path / "t")
    deltalake.write_deltalake(table, ROWS)
    return table


def _append(path: str) -> None:
    deltalake.write_deltalake(path, ROWS, mode="append")


def _delete(path: str) -> None:
    deltalake.DeltaTable(path).delete("k < 7")


def _overwrite(path: str) -> None:
    deltalake.write_deltalake(path, ROWS.slice(3, 5), mode="overwrite")


def _view(spark: Any, format_: str, path: str) -> Callable[[], int]:
    name = f"view_{format_}"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} USING {format_} OPTIONS (path '{path}')")
    return lambda: spark.sql(f"SELECT count(*) FROM {name}").first()[0]


def _frame(spark: Any, format_: str, path: str) -> Callable[[], int]:
    return spark.read.format(format_).load(path).count


def _filtered(spark: Any, format_: str, path: str) -> Callable[[], int]:
    return spark.read.format(format_).load(path).where("k > 5").groupBy("c").count().count


def _temp_view(spark: Any, format_: str, path: str) -> Callable[[], int]:
    spark.read.format(format_).load(path).createOrReplaceTempView(f"temp_{format_}")
    return lambda: spark.table(f"temp_{format_}").count()


def _collected(spark: Any, format_: str, path: str) -> Callable[[], int]:
    frame = spark.read.format(format_).load(path)
    return lambda: len(frame.collect())


def _cached(spark: Any, format_: str, path: str) -> Callable[[], int]:
    frame = spark.read.format(format_).load(path).cache()
    return lambda: frame.count()


@pytest.mark.by_thirds
@pytest.mark.parametrize("made", [_view, _frame, _filtered, _temp_view, _collected, _cached])
def test_what_is_made_once_shows_each_version_that_the_same_over_delta_shows(
    registered: Any, path: str, made: Callable[..., Callable[[], int]]
) -> None:
    ours, theirs = (made(registered, format_, path) for format_ in ("tailbit", "delta"))
    shown = [(ours(), theirs())]
    for change in (_append, _delete, _overwrite):
        change(path)
        shown.append((ours(), theirs()))
    registered.catalog.clearCache()
    assert [one for one, _ in shown] == [other for _, other in shown]


def test_a_view_shows_the_head_where_the_index_is_behind(registered: Any, path: str) -> None:
    counted = _view(registered, "tailbit", path)
    index_of(path, ["c"])
    assert counted() == 40
    _append(path)
    assert counted() == 80
    where = load(registered, path, where="c = 'a'")
    assert (where.count(), tailbit.open(path).where("c = 'a'").count()) == (40, 40)


@pytest.mark.parametrize("option", ["version", "asOf"])
def test_a_frame_of_a_named_version_stays_at_it(registered: Any, path: str, option: str) -> None:
    committed = (Path(path) / "_delta_log" / f"{0:020d}.json").stat().st_mtime_ns // 1_000_000
    at = {"version": "0", "asOf": datetime.fromtimestamp(committed / 1000, timezone.utc).isoformat()}[option]
    frame = load(registered, path, **{option: at})
    counts = [frame.count()]
    _append(path)
    assert [*counts, frame.count(), len(frame.collect())] == [40, 40, 40]


def test_all_scans_of_a_relation_in_one_query_read_one_version(registered: Any, path: str) -> None:
    _view(registered, "tailbit", path)
    registered.sql("SELECT count(*) FROM view_tailbit").collect()
    _append(path)
    query = """SELECT (SELECT count(*) FROM view_tailbit), count(*), (SELECT max(n) FROM (
        SELECT count(*) AS n FROM view_tailbit UNION ALL SELECT count(*) FROM view_tailbit))
        FROM view_tailbit a JOIN view_tailbit b ON a.k = b.k"""
    assert [tuple(row) for row in registered.sql(query).collect()] == [(80, 160, 80)]


def test_queries_over_one_frame_while_the_table_grows_each_read_one_version(
    registered: Any, path: str
) -> None:
    frame = load(registered, path)
    deltalake.DeltaTable(path).delete("k >= 0")
    with ThreadPoolExecutor(3) as threads:
        counts = [threads.submit(frame.groupBy("k").count().collect) for _ in range(6)]
        for _ in range(4):
            _append(path)
        groups = [{row["count"] for row in count.result()} for count in counts]
    assert all(len(group) <= 1 for group in groups)
    assert {row["count"] for row in frame.groupBy("k").count().collect()} == {4}


def test_rows_of_other_columns_than_those_of_the_load_are_refused_by_name(registered: Any, path: str) -> None:
    whole, part = load(registered, path), load(registered, path, columns="k")
    extra = ROWS.append_column("more", pa.array([1] * 40))
    deltalake.write_deltalake(path, extra, mode="append", schema_mode="merge")
    with pytest.raises(
        Exception, match=r"SchemaError: the table's columns have changed since this was loaded"
    ):
        whole.count()
    assert part.count() == 80
    deltalake.write_deltalake(path, extra.select(["c"]), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(Exception, match=r"SchemaError: the table's columns have changed .*no column k"):
        part.count()


def test_to_register_twice_adds_one_rule(registered: Any) -> None:
    tailbit.spark.register(registered)
    rules = registered._jsparkSession.experimental().extraOptimizations()
    assert [rules.apply(n).ruleName() for n in range(rules.size())] == ["tailbit.FreshScans"]


def test_another_data_source_keeps_the_plan_of_its_partitions(registered: Any, tmp_path: Path) -> None:
    planned = tmp_path / "planned"
    planned.touch()

    class Other(DataSource):
        @classmethod
        def name(cls) -> str:
            return "other"

        def schema(self) -> str:
            return "n INT"

        def reader(self, schema: Any) -> DataSourceReader:
            with planned.open("a") as lines:
                lines.write("once\n")
            return Constant()

    class Constant(DataSourceReader):
        def read(self, partition: Any) -> Any:
            yield (1,)

    registered.dataSource.register(Other)
    frame = registered.read.format("other").load()
    assert [frame.count(), frame.count()] == [1, 1]
    assert planned.read_text() == "once\n"


CREATED = "CREATE TABLE tailed USING tailbit OPTIONS (path '{path}')"


def test_a_catalog_table_is_refused_with_what_to_write_instead(registered: Any, path: str) -> None:
    with pytest.raises(AnalysisException) as refused:
        registered.sql(CREATED.format(path=path))
    assert "CREATE TABLE … USING tailbit cannot work" in str(refused.value)
    assert "CREATE TEMPORARY VIEW name USING tailbit OPTIONS (path '…')" in str(refused.value)
    assert not registered.catalog.tableExists("tailed")


def _insert(spark: Any, path: str) -> None:
    _view(spark, "tailbit", path)
    spark.sql("INSERT INTO view_tailbit VALUES ('a', 1)")


def _save(spark: Any, path: str) -> None:
    spark.range(3).write.format("tailbit").mode("append").save(path)


@pytest.mark.parametrize("write", [_insert, _save])
def test_to_write_is_refused_by_name(registered: Any, path: str, write: Callable[[Any, str], None]) -> None:
    with pytest.raises(AnalysisException, match="UsageError: format tailbit only reads"):
        write(registered, path)
    assert deltalake.DeltaTable(path).version() == 0


WRONG = {
    "SELECT tailbit_count('{path}', 'k = 1')": "UsageError: the SQL function tailbit_count is gone",
    "SELECT * FROM tailbit_rows('{path}')": "UsageError: the SQL function tailbit_rows is gone",
    "SELECT * FROM tailbit_locate('{path}', array(1), 'zz')": "UnknownColumnError: no column zz",
    "SELECT * FROM tailbit_locate('{path}', array(1), 'k', 7)": "VersionNotFoundError: version 7",
    "SELECT * FROM tailbit_locate('{path}/nowhere', array(1), 'k')": "NotATableError: no Delta table",
    "SELECT * FROM tailbit_locate('{path}', array('x'), 'k')": "UsageError: ",
    "CREATE TEMPORARY VIEW bad USING tailbit OPTIONS (path '{path}', wher 'x')": "UsageError: format tailbit",
}


@pytest.mark.parametrize("statement", WRONG)
def test_an_error_in_spark_is_told_first_and_without_the_traceback_of_a_worker(
    registered: Any, path: str, statement: str
) -> None:
    with pytest.raises((AnalysisException, PythonException)) as raised:
        registered.sql(statement.format(path=path)).collect()
    told = str(raised.value)
    assert re.search(rf"^(\[.*\] Failed .*: )?tailbit\.errors\.{WRONG[statement]}", told, re.MULTILINE)
    assert "Traceback" not in told
    assert len([line for line in told.splitlines() if line.strip() not in ("", "SQLSTATE: 38000")]) <= 5


def test_functions_of_others_keep_their_tracebacks(registered: Any, path: str) -> None:
    with pytest.raises(AnalysisException):
        load(registered, path, where="nosuch = 1")

    def wrong(value: int) -> int:
        return value // 0

    registered.udf.register("wrong", wrong)
    with pytest.raises(PythonException, match="Traceback"):
        registered.sql("SELECT wrong(1)").collect()


def test_a_worker_that_is_stopped_by_a_limit_prints_no_traceback(
    registered: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, pa.table({"k": range(300_000), "c": ["some text"] * 300_000}))
    capfd.readouterr()
    assert len(load(registered, path).limit(1).collect()) == 1
    keys = f"tailbit_locate('{path}', sequence(0, 299999), 'k')"
    assert len(registered.sql(f"SELECT * FROM {keys} LIMIT 1").collect()) == 1
    assert load(registered, path).where("k > 5").take(2)[1]["k"] == 7
    ours = [part for part in capfd.readouterr().err.split("Traceback") if "lookup" not in part]
    assert not [part for part in ours if "BrokenPipeError" in part]
