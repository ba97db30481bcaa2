"""Delta tables whose metadata or protocol contradicts itself, the schema, or what the log uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.odd_logs import EVERY_ROW, Action, OddLog, OddTable, column
from support.vectors import encode_z85, portable

LISTED: Action = {"minReaderVersion": 3, "minWriterVersion": 7}
VECTORS: Action = {**LISTED, "readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}


def _add(**values: Any) -> Callable[[OddTable], object]:
    return lambda table: table.first.update(values)


def _meta(**values: Any) -> Callable[[OddTable], object]:
    return lambda table: table.metadata.update(values)


def _no_meta(name: str) -> Callable[[OddTable], object]:
    return lambda table: table.metadata.pop(name)


def _protocol(**values: Any) -> Callable[[OddTable], object]:
    return lambda table: setattr(table, "protocol", values)


def _field(name: str, value: Any) -> Callable[[OddTable], object]:
    return lambda table: table.fields[1].update({name: value})


def _no_field(name: str) -> Callable[[OddTable], object]:
    return lambda table: table.fields[1].pop(name)


def _partition_type(type_: Any) -> Callable[[OddTable], object]:
    return lambda table: table.fields[4].update(type=type_)


def _mapped(
    mode: str = "name", change: Callable[[OddTable], object] = lambda _: None, **protocol: Any
) -> Callable[[OddTable], object]:
    """Columns mapped to the names that they have in the files."""

    def mapped(table: OddTable) -> None:
        table.protocol = protocol or {"minReaderVersion": 2, "minWriterVersion": 5}
        table.metadata["configuration"] = {"delta.columnMapping.mode": mode}
        for number, its in enumerate(table.fields, 1):
            its["metadata"]["delta.columnMapping.id"] = number
            its["metadata"]["delta.columnMapping.physicalName"] = its["name"]
        change(table)

    return mapped


def _id(value: Any) -> Callable[[OddTable], object]:
    return lambda table: table.fields[1]["metadata"].update({"delta.columnMapping.id": value})


def _physical(value: Any) -> Callable[[OddTable], object]:
    return lambda table: table.fields[1]["metadata"].update({"delta.columnMapping.physicalName": value})


def _bare(key: str) -> Callable[[OddTable], object]:
    return lambda table: table.fields[1]["metadata"].pop(f"delta.columnMapping.{key}")


def _vector(**protocol: Any) -> Callable[[OddTable], object]:
    """A deletion vector over the row of id 2."""

    def change(table: OddTable) -> None:
        data = portable([1])
        table.protocol = protocol or table.protocol
        table.first["deletionVector"] = {
            "storageType": "i",
            "pathOrInlineDv": encode_z85(data),
            "sizeInBytes": len(data),
            "cardinality": 1,
        }

    return change


def _struct(*fields: Action) -> Action:
    return {"type": "struct", "fields": list(fields)}


HIDDEN = {name: [i for i in ids if i != 2] for name, ids in EVERY_ROW.items()}
NO_PARTITION = EVERY_ROW | {"p = 'x'": [], "p = 'x' AND id > 1": [], "p IS NULL": [1, 2, 3]}
IGNORED = "Spark and deltalake ignore the vector and give the row that it hides"


def _refused(
    name: str, change: Callable[[OddTable], object], spark: str = "refuses", why: str = ""
) -> OddLog:
    return OddLog(name, change, None, spark, why)


CONTRADICTIONS = [
    _refused("partition column in another case", _meta(partitionColumns=["P"])),
    _refused("partition column that is none", _meta(partitionColumns=["q"])),
    _refused("one partition column too many", _meta(partitionColumns=["p", "q"])),
    _refused("partition column twice", _meta(partitionColumns=["p", "p"])),
    _refused("partition column twice, in another case", _meta(partitionColumns=["p", "P"])),
    _refused("partition column without a name", _meta(partitionColumns=[""])),
    _refused("partition columns null", _meta(partitionColumns=None)),
    _refused("partition columns a text", _meta(partitionColumns="p")),
    _refused("partition columns a number", _meta(partitionColumns=[1])),
    _refused("no partition columns", _no_meta("partitionColumns")),
    _refused("partition column below a struct", _meta(partitionColumns=["p.x"])),
    _refused("partition column a struct", _partition_type(_struct(column("x", "long")))),
    _refused(
        "partition column an array",
        _partition_type({"type": "array", "elementType": "string", "containsNull": True}),
    ),
    _refused("column twice", lambda t: t.fields.append(column("s", "string"))),
    _refused("column twice, in another case", lambda t: t.fields.append(column("S", "string"))),
    _refused("partition column twice in the schema", lambda t: t.fields.append(column("P", "string"))),
    _refused(
        "field twice",
        lambda t: t.fields.append(column("n", _struct(column("a", "long"), column("A", "long")))),
    ),
    *(
        _refused(f"schema {text!r}", _meta(schemaString=text))
        for text in ("hello", "", "[]", '{"type":"struct"}', '"long"', '{"type":"struct","fields":{}}')
    ),
    *(
        _refused(f"type {type_!r}", _field("type", type_))
        for type_ in (None, 3, "decimal(39,0)", "decimal(5,9)")
    ),
    _refused("array of nothing", _field("type", {"type": "array"})),
    _refused("field without a name", _no_field("name")),
    _refused("field without a type", _no_field("type")),
    _refused("field without nullable", _no_field("nullable")),
    _refused("nullable a text", _field("nullable", "true")),
    _refused("metadata of a field a list", _field("metadata", [])),
    _refused("metadata of a field null", _field("metadata", None)),
    OddLog("field without metadata", _no_field("metadata")),
    _refused("no format", _no_meta("format")),
    _refused("format null", _meta(format=None)),
    _refused("format a text", _meta(format="parquet")),
    _refused("format without options", _meta(format={"provider": "parquet"})),
    OddLog("format of another provider", _meta(format={"provider": "orc", "options": {}})),
    _refused("no properties", _no_meta("configuration")),
    _refused("properties null", _meta(configuration=None)),
    _refused("properties a list", _meta(configuration=[])),
    OddLog("a property that is a number", _meta(configuration={"a": 1})),
    _refused("no id", _no_meta("id")),
    _refused("an id of null", _meta(id=None)),
    _refused("reader version 0", _protocol(minReaderVersion=0, minWriterVersion=2)),
    _refused("reader version below 0", _protocol(minReaderVersion=-1, minWriterVersion=2)),
    _refused("reader version a text", _protocol(minReaderVersion="1", minWriterVersion="2")),
    _refused("reader version 4", _protocol(minReaderVersion=4, minWriterVersion=7)),
    _refused("writer version 8", _protocol(minReaderVersion=1, minWriterVersion=8)),
    _refused("features without lists", _protocol(**LISTED)),
    _refused("lists of null", _protocol(**LISTED, readerFeatures=None, writerFeatures=None)),
    _refused("no reader features", _protocol(**LISTED, writerFeatures=["appendOnly"])),
    _refused("no writer features", _protocol(**LISTED, readerFeatures=["deletionVectors"])),
    _refused(
        "writer version too low",
        _protocol(minReaderVersion=3, minWriterVersion=6, readerFeatures=["timestampNtz"]),
    ),
    _refused(
        "reader features below version 3",
        _protocol(
            minReaderVersion=2,
            minWriterVersion=7,
            readerFeatures=["timestampNtz"],
            writerFeatures=["timestampNtz"],
        ),
    ),
    _refused(
        "reader features in a protocol without",
        _protocol(minReaderVersion=1, minWriterVersion=2, readerFeatures=["deletionVectors"]),
    ),
    _refused(
        "writer features below version 7",
        _protocol(minReaderVersion=1, minWriterVersion=2, writerFeatures=["appendOnly"]),
    ),
    _refused(
        "empty lists in a protocol without",
        _protocol(minReaderVersion=1, minWriterVersion=2, readerFeatures=[], writerFeatures=[]),
    ),
    _refused("features a text", _protocol(**LISTED, readerFeatures="x", writerFeatures="x")),
    _refused("a feature of null", _protocol(**LISTED, readerFeatures=[None], writerFeatures=[None])),
    _refused(
        "a reader feature that nobody knows", _protocol(**LISTED, readerFeatures=["x"], writerFeatures=["x"])
    ),
    _refused(
        "a reader feature in another case",
        _protocol(**LISTED, readerFeatures=["DeletionVectors"], writerFeatures=["DeletionVectors"]),
    ),
    OddLog("empty lists", _protocol(**LISTED, readerFeatures=[], writerFeatures=[])),
    OddLog(
        "reader feature that writers lack",
        _protocol(**LISTED, readerFeatures=["deletionVectors"], writerFeatures=[]),
    ),
    OddLog(
        "writer feature that readers lack",
        _protocol(**LISTED, readerFeatures=[], writerFeatures=["deletionVectors"]),
    ),
    OddLog(
        "writer feature that nobody knows",
        _protocol(minReaderVersion=1, minWriterVersion=7, writerFeatures=["x"]),
    ),
    OddLog("mapped by name", _mapped()),
    OddLog("mapped by name in another case", _mapped("NAME")),
    OddLog("mapped by a lower protocol", _mapped(minReaderVersion=1, minWriterVersion=2)),
    OddLog("mapped by none", _mapped("none")),
    OddLog("field id below 0", _mapped(change=_id(-2))),
    OddLog("field id twice, mapped by name", _mapped(change=_id(1))),
    _refused("mapped by what nobody knows", _mapped("flux")),
    _refused("mapped by nothing", _mapped("")),
    _refused("mapped without the feature", _mapped(**LISTED, readerFeatures=[], writerFeatures=[])),
    _refused(
        "mapped with the reader's feature alone",
        _mapped(**LISTED, readerFeatures=["columnMapping"], writerFeatures=[]),
    ),
    _refused("mapped by id, files without", _mapped("id")),
    _refused("field id twice, mapped by id", _mapped("id", _id(1))),
    _refused("field id missing", _mapped(change=_bare("id"))),
    _refused("field id a text", _mapped(change=_id("2"))),
    _refused("physical name missing", _mapped(change=_bare("physicalName"))),
    _refused("physical name a number", _mapped(change=_physical(7))),
    _refused("physical name twice", _mapped(change=_physical("id"))),
    _refused("physical name twice, in another case", _mapped(change=_physical("ID"))),
    OddLog("no partition value", _add(partitionValues={}), NO_PARTITION),
    OddLog("partition value in another case", _add(partitionValues={"P": "x"}), NO_PARTITION),
    OddLog("one partition value too many", _add(partitionValues={"p": "x", "q": "1", "id": "9"})),
    OddLog("partition values in two cases", _add(partitionValues={"P": "y", "p": "x"})),
    OddLog(
        "partition value a number",
        _add(partitionValues={"p": 1}),
        EVERY_ROW | {"p = 'x'": [], "p = 'x' AND id > 1": []},
    ),
    _refused("partition values null", _add(partitionValues=None)),
    _refused("no partition values", lambda t: t.first.pop("partitionValues")),
    _refused("partition values a list", _add(partitionValues=["x"])),
    _refused("partition values a text", _add(partitionValues="p=x")),
    OddLog("vector", _vector(**VECTORS), HIDDEN),
    _refused("vector without its feature", _vector(), "differs", IGNORED),
    _refused(
        "vector without its feature among the listed",
        _vector(**LISTED, readerFeatures=[], writerFeatures=[]),
        "differs",
        IGNORED,
    ),
]
