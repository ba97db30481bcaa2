"""Keys: canonical, order-preserving bytes."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tailbit.errors import ColumnTypeError
from tailbit.index.keys import (
    MAX_KEY,
    TRUNCATED_KEY,
    decode_keys,
    encode_array,
    encode_value,
    is_truncated,
    key_type_of,
    widen_keys,
    widest,
)
from tailbit.tables.model import DataType

UTC = datetime.timezone.utc

ASCENDING: list[tuple[DataType, pa.DataType, list[Any]]] = [
    (DataType("boolean"), pa.bool_(), [False, True]),
    (DataType("byte"), pa.int8(), [-128, -1, 0, 1, 127]),
    (DataType("long"), pa.int64(), [-(2**63), -256, -1, 0, 1, 255, 256, 2**63 - 1]),
    (DataType("float"), pa.float32(), [-math.inf, -1.5, 0.0, 1e-45, 1.5, math.inf, math.nan]),
    (DataType("double"), pa.float64(), [-math.inf, -1e300, -5e-324, 0.0, 5e-324, 0.1, math.inf, math.nan]),
    (
        DataType("decimal", 38, 2),
        pa.decimal128(38, 2),
        [
            Decimal(t)
            for t in ("-" + "9" * 36 + ".99", "-2.56", "-0.01", "0.00", "0.01", "2.56", "9" * 36 + ".99")
        ],
    ),
    (DataType("string"), pa.string(), ["", "\0", "A", "a", "a\0", "ab", "ä", "\uffff", "𝄞"]),
    (DataType("binary"), pa.binary(), [b"", b"\0", b"\x7f", b"\x80", b"\xff", b"\xff\xff"]),
    (
        DataType("date"),
        pa.date32(),
        [datetime.date(1, 1, 1), datetime.date(1582, 10, 10), datetime.date(1970, 1, 1), datetime.date.max],
    ),
    (
        DataType("timestamp"),
        pa.timestamp("us", "UTC"),
        [
            datetime.datetime(y, 1, 1, 0, 0, 0, u, UTC)
            for y, u in ((1, 0), (1969, 999999), (1970, 0), (9999, 1))
        ],
    ),
    (
        DataType("timestamp_ntz"),
        pa.timestamp("us"),
        [
            datetime.datetime.fromisoformat(t)
            for t in ("0001-01-01", "1970-01-01", "9999-12-31T23:59:59.999999")
        ],
    ),
]
EDGES = pytest.mark.parametrize(("type_", "arrow", "values"), ASCENDING, ids=lambda v: str(v)[:20])


def same(left: list[Any], right: list[Any]) -> bool:
    return repr(left) == repr(right)


@EDGES
def test_keys_sort_as_spark_sorts_the_values(type_: DataType, arrow: pa.DataType, values: list[Any]) -> None:
    keys = encode_array(pa.array(values, arrow), key_type_of(type_)).to_pylist()
    assert keys == sorted(keys)
    assert len(set(keys)) == len(values)


@EDGES
def test_keys_decode_to_the_values_and_null_stays_null(
    type_: DataType, arrow: pa.DataType, values: list[Any]
) -> None:
    whole = pa.array([None, *values, None], arrow)
    for array in (whole, whole.slice(1), whole.slice(2, 1), whole.slice(0, 0)):
        keys = encode_array(array, key_type_of(type_))
        keys.validate(full=True)
        for part, expected in ((keys, array), (keys.slice(1), array.slice(1))):
            decoded = decode_keys(part, key_type_of(type_), type_)
            decoded.validate(full=True)
            assert decoded.type == arrow
            assert same(decoded.to_pylist(), expected.to_pylist())


@EDGES
def test_dictionaries_and_chunks_have_the_keys_of_plain_arrays(
    type_: DataType, arrow: pa.DataType, values: list[Any]
) -> None:
    plain = pa.array([*values, None, *values], arrow)
    keys = encode_array(plain, key_type_of(type_))
    assert encode_array(pa.chunked_array([plain.slice(0, 2), plain.slice(2)]), key_type_of(type_)) == keys
    assert encode_array(pa.chunked_array([], arrow), key_type_of(type_)).to_pylist() == []
    if not pa.types.is_boolean(arrow):
        assert encode_array(plain.dictionary_encode(), key_type_of(type_)) == keys


@pytest.mark.parametrize(
    ("value", "array", "key_type"),
    [
        (True, pa.array([True]), "boolean"),
        (-(2**63), pa.array([-(2**63)]), "integer"),
        (0.1, pa.array([0.1]), "double"),
        (-150, pa.array([Decimal("-1.50")], pa.decimal128(5, 2)), "decimal(2)"),
        (-1, pa.array([datetime.date(1969, 12, 31)]), "date"),
        (1, pa.array([1], pa.timestamp("us", "UTC")), "timestamp"),
        (1, pa.array([1], pa.timestamp("us")), "timestamp_ntz"),
        (b"a", pa.array(["a"]), "string"),
        (b"y" * 257, pa.array(["y" * 257]), "string"),
        (b"\xff", pa.array([b"\xff"]), "binary"),
    ],
)
def test_one_value_has_the_key_of_an_array_of_it(value: Any, array: pa.Array, key_type: str) -> None:
    assert encode_array(array, key_type).to_pylist() == [encode_value(value, key_type)]


def test_a_long_value_keeps_its_prefix_and_equal_values_have_equal_keys() -> None:
    prefix = "ä" * 128
    texts = [prefix, prefix + "a", prefix + "b", None, "x" * 1_000_000, prefix + "a"]
    keys = encode_array(pa.array(texts), "string").to_pylist()
    assert [k and len(k) for k in keys] == [
        MAX_KEY,
        TRUNCATED_KEY,
        TRUNCATED_KEY,
        None,
        TRUNCATED_KEY,
        TRUNCATED_KEY,
    ]
    assert keys[1] == keys[5] != keys[2]
    assert keys[0] < min(keys[1], keys[2])
    assert [is_truncated(k) for k in keys] == [False, True, True, False, True, True]
    with pytest.raises(ValueError, match="truncated"):
        decode_keys(encode_array(pa.array(texts), "string"), "string", DataType("string"))


@pytest.mark.parametrize(
    ("narrow", "narrow_type", "wide", "wide_type"),
    [
        (pa.array([1, None, -7], pa.int32()), "integer", pa.array([1.0, None, -7.0]), "double"),
        (
            pa.array([1, None, -(2**63)]),
            "integer",
            pa.array([Decimal(1), None, Decimal(-(2**63))], pa.decimal128(38, 3)),
            "decimal(3)",
        ),
        (
            pa.array([Decimal("1.5"), None, Decimal("-9.9")], pa.decimal128(2, 1)),
            "decimal(1)",
            pa.array([Decimal("1.5"), None, Decimal("-9.9")], pa.decimal128(12, 6)),
            "decimal(6)",
        ),
        (
            pa.array([0, None, -1], pa.date32()),
            "date",
            pa.array([0, None, -86_400_000_000], pa.timestamp("us")),
            "timestamp_ntz",
        ),
        (pa.array(["a", None]), "string", pa.array(["a", None]), "string"),
    ],
)
def test_keys_widen_to_those_of_the_widened_values(
    narrow: pa.Array, narrow_type: str, wide: pa.Array, wide_type: str
) -> None:
    assert widen_keys(encode_array(narrow, narrow_type), narrow_type, wide_type) == encode_array(
        wide, wide_type
    )


@pytest.mark.parametrize(
    ("value", "narrow_type", "wide_type"),
    [
        (pa.array([Decimal(10**35)], pa.decimal128(38, 2)), "decimal(2)", "decimal(5)"),
        (pa.array([10**18], pa.int64()), "integer", "decimal(30)"),
        (pa.array([200_000_000], pa.int32()).cast(pa.date32()), "date", "timestamp_ntz"),
    ],
)
def test_a_value_beyond_the_wider_type_is_refused(value: pa.Array, narrow_type: str, wide_type: str) -> None:
    with pytest.raises(ColumnTypeError, match="is beyond it"):
        widen_keys(encode_array(value, narrow_type), narrow_type, wide_type)


def test_keys_never_narrow() -> None:
    with pytest.raises(ColumnTypeError, match="do not widen"):
        widen_keys(pa.array([], pa.binary()), "double", "integer")


@pytest.mark.parametrize(
    "name", ["struct", "array", "map", "variant", "void", "string collate UNICODE", "interval"]
)
def test_a_type_without_an_order_of_bytes_has_no_key(name: str) -> None:
    with pytest.raises(ColumnTypeError, match="plain values"):
        key_type_of(DataType(name))


@pytest.mark.parametrize(
    ("types", "wide"),
    [
        (["integer"], "integer"),
        (["integer", "decimal(2)", "decimal(5)"], "decimal(5)"),
        (["double", "integer"], "double"),
        (["date", "timestamp_ntz"], "timestamp_ntz"),
        (["double", "decimal(2)", "integer"], None),
        (["string", "integer"], None),
    ],
)
def test_the_widest_key_type_is_the_one_that_all_others_widen_to(types: list[str], wide: str | None) -> None:
    assert widest(types) == wide
