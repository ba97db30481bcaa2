"""The positions of keys in a table: dense keys and NULL's posting among them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from tailbit.index.postings.paged_lookup import KeyTable, PositionLists
from tailbit.index.postings.sorted_keys import LookupKeys

ROWS = 300_000

POSTINGS = {
    None: BitMap([5]),
    b"a": BitMap([1, 9, 70_000]),
    b"bc": BitMap(range(100_000, 104_000)),
    b"d": BitMap(range(200_000, 299_000, 2)),
    b"e": BitMap([ROWS - 1]),
}


def table(rows: int = ROWS, more: int = 0) -> KeyTable:
    """A table of dense keys; `more` is added to what is recorded as the number of positions."""
    bitmaps = [bits.serialize() for bits in POSTINGS.values()]
    columns = {
        "key": pa.array(list(POSTINGS), pa.binary()),
        "cardinality": pa.array([len(bits) + more for bits in POSTINGS.values()], pa.int64()),
        "bitmap": pa.array(bitmaps, pa.binary()),
    }
    return KeyTable.of(pa.table(columns), rows)


def found(keys: list[bytes], rows: int = ROWS, more: int = 0) -> tuple[PositionLists, np.ndarray, np.ndarray]:
    whole = table(rows, more)
    wanted = LookupKeys(pa.array(keys, pa.binary()))
    return whole.lists, *whole.keys.find(wanted, 0, len(keys))


@pytest.mark.parametrize("keys", [[b"a"], [b"0", b"bc", b"c"], [b"a", b"bc", b"d", b"e"], [b"x"], [b"d"]])
def test_dense_keys_have_the_positions_of_their_bitmaps(keys: list[bytes]) -> None:
    lists, owners, at = found(keys)
    own, positions = lists.placed(owners, at)
    pairs = [(n, position) for n, key in enumerate(keys) for position in POSTINGS.get(key, BitMap())]
    assert sorted(zip(own.tolist(), positions.tolist(), strict=True)) == pairs
    assert BitMap.union(BitMap(), *lists.covered(owners, at)) == BitMap([position for _, position in pairs])


@pytest.mark.parametrize(("rows", "more"), [(ROWS - 1, 0), (ROWS, 1)])
@pytest.mark.parametrize("key", [b"d", b"e"])
def test_bitmaps_that_contradict_what_is_recorded_are_refused(key: bytes, rows: int, more: int) -> None:
    lists, owners, at = found([key], 290_000 if (rows, key) == (ROWS - 1, b"d") else rows, more)
    for answer in (lists.placed, lists.covered):
        with pytest.raises(ValueError, match=r"positions|beyond"):
            answer(owners, at)
