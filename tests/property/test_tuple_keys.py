"""Any tuples have keys that sort as the tuples do and hold them; tuples are coded as their keys sort."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from support.tuples import decode_tuples, encode_tuples
from tailbit.index.keys import MAX_KEY, decode_keys, encode_array, is_truncated, key_type_of, part_types
from tailbit.index.roaring.coding import Coding
from tailbit.index.tuple_keys import (
    join_part,
    split_parts,
    truncated,
    tuple_of,
)
from tailbit.tables.model import DataType
from tailbit.tables.schema import arrow_type

_ZEROS = st.binary(max_size=4) | st.lists(st.sampled_from([b"\0", b"\xff", b"a"]), max_size=4).map(b"".join)
_LONG = st.builds(lambda n, end: b"\0a" * n + end, st.integers(120, 140), st.sampled_from([b"", b"\0", b"b"]))
_DOUBLES = st.floats(width=64) | st.sampled_from([0.0, -0.0, float("nan")])

VALUES: list[tuple[DataType, st.SearchStrategy[Any]]] = [
    (DataType("boolean"), st.booleans()),
    (DataType("byte"), st.integers(-128, 127)),
    (DataType("short"), st.integers(-(2**15), 2**15 - 1)),
    (DataType("integer"), st.integers(-(2**31), 2**31 - 1)),
    (DataType("long"), st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2)),
    (DataType("float"), st.floats(width=32) | st.sampled_from([0.0, -0.0])),
    (DataType("double"), _DOUBLES),
    (DataType("decimal", 9, 2), st.decimals(-9999999, 9999999, places=2)),
    (DataType("decimal", 38, 0), st.integers(1 - 10**38, 10**38 - 1) | st.integers(-2, 2)),
    (DataType("string"), st.text(st.sampled_from("\0aä𝄞"), max_size=4) | _LONG.map(bytes.decode)),
    (DataType("binary"), _ZEROS | _LONG),
    (DataType("date"), st.dates()),
    (DataType("timestamp"), st.integers(-(10**16), 10**16)),
    (DataType("timestamp_ntz"), st.integers(-(10**16), 10**16)),
]


@st.composite
def tuples(draw: st.DrawFn) -> tuple[DataType, pa.StructArray]:
    """Rows of a tuple type of two to four parts; few values a part, so that tuples share their beginnings."""
    chosen = draw(st.lists(st.sampled_from(VALUES), min_size=2, max_size=4))
    rows = draw(st.integers(0, 12))
    columns = []
    for type_, values in chosen:
        some = draw(st.lists(st.none() | values, min_size=1, max_size=4))
        picked = draw(st.lists(st.sampled_from(some), min_size=rows, max_size=rows))
        columns.append(pa.array(picked, arrow_type(type_, "")))
    whole = tuple_of([type_ for type_, _ in chosen])
    return whole, pa.StructArray.from_arrays(columns, [field.name[0] for field in whole.fields])


def single_keys(type_: DataType, rows: pa.StructArray) -> list[list[bytes | None]]:
    """Return the keys that the parts of each row have by themselves."""
    pairs = zip(rows.flatten(), type_.fields, strict=True)
    columns = [encode_array(part, key_type_of(field.type)).to_pylist() for part, field in pairs]
    return [list(row) for row in zip(*columns, strict=True)]


@given(tuples())
def test_keys_of_tuples_sort_as_the_tuples_do_part_by_part(case: tuple[DataType, pa.StructArray]) -> None:
    type_, rows = case
    keys = encode_tuples(rows, key_type_of(type_)).to_pylist()
    parts = single_keys(type_, rows)
    ranks = [[(key is not None, key or b"") for key in row] for row in parts]
    by_tuple = sorted(range(len(rows)), key=lambda row: ranks[row])
    assert [keys[row] for row in by_tuple] == sorted(keys)
    for one, rank in zip(keys, ranks, strict=True):
        for other, other_rank in zip(keys, ranks, strict=True):
            assert (one == other) == (rank == other_rank)
    joined = [
        b"".join(join_part(key, place, key_type_of(type_)) for place, key in enumerate(row)) for row in parts
    ]
    assert keys == joined


@given(tuples())
def test_a_key_of_a_tuple_holds_the_key_of_each_part_and_says_whether_one_is_truncated(
    case: tuple[DataType, pa.StructArray],
) -> None:
    type_, rows = case
    key_type = key_type_of(type_)
    keys = pa.concat_arrays([encode_tuples(rows, key_type)] * 2).slice(len(rows))
    parts = single_keys(type_, rows)
    split = split_parts(keys, key_type)
    assert [list(row) for row in zip(*(part.to_pylist() for part in split), strict=True)] == parts
    textual = [kind in ("string", "binary") for kind in part_types(key_type) or []]
    short = [any(t and is_truncated(key) for t, key in zip(textual, row, strict=True)) for row in parts]
    mask = truncated(keys, key_type)
    assert (mask.tolist() if mask is not None else [False] * len(rows)) == short


@given(tuples())
def test_keys_of_tuples_decode_to_the_tuples_unless_a_part_is_truncated(
    case: tuple[DataType, pa.StructArray],
) -> None:
    type_, rows = case
    key_type = key_type_of(type_)
    keys = encode_tuples(rows, key_type)
    short = truncated(keys, key_type)
    if short is not None:
        keys = keys.filter(pa.array(~short))
        rows = rows.filter(pa.array(~short))
    decoded = decode_tuples(keys, key_type, type_)
    for part, values, field in zip(decoded.flatten(), rows.flatten(), type_.fields, strict=True):
        kind = key_type_of(field.type)
        assert part.type == values.type
        single = decode_keys(encode_array(values, kind), kind, field.type)
        assert repr(part.to_pylist()) == repr(single.to_pylist())  # repr, because NaN is not equal to NaN


@given(tuples(), st.integers(1, 4), st.booleans())
def test_tuples_are_coded_as_their_keys_sort(
    case: tuple[DataType, pa.StructArray], pieces: int, dictionaries: bool
) -> None:
    type_, rows = case
    key_type = key_type_of(type_)
    coding = Coding(rows.type, key_type)
    step = max(1, -(-len(rows) // pieces))
    for start in range(0, len(rows), step):
        chunk = rows.slice(start, step)
        if dictionaries:
            names = [field.name for field in chunk.type]
            columns = [part.dictionary_encode() for part in chunk.flatten()]
            chunk = pa.StructArray.from_arrays(columns, names)
        coding.add(start, pa.chunked_array([chunk]))
    column = coding.finish()
    keys = column.keys.to_pylist()
    assert keys == sorted(set(encode_tuples(rows, key_type).to_pylist()))
    codes = column.codes(0, len(rows)).tolist()
    assert [keys[code] for code in codes] == encode_tuples(rows, key_type).to_pylist()


def test_a_tuple_of_four_long_texts_stays_below_what_a_footer_tells_of_keys() -> None:
    """Parquet writes no statistics of values from 4,096 bytes on, and footers prune by them."""
    rows = pa.StructArray.from_arrays([pa.array([b"\0" * (MAX_KEY + 1)])] * 4, list("1234"))
    (key,) = encode_tuples(rows, "tuple(binary,binary,binary,binary)").to_pylist()
    assert len(key) < 4096
