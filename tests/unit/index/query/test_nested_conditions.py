"""Conditions on arrays, maps and structs through the front door: counted, read and explained."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tailbit
from tailbit.errors import EvaluationError, TailbitError, UnknownColumnError

_ROWS = pa.table(
    {
        "id": pa.array(range(5)),
        "tags": pa.array([["x", "y"], [], None, [None, "x"], ["a", None]], pa.list_(pa.string())),
        "ns": pa.array([[1, 2, 3], [5], None, [None, -7], []], pa.list_(pa.int32())),
        "m": pa.array(
            [[("k", "v")], [("k", None)], None, [], [("z", "q")]], pa.map_(pa.string(), pa.string())
        ),
        "items": pa.array(
            [[{"price": 1.5}], [None, {"price": None}], None, [], [{"price": 9.0}]],
            pa.list_(pa.struct([("price", pa.float64())])),
        ),
    }
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("nested") / "table")
    deltalake.write_deltalake(folder, _ROWS)
    return folder


def ids(path: str, where: str) -> Any:
    answer = tailbit.open(path).where(where)
    found = sorted(answer.read(columns=["id"])["id"].to_pylist())
    assert answer.count() == len(found)
    assert sum(row["matching"] for row in answer.explain()["files"]) == len(found)
    return found


def test_an_element_that_raises_counts_only_up_to_the_one_that_decides(path: str) -> None:
    assert ids(path, "exists(array(id, 0), x -> x = 0 OR 1 / x > 2) AND id < 2") == [0, 1]
    with pytest.raises(EvaluationError):
        ids(path, "exists(array(0, id), x -> 1 / x > 2) AND id < 2")


@pytest.mark.parametrize(
    "where", ["filter(tags, t -> t = 'x') IS NULL", "exists(ns, (x, i) -> x > i)", "m = m"]
)
def test_what_is_not_read_of_arrays_and_maps_is_refused_by_name(path: str, where: str) -> None:
    with pytest.raises(TailbitError):
        tailbit.open(path).where(where).count()


def test_lambda_arguments_hide_columns_of_their_name_in_any_case(path: str) -> None:
    assert ids(path, "exists(tags, ID -> id = 'a')") == [4]
    with pytest.raises(UnknownColumnError):
        tailbit.open(path).where("exists(tags, t -> t = 'a') AND t = 'a'").count()


def test_files_written_before_a_field_of_an_array_was_there_hold_null_in_it(tmp_path: Path) -> None:
    folder = str(tmp_path / "table")
    old = pa.table({"id": [0], "items": pa.array([[{"a": 1}]], pa.list_(pa.struct([("a", pa.int64())])))})
    struct = pa.struct([("a", pa.int64()), ("b", pa.string())])
    new = pa.table({"id": [1], "items": pa.array([[{"a": 2, "b": "x"}]], pa.list_(struct)), "tags": [["t"]]})
    deltalake.write_deltalake(folder, old)
    deltalake.write_deltalake(folder, new, mode="append", schema_mode="merge")
    assert ids(folder, "array_contains(items.b, 'x')") == [1]
    assert ids(folder, "exists(items, i -> i.b IS NULL)") == [0]
    assert ids(folder, "array_contains(tags, 't')") == [1]
    assert ids(folder, "tags IS NULL AND size(items) = 1") == [0]


@pytest.mark.parametrize("compliant", [True, False])
def test_lists_and_maps_are_read_however_parquet_names_their_levels(tmp_path: Path, compliant: bool) -> None:
    folder = tmp_path / "table"
    deltalake.write_deltalake(str(folder), _ROWS)
    (file,) = folder.glob("*.parquet")
    pq.write_table(_ROWS, file, use_compliant_nested_type=compliant, row_group_size=2)
    log = folder / "_delta_log" / "00000000000000000000.json"
    size = str(file.stat().st_size)
    log.write_text(re.sub(r'"size":\d+', f'"size":{size}', log.read_text()))
    assert ids(str(folder), "array_contains(tags, 'x') AND m['k'] = 'v'") == [0]
    assert ids(str(folder), "exists(items, i -> i.price > 2)") == [4]


def test_the_name_of_the_table_may_stand_before_a_column_and_a_struct_of_that_name_comes_first(
    path: str, tmp_path: Path
) -> None:
    assert ids(path, "table.id = 1 AND array_contains(TABLE.items.price, NULLIF(1, 1)) IS NULL") == [1]
    folder = str(tmp_path / "sales")
    struct = pa.array([{"amount": 1}, {"amount": 2}], pa.struct([("amount", pa.int64())]))
    deltalake.write_deltalake(folder, pa.table({"id": [0, 1], "sales": struct, "amount": [2, 1]}))
    assert ids(folder, "sales.amount = 2") == [1]
    assert ids(folder, "sales.sales.amount = 2 AND sales.id = 1") == [1]
    with pytest.raises(UnknownColumnError):
        tailbit.open(folder).where("other.amount = 2").count()


def test_nothing_is_found_in_arrays_of_which_no_row_has_an_element(tmp_path: Path) -> None:
    folder = str(tmp_path / "table")
    inner, maps = pa.list_(pa.list_(pa.int32())), pa.list_(pa.map_(pa.string(), pa.string()))
    table = pa.table({"id": [0, 1], "nested": pa.array([[], None], inner)})
    deltalake.write_deltalake(folder, table.append_column("m", pa.array([[], None], maps)))
    assert ids(folder, "exists(nested, n -> array_contains(n, 3))") == []
    assert ids(folder, "NOT exists(nested, n -> array_position(n, 3) > 0)") == [0]
    assert ids(folder, "exists(nested, n -> arrays_overlap(n, array(1, 2))) IS NULL") == [1]
    assert ids(folder, "forall(m, x -> x['k'] = 'v' AND map_contains_key(x, 'k'))") == [0]


@pytest.mark.parametrize(
    ("where", "hint"),
    [
        ("tags = 'x'", "array_contains(a, x)"),
        ("tags LIKE 'x%'", "exists(a, x -> x > 1)"),
        ("tags IN ('x')", "size(a)"),
        ("m = 'v'", "m['k']"),
        ("m LIKE 'v%'", "ask for what it holds"),
        ("tags[0] = 'x'", "get(tags, 0)"),
        ("element_at(tags, 1) = 'x'", "try_element_at"),
        ("element_at(tags, 0) = 'x'", "begin at 1"),
        ("get_json_object(tags[0], '$.*') = 'x'", "$.a.b[0]"),
    ],
)
def test_a_refusal_about_arrays_and_maps_says_what_to_write(path: str, where: str, hint: str) -> None:
    with pytest.raises(TailbitError) as raised:
        tailbit.open(path).where(where).count()
    assert hint in f"{raised.value} {raised.value.hint}"


@pytest.mark.parametrize("json_path", ["$", "$['a']['b.c']", "$[0]['x']"])
def test_a_path_of_json_is_shown_as_it_is_read(path: str, json_path: str) -> None:
    where = f'get_json_object(try_element_at(tags, 1), "{json_path}") = 1'
    shown = tailbit.open(path).where(where).explain()["predicate"]
    assert json_path.replace("'", "''") in shown


def test_arrays_of_arrays_are_refused_without_an_error_that_spark_does_not_raise(tmp_path: Path) -> None:
    folder = str(tmp_path / "table")
    inner = pa.list_(pa.list_(pa.int32()))
    deltalake.write_deltalake(folder, pa.table({"id": [0], "nested": pa.array([[[3]]], inner)}))
    for where in (
        "array_contains(nested, array(3))",
        "arrays_overlap(nested, nested)",
        "array_position(nested, nested[0]) = 1",
    ):
        with pytest.raises(TailbitError, match="of elements of type ARRAY is not read") as raised:
            tailbit.open(folder).where(where).count()
        assert "in Spark" not in str(raised.value)
