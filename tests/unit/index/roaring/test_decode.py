"""Serialized bitmaps become the codes that their positions have, or are refused."""

from __future__ import annotations

import datetime
import decimal
import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from tailbit.index.keys import encode_array
from tailbit.index.roaring import coding as coding_module
from tailbit.index.roaring.coding import CodedColumn, Coding
from tailbit.index.roaring.decode import place_codes, positions_of

ROWS = 3 * 65536 + 1000


def shared_out(rng: random.Random, rows: int) -> list[BitMap]:
    """Disjoint bitmaps of every form: singles, arrays, bitsets, runs, and several of them in one."""
    owners = np.random.default_rng(rng.randrange(1 << 30)).integers(0, 40, rows)
    owners[owners > 30] = 0
    for _ in range(rng.randrange(8)):
        start = rng.randrange(rows)
        owners[start : start + rng.randrange(1, 30_000)] = rng.randrange(40, 50)
    owners[rng.randrange(rows)] = 50
    found = [BitMap(np.flatnonzero(owners == owner).astype(np.uint32)) for owner in np.unique(owners)]
    for bits in found:
        if rng.random() < 0.7:
            bits.run_optimize()
    rng.shuffle(found)
    return found


def placed(bitmaps: list[BitMap], rows: int, first: int = 1) -> np.ndarray:
    out = np.zeros(rows, dtype=np.uint16)
    data = pa.array([b"odd", *(bits.serialize() for bits in bitmaps)], pa.binary())[1:]
    codes = np.arange(first, first + len(bitmaps))
    place_codes(data, np.array([len(bits) for bits in bitmaps], dtype=np.int64), codes, out)
    return out


@pytest.mark.parametrize("seed", range(12))
def test_every_position_gets_the_code_of_its_bitmap(seed: int) -> None:
    rng = random.Random(seed)
    rows = rng.choice([ROWS, 70_000, 900])
    bitmaps = shared_out(rng, rows)
    kept = [bits for bits in bitmaps if rng.random() < 0.9]
    expected = np.zeros(rows, dtype=np.uint16)
    for code, bits in enumerate(kept, 7):
        expected[np.array(bits.to_array(), dtype=np.int64)] = code
    assert np.array_equal(placed(kept, rows, 7), expected)


@pytest.mark.parametrize("seed", range(12))
def test_the_positions_of_bitmaps_come_bitmap_after_bitmap(seed: int) -> None:
    rng = random.Random(seed)
    rows = rng.choice([ROWS, 70_000, 900])
    bitmaps = [bits for bits in shared_out(rng, rows) if rng.random() < 0.9]
    sizes = np.array([len(bits) for bits in bitmaps], dtype=np.int64)
    data = pa.array([b"odd", *(bits.serialize() for bits in bitmaps)], pa.binary())[1:]
    expected = [position for bits in bitmaps for position in bits]
    assert positions_of(data, sizes, rows).tolist() == expected
    with pytest.raises(ValueError, match="beyond the end"):
        positions_of(data, sizes, max(expected))
    with pytest.raises(ValueError, match="other positions"):
        positions_of(data, sizes + 1, rows)


def test_no_bitmap_has_no_positions() -> None:
    assert positions_of(pa.array([], pa.binary()), np.zeros(0, dtype=np.int64), 9).tolist() == []


def test_no_bitmap_writes_nothing() -> None:
    assert not placed([], 10).any()


@pytest.mark.parametrize("seed", range(4))
def test_damaged_bytes_are_refused_or_change_nothing_of_the_cardinality(seed: int) -> None:
    rng = random.Random(seed)
    bitmaps = shared_out(rng, ROWS)
    sizes = np.array([len(bits) for bits in bitmaps], dtype=np.int64)
    for _ in range(60):
        parts = [bytearray(bits.serialize()) for bits in bitmaps]
        part = rng.choice(parts)
        if rng.random() < 0.3:
            del part[rng.randrange(len(part)) :]
        else:
            part[rng.randrange(min(len(part), 200))] ^= 1 << rng.randrange(8)
        out = np.zeros(ROWS, dtype=np.uint16)
        try:
            place_codes(
                pa.array([bytes(p) for p in parts], pa.binary()), sizes, np.arange(1, len(parts) + 1), out
            )
        except ValueError:
            continue
        assert np.count_nonzero(out) <= sizes.sum()


def test_a_position_beyond_the_rows_is_refused() -> None:
    for bits in (BitMap([5, 99]), BitMap(range(50, 101)), BitMap(range(0, 60_000, 2))):
        bits.run_optimize()
        with pytest.raises(ValueError, match=r"beyond|other positions"):
            placed([bits], 99)


def test_a_wrong_cardinality_is_refused() -> None:
    data = pa.array([BitMap([1, 2]).serialize()])
    with pytest.raises(ValueError, match="other positions"):
        place_codes(data, np.array([3]), np.array([1]), np.zeros(9, dtype=np.uint8))


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
