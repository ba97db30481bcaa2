"""A sample of a table: blocks of 65,536 neighbouring rows at random places.

An index stores positions in blocks of 65,536 rows, so a sampled block takes as many bytes as a block of the
whole index. A file is drawn with a probability in proportion to its bytes, a row group in proportion to its
rows.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.index.expression.indexed_term import IndexedTerm, sources_of
from tailbit.index.expression.indexed_term import values_of as values_of_term
from tailbit.index.roaring.containers import BLOCK
from tailbit.tables.arrow import in_one
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.data_file import (
    DataFile,
    find_column,
    open_data_file,
    read_columns,
    read_in_batches,
)
from tailbit.tables.partition_values import partition_array
from tailbit.tables.snapshot import FileList
from tailbit.tables.storage import Storage


@dataclass(frozen=True, slots=True)
class SampledBlock:
    """Rows `[first, first + rows)` of row group `group` of an open file, which the table names `slice`."""

    file: DataFile
    slice: FileSlice
    group: int
    first: int
    rows: int

    def stored_bytes(self, column: Column) -> float:
        """Estimate, by the footer, the compressed bytes of the rows in a column, or in those a term reads."""
        return sum(self._stored_bytes(source) for source in sources_of([column]) if not source.partition)

    def _stored_bytes(self, column: Column) -> float:
        steps = find_column(self.file.tree, column, self.file.path)
        group = self.file.metadata.row_group(self.group)
        if not steps or not group.num_rows:
            return 0.0
        stored = sum(group.column(leaf).total_compressed_size for leaf in steps[-1].leaves)
        return float(stored * self.rows / group.num_rows)


@dataclass(frozen=True)
class Sample:
    """The sampled blocks, and the number of rows of the table.

    `exact`: the number is that of all data files, by their footers or the log; else it is extrapolated from
    the sampled files.
    """

    blocks: tuple[SampledBlock, ...]
    table_rows: int
    exact: bool = True

    @property
    def rows(self) -> int:
        """Return the number of sampled rows."""
        return sum(block.rows for block in self.blocks)

    @property
    def is_whole(self) -> bool:
        """Return whether every row of the table is sampled, so that what is counted is exact."""
        return self.exact and self.rows == self.table_rows

    def counted(self, files: FileList) -> Sample:
        """Return the sample with the number of rows that the log states, if it states that of every file.

        A log that contradicts the footer of a sampled file is not believed. Cost: a pass over the files.
        """
        if self.exact:
            return self
        footers = {block.file.path: block.file.metadata.num_rows for block in self.blocks}
        total = 0
        for slice_ in files:
            if slice_.rows is None or footers.get(slice_.path, slice_.rows) != slice_.rows:
                return self
            total += slice_.rows
        return Sample(self.blocks, total)


def values_of(blocks: Sequence[SampledBlock], column: Column, heads: bool = False) -> list[pa.ChunkedArray]:
    """Return the values of a column or term in each block, in row order.

    `heads`: the blocks are the first rows of their row groups. Cost: each row group is decoded once, with
    `heads` only its first rows.

    Raises:
        DataFileError: the values cannot be decoded.
        ColumnTypeError: the type cannot be decoded.
    """
    if isinstance(column, IndexedTerm):
        return _computed(blocks, column, heads)
    if column.partition:
        texts = [block.slice.partition.get(column.physical[0]) for block in blocks]
        sized = zip(texts, blocks, strict=True)
        return [pa.chunked_array([partition_array(column, text, block.rows)]) for text, block in sized]
    if heads:
        return [_head(block, column) for block in blocks]
    decoded = {(block.file.path, block.group): block for block in blocks}
    groups = {at: read_columns(b.file, [column], [b.group])[column.id] for at, b in decoded.items()}
    return [groups[block.file.path, block.group].slice(block.first, block.rows) for block in blocks]


def _head(block: SampledBlock, column: Column) -> pa.ChunkedArray:
    """Return the values of a column in a block that begins its row group."""
    first = next(read_in_batches(block.file, column, block.group, max(1, block.rows)))
    return first.slice(0, block.rows)


def _computed(blocks: Sequence[SampledBlock], term: IndexedTerm, heads: bool) -> list[pa.ChunkedArray]:
    """Compute a term in each block."""
    sources = sources_of([term])
    by_source = [values_of(blocks, source, heads) for source in sources]
    out = []
    for block, *values in zip(blocks, *by_source, strict=True):
        columns = {column.id: in_one(part) for column, part in zip(sources, values, strict=True)}
        out.append(pa.chunked_array([values_of_term(term, columns, block.rows)[0]]))
    return out


def sampled(storage: Storage, files: FileList, columns: Sequence[Column], blocks: int, seed: int) -> Sample:
    """Draw `blocks` blocks at random; a small table is sampled whole.

    Raises:
        DataFileError: a sampled file is missing or is not Parquet.
    """
    rng = random.Random(seed)
    sizes = np.asarray(files.core["size"], dtype=np.int64)
    if not len(sizes):
        return Sample((), 0)
    drawn = list(range(len(sizes))) if len(sizes) <= blocks else _by_size(rng, sizes, blocks)
    opened = {n: _opened(storage, files[n], columns) for n in dict.fromkeys(drawn)}
    rows = sum(file.metadata.num_rows for file in opened.values())
    size = sum(int(sizes[n]) for n in opened)
    table_rows = rows if len(opened) == len(sizes) else round(rows * int(sizes.sum()) / max(1, size))
    every = [block for n, file in opened.items() for block in _blocks(file, files[n])]
    if len(opened) == len(sizes) and len(every) <= blocks:
        return Sample(tuple(every), rows)
    weights = [block.rows for block in every]
    drawn_blocks = dict.fromkeys(rng.choices(range(len(every)), weights, k=2 * blocks))
    chosen = tuple(every[n] for n in sorted(list(drawn_blocks)[:blocks]))
    return Sample(chosen, table_rows, exact=len(opened) == len(sizes))


def _by_size(rng: random.Random, sizes: npt.NDArray[np.int64], blocks: int) -> list[int]:
    return rng.choices(range(len(sizes)), sizes.tolist(), k=blocks)


def _opened(storage: Storage, slice_: FileSlice, columns: Sequence[Column]) -> DataFile:
    return open_data_file(storage, slice_.path, None, [c for c in sources_of(columns) if not c.partition])


def _blocks(file: DataFile, slice_: FileSlice) -> Iterator[SampledBlock]:
    """Yield the blocks of a file: the row groups of the file, cut into blocks."""
    for group in range(file.metadata.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        for first in range(0, rows, BLOCK):
            yield SampledBlock(file, slice_, group, first, min(BLOCK, rows - first))
