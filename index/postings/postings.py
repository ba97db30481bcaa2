"""Writing of segments: postings of some columns of one row space become one immutable file.

A posting is (column, key) and its positions in the row space (the rows of several files, numbered from 0): a
portable 32-bit Roaring bitmap for a dense key, the columns of `gaps` for a sparse key. Rows are sorted by
(column, key), NULL first. Columns never share a row group, so the statistics of a row group name one column
and a range of keys. Row groups hold at most GROUP_ROWS keys and about GROUP_BYTES of postings, at four bytes
per position of sparse keys: a lookup decodes one row group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.index.model import IndexFile
from tailbit.index.parquet.index_file import write_index_file, write_parquet
from tailbit.index.parquet.sorted_rows import GROUP_BYTES, GROUP_ROWS
from tailbit.index.postings import gaps
from tailbit.once import lazy
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, filled, numpy_of
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from tailbit.index.postings import written
else:
    written = lazy("tailbit.index.postings.written")

NAME = "bitmap_index"

ROWS = "tailbit.rows"
"""The key in a segment's metadata that holds the row count of its row space."""

POSITION_BYTES = 4
"""Bytes that a position of a sparse key counts towards the size of a row group."""

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
"""Parquet leaf numbers of the columns that hold positions; each column has one leaf."""

_FIRST = SCHEMA.get_field_index(gaps.FIRST) - _LEAVES.start


class GroupSize(NamedTuple):
    """Sizes of a row group of postings, from the footer.

    `keys`, and how many of them are `sparse`; `positions` of the sparse keys, overestimated by at most a
    fifth. `unpacked`, `packed`: bytes of all postings before compression, and in the file.
    """

    keys: int
    sparse: int
    positions: int
    unpacked: int
    packed: int

    @classmethod
    def of(cls, group: pq.RowGroupMetaData) -> GroupSize:
        """Return the size of a row group. Cost: pyarrow creates some objects per column."""
        chunks = [group.column(leaf) for leaf in _LEAVES]
        unpacked = [chunk.total_uncompressed_size for chunk in chunks]
        keys, first = int(group.num_rows), chunks[_FIRST].statistics
        # A sparse key has a first position, and each of its gaps has one byte in the next column.
        sparse = keys - (int(first.null_count) if first is not None else 0)
        packed = sum(chunk.total_compressed_size for chunk in chunks)
        return cls(keys, sparse, sparse + unpacked[_FIRST + 1] if sparse else 0, sum(unpacked), packed)


@dataclass(frozen=True)
class Postings:
    """All postings of one column of one row space, or a part of them in ascending order.

    `keys`: sorted, the null entry (NULL) first. `cardinality`: int64, the number of set positions. `bitmaps`:
    portable, serialized; null for a sparse key. `sparse`: the columns `gaps.SCHEMA`, null for a dense key;
    None if all keys are dense.
    """

    column: str
    key_type: str
    keys: pa.BinaryArray
    cardinality: npt.NDArray[np.int64]
    bitmaps: pa.BinaryArray
    sparse: pa.Table | None = None


def write_segment(storage: Storage, space: str, rows: int, postings: Iterable[Postings]) -> IndexFile:
    """Write postings, which come in ascending order of column and key, as one file.

    `rows`: the row count of the row space. The file's metadata holds the number, and bitmaps are checked
    against it when written and when read. Memory: one `Postings` and a row group at a time.

    Raises:
        BrokenBitmapError: a bitmap fails the checks; no file is left.
        StorageError: the disk is full or refuses.
    """
    return write_index_file(storage, NAME, space, lambda to: encode_segment(to, space, rows, postings))


def encode_segment(to: pa.NativeFile, space: str, rows: int, postings: Iterable[Postings]) -> None:
    """Write the bytes of a segment into a sink; see `write_segment`."""
    schema = SCHEMA.with_metadata({ROWS: str(rows)})
    groups = _row_groups(_table(space, _checked(space, part, rows), schema) for part in postings)
    write_row_groups(to, schema, groups)


def write_row_groups(to: pa.NativeFile, schema: pa.Schema, groups: Iterable[pa.Table]) -> None:
    """Write row groups of a segment as they are, without cutting them again."""
    write_parquet(to, schema, groups, encodings=gaps.ENCODINGS)


def _checked(space: str, part: Postings, rows: int) -> Postings:
    cardinality = np.asarray(part.cardinality, dtype=np.int64)
    bitmaps = _one_chunk(part.bitmaps)
    written.check_bitmaps(space, part.column, cardinality, bitmaps, rows)
    sparse = part.sparse or gaps.none(len(bitmaps))
    written.check_sparse(space, part.column, gaps.Gaps.of(sparse, cardinality, rows), bitmaps)
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
    """Regroup rows into row groups as full as the limits allow, never with two columns."""
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
    """Cut rows into row groups of at most GROUP_ROWS rows and GROUP_BYTES, or of one larger posting."""
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
