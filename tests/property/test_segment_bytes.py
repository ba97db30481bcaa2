"""Whatever happens to the bytes of a segment, it answers as it was written or says that it is damaged."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from support.encodings import postings_of
from support.profiles import examples
from tailbit.errors import CorruptIndexError
from tailbit.index.postings.postings import write_segment
from tailbit.index.postings.segment import POSTINGS, Segment
from tailbit.tables.storage import LocalStorage, Storage

ROWS = 70_000


@dataclass
class Written:
    storage: Storage
    path: str
    data: bytes

    def with_bytes(self, data: bytes) -> None:
        Path(self.storage.local_path(self.path)).write_bytes(data)

    def answers(self) -> list[Any]:
        """All that can be asked of the segment, from the disk."""
        POSTINGS.clear()
        segment = Segment(self.storage, self.path)
        out: list[Any] = [segment.columns, segment.rows]
        for column in segment.columns:
            out += [segment.lookup(column, None), segment.select(column, [(None, False, None, False)])]
            out += segment.cover(column, [(None, False, None, False)])
            out += [values.tolist() for values in map(np.asarray, segment.keys(column))]
        return out


@pytest.fixture(scope="module")
def written() -> Iterator[Written]:
    rng = np.random.default_rng(0)
    parts = []
    for column, count, most in (("a", 3, 900), ("b", 60, 9)):
        made = [
            BitMap(rng.choice(ROWS, rng.integers(1, most + 1), replace=False).tolist()) for _ in range(count)
        ]
        made.append(BitMap(range(500, 9_000)))
        for bits in made:
            bits.run_optimize()
        keys = [None, *(b"%05d" % n for n in range(count))]
        sparse = (rng.random(len(keys)) < 0.5).tolist()
        parts.append(postings_of(column, "string", dict(zip(keys, made, strict=True)), sparse))
    with tempfile.TemporaryDirectory() as folder:
        storage = LocalStorage(folder)
        path = write_segment(storage, "s", ROWS, parts).path
        yield Written(storage, path, storage.read(path))


def harmless_or_named(written: Written, data: bytes, wanted: list[Any]) -> None:
    written.with_bytes(data)
    try:
        found = written.answers()
    except CorruptIndexError:
        return
    finally:
        written.with_bytes(written.data)
    assert found == wanted


@examples(250)
@given(st.floats(0, 1, exclude_max=True), st.integers(0, 7))
def test_a_flipped_bit_is_harmless_or_named(written: Written, where: float, bit: int) -> None:
    wanted = written.answers()
    data = bytearray(written.data)
    data[int(where * len(data))] ^= 1 << bit
    harmless_or_named(written, bytes(data), wanted)


@examples(150)
@given(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=64))
def test_overwritten_bytes_are_harmless_or_named(written: Written, where: float, other: bytes) -> None:
    wanted = written.answers()
    at = int(where * len(written.data))
    data = (written.data[:at] + other + written.data[at + len(other) :])[: len(written.data)]
    harmless_or_named(written, data, wanted)


@examples(100)
@given(st.floats(0, 1, exclude_max=True))
def test_a_truncated_file_is_named(written: Written, where: float) -> None:
    written.with_bytes(written.data[: int(where * len(written.data))])
    try:
        with pytest.raises(CorruptIndexError):
            written.answers()
    finally:
        written.with_bytes(written.data)
