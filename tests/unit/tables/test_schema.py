"""Names, types and column mapping."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from tailbit.errors import ColumnTypeError, MalformedLogError, UnknownColumnError
from tailbit.tables.delta.actions import Metadata
from tailbit.tables.delta.schema import parse_schema
from tailbit.tables.schema import Schema


def column(name: str, type_: Any = "long", **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, "nullable": True, "metadata": metadata}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def parse(*fields: dict[str, Any], mode: str = "none", partition: tuple[str, ...] = ()) -> Schema:
    text = json.dumps(struct(*fields))
    return parse_schema(text, partition, {"delta.columnMapping.mode": mode}, "test")


def fields(*bodies: str) -> str:
    """The text of a schema of fields, each given without its braces."""
    return '{"type":"struct","fields":[' + ",".join(f"{{{body}}}" for body in bodies) + "]}"


def mapped(name: str, physical: str, number: int, type_: Any = "long") -> dict[str, Any]:
    ids = {"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": number}
    return column(name, type_, **ids)


def test_metadata_that_sets_no_schema_is_of_a_table_without_columns() -> None:
    plain = {"id": "x", "partitionColumns": [], "configuration": {}}
    for action in (plain, {**plain, "schemaString": None}):
        metadata = Metadata.parse(action, "test")
        assert parse_schema(metadata.schema_text, (), {}, "test").columns == ()
    for text in (5, ["a"], {}):
        with pytest.raises(MalformedLogError, match="schema is not text"):
            Metadata.parse({**plain, "schemaString": text}, "test")


def test_names_are_resolved_ignoring_case_and_through_structs() -> None:
    schema = parse(column("Address", struct(column("City", "string"))), column("a.b"), column("back`tick"))
    assert schema.resolve("ADDRESS.city").name == ("Address", "City")
    assert schema.resolve("`a.b`").name == ("a.b",)
    assert schema.resolve("`back``tick`").name == ("back`tick",)
    assert schema.resolve(("a.b",)).id == "`a.b`"
    assert [c.label for c in schema.leaves()] == ["Address.City", "`a.b`", "`back``tick`"]


@pytest.mark.parametrize("name", ["citty", "Address.citty", "a.b", "", "`", "a..b", "City"])
def test_an_unknown_name_is_named_with_the_nearest(name: str) -> None:
    schema = parse(column("Address", struct(column("City", "string"))), column("a.b"))
    with pytest.raises(UnknownColumnError) as caught:
        schema.resolve(name)
    assert "Address.City" in caught.value.describe()


def test_a_name_behind_that_of_a_table_is_refused_with_what_to_write() -> None:
    schema = parse(column("Amount"), column("Address", struct(column("City", "string"))))
    for name, plain in (("sales.amount", "Amount"), ("`a b`.Address.city", "Address.City")):
        with pytest.raises(UnknownColumnError, match=f"the table has no name here: write {plain}"):
            schema.resolve(name)


def test_every_type_becomes_its_arrow_type() -> None:
    inner = {"type": "array", "elementType": struct(column("x", "byte")), "containsNull": True}
    table = {"type": "map", "keyType": "string", "valueType": "short", "valueContainsNull": True}
    names = [
        "boolean",
        "float",
        "double",
        "date",
        "timestamp",
        "timestamp_ntz",
        "binary",
        "decimal(12,3)",
        "integer",
    ]
    schema = parse(
        *(column(n, n) for n in names), column("l", inner), column("m", table), column("v", "variant")
    )
    assert schema.arrow().types == [
        pa.bool_(),
        pa.float32(),
        pa.float64(),
        pa.date32(),
        pa.timestamp("us", "UTC"),
        pa.timestamp("us"),
        pa.binary(),
        pa.decimal128(12, 3),
        pa.int32(),
        pa.list_(pa.field("element", pa.struct([("x", pa.int8())]))),
        pa.map_(pa.string(), pa.int16()),
        pa.struct([("metadata", pa.binary()), ("value", pa.binary())]),
    ]
    assert schema.arrow([schema.resolve("date")]).names == ["date"]


def test_a_column_of_a_type_that_cannot_be_decoded_is_refused_alone() -> None:
    schema = parse(column("a"), column("i", "interval year to month"))
    assert schema.arrow([schema.resolve("a")]).names == ["a"]
    with pytest.raises(ColumnTypeError, match="interval year to month"):
        schema.arrow()


def test_a_collation_other_than_byte_order_is_another_type() -> None:
    schema = parse(
        column("a", "string", __COLLATIONS={"a": "ICU.UNICODE_CI.75"}),
        column("b", "string", __COLLATIONS={"b": "spark.UTF8_BINARY"}),
        column("c", "string", __COLLATIONS={"c": "spark.UTF8_LCASE"}),
    )
    assert [c.type.name for c in schema.columns] == [
        "string collate ICU.UNICODE_CI.75",
        "string",
        "string collate spark.UTF8_LCASE",
    ]
    assert schema.arrow().types == [pa.string()] * 3


def test_columns_are_known_by_their_physical_path() -> None:
    fields = [mapped("new name", "col-1", 1), mapped("s", "col-2", 2, struct(mapped("x", "col-3", 3)))]
    for mode, ids in (("name", [(), ()]), ("id", [(1,), (2, 3)])):
        leaves = parse(*fields, mode=mode, partition=("new name",)).leaves()
        assert [c.physical for c in leaves] == [("col-1",), ("col-2", "col-3")]
        assert [c.name for c in leaves] == [("new name",), ("s", "x")]
        assert [c.partition for c in leaves] == [True, False]
        assert [c.field_ids for c in leaves] == ids
    assert [c.physical for c in parse(*fields).leaves()] == [("new name",), ("s", "x")]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "no list of fields"),
        ('{"type":"struct"}', "no list of fields"),
        ('{"type":"struct","fields":[7]}', "no name"),
        (fields('"name":"a","nullable":true'), "no type"),
        (fields('"name":"a","type":"long","nullable":true,"metadata":3'), "metadata"),
        (fields('"name":"a","type":"long"'), "nullable"),
        (fields('"name":"a","type":"decimal(40,2)","nullable":true'), "impossible"),
        (fields(*(f'"name":"{n}","type":"long","nullable":true' for n in "aA")), "twice"),
        (fields('"name":"a","type":{"type":"union"},"nullable":true'), "no type"),
    ],
)
def test_a_damaged_schema_is_named(text: str, reason: str) -> None:
    with pytest.raises(MalformedLogError, match=reason):
        parse_schema(text, (), {}, "test")


def test_a_schema_nested_beyond_reason_is_refused() -> None:
    type_: Any = "long"
    for _ in range(90):
        type_ = struct(column("x", type_))
    with pytest.raises(MalformedLogError):
        parse(column("x", type_))


def test_mapping_needs_physical_names_and_a_known_mode() -> None:
    with pytest.raises(MalformedLogError, match="physical name"):
        parse(column("a"), mode="name")
    with pytest.raises(MalformedLogError, match="mode 'flux'"):
        parse(column("a"), mode="flux")
    with pytest.raises(MalformedLogError, match="partition column 'p'"):
        parse(column("a"), partition=("p",))


def test_char_below_a_top_level_column_is_refused_since_only_text_says_where() -> None:
    declared = {"__CHAR_VARCHAR_TYPE_STRING": "struct<x:char(4),y:int>"}
    schema = parse(column("s", struct(column("x", "string"), column("y", "integer")), **declared))
    assert schema.arrow([schema.resolve("s.y")]).types == [pa.int32()]
    with pytest.raises(ColumnTypeError, match="nested"):
        schema.arrow([schema.resolve("s.x")])


@pytest.mark.parametrize("name", ["struct", "array", "map"])
def test_a_nested_type_given_as_a_bare_name_is_refused(name: str) -> None:
    with pytest.raises(MalformedLogError, match=f"'a' is an? {name} of nothing"):
        parse(column("a", name))
