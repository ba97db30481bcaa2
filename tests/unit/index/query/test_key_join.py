"""Rows are joined with keys of any columns as their encoded keys are equal."""

from __future__ import annotations

import random
from decimal import Decimal
from itertools import combinations_with_replacement

import numpy as np
import pyarrow as pa
import pytest

from tailbit.index.keys import encode_array
from tailbit.index.query import key_join
from tailbit.index.query.key_join import KeyJoin

LEAST, MOST = -(1 << 63), (1 << 63) - 1
VALUES = {
    "integer": (pa.int64(), [LEAST, LEAST + 1, -1, 0, 1, 7, 8, MOST - 1, MOST]),
    "double": (pa.float64(), [float("nan"), -0.0, 0.0, 1.5, -1.5, float("inf"), float("-inf"), 5e-324]),
    "decimal(2)": (
        pa.decimal128(38, 2),
        [Decimal(n) for n in ("-1e35", "-0.01", "0", "0.01", "5", "1e30", "92233720368547758.07")],
    ),
    "string": (pa.string(), ["", "a", "a\0", "ä", "b" * 300, "b" * 301, "c"]),
    "boolean": (pa.bool_(), [True, False]),
    "date": (pa.date32(), [-700_000, 0, 1, 20_000]),
    "timestamp": (pa.timestamp("us", "UTC"), [LEAST, -1, 0, 1_000_000, MOST]),
}
"""By key type values at the edges, of which none equals another but for the two zeros."""


@pytest.mark.parametrize("hashes", [0, 7, 1 << 62], ids=["by Arrow", "by seven hashes", "by hash"])
@pytest.mark.parametrize(
    "types", [*((type_,) for type_ in VALUES), *combinations_with_replacement(VALUES, 2), ("integer",) * 3]
)
def test_a_row_has_the_key_whose_code_it_has(
    types: tuple[str, ...], hashes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_join, "MANY", 0 if hashes else 1 << 16)
    if hashes:
        # Few hashes: of some keys two have one, and rows that are no key have that of one.
        monkeypatch.setattr(key_join, "_hashes", lambda values: (values.hash() % hashes).to_numpy())
    for seed in range(6):
        source = random.Random(seed)
        rows = [
            pa.array(source.choices([*VALUES[type_][1], None], k=200), VALUES[type_][0]) for type_ in types
        ]
        codes = list(
            zip(
                *(encode_array(array, type_).to_pylist() for array, type_ in zip(rows, types, strict=True)),
                strict=True,
            )
        )
        whole = [number for number, code in enumerate(codes) if None not in code]
        of_keys = source.sample(
            sorted({codes[number]: number for number in whole}.values()), k=min(9, len(set(codes)) // 3 + 1)
        )
        keys = KeyJoin(types, [array.take(pa.array(of_keys)) for array in rows])
        assert keys.is_distinct
        indices = {codes[number]: index for index, number in enumerate(of_keys)}
        expected = [indices.get(code, -1) for code in codes]
        assert (
            keys.owners([pa.chunked_array([array.slice(0, 90), array.slice(90)]) for array in rows]).tolist()
            == expected
        )
        twice = KeyJoin(types, [array.take(pa.array(np.array([*of_keys, of_keys[0]]))) for array in rows])
        assert not twice.is_distinct
