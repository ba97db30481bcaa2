"""Any values have keys that sort, decode and widen as they do."""

from __future__ import annotations

import functools
import itertools
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tailbit.index.keys import (
    MAX_KEY,
    decode_keys,
    encode_array,
    encode_value,
    key_type_of,
    ordered_int,
    ordered_ints,
    widen_keys,
)
from tailbit.tables.model import DataType

LONGS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1])
DOUBLES = st.floats(width=64) | st.integers(0, 2**64 - 1).map(
    lambda bits: float(struct.unpack("<d", struct.pack("<Q", bits))[0])
)
UNSCALED = st.integers(1 - 10**38, 10**38 - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8) | st.text("xy", min_size=250, max_size=262)


def spark_order(left: float, right: float) -> int:
    """NaN is the greatest and equals itself; zeros are equal."""
    if left != left or right != right:
        return int(left != left) - int(right != right)
    return int(left > right) - int(left < right)


@given(st.lists(DOUBLES, max_size=20))
def test_keys_of_doubles_sort_as_spark_sorts_doubles(values: list[float]) -> None:
    keys = encode_array(pa.array(values, pa.float64()), "double").to_pylist()
    assert keys == [encode_value(v, "double") for v in values]
    by_value = sorted(
        range(len(values)), key=functools.cmp_to_key(lambda a, b: spark_order(values[a], values[b]))
    )
    assert [keys[n] for n in by_value] == sorted(keys)
    for a, one in enumerate(values):
        for b, other in enumerate(values):
            assert (keys[a] == keys[b]) == (spark_order(one, other) == 0)


@given(DOUBLES)
def test_the_ordered_integer_of_a_double_is_that_of_an_array_of_it(value: float) -> None:
    number = ordered_int(value, "double")
    assert ordered_ints(pa.array([value], pa.float64()), "double").tolist() == [number]


@given(st.lists(LONGS | st.none(), max_size=20))
def test_keys_of_longs_sort_and_decode(values: list[int | None]) -> None:
    array = pa.array(values, pa.int64())
    keys = encode_array(array, "integer")
    assert decode_keys(keys, "integer", DataType("long")) == array
    known = sorted(v for v in values if v is not None)
    assert sorted(k for k in keys.to_pylist() if k is not None) == [encode_value(v, "integer") for v in known]


@given(st.lists(UNSCALED | st.none(), max_size=20), st.integers(0, 38))
def test_keys_of_decimals_sort_and_decode(unscaled: list[int | None], scale: int) -> None:
    type_ = DataType("decimal", 38, scale)
    values = [
        None if u is None else Decimal((int(u < 0), tuple(map(int, str(abs(u)))), -scale)) for u in unscaled
    ]
    array = pa.array(values, pa.decimal128(38, scale))
    keys = encode_array(array, key_type_of(type_))
    assert decode_keys(keys, key_type_of(type_), type_) == array
    known = sorted(u for u in unscaled if u is not None)
    found = sorted(k for k in keys.to_pylist() if k is not None)
    assert found == [encode_value(u, key_type_of(type_)) for u in known]


@given(st.lists(TEXTS | st.none(), max_size=12))
def test_keys_of_texts_sort_as_their_bytes_up_to_the_prefix(values: list[str | None]) -> None:
    keys = encode_array(pa.array(values, pa.string()), "string").to_pylist()
    pairs = sorted((v.encode(), k) for v, k in zip(values, keys, strict=True) if v is not None)
    for (one, key), (other, next_key) in itertools.pairwise(pairs):
        if one[:MAX_KEY] != other[:MAX_KEY] or min(len(one), len(other)) <= MAX_KEY:
            assert (key < next_key) == (one < other)
        assert (one == other) <= (key == next_key)


@given(st.lists(st.integers(-(2**31), 2**31 - 1) | st.none(), max_size=20))
def test_widened_keys_are_the_keys_of_widened_values(values: list[int | None]) -> None:
    narrow = pa.array(values, pa.int32())
    wider: list[tuple[str, Any]] = [("double", pa.float64()), ("decimal(5)", pa.decimal128(20, 5))]
    for key_type, arrow in wider:
        widened = narrow.cast(pa.decimal128(20, 0)).cast(arrow) if "dec" in key_type else narrow.cast(arrow)
        keys = widen_keys(encode_array(narrow, "integer"), "integer", key_type)
        assert keys == encode_array(widened, key_type)
