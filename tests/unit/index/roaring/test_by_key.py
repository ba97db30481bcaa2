"""Positions sorted by key are those that the blocks give, in whatever ranges they are sorted."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from pyroaring import BitMap

from tailbit.base.arrays import Mask
from tailbit.index.roaring.by_key import bitmaps_by_key
from tailbit.index.roaring.containers import BLOCK
from tailbit.index.roaring.serialize import Choose
from tailbit.index.roaring.sparse import pays

Codes = npt.NDArray[np.unsignedinteger]
ROWS = BLOCK + 4_097


def all_dense(counts: npt.NDArray[np.int64], *_: object) -> Mask:
    return np.zeros(len(counts), dtype=np.bool_)


def found(codes: Codes, start: int, limit: int, choose: Choose, range_rows: int) -> list[bytes | list[int]]:
    """Per code the bytes of its bitmap, or its positions if it is sparse."""
    out: list[bytes | list[int]] = []
    for part in bitmaps_by_key(codes, start, limit, choose, range_rows):
        assert part.first == len(out)
        data, at = part.data.tobytes(), 0
        for i, (sparse, many) in enumerate(zip(part.sparse.tolist(), part.cardinality.tolist(), strict=True)):
            own = data[part.offsets[i] : part.offsets[i + 1]]
            assert not (sparse and own)
            out.append(part.positions[at : at + many].tolist() if sparse else own)
            at += many if sparse else 0
        assert at == len(part.positions)
        assert (len(data), len(part.cardinality) + 1) == (part.offsets[-1], len(part.offsets))
    return out


def positions(codes: Codes, start: int, limit: int) -> list[list[int]]:
    order = np.argsort(codes, kind="stable")
    cuts = np.searchsorted(codes[order], np.arange(limit + 1))
    return [(order[a:b] + start).tolist() for a, b in itertools.pairwise(cuts)]


def made(kind: str) -> tuple[Codes, int]:
    rng = np.random.default_rng(3)
    if kind == "random":
        return rng.integers(0, 500, ROWS).astype(np.uint16), 500
    if kind == "sorted":
        return np.sort(rng.integers(0, 500, ROWS)).astype(np.uint32), 500
    if kind == "skewed":
        return np.where(rng.random(ROWS) < 0.7, 31, rng.integers(0, 900, ROWS)).astype(np.uint16), 900
    if kind == "with rows of no file":
        return rng.integers(0, 600, ROWS).astype(np.uint32), 450
    return rng.permutation(ROWS).astype(np.uint32), ROWS


KINDS = ("random", "sorted", "skewed", "with rows of no file", "distinct")


@pytest.mark.parametrize("range_rows", [3_000, 1 << 22])
@pytest.mark.parametrize("kind", KINDS[:-1])
def test_dense_codes_are_byte_for_byte_the_run_optimised_bitmaps(kind: str, range_rows: int) -> None:
    codes, limit = made(kind)
    wanted = [BitMap(some) for some in positions(codes, 2 * BLOCK, limit)]
    for bits in wanted:
        bits.run_optimize()
    got = found(codes, 2 * BLOCK, limit, all_dense, range_rows)
    assert got == [bits.serialize() for bits in wanted]


@pytest.mark.parametrize("range_rows", [3_000, 1 << 22])
@pytest.mark.parametrize("kind", KINDS)
def test_sparse_codes_have_their_positions_and_others_their_bitmaps(kind: str, range_rows: int) -> None:
    codes, limit = made(kind)
    got = found(codes, BLOCK, limit, pays, range_rows)
    assert len(got) == limit
    for some, wanted in zip(got, positions(codes, BLOCK, limit), strict=True):
        assert (some if isinstance(some, list) else list(BitMap.deserialize(some))) == wanted


def test_a_code_without_positions_is_empty() -> None:
    codes = np.array([0, 5, 5, 0], dtype=np.uint16)
    got = found(codes, 0, 6, pays, 1 << 22)
    assert [len(BitMap.deserialize(some)) if isinstance(some, bytes) else len(some) for some in got] == [
        2,
        0,
        0,
        0,
        0,
        2,
    ]


def test_no_rows_at_all_have_no_codes() -> None:
    assert found(np.zeros(0, dtype=np.uint16), 0, 0, pays, 1 << 22) == []
