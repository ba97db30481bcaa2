"""Segments are written: postings of some columns of one row space become one immutable file.

A posting is (column, key) and its positions in the row space: the portable 32-bit Roaring bitmap of them for
a dense key, the columns of `gaps` for a sparse one. Rows are sorted by (column, key), NULL
first; a column never shares a row group with another, so that the statistics of a row group name one column
and a range of keys. Row groups hold at most GROUP_ROWS keys and about GROUP_BYTES of postings, at four bytes
a position of sparse keys: a look-up decodes one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailbit.index.kinds.bitmap_index import gaps
from tailbit.index.kinds.bitmap_index.written import check_bitmaps, check_sparse
from tailbit.index.model import IndexFile
from tailbit.index.parquet.index_file import write_index_file, write_parquet
from tailbit.index.parquet.sorted_rows import GROUP_BYTES, GROUP_ROWS
from tailbit.tables.arrow import arrow_array, filled, numpy_of
from tailbit.tables.storage import Storage

NAME = "bitmap_index"

ROWS = "tailbit.rows"
"""The key of a segment's metadata: the extent of its row space."""

POSITION_BYTES = 4
"""Bytes that a position of a sparse key counts in the size of a row group."""

SCHEMA = pa.schema(
    [
        ("space", pa.string()),
        ("column", pa.string()),
        ("key_type", pa.string()),
        ("key", pa.binary()),
        ("cardinality", pa.int64()),
        ("bitmap", pa.binary()),
        *gaps.SCHEMA,
    ]
)


_LEAVES = range(SCHEMA.get_field_index("bitmap"), len(SCHEMA))
"""Parquet's numbers of the columns that hold positions; each column has one leaf."""

_FIRST = SCHEMA.get_field_index(gaps.FIRST) - _LEAVES.start


class GroupSize(NamedTuple):
    """What the footer says of a row group of postings.

    `keys`, and how many of these are `sparse`; the `positions` of the sparse ones, a fifth too many at worst.
    `unpacked`, `packed`: bytes of all postings before compression, and in the file.
    """

    keys: int
    sparse: int
    positions: int
    unpacked: int
    packed: int

    @classmethod
    def of(cls, group: pq.RowGroupMetaData) -> GroupSize:
        """The size of a row group. Cost: pyarrow makes some objects for each column."""
        chunks = [group.column(leaf) for leaf in _LEAVES]
        unpacked = [chunk.total_uncompressed_size for chunk in chunks]
        keys, first = int(group.num_rows), chunks[_FIRST].statistics
        # A sparse key has a first position, and for each gap there is one byte in the next column.
        sparse = keys - (int(first.null_count) if first is not None else 0)
        packed = sum(chunk.total_compressed_size for chunk in chunks)
        return cls(keys, sparse, sparse + unpacked[_FIRST + 1] if sparse else 0, sum(unpacked), packed)


@dataclass(frozen=True)
class Postings:
    """All postings of one column of one row space, or a rising part of them.

    `keys`: sorted, the null entry (NULL) first. `cardinality`: int64 set positions. `bitmaps`: portable,
    serialized; null for a sparse key. `sparse`: the columns `gaps.SCHEMA`, null for a dense key; None where
    all are dense.
    """

    column: str
    key_type: str
    keys: pa.BinaryArray
    cardinality: npt.NDArray[np.int64]
    bitmaps: pa.BinaryArray
    sparse: pa.Table | None = None


def write_segment(storage: Storage, space: str, rows: int, postings: Iterable[Postings]) -> IndexFile:
    """Write the postings, which come by rising column and key, as one file.

    `rows`: the extent of the row space, kept in the file's metadata, against which bitmaps are checked now
    and when read. Memory: one `Postings` and a row group at a time.

    Raises:
        BrokenBitmapError: a bitmap does not check; no file is left.
        StorageError: the disk is full or refuses.
    """
    return write_index_file(storage, NAME, space, lambda to: encode_segment(to, space, rows, postings))


def encode_segment(to: pa.NativeFile, space: str, rows: int, postings: Iterable[Postings]) -> None:
    """Write the bytes of a segment into a sink; see `write_segment`."""
    schema = SCHEMA.with_metadata({ROWS: str(rows)})
    groups = _row_groups(_table(space, _checked(space, part, rows), schema) for part in postings)
    write_row_groups(to, schema, groups)


def write_row_groups(to: pa.NativeFile, schema: pa.Schema, groups: Iterable[pa.Table]) -> None:
    """Write row groups of a segment, which are what they are to be."""
    write_parquet(to, schema, groups, encodings=gaps.ENCODINGS)


def _checked(space: str, part: Postings, rows: int) -> Postings:
    cardinality = np.asarray(part.cardinality, dtype=np.int64)
    bitmaps = _one_chunk(part.bitmaps)
    check_bitmaps(space, part.column, cardinality, bitmaps, rows)
    sparse = part.sparse or gaps.none(len(bitmaps))
    check_sparse(space, part.column, gaps.Gaps.of(sparse, cardinality, rows), bitmaps)
    return replace(part, cardinality=cardinality, bitmaps=bitmaps, sparse=sparse)


def _table(space: str, part: Postings, schema: pa.Schema) -> pa.Table:
    n = len(part.keys)
    constant = [pa.repeat(text, n) for text in (space, part.column, part.key_type)]
    cardinality = arrow_array(part.cardinality, pa.int64())
    sparse = part.sparse or gaps.none(n)
    columns = [*constant, _one_chunk(part.keys), cardinality, part.bitmaps, *sparse.columns]
    return pa.table(columns, schema=schema)


def _one_chunk(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _row_groups(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Rows regrouped: as full as the limits allow, and never of two columns."""
    held: pa.Table | None = None
    for part in parts:
        if not len(part):
            continue
        if held is not None and held["column"][0] != part["column"][0]:
            yield from _cut(held)
            held = None
        pieces = list(_cut(part if held is None else pa.concat_tables([held, part])))
        yield from pieces[:-1]
        held = pieces[-1]
    if held is not None:
        yield held.combine_chunks()


def _cut(table: pa.Table) -> Iterator[pa.Table]:
    """Row groups of at most GROUP_ROWS rows and GROUP_BYTES of postings, or of one larger posting."""
    sizes = numpy_of(filled(pc.binary_length(table["bitmap"]), 0), dtype=np.int64)
    positions = np.where(numpy_of(table[gaps.FIRST].is_valid()), numpy_of(table["cardinality"]), 0)
    ends = np.cumsum(sizes + POSITION_BYTES * positions)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        end = int(np.searchsorted(ends, before + GROUP_BYTES, side="right"))
        end = min(max(end, start + 1), start + GROUP_ROWS)
        yield table.slice(start, end - start)
        start = end
