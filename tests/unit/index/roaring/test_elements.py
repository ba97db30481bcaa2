"""Arrays as codes: each row has the code of each of its distinct keys once, and one at least."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from support.tuples import encode_tuples
from tailbit.index.postings.gaps import Gaps
from tailbit.index.roaring import collected
from tailbit.index.roaring.coding import CodedColumn, Coding
from tailbit.index.roaring.elements import CodedElements, ElementCoding
from tailbit.index.write.posting import SpillingCoding, laid_out, postings_of

Arrays = Sequence[Sequence[str | None] | None]
TEXTS = pa.list_(pa.string())


def coded(start: int, *chunks: Arrays) -> CodedElements:
    coding = ElementCoding(TEXTS, "string")
    coding.add(start, pa.chunked_array([pa.array(chunk, TEXTS) for chunk in chunks], TEXTS))
    return coding.finish()


def keys_of(row: Sequence[str | None] | None) -> set[bytes | None]:
    if not row:
        return {None if row is None else b"\x00"}
    return {b"\x01" if text is None else b"\x02" + text.encode() for text in row}


def expected(start: int, rows: Arrays) -> dict[bytes | None, set[int]]:
    out: dict[bytes | None, set[int]] = {}
    for position, row in enumerate(rows, start):
        for key in keys_of(row):
            out.setdefault(key, set()).add(position)
    return out


def posted(column: CodedElements, extent: int) -> dict[bytes | None, set[int]]:
    out: dict[bytes | None, set[int]] = {}
    for slab in laid_out(column, 0, extent):
        keys = column.keys[slab.first : slab.first + len(slab.cardinality)]
        part = postings_of("c", "elements(string)", keys, slab)
        gaps = Gaps.of(part.sparse, part.cardinality, extent)
        for at, key in enumerate(part.keys.to_pylist()):
            bits = part.bitmaps[at].as_py()
            out[key] = set(gaps.positions(at, at + 1).tolist() if bits is None else BitMap.deserialize(bits))
    return out


def test_the_arrays_of_the_heading_have_the_codes_that_it_says() -> None:
    column = coded(0, [["b", "a", "b"], None, [], [None, "a"]])
    assert column.keys.to_pylist() == [None, b"\x00", b"\x01", b"\x02a", b"\x02b"]
    codes, rows = column.codes_at(np.arange(4))
    assert sorted(zip(rows.tolist(), codes.tolist(), strict=True)) == [
        (0, 3), (0, 4), (1, 0), (2, 1), (3, 2), (3, 3)
    ]  # fmt: skip


ARRAYS = st.one_of(st.none(), st.lists(st.one_of(st.none(), st.sampled_from("abcde")), max_size=5))


@given(st.lists(ARRAYS, max_size=12), st.lists(ARRAYS, max_size=12), st.integers(0, 70_000))
@settings(deadline=None)
def test_each_row_stands_once_in_the_posting_of_each_of_its_keys(
    first: Arrays, second: Arrays, start: int
) -> None:
    rows = [*first, *second]
    column, want = coded(start, first, second), expected(start, rows)
    assert posted(column, start + len(rows)) == want
    counts = column.counts(start, start + len(rows)).tolist()
    assert {key: n for key, n in zip(column.keys.to_pylist(), counts, strict=True) if n} == {
        key: len(found) for key, found in want.items()
    }


@pytest.mark.parametrize("keys", [3, 700, 90_000])
def test_postings_are_right_for_few_keys_and_for_many(keys: int) -> None:
    numbers = np.random.default_rng(7).integers(0, keys, 300_000).tolist()
    rows = [[str(n) for n in numbers[at : at + at % 4]] for at in range(0, len(numbers) - 4, 2)]
    assert posted(coded(5, rows[:9000], rows[9000:]), 5 + len(rows)) == expected(5, rows)


def test_rows_are_looked_up_by_position_in_any_block() -> None:
    rows: Arrays = [[str(n % 7), None, str(n % 3)] if n % 5 else None for n in range(140_000)]
    column, keys = coded(0, rows), coded(0, rows).keys.to_pylist()
    wanted = [0, 7, 65_535, 65_536, 139_999]
    codes, places = column.codes_at(np.array(wanted))
    assert np.all(np.diff(places) >= 0)
    found = {(row, keys[code]) for row, code in zip(places.tolist(), codes.tolist(), strict=True)}
    assert found == {(row, key) for row in wanted for key in keys_of(rows[row])}
    assert len(codes) == len(found)


TYPE = "tuple(integer,string)"


def test_a_row_without_a_tuple_is_a_tuple_of_nulls() -> None:
    rows = pa.array([{"1": 7, "2": "a"}, None], pa.struct([("1", pa.int64()), ("2", pa.string())]))
    coding = Coding(rows.type, TYPE)
    coding.add(0, pa.chunked_array([rows]))
    column = coding.finish()
    assert column.keys.to_pylist()[0] == b"\x01\x01"
    assert column.codes(0, 2).tolist() == [1, 0]


WIDE = {
    "few combinations": (50, 10),
    "combinations beyond the table": (1 << 20, 1 << 20),
    "combinations beyond 64 bits": (1 << 63, 1 << 63),
}


@pytest.mark.parametrize("limits", WIDE.values(), ids=WIDE)
@pytest.mark.parametrize("held", [None, 20_000])
def test_many_tuples_are_coded_and_spilled_as_their_keys_sort(
    limits: tuple[int, int], held: int | None
) -> None:
    random = np.random.default_rng(3)
    key_type, most = "tuple(integer,integer,boolean)", 20_000
    columns = [
        pa.array(random.integers(-limit, limit, most), mask=random.random(most) < 0.1) for limit in limits
    ]
    columns.append(pa.array(random.random(most) < 0.5, mask=random.random(most) < 0.1))
    rows = pa.StructArray.from_arrays(columns, ["1", "2", "3"])
    coding = SpillingCoding(rows.type, key_type, held)
    for start in range(0, most, 3_000):
        coding.add(start, pa.chunked_array([rows.slice(start, 3_000)]))
    column: CodedColumn = coding.finish()
    expected = encode_tuples(rows, key_type)
    keys = column.keys.slice(0, len(column.keys))
    assert keys.to_pylist() == sorted(set(expected.to_pylist()))
    assert keys.take(pa.array(column.codes(0, most).tolist())).equals(expected)


def test_numbers_are_replaced_by_their_places_before_they_overflow() -> None:
    random = np.random.default_rng(4)
    columns = [pa.array(random.integers(0, 1 << 50, 5_000)) for _ in range(4)]
    rows = pa.StructArray.from_arrays(columns, list("1234"))
    key_type = "tuple(integer,integer,integer,integer)"
    part = collected.collected(0, rows, key_type)
    assert part.keys.take(pa.array(part.ids.tolist())).equals(encode_tuples(rows, key_type))
    assert collected._MOST < 1 << 63
