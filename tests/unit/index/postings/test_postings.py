"""Columns of few postings share row groups; whoever reads a column reads what it would read alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap

from support.encodings import postings_of
from tailbit.errors import BrokenBitmapError, CorruptIndexError
from tailbit.index.index_files import write_index_file
from tailbit.index.postings import postings as writing
from tailbit.index.postings.layout import SHARED
from tailbit.index.postings.postings import JointPostings, Postings, write_row_groups, write_segment
from tailbit.index.postings.segment import POSTINGS, Segment
from tailbit.tables.storage import LocalStorage, Storage

Bits = dict[bytes | None, BitMap]
ROWS = 20_000


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return LocalStorage(str(tmp_path))


def few(seed: int, nulls: bool = True) -> Bits:
    rng = np.random.default_rng(seed)
    keys: list[bytes | None] = [None] if nulls else []
    keys += sorted({bytes(rng.integers(97, 100, 3, dtype=np.uint8)) for _ in range(9)})
    return {key: BitMap(rng.integers(0, ROWS, rng.integers(1, 40)).tolist()) for key in keys}


def many() -> Bits:
    return {b"%06d" % key: BitMap([key, key + 1]) for key in range(5000)}


COLUMNS: dict[str, Bits] = {
    "a": few(1),
    "b": few(2, nulls=False),
    "c": many(),
    "d": {None: BitMap([3, 4])},
    "d#raised": {b"": BitMap([7])},
    "e": few(3),
}


def parts() -> list[Postings]:
    return [
        postings_of(column, "string", bits, [at % 3 > 0 for at in range(len(bits))])
        for column, bits in COLUMNS.items()
    ]


def written(storage: Storage, share: bool) -> Segment:
    return Segment(storage, write_segment(storage, "space", ROWS, parts(), share).path)


def groups_of(storage: Storage, segment: Segment) -> list[list[str]]:
    file = pq.ParquetFile(f"{storage.root}/{segment.path}")
    groups = (file.read_row_group(n, columns=["column"]) for n in range(file.num_row_groups))
    return [list(dict.fromkeys(group["column"].to_pylist())) for group in groups]


def test_columns_of_few_postings_share_a_row_group_and_those_of_many_do_not(storage: Storage) -> None:
    assert groups_of(storage, written(storage, True)) == [["a", "b"], ["c"], ["d", "d#raised", "e"]]
    assert groups_of(storage, written(storage, False)) == [[column] for column in COLUMNS]


def test_a_column_of_a_few_and_then_many_bytes_is_read_in_the_order_of_its_keys(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "GROUP_BYTES", 1 << 17)
    count = 10 << 17
    chosen = np.random.default_rng(0).random(count) < 0.5
    bits: Bits = {
        None: BitMap([0, 1]),
        b"\0": BitMap(np.flatnonzero(chosen).astype(np.uint32)),
        b"\1": BitMap(np.flatnonzero(~chosen).astype(np.uint32)),
    }
    parts = [
        postings_of("a", "string", few(1), [False] * len(few(1))),
        postings_of("b", "boolean", bits, [False] * 3),
    ]
    file = write_segment(storage, "space", count, parts, share=True)
    assert groups_of(storage, Segment(storage, file.path)) == [["a", "b"], ["b"], ["b"]]
    for read_before in (False, True):
        segment = Segment(storage, file.path)
        if read_before:
            assert [segment.lookup("b", key) for key in bits] == list(bits.values())
        keys, cardinality = segment.keys("b")
        assert keys.to_pylist() == list(bits)
        assert cardinality.tolist() == [len(positions) for positions in bits.values()]
        POSTINGS.clear()


def test_a_shared_row_group_has_a_limit(storage: Storage) -> None:
    bits: Bits = {b"%04d" % key: BitMap(range(key, key + 9)) for key in range(300)}
    listed = [postings_of(f"c{n:02}", "string", bits, [True] * len(bits)) for n in range(45)]
    segment = Segment(storage, write_segment(storage, "space", ROWS, listed, True).path)
    groups = groups_of(storage, segment)
    assert [column for group in groups for column in group] == [part.column for part in listed]
    assert [len(group) for group in groups] == [21, 21, 3]
    for part in listed:
        assert segment.lookup(part.column, b"0299") == bits[b"0299"]


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_reads_the_same_from_a_shared_row_group(storage: Storage, column: str) -> None:
    shared, alone, bits = written(storage, True), written(storage, False), COLUMNS[column]
    assert shared.columns == alone.columns
    for key in [*bits, b"", b"aaa", b"zzz", None]:
        assert shared.lookup(column, key) == alone.lookup(column, key) == bits.get(key)
    for ranges in ([(None, False, None, False)], [(b"aab", True, b"b", False)], [(b"c", False, b"a", False)]):
        assert shared.select(column, ranges) == alone.select(column, ranges)
        covers = [BitMap.union(BitMap(), *segment.cover(column, ranges)) for segment in (shared, alone)]
        assert covers[0] == covers[1]
    keys, cardinality = written(storage, True).keys(column)
    assert dict(zip(keys.to_pylist(), cardinality.tolist(), strict=True)) == {
        key: len(positions) for key, positions in bits.items()
    }
    marked = np.arange(len(bits)) % 2 == 0
    covers = [BitMap.union(BitMap(), *segment.cover_keys(column, marked)) for segment in (shared, alone)]
    assert covers[0] == covers[1]
    read = {
        key: positions
        for keys, group in shared.postings(column)
        for key, positions in zip(keys.to_pylist(), group, strict=True)
    }
    assert read == bits
    assert [(first, read(["key"])["key"].to_pylist()) for first, read in shared.row_groups(column)] == [
        (first, read(["key"])["key"].to_pylist()) for first, read in alone.row_groups(column)
    ]
    assert shared.forms(column)[:2] == alone.forms(column)[:2]
    assert shared.weight(column)[0] == alone.weight(column)[0]
    assert shared.sparse_positions(column) <= alone.sparse_positions(column)


def test_bytes_of_a_shared_row_group_are_divided_among_its_columns(storage: Storage) -> None:
    segment = written(storage, True)
    file = pq.ParquetFile(f"{storage.root}/{segment.path}").metadata
    group = file.row_group(2)
    whole = sum(group.column(leaf).total_compressed_size for leaf in range(group.num_columns))
    assert sum(segment.forms(column)[2] for column in ("d", "d#raised", "e")) == pytest.approx(whole, abs=2)


def test_a_key_outside_of_a_column_reads_nothing(storage: Storage) -> None:
    segment = written(storage, True)
    assert segment.lookup("b", b"zzz") is None
    assert segment.bytes_read == 0


def test_one_read_of_a_shared_row_group_serves_its_other_columns(storage: Storage) -> None:
    segment = written(storage, True)
    segment.lookup("a", None)
    read = segment.bytes_read
    assert read > 0
    segment.lookup("b", next(iter(COLUMNS["b"])))
    assert segment.bytes_read == read


def test_rows_of_several_columns_of_which_nobody_says_whose_they_are_are_damage(storage: Storage) -> None:
    one, other = postings_of("a", "string", few(1)), postings_of("b", "string", few(2))
    joint = JointPostings((*one.owners, *other.owners), *_concatenated(one, other))
    path = write_segment(storage, "space", ROWS, [joint], True).path
    assert Segment(storage, path).columns == {"a": "string", "b": "string"}
    stored = f"{storage.root}/{path}"
    assert list(json.loads(pq.read_metadata(stored).metadata[SHARED.encode()])) == ["0"]
    torn = pq.read_table(stored)
    file = write_index_file(
        storage, "bitmap_index", "space", lambda to: write_row_groups(to, torn.schema, [torn])
    )
    with pytest.raises(CorruptIndexError, match="does not say whose its rows are"):
        _ = Segment(storage, file.path).columns


def _concatenated(*listed: Postings) -> tuple[pa.Array, np.ndarray, pa.Array, pa.Table]:
    tables = [part.sparse for part in listed if part.sparse is not None]
    return (
        pa.concat_arrays([part.keys for part in listed]),
        np.concatenate([part.cardinality for part in listed]),
        pa.concat_arrays([part.bitmaps for part in listed]),
        pa.concat_tables(tables).combine_chunks(),
    )


def test_a_broken_bitmap_among_several_columns_is_named_by_its_column(storage: Storage) -> None:
    one, other = postings_of("a", "string", few(1)), postings_of("b", "string", few(2))
    keys, cardinality, bitmaps, sparse = _concatenated(one, other)
    cardinality[len(one.keys) + 2] += 1
    joint = JointPostings((*one.owners, *other.owners), keys, cardinality, bitmaps, sparse)
    with pytest.raises(BrokenBitmapError, match="bitmap 2 of column b") as broken:
        write_segment(storage, "space", ROWS, [joint], True)
    assert broken.value.fields["number"] == 2


def test_the_empty_text_is_found_behind_a_row_group_of_null_alone(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "GROUP_BYTES", 100)
    positions = np.random.default_rng(0).integers(0, 3, 100_000)
    bits: Bits = {
        key: BitMap(np.flatnonzero(positions == n).astype(np.uint32))
        for n, key in enumerate((None, b"", b"x"))
    }
    file = write_segment(storage, "space", 100_000, [postings_of("a", "string", bits, [False] * 3)])
    segment = Segment(storage, file.path)
    assert [segment.lookup("a", key) for key in (None, b"", b"x", b"y")] == [*bits.values(), None]
    assert segment.ends("a") == [b"", b"x"]
