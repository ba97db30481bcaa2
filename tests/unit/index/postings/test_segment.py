from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap

from support.encodings import postings_of
from support.index_records import unchecked_segment
from tailbit.errors import CorruptIndexError
from tailbit.index.index_files import GROUP_BYTES, GROUP_ROWS
from tailbit.index.postings.postings import Postings, write_segment
from tailbit.index.postings.segment import Segment
from tailbit.tables.storage import LocalStorage, Storage

Key = bytes | None
EVERYTHING = (None, False, None, False)
ROWS = 100_000


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return LocalStorage(str(tmp_path))


def postings(column: str, bits: Mapping[Key, Iterable[int]], key_type: str = "string") -> Postings:
    made = [BitMap(rows) for rows in bits.values()]
    return Postings(
        column,
        key_type,
        pa.array(list(bits), pa.binary()),
        np.array([len(b) for b in made], dtype=np.int64),
        pa.array([b.serialize() for b in made], pa.binary()),
    )


def segment(storage: Storage, *parts: Postings, rows: int = ROWS) -> Segment:
    return Segment(storage, write_segment(storage, "space", rows, parts).path)


def unchecked(storage: Storage, *parts: Postings, rows: int = ROWS) -> Segment:
    return Segment(storage, unchecked_segment(storage, "space", rows, *parts).path)


def number(at: int) -> bytes:
    return b"%08d" % at


def many(count: int, each: int = 1) -> dict[Key, Iterable[int]]:
    return {number(at): range(at, at + each) for at in range(count)}


def test_a_range_holds_what_its_ends_say_and_never_null(storage: Storage) -> None:
    found = segment(storage, postings("a", {None: [9], b"a": [0], b"b": [1], b"c": [2]}))
    ranges = {
        (None, False, None, False): [b"a", b"b", b"c"],
        (b"a", True, b"c", True): [b"a", b"b", b"c"],
        (b"a", False, b"c", False): [b"b"],
        (None, False, b"b", True): [b"a", b"b"],
        (b"b", False, None, False): [b"c"],
        (b"aa", True, b"az", True): [],
        (b"x", True, None, False): [],
        (b"c", True, b"a", True): [],
    }
    assert {r: found.select("a", [r])[0] for r in ranges} == ranges


def test_a_row_group_is_of_one_column_and_bounded(storage: Storage) -> None:
    heavy = {number(at): range(at, ROWS, 3) for at in range(60)}
    found = segment(storage, postings("a", many(2 * GROUP_ROWS + 5)), postings("b", heavy))
    file = pq.ParquetFile(storage.local_path(found.path))
    for group in range(file.metadata.num_row_groups):
        rows = file.read_row_group(group)
        assert len(set(rows["column"].to_pylist())) == 1
        assert len(rows) <= GROUP_ROWS
        assert len(rows) == 1 or sum(map(len, rows["bitmap"].to_pylist())) <= GROUP_BYTES
    assert len(found.keys("a")[0]) == 2 * GROUP_ROWS + 5
    assert found.select("b", [EVERYTHING])[1] == [BitMap(rows) for rows in heavy.values()]


def test_a_bitmap_larger_than_a_row_group_has_one_of_its_own(storage: Storage) -> None:
    rows = 1 << 25
    large = np.arange(0, rows, 16, dtype=np.uint32)
    found = segment(storage, postings("a", {None: large, b"x": [1], b"y": [2]}), rows=rows)
    assert found.lookup("a", None) == BitMap(large)
    assert found.lookup("a", b"y") == BitMap([2])


def test_a_range_reads_only_the_row_groups_that_overlap(storage: Storage) -> None:
    path = segment(storage, postings("a", many(5 * GROUP_ROWS)), rows=5 * GROUP_ROWS).path
    one, all_of_it = Segment(storage, path), Segment(storage, path)
    one.select("a", [(number(12_000), True, number(13_000), True)])
    read = one.bytes_read
    for group in range(5):
        all_of_it.select("a", [(number(group * GROUP_ROWS), True, number(group * GROUP_ROWS), True)])
    assert 0 < read < all_of_it.bytes_read / 3


def test_what_was_read_is_not_read_again(storage: Storage) -> None:
    found = segment(storage, postings("a", many(50)))
    found.lookup("a", number(3))
    read = found.bytes_read
    storage.delete(found.path)
    assert found.lookup("a", number(4)) == BitMap([4])
    assert found.bytes_read == read


def test_a_position_beyond_the_row_space_is_damage(storage: Storage) -> None:
    found = unchecked(storage, postings("a", {b"x": [10]}), rows=10)
    with pytest.raises(CorruptIndexError, match="beyond"):
        found.lookup("a", b"x")


def test_a_missing_segment_is_damage_by_name(storage: Storage) -> None:
    found = segment(storage, postings("a", {b"x": [1]}))
    storage.delete(found.path)
    with pytest.raises(CorruptIndexError, match="missing"):
        Segment(storage, found.path).lookup("a", b"x")


def test_the_bytes_of_postings_are_not_repeated_in_the_footer(storage: Storage) -> None:
    """As statistics they would be, up to four thousand of them a column and row group."""
    rng = np.random.default_rng(1)
    bits = {number(at): sorted(rng.choice(1 << 20, 500, replace=False).tolist()) for at in range(200)}
    sparse = postings_of("a", "string", {key: BitMap(rows) for key, rows in bits.items()}, [True] * 200)
    dense = postings("b", {number(at): range(at, 100_000, 31) for at in range(31)})
    path = write_segment(storage, "space", 1 << 20, [sparse, dense]).path
    assert int(path.rsplit(".", 3)[1]) < 4_000
    assert Segment(storage, path).forms("a")[1] == 200
    assert Segment(storage, path).forms("b")[1] == 0
