"""An index on the elements of an array: each row stands in the posting of each of its distinct elements."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyroaring import BitMap

import tailbit
from support.built import Built
from support.delta_builder import DeltaBuilder, field_json
from support.drive import Drive
from support.tables import tamper
from tailbit.errors import ColumnTypeError, IndexFormatError
from tailbit.index.kinds.settings import (
    ARRAY_FORMAT,
    FORMAT,
    NEWEST_FORMAT,
    settings_from_arrow,
    settings_to_arrow,
)
from tailbit.index.model import Settings
from tailbit.index.store.table import MetadataTable
from tailbit.tables.parquet.data_file import open_data_file
from tailbit.tables.storage import LocalStorage

TAGS = pa.list_(pa.string())
SCHEMA = pa.schema([("k", pa.int64()), ("tags", TAGS)])
ROWS: list[list[str | None] | None] = [
    ["a", "b", "a"], None, [], [None, "a"], ["c"], [None], ["b", None], ["x" * 300], ["x" * 300 + "y", "a"]
]  # fmt: skip


def rows(first: int, count: int = 27) -> pa.Table:
    keys = range(first, first + count)
    return pa.table({"k": pa.array(keys), "tags": pa.array([ROWS[k % len(ROWS)] for k in keys], TAGS)})


@pytest.fixture
def table(tmp_path: Path) -> DeltaBuilder:
    return DeltaBuilder(str(tmp_path / "t")).create(SCHEMA, features=["deletionVectors"])


@pytest.fixture
def built(table: DeltaBuilder, tmp_path: Path) -> Built:
    """Three files indexed: a, b and c."""
    table.commit([table.data_file(rows(at * 27), name) for at, name in enumerate(("a", "b", "c"))])
    built = Built(table.path, str(tmp_path / "i"), ["k", "tags"])
    built.run()
    return built


def hide(table: DeltaBuilder, path: str, hidden: Iterable[int]) -> None:
    (vector,) = table.stored_vectors(hidden)
    table.commit(table.hide(path, vector))


def test_a_row_stands_once_in_the_posting_of_each_of_its_distinct_elements(built: Built) -> None:
    built.check()
    keys = {key for _, column, key in built.found().postings if column == "tags"}
    long = {key for key in keys if key is not None and len(key) > 256}
    assert keys - long == {None, b"\x00", b"\x01", b"\x02a", b"\x02b", b"\x02c"}
    assert len(long) == 2


def test_rows_that_are_hidden_and_come_back_are_counted_once_for_each_element(
    built: Built, table: DeltaBuilder
) -> None:
    for hidden in ([0, 1, 2, 8], [0, 3, 26], []):
        if hidden:
            hide(table, "a", hidden)
        else:
            table.commit(table.hide("a", None))
        built.run()
        built.check()


def test_files_that_leave_take_back_what_they_counted(built: Built, table: DeltaBuilder) -> None:
    hide(table, "b", [4, 5])
    built.run()
    table.commit([table.remove("a"), table.remove("b")])
    built.run()
    built.check()


def test_rows_of_a_file_that_is_gone_are_taken_back_by_the_postings(
    built: Built, table: DeltaBuilder
) -> None:
    hide(table, "a", [0, 1, 2, 3])
    built.run()
    table.commit([table.remove("a"), table.remove("b")])
    for path in ("a", "b"):
        (Path(table.path) / path).unlink()
    built.run()
    built.check()


DAY, MOMENT = datetime.date(2020, 2, 29), datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
TYPES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [1, -128]),
    (pa.int64(), [2**62, -1]),
    (pa.float64(), [0.5, float("nan"), -0.0, 0.0]),
    (pa.float32(), [0.5, float("inf")]),
    (pa.bool_(), [True, False]),
    (pa.binary(), [b"", b"\xff", b"x" * 300]),
    (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-99.99")]),
    (pa.decimal128(38, 3), [Decimal(10) ** 34, Decimal("-0.001")]),
    (pa.date32(), [DAY]),
    (pa.timestamp("us", "UTC"), [MOMENT]),
    (pa.timestamp("us"), [MOMENT.replace(tzinfo=None)]),
    (pa.string(), ["", "a", "𝄞"]),
]


@pytest.mark.parametrize(("type_", "values"), TYPES, ids=[str(type_) for type_, _ in TYPES])
def test_elements_of_every_type_that_has_keys_are_indexed(
    tmp_path: Path, type_: pa.DataType, values: list[Any]
) -> None:
    arrays = [[], None, [None], values, values[:1] * 2, [*values, None]]
    inside = pa.struct([("arrays", pa.list_(type_))])
    made = pa.table(
        {"a": pa.array(arrays, pa.list_(type_)), "s": pa.array([{"arrays": a} for a in arrays], inside)}
    )
    table = DeltaBuilder(str(tmp_path / "t")).create(made.schema, features=["timestampNtz"])
    table.commit([table.data_file(made, "f")])
    built = Built(table.path, str(tmp_path / "i"), ["a", "s.arrays"])
    built.run()
    built.check()


@pytest.mark.parametrize(
    "field",
    [
        field_json(pa.field("a", pa.list_(TAGS))),
        field_json(pa.field("a", pa.list_(pa.struct([("x", pa.int32())])))),
        field_json(pa.field("a", TAGS), __CHAR_VARCHAR_TYPE_STRING="array<char(3)>"),
        field_json(pa.field("a", TAGS), __COLLATIONS={"a.element": "spark.UTF8_LCASE"}),
        field_json(pa.field("a", pa.map_(pa.string(), pa.string()))),
    ],
    ids=["array of arrays", "array of structs", "array of CHAR", "array with a collation", "map"],
)
def test_elements_without_keys_in_byte_order_are_refused_by_name(
    tmp_path: Path, field: dict[str, Any]
) -> None:
    table = DeltaBuilder(str(tmp_path / "t")).create(SCHEMA)
    schema = {"type": "struct", "fields": [field]}
    table.commit([{"metaData": table.metadata_action(schema, (), {}, "another")}])
    with pytest.raises(ColumnTypeError, match="column a is of type"):
        Drive(table.path, tmp_path / "i", ["a"])


def test_an_array_of_varchar_is_indexed(tmp_path: Path) -> None:
    table = DeltaBuilder(str(tmp_path / "t")).create(SCHEMA)
    field = field_json(pa.field("tags", TAGS), __CHAR_VARCHAR_TYPE_STRING="array<varchar(3)>")
    table.commit(
        [{"metaData": table.metadata_action({"type": "struct", "fields": [field]}, (), {}, "other")}]
    )
    table.commit([table.data_file(rows(0).select(["tags"]), "f")])
    built = Built(table.path, str(tmp_path / "i"), ["tags"])
    built.run()
    built.check()


@pytest.fixture
def indexed(tmp_path: Path) -> str:
    """A table of two files with an index on both columns."""
    path = str(tmp_path / "t")
    for at in range(2):
        write_deltalake(path, rows(27 * at), mode="append")
    Drive(path, f"{path}/_tailbit", ["k", "tags"]).drain()
    return path


def test_null_arrays_are_found_by_the_index_alone(indexed: str) -> None:
    table = tailbit.open(indexed)
    for text, expected in (("tags IS NULL", 6), ("tags IS NOT NULL", 48), ("tags IS NULL AND k < 27", 3)):
        answer = table.where(text)
        assert (answer.count(), answer.files_scanned) == (expected, 0)


@pytest.mark.parametrize("key", [b"\x02a", b"\x00", b"\x01", None])
def test_verify_finds_a_bit_that_is_flipped_in_the_posting_of_an_element(
    indexed: str, key: bytes | None
) -> None:
    assert tailbit.open(indexed).verify(derive=10).problems == []

    def flipped(column: str, its: bytes | None, bits: BitMap) -> BitMap:
        return bits ^ BitMap([bits.min()]) if (column, its) == ("tags", key) else bits

    tamper(indexed, flipped)
    assert tailbit.open(indexed).verify(samples=0).problems
    assert tailbit.open(indexed).verify(samples=0, derive=10).problems


def test_what_verify_finds_in_the_postings_of_elements_is_repaired(indexed: str) -> None:
    tamper(indexed, lambda column, key, bits: bits - BitMap([bits.min()]) if column == "tags" else bits)
    assert tailbit.open(indexed).verify().problems
    tailbit.open(indexed).repair()
    Drive(indexed, f"{indexed}/_tailbit").drain()
    assert tailbit.open(indexed).verify(derive=10).problems == []


def test_segments_of_elements_are_merged(indexed: str) -> None:
    for at in range(2, 12):
        write_deltalake(indexed, rows(27 * at), mode="append")
        Drive(indexed, f"{indexed}/_tailbit").drain()
    tailbit.open(indexed).compact()
    index = MetadataTable.open(f"{indexed}/_tailbit")
    assert len({record.space for record in index.state.recorded.live()}) == 1
    assert tailbit.open(indexed).verify(derive=50).problems == []
    assert tailbit.open(indexed).where("tags IS NULL").count() == 36


def formats(path: str) -> int:
    return MetadataTable.open(f"{path}/_tailbit").state.settings.format


def test_an_index_has_the_newer_format_from_its_first_array_on_and_no_sooner(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, rows(0))
    Drive(path, f"{path}/_tailbit", ["k"]).drain()
    assert formats(path) == FORMAT == 3
    tailbit.open(path).alter(add=["tags"])
    Drive(path, f"{path}/_tailbit").drain()
    assert formats(path) == ARRAY_FORMAT == 4
    assert tailbit.open(path).verify(derive=10).problems == []
    tailbit.open(path).alter(drop=["tags"])
    assert formats(path) == ARRAY_FORMAT
    assert tailbit.open(path).where("tags IS NULL").count() == 3


def test_what_knows_no_format_but_the_plain_one_refuses_arrays_by_their_number() -> None:
    record = settings_to_arrow(Settings(1, "x", NEWEST_FORMAT + 1, ()), 0)
    with pytest.raises(IndexFormatError, match=f"has format {NEWEST_FORMAT + 1}"):
        settings_from_arrow(record, "x")
    assert (
        settings_from_arrow(settings_to_arrow(replace(Settings(1, "x", 3, ()), format=4), 0), "x")[0].format
        == 4
    )


def test_elements_whose_type_is_widened_keep_their_postings(tmp_path: Path) -> None:
    narrow, wide = pa.list_(pa.int32()), pa.list_(pa.float64())
    table = DeltaBuilder(str(tmp_path / "t")).create(
        pa.schema([("a", narrow)]), features=["typeWidening", "deletionVectors"]
    )
    table.commit([table.data_file(pa.table({"a": pa.array([[1, 2, None], [], None, [2]], narrow)}), "f")])
    index = f"{table.path}/_tailbit"
    Drive(table.path, index, ["a"]).drain()
    schema = {"type": "struct", "fields": [field_json(pa.field("a", wide))]}
    table.commit([{"metaData": table.metadata_action(schema, (), {}, table.metadata["id"])}])
    table.commit([table.data_file(pa.table({"a": pa.array([[1.0, 0.5], [None]], wide)}), "g")])
    Drive(table.path, index).drain()
    hide(table, "f", [0])
    Drive(table.path, index).drain()
    assert tailbit.open(table.path).verify(derive=10).problems == []
    tailbit.open(table.path).compact()
    assert tailbit.open(table.path).verify(derive=10).problems == []
    counts = MetadataTable.open(index).state.value_counts("a", "elements(double)")
    assert sum(counts[1].tolist()) == 6


def test_a_row_group_of_many_elements_is_decoded_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    table = DeltaBuilder(str(path)).create(SCHEMA)
    many = pa.table({"k": range(3000), "tags": pa.array([[str(k % 7)] * 40 for k in range(3000)], TAGS)})
    table.commit([table.data_file(many, "f")])
    file = open_data_file(LocalStorage(table.path), "f")
    assert pq.ParquetFile(path / "f").metadata.row_group(0).column(1).num_values == 120_000
    assert file.metadata.num_rows == 3000
    monkeypatch.setattr("tailbit.index.write.posting._ROWS_AT_ONCE", 10_000)
    monkeypatch.setattr("tailbit.index.write.posting._LARGEST_GROUP", 20_000)
    built = Built(table.path, str(tmp_path / "i"), ["tags"])
    built.run()
    built.check()
