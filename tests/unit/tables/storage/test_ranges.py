"""An object read in order costs few requests, one read here and there brings little more than is read."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailbit.tables.parquet.file import ParquetFile
from tailbit.tables.storage.object_store import AHEAD, FAR_AHEAD, TAIL, Ranges

DATA = random.Random(1).randbytes(12 << 20)


class Asked:
    """An object whose requests are counted."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.spans = list[tuple[int, int]]()
        self.file = Ranges(len(data), data[-TAIL:], self._fetch)

    def _fetch(self, start: int, end: int) -> bytes:
        self.spans.append((start, end))
        return self.data[start:end]

    @property
    def brought(self) -> int:
        """Bytes of all answers."""
        return sum(end - start for start, end in self.spans)


@pytest.mark.parametrize("piece", [1 << 10, 100_000, 300_000, 5 << 20])
def test_what_is_read_in_order_comes_in_ever_larger_answers_and_once(piece: int) -> None:
    asked = Asked(DATA)
    found = [asked.file.read(piece) for _ in range(0, len(DATA), piece)]
    assert b"".join(found) == DATA
    assert len(asked.spans) <= 7
    assert asked.brought <= len(DATA)
    assert max(end - start for start, end in asked.spans) <= max(piece, FAR_AHEAD)


def test_what_is_read_here_and_there_brings_little_more() -> None:
    asked, rng = Asked(DATA), random.Random(2)
    for _ in range(20):
        at, size = rng.randrange(len(DATA)), rng.randrange(2 * AHEAD)
        asked.file.seek(at)
        assert asked.file.read(size) == DATA[at : at + size]
    assert max(end - start for start, end in asked.spans) <= 3 * AHEAD


def test_a_parquet_file_of_many_row_groups_is_read_whole_in_few_requests() -> None:
    out, numbers = pa.BufferOutputStream(), np.random.default_rng(3)
    table = pa.table({f"c{n}": numbers.integers(0, 1 << 40, 100_000) for n in range(20)})
    pq.write_table(table, out, row_group_size=10_000)
    asked = Asked(out.getvalue().to_pybytes())
    assert ParquetFile(pa.PythonFile(asked.file, mode="r")).read() == table
    assert len(asked.spans) <= 8
    assert asked.brought <= len(asked.data)
