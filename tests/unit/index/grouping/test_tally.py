"""Values of many batches are counted once, whatever their type and however many they are."""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tailbit.index.grouping import counting
from tailbit.index.grouping.counting import Tally
from tailbit.index.grouping.dictionary import Dictionary, first_in_order, full_keys
from tailbit.index.grouping.groups import Groups
from tailbit.index.roaring.coding import order_with_nulls
from tailbit.tables.model import Column, DataType

DAY, NOON = datetime.date(2024, 2, 29), datetime.datetime(1969, 12, 31, 12, 0, 0, 1)  # noqa: DTZ001
TYPED = [
    (pa.int8(), "integer", [127, -128, None, 3, 127]),
    (pa.int32(), "integer", [3, -1, None, 3]),
    (pa.int64(), "integer", [1 << 62, -1, None, 3, 1 << 62]),
    (pa.int64(), "integer", [(1 << 63) - 1, None, -(1 << 63), 0, -(1 << 63)]),
    (pa.string(), "string", ["a", "", None, "ä", "a"]),
    (pa.binary(), "binary", [b"\xff", b"", None, b"\xff"]),
    (pa.bool_(), "boolean", [True, None, False, True]),
    (pa.date32(), "date", [DAY, None, datetime.date(1600, 1, 1), DAY]),
    (pa.timestamp("us"), "timestamp", [NOON, None, NOON]),
    (pa.timestamp("us", "UTC"), "timestamp", [NOON, None]),
    (pa.decimal128(10, 2), "decimal(2)", [Decimal("1.50"), None, Decimal("-99999999.99"), Decimal("1.50")]),
    (pa.decimal128(18, 6), "decimal(6)", [Decimal("-999999999999.999999"), None, Decimal(0)]),
    (pa.decimal128(38, 0), "decimal(0)", [Decimal(10**37), None, Decimal(-(10**37)), Decimal(10**37)]),
    (pa.float64(), "double", [0.0, -0.0, None, float("nan"), 1.5]),
    (pa.float32(), "double", [0.0, -0.0, None, float("nan"), 1.5]),
]


def expected(parts: list[tuple[pa.Array, Any]], key_type: str) -> dict[bytes | None, int]:
    out: Counter[bytes | None] = Counter()
    for values, counts in parts:
        for n, key in enumerate(full_keys(values, key_type).to_pylist()):
            out[key] += 1 if counts is None else int(counts[n])
    return dict(out)


@pytest.mark.parametrize("gathered", [0, 1 << 28], ids=["added up at each batch", "at the end"])
@pytest.mark.parametrize("counted", [True, False], ids=["some counted", "none counted"])
@pytest.mark.parametrize("close", [0, 100], ids=["apart", "by place"])
@pytest.mark.parametrize("many", [0, 1 << 62], ids=["polars", "pyarrow"])
@pytest.mark.parametrize(("type_", "key_type", "values"), TYPED, ids=[str(t[0]) for t in TYPED])
def test_each_key_has_the_rows_of_all_batches(
    type_: pa.DataType,
    key_type: str,
    values: list[Any],
    many: int,
    close: int,
    counted: bool,
    gathered: int,
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(counting, "_CLOSE", close)
    monkeypatch.setattr(counting, "_TABLE_SIZE", close << 15)
    monkeypatch.setattr(counting, "_MANY", many)
    monkeypatch.setattr(counting, "_GATHERED", gathered)
    whole = pa.array(values, type_)
    coded = pa.array(values[::-1], type_).dictionary_encode()
    counts = np.arange(1, len(values) + 1)
    found = Tally(key_type)
    found.add(whole)
    found.add(pa.chunked_array([whole.slice(1), whole.slice(0, 2)]))
    if counted:
        found.add(whole.slice(1), counts[1:])
    found.add(coded)
    keys, rows = found.keys()
    parts = [(whole, None), (whole.slice(1), None), (whole.slice(0, 2), None), (coded.cast(type_), None)]
    parts += [(whole.slice(1), counts[1:])] if counted else []
    assert len(set(keys.to_pylist())) == len(keys)
    assert dict(zip(keys.to_pylist(), rows.tolist(), strict=True)) == expected(parts, key_type)


def test_a_tally_of_nothing_is_empty() -> None:
    assert [len(part) for part in Tally("string").keys()] == [0, 0]


@pytest.mark.parametrize("seed", range(20))
def test_the_most_frequent_keys_are_found_without_order_as_with_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts = [None, *{str(n) for n in rng.integers(0, 500, rng.integers(1, 300))}]
    keys = pa.array(
        [None if t is None else t.encode() for t in texts[int(rng.integers(0, 2)) :]], pa.binary()
    )
    keys = keys.take(pa.array(rng.permutation(len(keys))))
    rows = rng.integers(1, 5, len(keys))
    column = Column(("s",), ("s",), DataType("string"), True, False)
    order = order_with_nulls(keys)
    every, in_order = [np.arange(len(keys))], Dictionary(keys.take(pa.array(order)), [])
    sorted_ = Groups([column], [in_order], every, rows[order])
    shuffled = Groups([column], [Dictionary(keys, [])], every, rows, ordered=False)
    whole = sorted_.keys_of().take(pa.array(sorted_.most_frequent()))
    assert shuffled.nulls == sorted_.nulls
    for n in (0, 1, 7, len(keys) - 1, len(keys), len(keys) + 1):
        for counts in (sorted_, shuffled):
            assert counts.keys_of().take(pa.array(counts.most_frequent(n))).equals(whole.slice(0, n))
        assert sorted(first_in_order(keys, n).tolist()) == sorted(order[:n].tolist())
