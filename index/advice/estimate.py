"""Estimates of an index from a sample of a table: keys, bytes, build time, and whether values are counted.

A sample of a table: blocks of 65,536 neighbouring rows at random places. An index stores positions in blocks
of 65,536 rows, so a sampled block takes as many bytes as a block of the whole index. A file is drawn with a
probability in proportion to its bytes, a row group in proportion to its rows.

Measurement of a sampled column: its distinct keys, and the size and build time of their index. Eight rows by
hand, two blocks of four:

    values       UA AA UA UA | UA DL DL DL
    keys         AA DL UA          3 distinct
    in blocks     1  1  2          AA and DL are in one block, UA in both
    largest       3 (DL), of 8

Extrapolation from a sample of a column to the whole column: number of keys, bytes, build time. A key that
occurs in a single sampled block hints at keys that occur in none. With `once` keys in exactly one of m blocks
and `twice` keys in exactly two, Chao's estimate for incidences adds (m - 1) / m * once^2 / (2 * twice) to the
keys seen (Chao 1987, "Chao2"). The estimate never adds more than if each unseen block had as many new keys as
a sampled one, as in a sorted column.

Decision whether the values of a new bitmap are counted: not if nearly every row has a value of its own. The
counts of such a column take more bytes than its postings, and nobody asks for a facet that lists every row.
The decision is made once, when the definition is made, from a sample of the data; it is one of the options of
the definition, so every task, process and restart follows the same decision.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import ColumnTypeError, DataFileError
from tailbit.index.expression.indexed_term import IndexedTerm, sources_of
from tailbit.index.expression.indexed_term import values_of as values_of_term
from tailbit.index.index_files import GROUP_BYTES
from tailbit.index.keys import ELEMENT, MAX_KEY, posting_type_of
from tailbit.index.model import COUNTS, COUNTS_REASON, ROWS_PER_SPACE, Definition
from tailbit.index.postings import gaps
from tailbit.index.postings.postings import encode_segment
from tailbit.index.roaring.containers import BLOCK
from tailbit.index.roaring.elements import Coded, coding_of
from tailbit.index.sql.terms import column_of
from tailbit.index.write.posting import laid_out, postings_of
from tailbit.tables import compute as pc
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
from tailbit.tables.table import Table


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
    groups = {number: read_columns(b.file, [column], [b.group])[column.id] for number, b in decoded.items()}
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
        columns = {
            column.id: in_one(column_values) for column, column_values in zip(sources, values, strict=True)
        }
        out.append(pa.chunked_array([values_of_term(term, columns, block.rows)[0]]))
    return out


def sampled(storage: Storage, files: FileList, columns: Sequence[Column], blocks: int, seed: int) -> Sample:
    """Draw `blocks` blocks at random; a small table is sampled whole."""
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
    """Build the index of the sampled rows of a column in memory, and measure its size."""
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
        nulls=rows - sum(int(pc.count(block_values).as_py()) for block_values in values),
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
    coding, position = coding_of(column, key_type), 0
    for block_values in values:
        coding.add(position, block_values)
        position += len(block_values)
    return coding.finish()


def _segment(coded: Coded, column: Column, key_type: str, rows: int) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    postings = (
        postings_of(column.id, key_type, coded.keys[slab.first : slab.first + len(slab.cardinality)], slab)
        for slab in laid_out(coded, 0, rows)
    )
    encode_segment(sink, "sample", rows, postings)
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
    position = 0
    for block_rows in rows:
        in_block = coded.counts(position, position + block_rows)
        counts += in_block
        present += in_block > 0
        position += block_rows
    distinct, once, twice = (int(some.sum()) for some in (counts > 0, present == 1, present == 2))
    return KeysSeen(sum(rows), len(rows), distinct, once, twice), counts


_GAP_BITS = 1.5
"""Bits that a stored gap between random positions takes beyond the logarithm of the mean gap."""

CODE_BYTES = 4
"""Bytes of the code that a scan decodes for each row, however few bytes the row takes in its file."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated sizes and times of the index of one column, for the whole table.

    `distinct`: keys, NULL among them. `bytes`: size of the index, once merged. `stored_bytes`: size of the
    column in the data files. `build_s`: seconds of one core to decode the column and build its index.
    `scan_s`: seconds to decode the column alone. `question_bytes`: index bytes that the lookup of one value
    reads. `scan_bytes`: what a scan reads instead, the stored column and a code per row.
    """

    distinct: int
    bytes: int
    bytes_a_row: float
    stored_bytes: int
    build_s: float
    scan_s: float
    question_bytes: int
    scan_bytes: int

    @property
    def gains(self) -> bool:
        """Return whether the lookup of one value reads less than half of the bytes that a scan reads."""
        return 2 * self.question_bytes < self.scan_bytes


def estimate(measure: Measure, table_rows: int) -> Estimate:
    """Scale the measure of a sample to `table_rows` rows. A sample without rows gives zeros."""
    if not measure.rows:
        return Estimate(0, 0, 0.0, 0, 0.0, 0.0, 0, 0)
    times = table_rows / measure.rows
    distinct = distinct_keys(measure, table_rows)
    spaces = max(1, math.ceil(table_rows / ROWS_PER_SPACE))
    keys_bytes = measure.keys_bytes / measure.distinct * distinct * spaces
    size = round(_positions(measure, distinct, table_rows) + keys_bytes)
    group = min(size / spaces, max(GROUP_BYTES, size / spaces / distinct))
    return Estimate(
        distinct=distinct,
        bytes=size,
        bytes_a_row=size / table_rows,
        stored_bytes=round(measure.stored_bytes * times),
        build_s=(measure.decode_s + measure.build_s) * times,
        scan_s=measure.decode_s * times,
        question_bytes=round(group * spaces),
        scan_bytes=round(measure.stored_bytes * times) + CODE_BYTES * table_rows,
    )


def distinct_keys(measure: KeysSeen, table_rows: int) -> int:
    """Estimate the number of keys of the whole column: at least those seen, at most the rows."""
    seen, once, m = measure.distinct, measure.once, measure.blocks
    blocks = m * table_rows / measure.rows
    if m < 2 or blocks <= m:
        return round(min(seen * max(1.0, blocks / m), table_rows)) if m < 2 else seen
    unseen = (m - 1) / m * once**2 / (2 * measure.twice) if measure.twice else math.inf
    linear = once / m * (blocks - m)
    return max(seen, min(round(seen + min(unseen, linear)), table_rows))


def _positions(measure: Measure, distinct: int, table_rows: int) -> float:
    """Estimate the bytes of the stored positions of the whole column.

    Gaps between positions grow with the number of keys, so a sample with few rows per key underestimates
    them.
    """
    a_row = measure.positions_bytes / measure.rows
    expected = (math.log2(max(2, distinct)) + _GAP_BITS) / 8
    few_rows = measure.distinct * 4 > measure.rows
    if measure.sparse and few_rows and measure.once * 2 > measure.distinct and measure.twice:
        a_row = (1 - measure.sparse) * a_row + measure.sparse * max(a_row, expected)
    return a_row * table_rows


AUTO = "auto"
"""The value of option `counts` that leaves the decision to this module; also the default."""

MOST_KEYS = 0.5
"""Most keys per row with which values are counted.

At this number, counts take 0.4 (integers) to 0.8 (UUIDs) of the bytes of the postings; without counts,
questions about all rows take 1.1 to 2.6 times as long (`docs/decisions.md`).
"""

_LEAST_BYTES = 1 << 20
"""Data files of fewer bytes in all are not sampled: the counts of their values take little."""

_BLOCKS = 3
"""Blocks of a sample. The first one decides for most columns."""


def decided(table: Table, definitions: Sequence[Definition]) -> tuple[Definition, ...]:
    """Return new definitions with option `counts` decided, by a sample of the table where it is `auto`.

    Cost: the first rows of at most three row groups; nothing for a small table. If the table is empty or
    cannot be read, values are counted.
    """
    snapshot = table.snapshot()
    open_ = [d for d in definitions if d.has_counts and d.options.get(COUNTS, AUTO) == AUTO]
    columns = [column_of(definition, snapshot.schema) for definition in open_]
    uncounted: dict[str, float] = {}
    if open_ and sum(snapshot.files.core["size"].to_pylist()) >= _LEAST_BYTES:
        try:
            columns_present = [column for column in columns if column is not None and not column.partition]
            sample = sampled(table.storage, snapshot.files, columns_present, _BLOCKS, seed=0)
        except DataFileError:
            sample = Sample((), 0)
        ratios = {column.id: _keys_a_row(sample, column) for column in columns_present}
        uncounted = {id_: ratio for id_, ratio in ratios.items() if ratio > MOST_KEYS}
    return tuple(_decided(d, uncounted.get(d.id)) if d in open_ else d for d in definitions)


def _decided(definition: Definition, keys_a_row: float | None) -> Definition:
    """Return a definition without counts if a number of keys a row is given; else with counts."""
    options = dict(definition.without(COUNTS).options)
    if keys_a_row is not None:
        options |= {COUNTS: "off", COUNTS_REASON: f"nearly distinct: {keys_a_row:.2f} keys a row"}
    return replace(definition, options=options)


def _keys_a_row(sample: Sample, column: Column) -> float:
    """Estimate the number of keys of a column per row of the table; 0 if the column cannot be read.

    All blocks together have at most as many keys as the sum over the blocks, so few in the first decide.
    """
    blocks = _heads(sample.blocks)
    try:
        key_type = posting_type_of(column.type)
        for some in (blocks[:1], blocks):
            coded = coded_values(values_of(some, column, heads=True), column, key_type)
            pieces = [min(BLOCK, b.rows - start) for b in some for start in range(0, b.rows, BLOCK)]
            seen, _ = keys_seen(coded, pieces)
            if seen.distinct <= MOST_KEYS * seen.rows:
                return 0.0
    except (DataFileError, ColumnTypeError):
        return 0.0
    return distinct_keys(seen, sample.table_rows) / sample.table_rows


def _heads(blocks: Sequence[SampledBlock]) -> list[SampledBlock]:
    """Return the first rows of each row group of some blocks, together some `_BLOCKS` blocks of rows."""
    groups = list({(block.file.path, block.group): block for block in blocks}.values())
    rows = BLOCK * max(1, _BLOCKS // max(1, len(groups)))
    sizes = [block.file.metadata.row_group(block.group).num_rows for block in groups]
    return [replace(block, first=0, rows=min(rows, size)) for block, size in zip(groups, sizes, strict=True)]
