"""Measurement of a sampled column: its distinct keys, and the size and build time of their index.

Eight rows by hand, two blocks of four:

    values       UA AA UA UA | UA DL DL DL
    keys         AA DL UA          3 distinct
    in blocks     1  1  2          AA and DL are in one block, UA in both
    largest       3 (DL), of 8
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tailbit.base.dataclass import dataclass
from tailbit.index.advice.sample import SampledBlock, values_of
from tailbit.index.keys import ELEMENT, MAX_KEY, posting_type_of
from tailbit.index.postings import gaps
from tailbit.index.postings.postings import encode_segment
from tailbit.index.roaring.elements import Coded, coding_of
from tailbit.index.write.posting import laid_out, postings_of
from tailbit.tables import compute as pc
from tailbit.tables.model import Column

_OF_POSTINGS = ("bitmap", *gaps.COLUMNS)
"""Columns of a segment that hold positions; each other column has one value per key."""


@dataclass(frozen=True, slots=True)
class KeysSeen:
    """The keys of a column in some sampled blocks.

    `distinct`: keys, NULL among them. `once`, `twice`: keys that occur in exactly one, in exactly two blocks.
    """

    rows: int
    blocks: int
    distinct: int
    once: int
    twice: int


@dataclass(frozen=True, slots=True)
class Measure(KeysSeen):
    """The size and the keys of one column's index over the sampled rows.

    `positions_bytes`, `keys_bytes`: compressed bytes of the positions, and of the rest, of the
    segment. `sparse`: share of the rows whose keys are stored as gaps. `cut`: share of the keys that are
    longer than `MAX_KEY`. `stored_bytes`: bytes of the column in the data files. `decode_s`, `build_s`:
    seconds of one core to decode the values, to build the segment.
    """

    nulls: int
    positions_bytes: int
    keys_bytes: int
    sparse: float
    cut: float
    stored_bytes: float
    decode_s: float
    build_s: float


def measured(blocks: Sequence[SampledBlock], column: Column) -> Measure:
    """Build the index of the sampled rows of a column in memory, and measure its size.

    Raises:
        DataFileError, ColumnTypeError: the column cannot be decoded.
    """
    key_type, began = posting_type_of(column.type), time.thread_time()
    values = values_of(blocks, column)
    decoded = time.thread_time()
    coded = coded_values(values, column, key_type)
    buffer = _segment(coded, column, key_type, sum(map(len, values)))
    built = time.thread_time()
    positions, rest, sparse = _weighed(buffer)
    seen, counts = keys_seen(coded, [block.rows for block in blocks])
    keys = coded.keys.filter(pa.array(counts > 0))
    rows = sum(map(len, values))
    longest = pc.greater(pc.binary_length(keys), MAX_KEY + len(ELEMENT))
    return Measure(
        rows=rows,
        blocks=len(blocks),
        distinct=len(keys),
        nulls=rows - sum(int(pc.count(part).as_py()) for part in values),
        once=seen.once,
        twice=seen.twice,
        positions_bytes=positions,
        keys_bytes=rest,
        sparse=sparse / rows if rows else 0.0,
        cut=(pc.sum(longest).as_py() or 0) / max(1, len(keys)),
        stored_bytes=sum(block.stored_bytes(column) for block in blocks),
        decode_s=decoded - began,
        build_s=built - decoded,
    )


def coded_values(values: Sequence[pa.ChunkedArray], column: Column, key_type: str) -> Coded:
    """Return the codes of a column's values in some blocks, end to end."""
    coding, at = coding_of(column, key_type), 0
    for part in values:
        coding.add(at, part)
        at += len(part)
    return coding.finish()


def _segment(coded: Coded, column: Column, key_type: str, rows: int) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    parts = (
        postings_of(column.id, key_type, coded.keys[slab.first : slab.first + len(slab.cardinality)], slab)
        for slab in laid_out(coded, 0, rows)
    )
    encode_segment(sink, "sample", rows, parts)
    return sink.getvalue()


def _weighed(buffer: pa.Buffer) -> tuple[int, int, int]:
    """Return the compressed bytes of a segment's positions and of its rest, and the rows of sparse keys."""
    file = pq.ParquetFile(pa.BufferReader(buffer))
    positions = rest = 0
    for group in range(file.metadata.num_row_groups):
        row_group = file.metadata.row_group(group)
        for number in range(row_group.num_columns):
            column = row_group.column(number)
            if column.path_in_schema in _OF_POSTINGS:
                positions += column.total_compressed_size
            else:
                rest += column.total_compressed_size
    stored = file.read(["cardinality", gaps.FIRST])
    sparse = pc.sum(stored["cardinality"].filter(pc.is_valid(stored[gaps.FIRST]))).as_py() or 0
    return positions, rest, int(sparse)


def keys_seen(coded: Coded, rows: Sequence[int]) -> tuple[KeysSeen, npt.NDArray[np.int64]]:
    """Return the keys seen in blocks of the given numbers of rows, and the number of rows of each key."""
    counts = np.zeros(len(coded.keys), dtype=np.int64)
    present = np.zeros(len(coded.keys), dtype=np.int64)
    at = 0
    for block_rows in rows:
        in_block = coded.counts(at, at + block_rows)
        counts += in_block
        present += in_block > 0
        at += block_rows
    distinct, once, twice = (int(some.sum()) for some in (counts > 0, present == 1, present == 2))
    return KeysSeen(sum(rows), len(rows), distinct, once, twice), counts
