"""Bytes cut, flipped or invented anywhere in a log give a named error or an answer, never anything else."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from support.delta_builder import DeltaBuilder
from support.profiles import examples
from tailbit.errors import SourceError, TailbitError
from tailbit.tables import open_table
from tailbit.tables.delta.deletion_vectors import DeletionVector
from tailbit.tables.delta.log.actions import parse_actions
from tailbit.tables.delta.schema import parse_schema
from tailbit.tables.delta.statistics import DeltaStatistics
from tailbit.tables.model import Column, DataType
from tailbit.tables.partition_values import partition_array
from tailbit.tables.storage import LocalStorage

SCHEMA = pa.schema([("a", pa.int64()), ("p", pa.string())])
EDITS = st.lists(
    st.tuples(st.sampled_from(["cut", "flip", "insert"]), st.floats(0, 1), st.binary(max_size=8)),
    min_size=1,
    max_size=3,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def edited(data: bytes, edits: list[tuple[str, float, bytes]]) -> bytes:
    for kind, where, extra in edits:
        at = int(where * max(len(data) - 1, 0))
        if kind == "cut":
            data = data[:at] + data[at + 1 + len(extra) :]
        elif kind == "insert":
            data = data[:at] + extra + data[at:]
        elif data:
            data = data[:at] + bytes([data[at] ^ (extra[0] if extra else 1)]) + data[at + 1 :]
    return data


def made(path: str) -> DeltaBuilder:
    """A small table with hidden rows and a checkpoint that is needed."""
    builder = DeltaBuilder(path).create(SCHEMA, ["p"], features=["deletionVectors", "v2Checkpoint"])
    rows = pa.table({"a": [1, 2, 3]})
    builder.commit([builder.data_file(rows, f"{i}.parquet", {"p": str(i)}) for i in range(3)])
    builder.commit(builder.hide("0.parquet", builder.inline_vector([1])))
    return builder


def touch_everything(path: str) -> None:
    """Read all that a log can say."""
    table = open_table(path)
    snapshot = table.snapshot()
    assert snapshot.files.table.num_rows == len(snapshot.files)
    column = snapshot.schema.resolve("p") if snapshot.partition_columns == ("p",) else None
    for slice_ in snapshot.files:
        slice_.bounds(snapshot.schema.leaves()[0]) if snapshot.schema.leaves() else None
        if column is not None:
            partition_array(column, slice_.partition.get("p"), 1)
        if slice_.hidden is not None:
            slice_.hidden.read(table.storage)
    table.changes(table.head(), table.head())


@examples(300)
@given(edits=EDITS)
def test_a_damaged_commit_is_named_or_harmless(edits: list[tuple[str, float, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        builder = made(f"{folder}/t")
        file = builder.log / f"{1 + len(edits) % 2:020d}.json"
        file.write_bytes(edited(file.read_bytes(), edits))
        try:
            touch_everything(builder.path)
        except TailbitError:
            return


@examples(300)
@given(edits=EDITS, form=st.sampled_from(["classic", "multipart", "v2-json", "v2-parquet"]))
def test_a_damaged_checkpoint_is_named_or_harmless(edits: list[tuple[str, float, bytes]], form: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        builder = made(f"{folder}/t")
        builder.checkpoint(form, 2)
        (builder.log / f"{0:020d}.json").unlink()
        files = [
            f for f in Path(builder.log).rglob("*") if "checkpoint" in f.name or "_sidecars" in str(f.parent)
        ]
        file = sorted(files)[len(edits) % len(files)]
        file.write_bytes(edited(file.read_bytes(), edits))
        try:
            touch_everything(builder.path)
        except TailbitError:
            return


@examples(300)
@given(
    name=st.sampled_from(["add", "remove", "metaData", "protocol", "sidecar", "commitInfo", "txn"]),
    body=JSON,
    key=st.text(max_size=4),
)
def test_invented_actions_are_named_or_harmless(name: str, body: Any, key: str) -> None:
    import orjson

    fields = {
        "path": "x",
        "size": 1,
        "modificationTime": 1,
        "schemaString": "{}",
        "id": "i",
        "minReaderVersion": 1,
        "minWriterVersion": 1,
    }
    known = [
        "path",
        "size",
        "stats",
        "partitionValues",
        "deletionVector",
        "configuration",
        "readerFeatures",
        "partitionColumns",
    ]
    for field in (*known, key):
        try:
            line = orjson.dumps({name: {**fields, field: body}}, option=orjson.OPT_NON_STR_KEYS)
        except (TypeError, ValueError):
            return
        try:
            parse_actions(line, "test")
        except SourceError:
            continue


@examples(300)
@given(
    text=st.text(max_size=40),
    type_=st.sampled_from(
        ["date", "timestamp", "timestamp_ntz", "double", "decimal", "byte", "boolean", "binary"]
    ),
)
def test_invented_partition_values_are_named_or_typed(text: str, type_: str) -> None:
    data = DataType("decimal", 10, 2) if type_ == "decimal" else DataType(type_)
    try:
        assert len(partition_array(Column(("p",), ("p",), data, partition=True), text, 2)) == 2
    except SourceError:
        return


@examples(300)
@given(body=JSON)
def test_invented_schemas_and_statistics_are_named_or_harmless(body: Any) -> None:
    import orjson

    try:
        text = orjson.dumps(body).decode()
    except (TypeError, ValueError):
        return
    for schema in (text, f'{{"type":"struct","fields":[{{"name":"a","type":{text},"metadata":{text}}}]}}'):
        try:
            parse_schema(schema, (), {}, "test").leaves()
        except SourceError:
            pass
    for type_ in ("long", "double", "date", "string"):
        column = Column(("a",), ("a",), DataType(type_))
        DeltaStatistics(text).bounds(column)
        DeltaStatistics(f'{{"numRecords":{text},"minValues":{{"a":{text}}},"nullCount":{text}}}').bounds(
            column
        )


@examples(300)
@given(
    text=st.text(max_size=60),
    size=st.integers(0, 60),
    kind=st.sampled_from("upi"),
    offset=st.none() | st.integers(0, 9),
)
def test_invented_deletion_vectors_are_named(text: str, size: int, kind: str, offset: int | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            DeletionVector(kind, text, offset, size, 1).read(LocalStorage(folder))
        except TailbitError:
            return
