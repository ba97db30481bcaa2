"""Tuples are coded by the codes of their parts, and have the keys of their values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from support.tuples import encode_tuples
from tailbit.index.roaring import tuples
from tailbit.index.roaring.coding import CodedColumn, Coding
from tailbit.index.roaring.tuples import collected_tuples
from tailbit.index.write.posting import SpillingCoding

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
    part = collected_tuples(0, rows, key_type)
    assert part.keys.take(pa.array(part.ids.tolist())).equals(encode_tuples(rows, key_type))
    assert tuples._MOST < 1 << 63
