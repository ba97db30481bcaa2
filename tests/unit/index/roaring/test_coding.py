from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tailbit.index.keys import encode_array
from tailbit.index.roaring import coding as coding_module
from tailbit.index.roaring.coding import CodedColumn, Coding

UTC = datetime.timezone.utc
DAY = datetime.date(2013, 1, 1)
NOON = datetime.datetime(2013, 1, 1, 12, tzinfo=UTC)

PIECES: dict[str, tuple[str, pa.DataType, list[list[Any]]]] = {
    "booleans": ("boolean", pa.bool_(), [[True, None], [False, True]]),
    "bytes": ("integer", pa.int8(), [[-128, 127, None], [0]]),
    "integers in a narrow range": ("integer", pa.int32(), [[5, 7, 5], [9, 7]]),
    "integers in a wide range": ("integer", pa.int64(), [[5, 1 << 30], [None, 7, 1 << 30]]),
    "integers beyond all ranges": ("integer", pa.int64(), [[-(1 << 63), (1 << 63) - 1], [0, -(1 << 63)]]),
    "integers at the upper edge": ("integer", pa.int64(), [[(1 << 63) - 1, None], [(1 << 63) - 2]]),
    "integers, a piece all NULL": ("integer", pa.int32(), [[None, None], [3, 4]]),
    "floats with NaN and both zeros": (
        "double",
        pa.float64(),
        [[0.0, -0.0, math.nan], [None, 1.5, -math.nan]],
    ),
    "narrow floats": ("double", pa.float32(), [[0.1, 2.5], [0.1, None]]),
    "decimals": (
        "decimal(2)",
        pa.decimal128(9, 2),
        [[decimal.Decimal("1.25"), None], [decimal.Decimal("-3.00")]],
    ),
    "wide decimals": (
        "decimal(0)",
        pa.decimal128(38, 0),
        [
            [decimal.Decimal(10**30), decimal.Decimal(-(10**30))],
            [decimal.Decimal(5), decimal.Decimal(-5), None],
        ],
    ),
    "strings": ("string", pa.string(), [["b", "a", None], ["c", "a"]]),
    "long strings": ("string", pa.string(), [["x" * 300, "x" * 301], ["x" * 300, ""]]),
    "binary": ("binary", pa.binary(), [[b"\xff", b""], [b"\x00\x01", None]]),
    "dates": ("date", pa.date32(), [[DAY, None], [DAY + datetime.timedelta(3), DAY]]),
    "timestamps": ("timestamp", pa.timestamp("us", "UTC"), [[NOON], [NOON + datetime.timedelta(0, 1), None]]),
    "nothing but NULL": ("string", pa.string(), [[None], [None, None]]),
    "nothing": ("string", pa.string(), [[]]),
}


def coded(
    key_type: str, type_: pa.DataType, pieces: list[list[Any]], dictionary: bool = False
) -> CodedColumn:
    coding = Coding(type_, key_type)
    at = 0
    for piece in pieces:
        values = pa.array(piece, type_)
        coding.add(at, pa.chunked_array([values.dictionary_encode() if dictionary else values]))
        at += len(piece)
    return coding.finish()


@pytest.fixture(params=["few keys", "many keys"])
def _number(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "many keys":
        monkeypatch.setattr(coding_module, "_MANY_KEYS", 0)


@pytest.mark.usefixtures("_number")
@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("name", PIECES)
def test_the_code_of_a_row_is_the_place_of_its_key(name: str, dictionary: bool) -> None:
    key_type, type_, pieces = PIECES[name]
    column = coded(key_type, type_, pieces, dictionary)
    values = pa.array([value for piece in pieces for value in piece], type_)
    keys = column.keys.to_pylist()
    assert [keys[c] for c in column.codes(0, len(values))] == encode_array(values, key_type).to_pylist()


@pytest.mark.usefixtures("_number")
@pytest.mark.parametrize("name", PIECES)
def test_keys_are_distinct_and_sorted_with_null_first(name: str) -> None:
    keys = coded(*PIECES[name]).keys.to_pylist()
    assert keys == sorted(set(keys), key=lambda key: (key is not None, key or b""))


@pytest.mark.parametrize("piece", [1, 3, 1 << 20])
@pytest.mark.parametrize("width", [0, 8, 16])
def test_keys_that_are_sorted_together_are_coded_as_those_that_are_hashed(
    monkeypatch: pytest.MonkeyPatch, piece: int, width: int
) -> None:
    rng = np.random.default_rng(piece)
    texts = [f"{'x' * (n % 5)}{n}".ljust(width, "_") for n in range(60)]
    pieces = [[texts[n] for n in rng.integers(0, 60, 40).tolist()] for _ in range(4)]
    hashed = coded("string", pa.string(), pieces)
    monkeypatch.setattr(coding_module, "_MANY_KEYS", 0)
    monkeypatch.setattr(coding_module, "_PIECE", piece)
    together = coded("string", pa.string(), pieces)
    assert together.keys.equals(hashed.keys)
    assert together.codes(0, 160).tolist() == hashed.codes(0, 160).tolist()


def test_positions_without_a_row_have_the_code_absent() -> None:
    coding = Coding(pa.int32(), "integer")
    coding.add(6, pa.chunked_array([pa.array([8, 9], pa.int32())]))
    coding.add(1, pa.chunked_array([pa.array([9], pa.int32())]))
    column = coding.finish()
    assert column.codes(0, 9).tolist() == [2, 1, 2, 2, 2, 2, 0, 1, 2]


def test_codes_are_the_same_whatever_range_is_asked() -> None:
    column = coded("integer", pa.int64(), [list(range(0, 900, 3)), [None, 7, 1 << 40]])
    whole = column.codes(0, 303)
    assert np.array_equal(
        np.concatenate([column.codes(0, 10), column.codes(10, 302), column.codes(302, 303)]), whole
    )


def test_a_piece_of_a_longer_array_is_coded_as_itself() -> None:
    values = pa.array([1, 2, None, 4, 5], pa.int64())
    for part in (values[1:4], values.cast(pa.decimal128(20, 0))[1:4], values.dictionary_encode()[1:4]):
        key_type = "decimal(0)" if pa.types.is_decimal(part.type) else "integer"
        coding = Coding(part.type.value_type if pa.types.is_dictionary(part.type) else part.type, key_type)
        coding.add(0, pa.chunked_array([part]))
        column = coding.finish()
        found = [column.keys[int(c)].as_py() for c in column.codes(0, 3)]
        assert found == encode_array(part, key_type).to_pylist()


def test_an_index_of_a_dictionary_entry_that_is_null_is_null() -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", None]))
    coding = Coding(pa.string(), "string")
    coding.add(0, pa.chunked_array([values]))
    column = coding.finish()
    assert [column.keys[int(c)].as_py() for c in column.codes(0, 3)] == [b"a", None, b"a"]
