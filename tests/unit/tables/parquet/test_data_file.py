"""Columns of data files in the table's current types."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import VariantVal

from support.delta_builder import delta_type
from support.odd_parquet import COLUMNS, LAYOUTS, ROWS, TABLE
from tailbit.errors import DataFileError, LegacyCalendarError, StorageError, UnsafePathError
from tailbit.tables.delta.schema import parse_schema
from tailbit.tables.model import Column, DataType, FileSlice
from tailbit.tables.parquet.assembly import pick
from tailbit.tables.parquet.data_file import (
    DataFile,
    footer_hash,
    open_data_file,
    open_layout,
    read_columns,
    read_in_batches,
)
from tailbit.tables.parquet.layout import Pages
from tailbit.tables.parquet.rows import fetch
from tailbit.tables.schema import Schema
from tailbit.tables.storage import LocalStorage

UTC = datetime.timezone.utc


def naive(*parts: Any) -> datetime.datetime:
    """A time without a zone."""
    return datetime.datetime(*parts, tzinfo=UTC).replace(tzinfo=None)


def schema_of(types: dict[str, Any], mode: str = "none") -> Schema:
    fields = [
        {
            "name": n,
            "type": t if isinstance(t, (str, dict)) else delta_type(t),
            "nullable": True,
            "metadata": {},
        }
        for n, t in types.items()
    ]
    return parse_schema(json.dumps({"type": "struct", "fields": fields}), (), {}, "test")


def written(folder: Path, table: pa.Table, **options: Any) -> DataFile:
    pq.write_table(table, folder / "x.parquet", **options)
    return open_data_file(LocalStorage(str(folder)), "x.parquet")


def read_column(file: DataFile, column: Column) -> pa.ChunkedArray:
    return read_columns(file, [column])[column.id]


def values(folder: Path, stored: pa.Array, type_: Any, **options: Any) -> list[Any]:
    file = written(folder, pa.table({"a": stored}), **options)
    column = schema_of({"a": type_}).resolve("a")
    found = read_column(file, column)
    assert found.type == schema_of({"a": type_}).arrow()[0].type
    return list(found.to_pylist())


@pytest.mark.parametrize(
    ("stored", "type_", "expected"),
    [
        (pa.array([1, None], pa.int8()), "long", [1, None]),
        (pa.array([-5], pa.int32()), "byte", [-5]),
        (pa.array([1, -2], pa.int32()), "double", [1.0, -2.0]),
        (pa.array([0.1], pa.float32()), "double", [float(np.float32(0.1))]),
        (pa.array([7], pa.int32()), "decimal(12,2)", [Decimal("7.00")]),
        (pa.array([Decimal("1.5")], pa.decimal128(4, 1)), "decimal(12,3)", [Decimal("1.500")]),
        (pa.array([datetime.date(1, 1, 1)]), "timestamp_ntz", [naive(1, 1, 1)]),
        (pa.array(["x"], pa.large_string()), "string", ["x"]),
        (pa.array([b"x"], pa.binary()), "string", ["x"]),
        (pa.array(["x", "x", None]).dictionary_encode(), "string", ["x", "x", None]),
        (pa.array([1], pa.timestamp("ms")), "timestamp", [datetime.datetime(1970, 1, 1, 0, 0, 0, 1000, UTC)]),
        (
            pa.array([1], pa.timestamp("us", "Asia/Tokyo")),
            "timestamp",
            [datetime.datetime(1970, 1, 1, 0, 0, 0, 1, UTC)],
        ),
        (pa.array([None, None], pa.null()), "date", [None, None]),
    ],
)
def test_narrower_and_other_spellings_of_a_type_are_cast(
    tmp_path: Path, stored: pa.Array, type_: str, expected: list[Any]
) -> None:
    assert values(tmp_path, stored, type_) == expected


@pytest.mark.parametrize(
    ("stored", "type_"),
    [
        (pa.array([2**40]), "integer"),
        (pa.array(["1"]), "long"),
        (pa.array([1.5]), "long"),
        (pa.array([1], pa.timestamp("us", "UTC")), "timestamp_ntz"),
        (pa.array([1], pa.int64()), "timestamp"),
        (pa.array([b"\xff"], pa.binary()), "string"),
        (pa.array([{"x": 1}]), "long"),
        (pa.array([1], pa.timestamp("ns")), "timestamp"),
        (pa.array([Decimal("1.55")], pa.decimal128(4, 2)), "decimal(4,1)"),
    ],
)
def test_values_that_are_not_of_the_type_are_refused(tmp_path: Path, stored: pa.Array, type_: str) -> None:
    with pytest.raises(DataFileError, match=r"x\.parquet"):
        values(tmp_path, stored, type_)


def test_a_column_that_the_file_lacks_is_null_in_every_row(tmp_path: Path) -> None:
    file = written(tmp_path, pa.table({"a": [1, 2, 3]}), row_group_size=2)
    schema = schema_of({"a": "long", "b": "string", "s": pa.struct([("x", pa.int64())])})
    found = read_columns(file, [schema.resolve(n) for n in ("b", "a", "s.x")])
    assert found.to_pydict() == {"b": [None] * 3, "a": [1, 2, 3], "s.x": [None] * 3}
    assert read_columns(file, [schema.resolve("b")], row_groups=[1]).num_rows == 1
    assert read_columns(file, [schema.resolve("b")], row_groups=[1])["b"].type == pa.string()


def test_columns_are_found_ignoring_case_and_whatever_their_names(tmp_path: Path) -> None:
    table = pa.table({"A.b": [1], "a": pa.array([{"B": 2}]), "ß %`": [3]})
    file = written(tmp_path, table)
    schema = schema_of({"a.B": "long", "A": pa.struct([("b", pa.int64())]), "ß %`": "long"})
    found = read_columns(file, schema.leaves())
    assert [c[0].as_py() for c in found.columns] == [1, 2, 3]


def test_two_fields_that_a_name_may_mean_are_refused(tmp_path: Path) -> None:
    file = written(tmp_path, pa.table({"a": [1], "A": [2]}))
    with pytest.raises(DataFileError, match="2 fields"):
        read_column(file, schema_of({"a": "long"}).resolve("a"))


def test_a_leaf_below_a_null_struct_is_null(tmp_path: Path) -> None:
    inner = pa.StructArray.from_arrays([pa.array([1, 2, None])], ["x"], mask=pa.array([False, True, False]))
    file = written(tmp_path, pa.table({"s": pa.StructArray.from_arrays([inner], ["t"])}))
    schema = schema_of({"s": pa.struct([("t", pa.struct([("x", pa.int32()), ("y", pa.string())]))])})
    assert read_column(file, schema.resolve("s.t.x")).to_pylist() == [1, None, None]
    whole = [{"t": {"x": 1, "y": None}}, {"t": None}, {"t": {"x": None, "y": None}}]
    with pytest.raises(DataFileError):
        read_column(file, schema_of({"s": pa.struct([("t", pa.struct([("x", pa.string())]))])}).resolve("s"))
    assert (
        read_column(
            file,
            schema_of({"s": pa.struct([("t", pa.struct([("x", pa.int64()), ("y", pa.string())]))])}).resolve(
                "s"
            ),
        ).to_pylist()
        == whole
    )


def test_arrays_and_maps_are_read_as_plain_columns(tmp_path: Path) -> None:
    items = pa.array([[{"x": 1}], None, []], pa.list_(pa.struct([("x", pa.int32())])))
    table = pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int16()))
    file = written(tmp_path, pa.table({"l": items, "m": table}))
    schema = schema_of(
        {
            "l": pa.list_(pa.struct([("x", pa.int64()), ("y", pa.string())])),
            "m": pa.map_(pa.string(), pa.int64()),
        }
    )
    found = read_columns(file, schema.leaves())
    assert found["l"].to_pylist() == [[{"x": 1, "y": None}], None, []]
    assert found["m"].to_pylist() == [[("k", 1)], [], None]
    assert found.schema.types == schema.arrow().types


@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_are_mapped_by_name_or_by_id(tmp_path: Path, mode: str) -> None:
    def field(name: str, physical: str, number: int, type_: Any) -> dict[str, Any]:
        ids = {"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": number}
        return {"name": name, "type": type_, "nullable": True, "metadata": ids}

    inner = {"type": "struct", "fields": [field("city", "col-3", 3, "string")]}
    text = json.dumps(
        {"type": "struct", "fields": [field("a", "col-1", 1, "long"), field("s", "col-2", 2, inner)]}
    )
    schema = parse_schema(text, (), {"delta.columnMapping.mode": mode}, "test")
    ids = [{"PARQUET:field_id": str(n)} for n in (1, 2, 3)]
    nested = pa.field("col-3" if mode == "name" else "z", pa.string(), metadata=ids[2])
    names = ["col-1", "col-2"] if mode == "name" else ["other", "names"]
    fields = [
        pa.field(names[0], pa.int64(), metadata=ids[0]),
        pa.field(names[1], pa.struct([nested]), metadata=ids[1]),
    ]
    rows = pa.Table.from_arrays(
        [pa.array([1, 2]), pa.StructArray.from_arrays([pa.array(["x", "y"])], fields=[nested])],
        schema=pa.schema(fields),
    )
    file = written(tmp_path, rows)
    found = read_columns(file, [*schema.leaves(), schema.resolve("S")])
    assert found["`col-1`"].to_pylist() == [1, 2]
    assert found["`col-2`.`col-3`"].to_pylist() == ["x", "y"]
    assert found["`col-2`"].to_pylist() == [{"city": "x"}, {"city": "y"}]


@pytest.mark.supports("Table features", "columnMapping by id, files without ids", "refused")
def test_a_file_without_ids_in_a_table_mapped_by_id_is_refused(tmp_path: Path) -> None:
    ids = {"delta.columnMapping.physicalName": "a", "delta.columnMapping.id": 1}
    text = json.dumps(
        {"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": True, "metadata": ids}]}
    )
    schema = parse_schema(text, (), {"delta.columnMapping.mode": "id"}, "test")
    with pytest.raises(DataFileError, match="no ids"):
        read_column(written(tmp_path, pa.table({"a": [1]})), schema.columns[0])


def test_int96_timestamps_are_exact_microseconds_outside_1677_to_2262(tmp_path: Path) -> None:
    moments = [
        naive(1, 1, 2, 3, 4, 5, 6),
        naive(9999, 12, 31, 23, 59, 59, 999999),
        None,
    ]
    stored = pa.array(moments, pa.timestamp("us"))
    expected = [m and m.replace(tzinfo=UTC) for m in moments]
    try:
        found = values(tmp_path, stored, "timestamp", use_deprecated_int96_timestamps=True)
    except DataFileError:
        pytest.fail("refused")
    assert found == expected


LEGACY = {
    "marked": {b"org.apache.spark.version": b"3.5.0", b"org.apache.spark.legacyDateTime": b""},
    "old Spark": {b"org.apache.spark.version": b"2.4.8"},
}


@pytest.mark.supports("Files", "dates of Spark's legacy calendar", "refused")
@pytest.mark.parametrize("keys", LEGACY.values(), ids=LEGACY)
@pytest.mark.parametrize(
    ("type_", "good", "bad"),
    [
        (pa.date32(), datetime.date(1582, 10, 15), datetime.date(1582, 10, 4)),
        (pa.timestamp("us", "UTC"), naive(1900, 1, 1), naive(1899, 12, 31)),
    ],
)
def test_the_legacy_calendar_is_refused_where_it_differs(
    tmp_path: Path, keys: dict[bytes, bytes], type_: pa.DataType, good: Any, bad: Any
) -> None:
    column = schema_of({"a": type_, "b": "long"})
    for value, fine in ((good, True), (bad, False)):
        table = pa.table({"a": pa.array([value, None], type_), "b": [1, 2]}).replace_schema_metadata(keys)
        file = written(tmp_path, table)
        assert read_column(file, column.resolve("b")).to_pylist() == [1, 2]
        if fine:
            assert len(read_column(file, column.resolve("a"))) == 2
            continue
        with pytest.raises(LegacyCalendarError, match="column a"):
            read_column(file, column.resolve("a"))


def test_old_dates_of_a_modern_spark_are_read(tmp_path: Path) -> None:
    old = pa.array([datetime.date(1, 1, 1)])
    table = pa.table({"a": old}).replace_schema_metadata({b"org.apache.spark.version": b"4.2.0"})
    assert read_column(written(tmp_path, table), schema_of({"a": "date"}).resolve("a")).to_pylist() == [
        datetime.date(1, 1, 1)
    ]


def test_files_without_rows_or_row_groups_are_empty(tmp_path: Path) -> None:
    schema = schema_of({"a": "long", "b": "string"})
    empty = pa.table({"a": pa.array([], pa.int64())})
    assert read_columns(written(tmp_path, empty), schema.leaves()).num_rows == 0
    with pq.ParquetWriter(tmp_path / "x.parquet", empty.schema):
        pass
    file = open_data_file(LocalStorage(str(tmp_path)), "x.parquet")
    assert file.metadata.num_row_groups == 0
    assert read_columns(file, schema.leaves()).schema.types == schema.arrow().types


def test_a_missing_or_foreign_file_is_named(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    for make in (lambda: open_data_file(storage, "no.parquet"), lambda: footer_hash(storage, "no.parquet")):
        with pytest.raises(DataFileError, match="missing"):
            make()
    (tmp_path / "x.parquet").write_bytes(b"PAR1 and nothing else")
    for make in (lambda: open_data_file(storage, "x.parquet"), lambda: footer_hash(storage, "x.parquet")):
        with pytest.raises(DataFileError, match="Parquet"):
            make()
    written(tmp_path, pa.table({"a": [1]}))
    with pytest.raises(DataFileError, match="the log says 7"):
        open_data_file(storage, "x.parquet", 7)


@pytest.mark.parametrize("codes", [b"\xfa", b"\xff"])
def test_codes_that_a_dictionary_does_not_have_are_named(tmp_path: Path, codes: bytes) -> None:
    rows = pa.table({"a": [f"value {n % 170}" for n in range(400)]})
    pq.write_table(rows, tmp_path / "x.parquet", compression="none")
    chunk = pq.read_metadata(tmp_path / "x.parquet").row_group(0).column(0)
    data = bytearray((tmp_path / "x.parquet").read_bytes())
    end = chunk.dictionary_page_offset + chunk.total_compressed_size
    data[end - 20 : end] = codes * 20
    (tmp_path / "x.parquet").write_bytes(data)
    column = Column(("a",), ("a",), DataType("string"))
    for coded in ([column], []):
        with open_data_file(LocalStorage(str(tmp_path)), "x.parquet", coded=coded) as file:
            with pytest.raises(DataFileError, match="Index not in dictionary bounds"):
                read_columns(file, [column])


def test_the_footer_hash_tells_contents_apart(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    written(tmp_path, pa.table({"a": [1]}))
    one = footer_hash(storage, "x.parquet")
    written(tmp_path, pa.table({"a": [2]}))
    assert one != footer_hash(storage, "x.parquet")
    assert len(one) == 32


def test_paths_that_leave_the_table_are_refused(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path / "t"))
    for path in ("../x.parquet", "a/../../x.parquet", "", "a\0b", "/elsewhere/x.parquet"):
        with pytest.raises(UnsafePathError):
            storage.resolve(path)
    with pytest.raises(StorageError, match="scheme s3"):
        storage.resolve("s3://bucket/x.parquet")
    assert storage.resolve("p=1:2/x y%.parquet") == str(tmp_path / "t" / "p=1:2" / "x y%.parquet")


def test_a_char_column_is_filled_up_as_spark_reads_it(tmp_path: Path) -> None:
    field = {
        "name": "a",
        "type": "string",
        "nullable": True,
        "metadata": {"__CHAR_VARCHAR_TYPE_STRING": "char(4)"},
    }
    schema = parse_schema(json.dumps({"type": "struct", "fields": [field]}), (), {}, "test")
    file = written(tmp_path, pa.table({"a": ["é", "abcd", None]}))
    assert read_column(file, schema.columns[0]).to_pylist() == ["é   ", "abcd", None]


def test_a_variant_is_its_two_parts_whatever_their_order(tmp_path: Path) -> None:
    stored = pa.array([{"value": b"v", "metadata": b"m"}, None])
    expected = [{"metadata": b"m", "value": b"v"}, None]
    assert values(tmp_path, stored, "variant") == expected


@pytest.mark.parametrize("count", [1, 255, 256, 300])
def test_a_shredded_variant_of_any_size_is_put_together_as_spark_reads_it(count: int, tmp_path: Path) -> None:
    names = sorted(f"f{n}" for n in range(300))
    offsets = [0, *accumulate(map(len, names))]
    width = [(300).to_bytes(2, "little"), *(end.to_bytes(2, "little") for end in offsets)]
    metadata = b"\x51" + b"".join(width) + "".join(names).encode()
    fields = {name: {"typed_value": "x" * n} for n, name in enumerate(names[:count])}
    numbers = [{"typed_value": n} for n in range(count)]
    for typed, expected in (
        (fields, {name: field["typed_value"] for name, field in fields.items()}),
        (numbers, [*range(count)]),
    ):
        (read,) = values(tmp_path, pa.array([{"metadata": metadata, "typed_value": typed}]), "variant")
        assert VariantVal(read["value"], read["metadata"]).toPython() == expected


@pytest.mark.parametrize(
    "stored",
    [
        {"value": b"\x00", "metadata": b"\x01\x00\x00", "typed_value": {"a": {"typed_value": 1}}},
        {"value": None, "metadata": b"\x01\x00\x00", "typed_value": {"a": {"typed_value": 1}}},
        {"value": b"\x02\x01\x00", "metadata": b"\x01\x00\x00", "typed_value": {"a": {"typed_value": 1}}},
        {"value": None, "metadata": b"\x01\x05", "typed_value": {"a": {"typed_value": 1}}},
        {"value": None, "metadata": b"", "typed_value": 1},
        {"value": None, "metadata": b"\x01\x00\x00", "typed_value": Decimal("1" * 41)},
        {"value": b"\0", "metadata": None, "typed_value": 1},
        {
            "value": b"\x02\x01\x01\x00\x05\x14",
            "metadata": b"\x01\x02\x00\x01\x02ab",
            "typed_value": {"a": {"typed_value": 1}},
        },
        {"value": None, "metadata": b"\x01\x01\x00\x09a", "typed_value": 1},
    ],
    ids=[
        *("no object", "a name that is not there", "cut short", "a short dictionary", "empty", "a type"),
        *("no dictionary", "a field cut short", "a name cut short"),
    ],
)
def test_a_shredded_variant_that_contradicts_itself_is_named_with_file_and_column(
    stored: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(DataFileError, match=r"x\.parquet.*column a holds a shredded variant"):
        values(tmp_path, pa.array([stored]), "variant")


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_text_is_read_as_codes_where_its_encoding_allows_it(tmp_path: Path, encoding: str) -> None:
    rows = pa.table({"a": ["x", None, "y", "x"]})
    pq.write_table(rows, tmp_path / "f.parquet", use_dictionary=False, column_encoding={"a": encoding})
    column = Column(("a",), ("a",), DataType("string"))
    with open_data_file(LocalStorage(str(tmp_path)), "f.parquet", coded=[column]) as file:
        assert read_columns(file, [column])["a"].cast(pa.string()).to_pylist() == ["x", None, "y", "x"]


def test_int96_times_before_4000_bc_are_refused_at_any_depth(tmp_path: Path) -> None:
    micros = pa.array([0, -(1 << 62)], pa.int64()).cast(pa.timestamp("us"))
    nested = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), micros)
    rows = pa.table({"t": micros, "l": nested})
    pq.write_table(rows, tmp_path / "f.parquet", use_deprecated_int96_timestamps=True, row_group_size=1)
    element = Column(("l", "element"), ("l", "element"), DataType("timestamp"))
    for type_ in (DataType("timestamp"), DataType("array", fields=(element,))):
        name = "t" if type_.name == "timestamp" else "l"
        with open_data_file(LocalStorage(str(tmp_path)), "f.parquet") as file:
            assert read_columns(file, [Column((name,), (name,), type_)], [0]).num_rows == 1
            with pytest.raises(DataFileError, match="INT96"):
                read_columns(file, [Column((name,), (name,), type_)])


K = Column(("k",), ("k",), DataType("long"))


@pytest.fixture
def slice_(tmp_path: Path) -> FileSlice:
    pq.write_table(pa.table({"k": range(100)}), tmp_path / "f.parquet", row_group_size=30)
    size = (tmp_path / "f.parquet").stat().st_size
    return FileSlice("f.parquet", size, 0, None, {"p": "7"})


def at(*positions: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(positions, dtype=np.uint64)


def test_a_file_of_another_size_than_the_log_says_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1]}), tmp_path / "f.parquet")
    with pytest.raises(DataFileError, match="the log says 5"):
        list(fetch(LocalStorage(str(tmp_path)), FileSlice("f.parquet", 5, 0, 1), [K], None))


def test_pages_without_a_wanted_row_are_not_decoded(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    table = pa.table({"k": pa.array(range(1000), pa.int64())})
    pq.write_table(table, path, use_dictionary=False, data_page_size=1, write_batch_size=100)
    storage, slice_ = LocalStorage(str(tmp_path)), FileSlice("f.parquet", path.stat().st_size, 0, 1000)
    column = Column(("k",), ("k",), DataType("long"))
    layout = open_layout(storage, "f.parquet")
    with storage.open(storage.resolve("f.parquet")) as source:
        pages = layout.pages(source, 0, 0)
    assert pages is not None
    assert pages.firsts.tolist() == list(range(0, 1001, 100))
    with path.open("r+b") as damaged:
        damaged.seek(int(pages.ends[4]) - 20)
        damaged.write(b"\xff" * 20)
    rows = list(fetch(storage, slice_, [column], np.array([350, 720], dtype=np.uint64)))
    assert [t.to_pydict() for t in rows] == [{"k": [350, 720]}]
    with pytest.raises(DataFileError):
        list(fetch(storage, slice_, [column], np.array([450], dtype=np.uint64)))


def test_a_file_that_was_replaced_is_read_anew(tmp_path: Path) -> None:
    storage, column = LocalStorage(str(tmp_path)), Column(("k",), ("k",), DataType("long"))
    at = np.array([1], dtype=np.uint64)
    for values in ([1, 2, 3], [4, 5, 6]):
        (tmp_path / "f.parquet").unlink(missing_ok=True)
        pq.write_table(pa.table({"k": values}), tmp_path / "f.parquet")
        slice_ = FileSlice("f.parquet", (tmp_path / "f.parquet").stat().st_size, 0, 3)
        assert [t["k"].to_pylist() for t in fetch(storage, slice_, [column], at)] == [[values[1]]]


def test_pages_are_picked_as_the_example_says() -> None:
    three, none = np.zeros(3, np.int64), np.zeros(3, bool)
    pages = Pages(three, three, np.array([0, 3, 6, 9]), three, none, None, b"")
    numbers, places = pick([pages], [np.array([1, 7])])
    assert [n.tolist() for n in numbers] == [[0, 2]]
    assert places.tolist() == [1, 4]


@pytest.mark.parametrize("rows", [700, ROWS, 2 * ROWS])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches_of_any_layout_are_the_row_group(tmp_path: Path, layout: str, rows: int) -> None:
    pq.write_table(TABLE, tmp_path / "f.parquet", **LAYOUTS[layout])
    file = open_data_file(LocalStorage(str(tmp_path)), "f.parquet", coded=COLUMNS)
    absent = Column(("absent",), ("absent",), DataType("long"))
    for group in range(file.metadata.num_row_groups):
        for column in [*COLUMNS, absent]:
            found = [
                value for part in read_in_batches(file, column, group, rows) for value in part.to_pylist()
            ]
            assert found == read_columns(file, [column], [group])[column.id].to_pylist()


def test_int96_is_read_in_batches_too(tmp_path: Path) -> None:
    times = pa.table({"k": pa.array(range(10), pa.timestamp("us", "UTC"))})
    pq.write_table(times, tmp_path / "f.parquet", use_deprecated_int96_timestamps=True)
    file = open_data_file(LocalStorage(str(tmp_path)), "f.parquet")
    column = Column(("k",), ("k",), DataType("timestamp"))
    assert pa.chunked_array(
        [chunk for part in read_in_batches(file, column, 0, 3) for chunk in part.chunks]
    ).equals(times["k"])


def test_a_damaged_page_is_named_by_its_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": range(5000)}), tmp_path / "f.parquet", compression="zstd")
    chunk = pq.read_metadata(tmp_path / "f.parquet").row_group(0).column(0)
    with (tmp_path / "f.parquet").open("r+b") as damaged:
        damaged.seek(chunk.data_page_offset)
        damaged.write(b"\xff" * 100)
    file = open_data_file(LocalStorage(str(tmp_path)), "f.parquet")
    with pytest.raises(DataFileError, match=r"f\.parquet"):
        list(read_in_batches(file, Column(("k",), ("k",), DataType("long")), 0, 100))
