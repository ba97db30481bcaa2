"""IS NULL and IS NOT NULL are answered of columns of every type, as messages promise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from tailbit.errors import ColumnTypeError, PredicateError

ARRAY = {"type": "array", "elementType": "interval day to second", "containsNull": True}
MAP = {"type": "map", "keyType": "string", "valueType": "geometry(4326)", "valueContainsNull": True}
STRUCT = {
    "type": "struct",
    "fields": [{"name": "a", "type": "interval year to month", "nullable": True, "metadata": {}}],
}
LONGS = pa.array([1, None, 3], pa.int64())
LISTS = pa.array([[1], None, []], pa.list_(pa.int64()))
MAPS = pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64()))
STRUCTS = pa.array([{"a": 1}, None, {"a": None}], pa.struct([("a", pa.int64())]))
VARIANTS = pa.array(
    [
        {"metadata": b"\x01\x00\x00", "value": b"\x00"},
        None,
        {"metadata": b"\x01\x00\x00", "value": b"\x0c\x01"},
    ],
    pa.struct([("metadata", pa.binary()), ("value", pa.binary())]),
)

TYPES: dict[str, tuple[Any, pa.Array]] = {
    **{
        name: (name, LONGS)
        for name in (
            "interval day to second",
            "interval year to month",
            "interval hour",
            "geometry",
            "a new one",
        )
    },
    "geography": ("geography(4326, spherical)", pa.array([b"a", None, b"b"])),
    "variant": ("variant", VARIANTS),
    "array": ({**ARRAY, "elementType": "long"}, LISTS),
    "map": ({**MAP, "valueType": "long"}, MAPS),
    "struct": ({**STRUCT, "fields": [{**STRUCT["fields"][0], "type": "long"}]}, STRUCTS),
    "array of intervals": (ARRAY, LISTS),
    "map of geometries": (MAP, MAPS),
    "struct of intervals": (STRUCT, STRUCTS),
    "long": ("long", LONGS),
}


def table_of(path: Path, type_: Any, values: pa.Array) -> tailbit.IndexedTable:
    """A table of a column k and a column x, which its log says to be of a type."""
    write_deltalake(str(path), pa.table({"k": [1, 2, 3], "x": values}))
    log = path / "_delta_log" / "00000000000000000000.json"
    lines = []
    for line in log.read_text().splitlines():
        action = json.loads(line)
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            schema["fields"][1]["type"] = type_
            action["metaData"]["schemaString"] = json.dumps(schema)
        if "add" in action:
            action["add"].pop("stats", None)
        lines.append(json.dumps(action))
    log.write_text("\n".join(lines))
    return tailbit.open(str(path))


@pytest.mark.parametrize("name", TYPES)
def test_is_null_is_answered_of_every_type(tmp_path: Path, name: str) -> None:
    table = table_of(tmp_path / "t", *TYPES[name])
    asked = ("x IS NULL", "x IS NOT NULL", "NOT (x IS NULL)", "k > 1 AND x IS NULL", "x IS NULL OR k = 3")
    assert [table.where(sql).count() for sql in asked] == [1, 2, 2, 1, 2]
    assert table.where("x IS NULL").to_arrow(columns=["k"])["k"].to_pylist() == [2]


ORDERED = [name for name in TYPES if name not in ("variant", "map", "map of geometries")]
"""The types whose values Spark compares, or is not known not to."""


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("isnull(x)", 1),
        ("isnotnull(x) AND k < 3", 1),
        ("NOT isnull(x) = false", 1),
        ("nvl2(x, 1, 0) = 0", 1),
        ("CASE WHEN x IS NULL THEN k ELSE 7 END = 2", 1),
        ("if(isnull(x), k, k + 1) = 2", 2),
        ("isnull(x) OR x IS NOT NULL", 3),
    ],
)
def test_whether_a_value_is_there_is_answered_in_every_form(
    tmp_path: Path, name: str, sql: str, rows: int
) -> None:
    assert table_of(tmp_path / "t", *TYPES[name]).where(sql).count() == rows


@pytest.mark.parametrize("name", ORDERED)
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("x <=> NULL", 1),
        ("NULL <=> x", 1),
        ("NOT (x <=> (NULL))", 2),
        ("x IS NOT DISTINCT FROM NULL", 1),
        ("x IS DISTINCT FROM NULL", 2),
        ("equal_null(x, NULL)", 1),
        ("equal_null(NULL, x) = false", 2),
        ("(x <=> NULL) <=> true OR k = 3", 2),
    ],
)
def test_a_null_safe_comparison_with_null_is_answered_of_every_type_that_spark_compares(
    tmp_path: Path, name: str, sql: str, rows: int
) -> None:
    assert table_of(tmp_path / "t", *TYPES[name]).where(sql).count() == rows


@pytest.mark.parametrize("name", [name for name in TYPES if name not in ORDERED])
def test_a_null_safe_comparison_of_a_type_without_an_order_is_refused_as_in_spark(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises((ColumnTypeError, PredicateError)):
        table_of(tmp_path / "t", *TYPES[name]).where("x <=> NULL").count()


@pytest.mark.parametrize("name", [name for name in TYPES if name not in ("long", "array", "map", "struct")])
def test_a_comparison_of_a_type_that_has_none_says_what_may_be_asked(tmp_path: Path, name: str) -> None:
    table = table_of(tmp_path / "t", *TYPES[name])
    with pytest.raises(ColumnTypeError, match="NULL") as refused:
        table.where("x = 1").count()
    assert "IS NULL" in refused.value.hint or "IS [NOT] NULL" in str(refused.value)


def test_a_field_that_cannot_be_decoded_is_asked_for_null(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", *TYPES["struct of intervals"])
    assert [table.where(sql).count() for sql in ("x.a IS NULL", "x.a IS NOT NULL")] == [2, 1]


def test_rows_with_a_column_that_cannot_be_decoded_are_refused_with_what_to_name(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", *TYPES["geometry"])
    with pytest.raises(ColumnTypeError, match="cannot be decoded") as refused:
        table.where().to_arrow()
    assert "Name the other columns, without x" in refused.value.hint


@pytest.mark.parametrize("name", TYPES)
def test_whether_a_value_is_there_is_indexed_of_every_type(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / "t")
    table = table_of(tmp_path / "t", *TYPES[name])
    described = table.create_index("absent", "isnull(x)")
    assert (described.state, described.changed) == ("complete", "")
    answer = tailbit.open(path).where("isnull(x)")
    assert (answer.count(), answer.files_scanned) == (1, 0)
    assert tailbit.open(path).verify().problems == []
