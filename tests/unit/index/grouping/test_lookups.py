"""Most positions of a row space are counted by way of the others."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from tailbit.index.grouping.folding import Combinations
from tailbit.index.grouping.lookups import KEPT, AllRows, Lookup, looked_up
from tailbit.index.keys import MAX_KEY
from tailbit.tables.positions import BitPositions

EXTENT = 1000
ALL = AllRows(("a segment",), EXTENT)
LONG = b"x" * (MAX_KEY + 1)
"""A key that holds the beginning of a value alone."""
KEYS: list[list[bytes | None]] = [[None, b"a", b"b"], [b"a", LONG, b"y"]]


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    KEPT.clear()


def by_keys(found: Combinations | None) -> dict[tuple[Any, ...], int]:
    assert found is not None
    keys = [[part.keys[code].as_py() for code in part.codes.tolist()] for part in found.columns]
    return dict(zip(zip(*keys, strict=True), found.counts.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("missing", [0, 1, 200, 900])
def test_they_are_counted_as_one_by_one(seed: int, missing: int) -> None:
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, len(keys) + 1, EXTENT) for keys in KEYS]
    columns = [
        Lookup(pa.array(keys, pa.binary()), its.__getitem__) for keys, its in zip(KEYS, codes, strict=True)
    ]
    bits = BitMap(range(EXTENT)) - BitMap(rng.choice(EXTENT, missing, replace=False).tolist())
    rows = {
        at: tuple([b"none", *keys][its[at]] for keys, its in zip(KEYS, codes, strict=True)) for at in bits
    }
    expected = Counter(row for row in rows.values() if LONG not in row and b"none" not in row)
    for _ in range(2):
        found, short = looked_up(columns, ["string", "string"], bits, ALL)
        assert by_keys(found) == expected
        assert short == BitMap(at for at, row in rows.items() if row[1] == LONG)


def test_those_of_all_positions_are_looked_up_once() -> None:
    asked: list[int] = []

    def codes(positions: BitPositions) -> Any:
        asked.append(len(positions))
        return np.ones(len(positions), np.int64)

    column = Lookup(pa.array([b"a"], pa.binary()), codes)
    for missing in (1, 0, 10):
        found, _ = looked_up([column], ["string"], BitMap(range(missing, EXTENT)), ALL)
        assert by_keys(found) == {(b"a",): EXTENT - missing}
    assert asked == [EXTENT, 1, 10]
