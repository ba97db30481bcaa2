"""The kernel's bitmaps are those of Roaring, whatever the codes; what a segment is given it gives back."""

from __future__ import annotations

import tempfile
from random import Random

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from support.encodings import postings_of
from support.profiles import examples
from tailbit.index.postings.postings import write_segment
from tailbit.index.postings.segment import Segment
from tailbit.index.roaring.bitmaps import bitmaps
from tailbit.index.roaring.containers import BLOCK
from tailbit.tables.storage import LocalStorage

Codes = npt.NDArray[np.uint32]


@st.composite
def coded(draw: st.DrawFn) -> tuple[Codes, int]:
    """Codes in stretches: random ones, runs of every length, and stretches without a row."""
    limit = draw(st.integers(1, 60))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    pieces = [np.zeros(0, dtype=np.int64)]
    for _ in range(draw(st.integers(0, 6))):
        length = draw(st.integers(0, BLOCK + 500))
        few = draw(st.integers(1, limit))
        made = {
            "random": lambda n=length, k=few: rng.integers(0, k, n),
            "runs": lambda n=length, k=few: np.repeat(rng.integers(0, k, n), rng.integers(1, 9, n))[:n],
            "one": lambda n=length, k=few: np.full(n, k - 1),
            "absent": lambda n=length: np.full(n, limit),
        }
        pieces.append(made[draw(st.sampled_from(sorted(made)))]())
    return np.concatenate(pieces).astype(np.uint32), limit


@examples(60)
@given(coded(), st.sampled_from([1, 5_000, 1 << 30]), st.integers(0, 1 << 30), st.sampled_from([0.0, 0.5]))
def test_codes_have_the_smallest_bitmaps_of_roaring_or_their_positions(
    made: tuple[Codes, int],
    rows: int,
    seed: int,
    share: float,
) -> None:
    codes, limit = made
    rng = np.random.default_rng(seed)
    choose = lambda counts, *_: (counts > 0) & (rng.random(len(counts)) < share)  # noqa: E731
    code = 0
    narrow = codes.astype(np.uint16) if rows == 1 else codes
    for part in bitmaps(narrow, 0, limit, choose, max(rows, 3_000)):
        at = 0
        assert part.first == code
        for data, sparse, many in zip(part.arrow().to_pylist(), part.sparse, part.cardinality, strict=True):
            wanted = BitMap(np.flatnonzero(codes == code).tolist())
            wanted.run_optimize()
            assert many == len(wanted)
            if sparse:
                assert data is None
                assert part.positions[at : at + many].tolist() == list(wanted)
                at += int(many)
            else:
                assert BitMap.deserialize(data) == wanted
                assert len(data) <= len(wanted.serialize()) + 16
            code += 1
        assert at == len(part.positions)
    assert code == limit


@examples(40)
@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "`x y`"]),
        st.dictionaries(
            st.none() | st.binary(max_size=6), st.frozensets(st.integers(0, 999), min_size=1), min_size=1
        ),
    ),
    st.randoms(use_true_random=False),
)
def test_a_segment_gives_back_what_it_was_given(
    given_: dict[str, dict[bytes | None, frozenset[int]]], rng: Random
) -> None:
    parts = []
    for column in sorted(given_):
        keys = sorted(given_[column], key=lambda key: (key is not None, key or b""))
        made = [BitMap(given_[column][key]) for key in keys]
        sparse = [rng.random() < 0.5 for _ in keys]
        parts.append(postings_of(column, "binary", dict(zip(keys, made, strict=True)), sparse))
    with tempfile.TemporaryDirectory() as folder:
        storage = LocalStorage(folder)
        segment = Segment(storage, write_segment(storage, "s", 1000, parts).path)
        assert segment.columns == dict.fromkeys(given_, "binary")
        for column, wanted in given_.items():
            assert {key: segment.lookup(column, key) for key in wanted} == {
                key: BitMap(rows) for key, rows in wanted.items()
            }
            keys_, found = segment.select(column, [(None, False, None, False)])
            assert keys_ == sorted(key for key in wanted if key is not None)
            assert found == [BitMap(wanted[key]) for key in keys_]
            low = rng.choice(keys_) if keys_ else b""
            some = (low, True, None, False)
            inside = [BitMap(rows) for key, rows in wanted.items() if key is not None and key >= low]
            assert BitMap.union(BitMap(), *segment.cover(column, [some])) == BitMap.union(BitMap(), *inside)
            places = np.array([rng.random() < 0.5 for _ in wanted])
            every = segment.keys(column)[0].to_pylist()
            of_places = [BitMap(wanted[key]) for key, here in zip(every, places, strict=True) if here]
            found = segment.cover_keys(column, places)
            assert BitMap.union(BitMap(), *found) == BitMap.union(BitMap(), *of_places)
