"""Deletion vectors in every storage type, and every way they can be damaged."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from support.delta_builder import DeltaBuilder
from support.vectors import encode_z85, framed, native, portable
from tailbit.errors import DeletionVectorError
from tailbit.tables import open_table
from tailbit.tables.delta.actions import parse_deletion_vector
from tailbit.tables.delta.deletion_vectors import (
    DeletionVector,
    decode_z85,
    vector_path,
)
from tailbit.tables.delta.statistics import DeltaStatistics
from tailbit.tables.model import Column, DataType
from tailbit.tables.storage import LocalStorage, StorageOptions

ROWS = [0, 3, 4, 70_000, 2**31]


@pytest.fixture
def builder(tmp_path: Path) -> DeltaBuilder:
    return DeltaBuilder(str(tmp_path / "table with space"))


def parsed(descriptor: dict[str, Any]) -> DeletionVector:
    found = parse_deletion_vector(descriptor, "test")
    assert found is not None
    return found


def read(builder: DeltaBuilder, descriptor: dict[str, Any]) -> list[int]:
    storage = LocalStorage(builder.path, StorageOptions.of({"allow_outside": "true"}))
    return list(parsed(descriptor).read(storage))


@pytest.mark.parametrize("payload", [portable, native])
@pytest.mark.parametrize("rows", [[], [7], ROWS, list(range(100_000))], ids=len)
def test_a_vector_in_any_place_and_form_gives_its_rows(
    builder: DeltaBuilder, tmp_path: Path, payload: Any, rows: list[int]
) -> None:
    assert read(builder, builder.inline_vector(rows, payload)) == rows
    for prefix in ("", "ab", "a b%"):
        other, stored = builder.stored_vectors([1], rows, prefix=prefix, payload=payload)
        assert read(builder, stored) == rows
        assert read(builder, other) == [1]
    (absolute,) = builder.stored_vectors(rows, absolute=str(tmp_path / "else where%"), payload=payload)
    assert read(builder, absolute) == rows


def test_the_example_of_the_protocol_names_its_file() -> None:
    vector = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 4, 40, 6)
    assert vector_path(vector) == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


def test_an_inline_vector_is_read_as_written_elsewhere(builder: DeltaBuilder) -> None:
    text = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
    vector = DeletionVector("i", text, None, 44, 6)
    assert list(vector.read(LocalStorage(builder.path))) == [3, 4, 7, 11, 18, 29]


def test_an_absent_offset_means_the_start_of_the_file(builder: DeltaBuilder) -> None:
    (stored,) = builder.stored_vectors([5])
    file = next(Path(builder.path).glob("deletion_vector_*.bin"))
    file.write_bytes(framed(portable([5])))
    del stored["offset"]
    assert read(builder, stored) == [5]


def _flip(at: int) -> Any:
    def change(data: bytes) -> bytes:
        out = bytearray(data)
        out[at] ^= 0x40
        return bytes(out)

    return change


DAMAGE = {
    "cut": lambda data: data[:-3],
    "empty": lambda data: b"",
    "other format version": _flip(0),
    "other length": _flip(4),
    "flipped payload": _flip(12),
    "flipped CRC": _flip(-1),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_vector_file_is_named(builder: DeltaBuilder, kind: str) -> None:
    (stored,) = builder.stored_vectors(ROWS)
    file = next(Path(builder.path).glob("deletion_vector_*.bin"))
    file.write_bytes(DAMAGE[kind](file.read_bytes()))
    with pytest.raises(DeletionVectorError, match="at offset 1"):
        read(builder, stored)


def test_a_missing_vector_file_is_named(builder: DeltaBuilder) -> None:
    (stored,) = builder.stored_vectors(ROWS)
    next(Path(builder.path).glob("deletion_vector_*.bin")).unlink()
    with pytest.raises(DeletionVectorError, match="missing"):
        read(builder, stored)


def test_another_cardinality_than_the_log_says_is_refused(builder: DeltaBuilder) -> None:
    descriptor = builder.inline_vector(ROWS) | {"cardinality": 4}
    with pytest.raises(DeletionVectorError, match="hides 5 rows, the log says 4"):
        read(builder, descriptor)


@pytest.mark.parametrize(
    "change",
    [
        {"path_or_inline": "abc"},
        {"path_or_inline": "é" * 5},
        {"path_or_inline": "~~~~~"},
        {"path_or_inline": "#####"},
        {"path_or_inline": ""},
        {"size": 400},
        {"size": 6},
        {"size": 0},
    ],
)
def test_a_damaged_inline_vector_is_named(builder: DeltaBuilder, change: dict[str, Any]) -> None:
    vector = dataclasses.replace(parsed(builder.inline_vector(ROWS)), **change)
    with pytest.raises(DeletionVectorError, match="inline"):
        vector.read(LocalStorage(builder.path))


def test_rows_beyond_32_bits_are_refused(builder: DeltaBuilder) -> None:
    with pytest.raises(DeletionVectorError, match="32 bits"):
        read(builder, builder.inline_vector([1, 2**32]))


def test_an_unknown_magic_number_is_refused(builder: DeltaBuilder) -> None:
    def other(rows: Iterable[int]) -> bytes:
        return b"\1\2\3\4" + portable(rows)[4:]

    with pytest.raises(DeletionVectorError, match="magic"):
        read(builder, builder.inline_vector([1], other))


def test_every_cut_and_flip_of_a_payload_is_named_or_harmless(builder: DeltaBuilder) -> None:
    storage = LocalStorage(builder.path)
    for payload in (portable(ROWS), native(ROWS)):
        for at in range(len(payload)):
            for data in (payload[:at], _flip(at)(payload)):
                text, size = encode_z85(data), len(data)
                try:
                    found = DeletionVector("i", text, None, size, len(ROWS)).read(storage)
                except DeletionVectorError:
                    continue
                assert len(found) == len(ROWS)


def test_z85_text_round_trips_through_the_alphabet() -> None:
    assert decode_z85("HelloWorld") == bytes.fromhex("864fd26fb559f75b")


def test_vectors_that_grow_shrink_and_disappear_are_read_at_each_version(builder: DeltaBuilder) -> None:
    table = pa.table({"a": list(range(10))})
    builder.create(table.schema, features=["deletionVectors"])
    builder.commit([builder.data_file(table, "x.parquet")])
    for rows in ([1], [1, 2], list(range(10)), [2]):
        builder.commit(builder.hide("x.parquet", builder.stored_vectors(rows)[0]))
    builder.commit(builder.hide("x.parquet", None))
    source = open_table(builder.path)
    found = []
    for version in range(1, 7):
        hidden = source.snapshot(version).files[0].hidden
        found.append([] if hidden is None else list(hidden.read(source.storage)))
    assert found == [[], [1], [1, 2], list(range(10)), [2], []]


def bounds(type_: str, low: Any, high: Any, **more: Any) -> Any:
    data = DataType("decimal", 38, 2) if type_ == "decimal" else DataType(type_)
    stats = {
        "numRecords": 5,
        "minValues": {"c": low},
        "maxValues": {"c": high},
        "nullCount": {"c": 1},
        **more,
    }
    return DeltaStatistics(json.dumps(stats)).bounds(Column(("C",), ("c",), data))


def test_bounds_come_in_canonical_values() -> None:
    assert bounds("long", -1, 2**62)[:2] == (-1, 2**62)
    assert bounds("string", "a", "é")[:2] == ("a", "é")
    assert bounds("date", "1970-01-02", "9999-12-31")[:2] == (1, 2_932_896)
    assert bounds("long", 1, 2) == (1, 2, 1, 5)


def test_a_maximum_cut_to_milliseconds_still_bounds() -> None:
    low, high, *_ = bounds("timestamp", "1970-01-01T00:00:00.001Z", "1970-01-01T01:00:00.001+01:00")
    assert (low, high) == (1000, 1999)
    assert bounds("timestamp_ntz", "1970-01-01T00:00:00", "1970-01-01T00:00:01")[:2] == (0, 1_000_999)


def test_a_short_decimal_keeps_its_digits() -> None:
    type_ = DataType("decimal", 15, 2)
    stats = DeltaStatistics('{"minValues":{"c":-1.25},"maxValues":{"c":9999999999999.99}}')
    found = stats.bounds(Column(("c",), ("c",), type_))
    assert found is not None
    assert found[:2] == (Decimal("-1.25"), Decimal("9999999999999.99"))


def test_a_decimal_beyond_longs_as_deltalake_writes_it_excludes_nothing(tmp_path: Path) -> None:
    """deltalake writes the largest long in place of a decimal that is larger."""
    big = Decimal(12345678901234567890123456789012345678)
    values = pa.array([big, -big], pa.decimal128(38, 0))
    write_deltalake(str(tmp_path), pa.table({"d": values}))
    [file] = open_table(str(tmp_path)).snapshot().files
    found = file.bounds(Column(("d",), ("d",), DataType("decimal", 38, 0)))
    assert found is None or (found.min, found.max) == (None, None)


def test_half_a_surrogate_pair_is_no_bound() -> None:
    found = bounds("string", "a\ud800", "b\ud800")
    assert (found.min, found.max) == (None, None)


@pytest.mark.parametrize(
    "text", ["-99999999999999999999.999999999999999999", "12345678901234567.12345", "0.1"]
)
def test_a_decimal_written_as_a_double_still_bounds(text: str) -> None:
    """deltalake writes -9.999999999999998e+19 for the first of them."""
    for shown in (
        text,
        str(float(text)),
        str(np.nextafter(float(text), 0)),
        str(np.nextafter(float(text), 1e300)),
    ):
        low, high, *_ = bounds("decimal", json.loads(shown), json.loads(shown))
        assert low <= Decimal(text) <= high


@pytest.mark.parametrize("value", [0.7, 0.1, -0.3, 1e-40])
def test_a_float_minimum_is_at_most_the_stored_value(value: float) -> None:
    for type_ in ("float", "double"):
        low, high, *_ = bounds(type_, value, value)
        assert low <= float(np.float32(value))
        assert low <= value
        assert high is None


def test_nan_is_no_bound() -> None:
    assert bounds("double", "NaN", "NaN")[:2] == (None, None)


def test_null_counts_of_wide_bounds_count_only_where_they_must_be_right() -> None:
    assert bounds("long", 1, 2, tightBounds=False).null_count is None
    assert bounds("long", None, None, tightBounds=False, nullCount={"c": 5}).null_count == 5
    assert bounds("long", 1, 2, tightBounds=False, nullCount={"c": 0}).null_count == 0


@pytest.mark.parametrize("value", ["x", None, True, [1], {"a": 1}, 1.5])
def test_a_statistic_of_another_type_says_nothing(value: Any) -> None:
    assert bounds("long", value, value)[:2] == (None, None)
    assert bounds("date", value, value)[:2] == (None, None)


def test_nested_columns_and_absent_statistics() -> None:
    column = Column(("s", "x"), ("s", "x"), DataType("long"))
    assert DeltaStatistics('{"minValues":{"s":{"x":3}}}').bounds(column) == (3, None, None, None)
    assert DeltaStatistics('{"minValues":{"s":7}}').bounds(column) is None
    assert DeltaStatistics("[]").bounds(column) is None
    assert DeltaStatistics("{").bounds(column) is None
