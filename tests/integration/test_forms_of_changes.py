"""Changes of rows with tables, sources and keys as people give them: each fits or is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
import tailbit.spark
from support.hudi_made import Made
from support.spark_session import rows_of
from support.tables import index_of
from tailbit.errors import NotATableError, UnknownColumnError, UsageError

pytestmark = pytest.mark.spark


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "päople of 1 house")
    rows = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"], "tags": [["x"], [], None]})
    write_deltalake(path, rows, configuration={"delta.enableDeletionVectors": "true"})
    index_of(path, ["id"])
    return path


def test_a_uri_of_a_folder_is_that_folder(spark: Any, path: str) -> None:
    for uri in (f"file:{path}", f"file://{path}", f"file:{quote(path)}", f"file://{quote(path)}"):
        done = tailbit.spark.delete(uri, [1], "id", spark=spark, dry_run=True)
        assert (done.by, done.rows) == ("index", 1)


def test_a_path_as_sql_names_it_is_a_table_to_locate_in(spark: Any, path: str) -> None:
    located = tailbit.spark.locate(f"delta.`{path}`", spark.range(1))
    assert located.columns == ["id", "path", "position"]


def test_a_folder_of_hudi_as_sql_names_it_is_a_table_to_locate_in(spark: Any, tmp_path: Path) -> None:
    made = Made(tmp_path)
    keys = spark.range(4, 6).withColumnRenamed("id", "key")
    located = tailbit.spark.locate(f"hudi.`{made.path}`", keys).collect()
    assert sorted(map(tuple, located)) == [(4, made.base.path, 4), (5, None, None)]


@pytest.mark.parametrize("dry", [True, False])
def test_a_folder_without_a_table_is_refused_by_name_also_before_the_run(
    spark: Any, tmp_path: Path, dry: bool
) -> None:
    none = str(tmp_path / "none")
    with pytest.raises(NotATableError, match="no Delta table at"):
        tailbit.spark.delete(none, "id = 1", spark=spark, dry_run=dry)
    with pytest.raises(NotATableError, match="no Delta table at"):
        tailbit.spark.upsert(none, spark.range(1), "id", spark=spark, dry_run=dry)


@pytest.mark.parametrize("dry", [True, False])
def test_a_key_column_that_the_table_lacks_is_refused_by_name_also_before_the_run(
    spark: Any, path: str, dry: bool
) -> None:
    with pytest.raises(UnknownColumnError, match="no column nmae"):
        tailbit.spark.delete(path, ["a"], "nmae", spark=spark, dry_run=dry)
    assert DeltaTable(path).version() == 0


def test_a_frame_of_polars_with_texts_and_lists_is_a_source(spark: Any, path: str) -> None:
    frame = polars.DataFrame({"tags": [["y"], None], "NAME": ["B", "d"], "id": [2, 4]})
    done = tailbit.spark.upsert(path, frame, "id", spark=spark)
    assert (done.by, done.updated, done.inserted) == ("index", 1, 1)
    assert rows_of(spark, path) == [(1, "a", ["x"]), (2, "B", ["y"]), (3, "c", None), (4, "d", None)]


def test_a_source_without_rows_changes_nothing(spark: Any, path: str) -> None:
    for source in ([], pa.table({"id": [1], "name": ["z"], "tags": [["z"]]}).slice(1)):
        done = tailbit.spark.upsert(path, source, "id", spark=spark)
        assert (done.version, done.updated, done.inserted) == (None, 0, 0)
    assert DeltaTable(path).version() == 0


def test_columns_of_a_source_that_the_table_lacks_are_left_out_where_some_columns_are_updated(
    spark: Any, path: str
) -> None:
    source = pa.table({"id": [1, 4], "name": ["A", "d"], "more": [7, 8]})
    done = tailbit.spark.upsert(path, source, "id", set=["name"], spark=spark)
    assert (done.by, done.updated, done.inserted) == ("delta", 1, 1)
    assert rows_of(spark, path) == [(1, "A", ["x"]), (2, "b", []), (3, "c", None), (4, "d", None)]


def test_columns_are_set_to_expressions_of_source_and_target(spark: Any, path: str) -> None:
    source = pa.table({"id": [1, 4], "name": ["A", "d"]})
    given = {"name": "upper(target.name) || source.name", "`tags`": "array(source.name)"}
    done = tailbit.spark.upsert(path, source, "id", set=given, spark=spark)
    assert (done.by, done.updated, done.inserted) == ("delta", 1, 1)
    assert rows_of(spark, path) == [(1, "AA", ["A"]), (2, "b", []), (3, "c", None), (4, "d", None)]
    with pytest.raises(UsageError, match="name"):
        tailbit.spark.upsert(path, source, "id", set={"name": 1}, spark=spark)  # type: ignore[dict-item]
    assert DeltaTable(path).version() == 1


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_a_key_column_may_have_a_dot_in_its_name(spark: Any, tmp_path: Path, vectors: str) -> None:
    path, by = str(tmp_path / "t"), {"true": "index", "false": "delta"}[vectors]
    rows = pa.table({"a.b": [1, 2, 3], "v": ["a", "b", "c"]})
    write_deltalake(path, rows, configuration={"delta.enableDeletionVectors": vectors})
    index_of(path, ["`a.b`"])
    for number, on in enumerate(("a.b", "`a.b`")):
        source = pa.table({"a.b": [1 + number, 4 + number], "v": ["new", "more"]})
        done = tailbit.spark.upsert(path, source, on, spark=spark)
        assert (done.by, done.updated, done.inserted) == (by, 1, 1)
    done = tailbit.spark.delete(path, [3, 4], "`a.b`", spark=spark)
    assert (done.by, done.rows) == (by, 2)
    assert rows_of(spark, path) == [(1, "new"), (2, "new"), (5, "more")]


def test_keys_that_are_texts_of_a_field_are_deleted_by_delta_too(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows = pa.table({"s": [{"k": "a"}, {"k": "b"}, {"k": "c"}], "v": [1, 2, 3]})
    write_deltalake(path, rows)
    done = tailbit.spark.delete(path, ["a", "z"], "s.k", spark=spark)
    assert (done.by, done.rows) == ("delta", 1)
    assert [row[1] for row in rows_of(spark, path)] == [2, 3]


def test_no_column_to_update_is_refused_by_name(spark: Any, path: str) -> None:
    with pytest.raises(UsageError, match="set names no column"):
        tailbit.spark.upsert(path, [{"id": 1, "name": "z", "tags": None}], "id", set=[], spark=spark)


def test_a_replayed_upsert_of_no_rows_changes_none_of_a_later_source(spark: Any, path: str) -> None:
    again: dict[str, Any] = {"spark": spark, "application": ("changes", 1)}
    assert tailbit.spark.upsert(path, [], "id", **again).version == 1
    done = tailbit.spark.upsert(path, [{"id": 1, "name": "z", "tags": None}], "id", **again)
    assert (done.version, done.updated, DeltaTable(path).version()) == (None, 0, 1)


@pytest.mark.parametrize(("rows", "on"), [("id = 9", None), ([9], "id"), ([], "id")])
def test_a_replayed_deletion_that_found_no_row_deletes_none_that_came_later(
    spark: Any, path: str, rows: Any, on: str | None
) -> None:
    again: dict[str, Any] = {"spark": spark, "application": ("erasures", 1)}
    assert tailbit.spark.delete(path, rows, on, dry_run=True, **again).version is None
    assert tailbit.spark.delete(path, rows, on, **again).version == 1
    late = pa.table({"id": [9], "name": ["late"], "tags": pa.array([None], pa.list_(pa.string()))})
    write_deltalake(path, late, mode="append")
    assert tailbit.spark.delete(path, "id = 9", None, **again).rows == 0
    assert tailbit.spark.delete(path, rows, on, **again).version is None
    assert len(rows_of(spark, path)) == 4
