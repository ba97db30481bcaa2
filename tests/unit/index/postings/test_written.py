"""A broken bitmap is named when it is written, and its file never comes to be."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyroaring import BitMap

import tailbit
from support.tables import index_of
from tailbit.errors import BrokenBitmapError
from tailbit.index.postings.postings import Postings, write_segment
from tailbit.index.postings.written import SAMPLE, check_bitmaps
from tailbit.tables.storage import LocalStorage

ROWS = 1 << 16
SPREAD = range(0, ROWS, 16)


def bits_as_array() -> bytes:
    """4,096 positions written as a bitset, which every reader takes for an array of the same size."""
    words = np.zeros(ROWS, dtype=np.uint8)
    words[SPREAD.start : SPREAD.stop : SPREAD.step] = 1
    sound = BitMap(SPREAD).serialize()
    return sound[:16] + np.packbits(words, bitorder="little").tobytes()


def check(bitmaps: Sequence[bytes], cardinality: Sequence[int]) -> None:
    check_bitmaps("s", "c", np.array(cardinality, dtype=np.int64), pa.array(bitmaps, pa.binary()), ROWS)


def changed(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + bytes([value]) + data[at + 1 :]


SINGLE = BitMap([70]).serialize()
SMALL = BitMap([1, 5, 9]).serialize()
_TWO_RUNS = BitMap([*range(100), *range(200, 300)])
_TWO_RUNS.run_optimize()
RUNS = _TWO_RUNS.serialize()
"""Its second run begins at 200: byte 15."""
BROKEN = {
    "a bitset of as many positions as an array may have": (bits_as_array(), 4096),
    "another cardinality": (SMALL, 4),
    "a position beyond the rows": (BitMap([3, ROWS]).serialize(), 2),
    "one position beyond the rows": (BitMap([ROWS]).serialize(), 1),
    "one position with another cookie": (changed(SINGLE, 0, 0), 1),
    "one position that says it is two": (changed(SINGLE, 10, 1), 1),
    "one position in two containers": (changed(SINGLE, 4, 2), 1),
    "an end that is cut off": (SMALL[:-1], 3),
    "positions that do not rise": (SMALL[:-2] + SMALL[-4:-2], 3),
    "no bytes": (b"", 0),
    "a cardinality of its own that leaves a position over": (changed(SMALL, 10, 1), 2),
    "bytes behind its end": (SMALL + b"\0\0", 3),
    "an offset that leads elsewhere": (changed(SMALL, 12, 18), 3),
    "runs that overlap": (changed(RUNS, 15, 50), 200),
    "runs that touch": (changed(RUNS, 15, 100), 200),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_bitmap_is_named_with_its_column_and_place(name: str) -> None:
    data, cardinality = BROKEN[name]
    with pytest.raises(BrokenBitmapError) as broken:
        check([SMALL, SINGLE, data, SINGLE], [3, 1, cardinality, 1])
    assert {k: broken.value.fields[k] for k in ("space", "column", "number")} == {
        "space": "s",
        "column": "c",
        "number": 2,
    }
    assert "Nothing was committed" in broken.value.hint


def test_sound_bitmaps_of_every_form_pass() -> None:
    forms = [BitMap(), BitMap([0]), BitMap([ROWS - 1]), BitMap(SPREAD), BitMap(range(ROWS)), BitMap([7, 9])]
    for bits in forms:
        bits.run_optimize()
    check([b.serialize() for b in forms], [len(b) for b in forms])
    check([], [])


def test_every_dense_container_and_every_single_position_is_checked_among_many() -> None:
    many = 20 * SAMPLE
    for data, cardinality in (BROKEN["one position with another cookie"], (bits_as_array(), 4096)):
        for at in (0, many // 2 + 1, many - 1):
            bitmaps, counts = [SINGLE] * many, [1] * many
            bitmaps[at], counts[at] = data, cardinality
            with pytest.raises(BrokenBitmapError):
                check(bitmaps, counts)


def test_a_part_of_a_longer_array_is_checked_as_itself() -> None:
    bitmaps = pa.array([b"nonsense", SMALL, SINGLE, b"nonsense"], pa.binary()).slice(1, 2)
    check_bitmaps("s", "c", np.array([3, 1], dtype=np.int64), bitmaps, ROWS)


def test_no_file_is_left_of_a_segment_with_a_broken_bitmap(tmp_path: Path) -> None:
    part = Postings(
        "c",
        "string",
        pa.array([b"a"], pa.binary()),
        np.array([4096], dtype=np.int64),
        pa.array([bits_as_array()], pa.binary()),
    )
    with pytest.raises(BrokenBitmapError, match=re.escape("column c, row space s")):
        write_segment(LocalStorage(str(tmp_path)), "s", ROWS, [part])
    assert os.listdir(tmp_path / "kind=bitmap_index") == []


def test_a_value_with_4096_rows_of_65536_is_answered_from_the_index_which_is_sound(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    values = np.where(np.arange(ROWS) % 16 == 3, "A", "B")
    for _ in range(8):
        write_deltalake(path, pa.table({"v": values}), mode="append")
        index_of(path, ["v"])
    opened = tailbit.open(path)
    assert opened.compact() == 1
    for table in (opened, tailbit.open(path)):
        answer = table.where("v = 'A'")
        assert (answer.count(), answer.files_scanned, answer.damaged) == (8 * 4096, 0, [])
        assert table.verify().problems == []
