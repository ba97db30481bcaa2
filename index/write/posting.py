"""Postings of one column over the files of a row space: decode, check, code, lay out, count.

Check of the log's statistics of a column against the values of a file, while the values are decoded. Queries
prune files that the index does not cover by these statistics, as Spark does. If the index covered a file
whose statistics are wrong, it would return rows that a query without the index does not. So such a file is
not covered.

Coding of a column with more distinct keys than memory may hold: sorted runs on disk, then a merge. Only keys
are written; the code of each row stays in memory. A run is what `Coding` makes of the rows since the last
run: sorted keys, and rows as codes among them. A merge of the runs gives each key of a run its index among
the keys of all runs.

Worked example: six rows, two runs.

    values          c a c | b c d
    keys of runs    a c   | b c d
    all keys        a b c d
    tables          0 2   | 1 2 3      by code in the run
    codes           2 0 2 | 1 2 3

A row space numbers the rows of several files from 0; the claim of a file is its range there. Input: claims.
Output: `Postings` in ascending key order, and the visible rows per key added to a tally. Values are read a
few row groups at a time and kept as codes; then positions are sorted by code and become bitmaps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import DataFileError, HiddenRowsError, SourceError
from tailbit.index.expression.evaluate import CallCache
from tailbit.index.expression.indexed_term import IndexedTerm, sources_of, values_of
from tailbit.index.functions.tree import Call, calls_of_several
from tailbit.index.functions.vectors import Vector
from tailbit.index.index_files import aligned, starts
from tailbit.index.kinds.value_counts import Tally
from tailbit.index.model import RAISED_KEY, RAISED_TYPE, raised_id
from tailbit.index.postings.gaps import encoded, none
from tailbit.index.postings.postings import Postings
from tailbit.index.roaring.bitmaps import Bitmaps, bitmaps
from tailbit.index.roaring.coding import CodedColumn, CodedPart, Coding, order_with_nulls
from tailbit.index.roaring.collected import Codes
from tailbit.index.roaring.containers import BLOCK, bitmap_where, pays
from tailbit.index.roaring.elements import Coded, ElementCoding, coding_of
from tailbit.index.roaring.spilled import SpilledKeys
from tailbit.tables import compute as pc
from tailbit.tables.arrow import in_one, numpy_of
from tailbit.tables.cache import Cache, share
from tailbit.tables.model import Column, FileBounds, FileSlice
from tailbit.tables.parquet.bounds import row_group_bounds
from tailbit.tables.parquet.data_file import (
    DataFile,
    find_column,
    open_data_file,
    read_columns,
    read_in_batches,
)
from tailbit.tables.parquet.layout import layout_of
from tailbit.tables.partition_values import partition_array
from tailbit.tables.positions import positions_in
from tailbit.tables.storage import Storage
from tailbit.tables.storage.scratch import Scratch


def checked_values(
    file: DataFile, slice_: FileSlice, column: Column, values: Iterator[pa.ChunkedArray]
) -> Iterator[pa.ChunkedArray]:
    """Yield the values of a column, after comparing each batch with the log's statistics of the file.

    Cost: a look at the footer, whose bounds usually prove the statistics; else the minimum and maximum of
    each batch.

    Raises:
        DataFileError: a value lies outside of the statistics, by which files are pruned.
    """
    stated = slice_.bounds(column)
    if stated is None or _footer_agrees(file, column, stated):
        yield from values
        return
    only_nulls = bool(stated.null_count) and stated.null_count == stated.num_records
    for batch in values:
        if stated.null_count == 0 and batch.null_count:
            raise _disproved(slice_, column, "no NULL, the file has some")
        if only_nulls and batch.null_count < len(batch):
            raise _disproved(slice_, column, "NULL alone, the file has values")
        for which, end, beyond in (("least", stated.min, _below), ("greatest", stated.max, _above)):
            if end is not None and beyond(batch, end):
                raise _disproved(slice_, column, f"{end} as the {which} value, the file has others")
        yield batch


def _disproved(slice_: FileSlice, column: Column, fault: str) -> DataFileError:
    reason = f"the log's statistics of column {column.label} are wrong: {fault}"
    return DataFileError(file=slice_.path, reason=reason)


def _footer_agrees(file: DataFile, column: Column, stated: FileBounds) -> bool:
    """Return whether the footer, row group by row group, proves all that the log says of a column."""
    if stated.null_count and stated.null_count == stated.num_records:
        return False
    groups = row_group_bounds(layout_of(file.metadata, file.tree, file.head), file.path, column)
    return all(
        bounds is not None
        and (stated.min is None or bounds.min >= stated.min)
        and (stated.max is None or bounds.max <= stated.max)
        and (stated.null_count != 0 or bounds.null_count == 0)
        for bounds in groups
    )


def _below(batch: pa.ChunkedArray, end: Any) -> bool:
    least = _of_each(batch, pc.min)
    return least is not None and least < _as_bytes(end)


def _above(batch: pa.ChunkedArray, end: Any) -> bool:
    greatest = _of_each(batch, pc.max)
    return greatest is not None and greatest > _as_bytes(end)


def _as_bytes(end: Any) -> Any:
    """Return a text of the statistics as UTF-8 bytes, which sort as code points do; else the value itself."""
    return end.encode("utf-8", "surrogatepass") if isinstance(end, str) else end


def _of_each(batch: pa.ChunkedArray, which: Callable[[pa.Array], pa.Scalar]) -> Any:
    """Return the least or greatest value, comparable with statistics.

    Of dictionary-coded values, only those that occur count. Texts are compared as bytes: a file may hold
    bytes that are no UTF-8.
    """
    if pa.types.is_dictionary(batch.type):
        dictionaries = [chunk.dictionary.take(pc.unique(chunk.indices.drop_null())) for chunk in batch.chunks]
        batch = pa.chunked_array(dictionaries, batch.type.value_type)
    if pa.types.is_date(batch.type):
        batch = batch.cast(pa.int32())
    elif pa.types.is_timestamp(batch.type):
        batch = batch.cast(pa.int64())
    elif pa.types.is_string(batch.type):
        batch = batch.cast(pa.binary())
    return which(batch).as_py()


HELD_BYTES = share(1 / 16)
"""Bytes of distinct keys that a task holds before it sorts them into a run."""


class SpillingCoding(Coding):
    """Collector of the rows of one column like `Coding`, which holds about `held` bytes of keys at most.

    Memory: that of `Coding` for the held keys, three times that while they are sorted, and twelve bytes per
    distinct key. Fewer keys never touch the disk.
    """

    def __init__(self, type_: pa.DataType, key_type: str, held_bytes: int | None = None) -> None:
        super().__init__(type_, key_type)
        self._held_bytes = HELD_BYTES if held_bytes is None else held_bytes
        self._scratch = Scratch()
        self._runs: list[tuple[SpilledKeys, list[CodedPart]]] = []

    def add(self, start: int, values: pa.ChunkedArray) -> None:
        """Add rows from position `start` on, in the column's Arrow type or dictionary-coded."""
        super().add(start, values)
        if self.key_bytes > self._held_bytes:
            self._spill()

    def finish(self) -> CodedColumn:
        """Return the codes of all rows added. Cost: encodes and sorts the distinct values."""
        if not self._runs:
            return super().finish()
        self._spill()
        keys, tables = self._merged()
        chunks: list[CodedPart] = []
        for table in tables:
            _, of_run = self._runs.pop(0)
            chunks += (_through(chunk, table) for chunk in of_run)
        return CodedColumn(keys, sorted(chunks, key=lambda chunk: chunk.start))

    def _spill(self) -> None:
        """Write the keys of the rows since the last run as a run of their own."""
        coded = super().finish()
        self.key_bytes = 0
        keys = SpilledKeys(self._scratch)
        keys.append(coded.keys.slice(0, len(coded.keys)))
        self._runs.append((keys, coded.chunks))
        # Otherwise Arrow's pool would keep the memory of these keys beside that of the next ones.
        pa.default_memory_pool().release_unused()

    def _merged(self) -> tuple[SpilledKeys, list[Codes]]:
        """Return all distinct keys, and for each run the index of each of its keys among them."""
        every = SpilledKeys(Scratch())
        tables = [np.empty(len(keys), dtype=np.uint32) for keys, _ in self._runs]
        done = [0] * len(tables)
        inputs = [_numbered(keys, number) for number, (keys, _) in enumerate(self._runs)]
        for rows in aligned(inputs, ["key"]):
            keys, runs = rows["key"].combine_chunks(), numpy_of(rows["run"])
            order = order_with_nulls(keys)
            ordered = pa.table({"key": keys.take(pa.array(order))})
            first = starts(ordered, ["key"])
            indices = np.empty(len(order), dtype=np.uint32)
            indices[order] = len(every) + np.repeat(np.arange(len(first)), np.diff(first, append=len(order)))
            for run in np.unique(runs).tolist():
                own = indices[runs == run]
                tables[run][done[run] :][: len(own)] = own
                done[run] += len(own)
            every.append(ordered["key"].combine_chunks().take(pa.array(first)))
        return every, tables


def _through(chunk: CodedPart, table: Codes) -> CodedPart:
    """Return rows of a run with their codes among all keys; `table`: code in the run to code among all."""
    own = table[chunk.shift :] if chunk.table is None else table[chunk.table]
    return replace(chunk, table=own, shift=0)


def _numbered(keys: SpilledKeys, run: int) -> Iterator[pa.Table]:
    """Yield the keys of a run, each with the number of the run."""
    for piece in keys.pieces():
        yield pa.table({"key": piece, "run": np.full(len(piece), run, dtype=np.int32)})


_OPEN_FILES = 64
_KEPT_BYTES = 64 << 20
"""Bytes of decoded columns, and of values of calls, that a task caches for further terms that use them."""
_ROWS_AT_ONCE = 1 << 20
"""Rows (or elements of arrays) that are decoded together."""

_LARGEST_GROUP = 2 * _ROWS_AT_ONCE
"""Rows (or elements) of the largest row group that is decoded in one piece."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A file slice, its rows `[base, base + rows)` of a row space, and the columns to post there."""

    slice: FileSlice
    space: str
    base: int
    rows: int
    columns: frozenset[str]


class DataFiles:
    """Data files by path; a bounded number stays open between the columns of a task."""

    def __init__(self, storage: Storage, columns: Sequence[Column]) -> None:
        self._storage = storage
        self._coded = [c for c in sources_of(columns) if not c.partition]
        self._open: Cache[str, DataFile] = Cache(_OPEN_FILES, dropped=DataFile.close)
        terms = [column for column in columns if isinstance(column, IndexedTerm)]
        read = Counter(column.id for reader in columns for column in sources_of([reader]))
        self._of_several = {id_ for id_, many in read.items() if many > 1}
        self._calls_of_several = calls_of_several(term.expression for term in terms)
        self._small: Cache[tuple[str, str], list[pa.ChunkedArray]] = Cache(_KEPT_BYTES)
        self._calls: Cache[tuple[str, str, str], Vector] = Cache(_KEPT_BYTES)

    def open(self, slice_: FileSlice) -> DataFile:
        """Return the data file of a slice."""

        def opened() -> tuple[DataFile, int]:
            return open_data_file(self._storage, slice_.path, slice_.size, self._coded), 1

        return self._open.get(slice_.path, opened)

    def values(self, slice_: FileSlice, rows: int, column: Column) -> Iterator[pa.ChunkedArray]:
        """Yield all values of a column in row order, about `_ROWS_AT_ONCE` at a time.

        Strings may come as dictionary codes. The log's statistics are compared with the values.
        """
        if isinstance(column, IndexedTerm):
            for values, _ in self.computed(slice_, rows, column):
                yield values
            return
        if column.partition:
            text = slice_.partition.get(column.physical[0])
            value = partition_array(column, text, 1)
            yield pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), value)])
            return
        if rows > _ROWS_AT_ONCE or column.id not in self._of_several:
            yield from self._read(slice_, column)
            return

        def read() -> tuple[list[pa.ChunkedArray], int]:
            values = list(self._read(slice_, column))
            return values, sum(values_of_column.nbytes for values_of_column in values)

        yield from self._small.get((slice_.path, column.id), read)

    def _read(self, slice_: FileSlice, column: Column) -> Iterator[pa.ChunkedArray]:
        file = self.open(slice_)
        yield from checked_values(file, slice_, column, _stored_values(file, column))

    def computed(
        self, slice_: FileSlice, rows: int, term: IndexedTerm
    ) -> Iterator[tuple[pa.ChunkedArray, Mask | None]]:
        """Yield the values of a term in row order, and where it raises; None if it raises nowhere."""
        sources = sources_of([term])
        for arrays in _side_by_side([self.values(slice_, rows, column) for column in sources]):
            columns = {column.id: array for column, array in zip(sources, arrays, strict=True)}
            # Values of calls are cached only if they are those of the whole file.
            caches = (
                partial(self._call_cache, slice_.path) if len(arrays[0]) == rows <= _ROWS_AT_ONCE else None
            )
            values, raised = values_of(term, columns, len(arrays[0]), caches)
            yield pa.chunked_array([values]), raised

    def _call_cache(self, path: str, over: str) -> CallCache:
        """Return the cache of the calls that several terms have in common, for values of one file."""

        def of(call: Call, compute: Callable[[], Vector]) -> Vector:
            if call.key not in self._calls_of_several:
                return compute()

            def computed() -> tuple[Vector, int]:
                vector = compute()
                return vector, vector.values.nbytes + (0 if vector.raised is None else vector.raised.nbytes)

            return self._calls.get((path, over, call.key), computed)

        return of


def _side_by_side(columns: Sequence[Iterator[pa.ChunkedArray]]) -> Iterator[list[pa.Array]]:
    """Yield the values of several columns for the same rows; each comes in pieces of its own sizes."""
    pending = [pa.chunked_array([], pa.null()) for _ in columns]
    while True:
        for n, more in enumerate(columns):
            # A row group without rows may be a piece of its own.
            while not len(pending[n]) and (piece := next(more, None)) is not None:
                pending[n] = piece
        rows = min(map(len, pending))
        if not rows:
            return
        yield [in_one(values.slice(0, rows)) for values in pending]
        pending = [values.slice(rows) for values in pending]


def _stored_values(file: DataFile, column: Column) -> Iterator[pa.ChunkedArray]:
    """Yield the values of a column as they are decoded, some row groups at a time."""
    sizes = _sizes(file, column)
    for groups in _batches(sizes):
        size = sizes[groups[0]]
        if size > _LARGEST_GROUP:
            rows = file.metadata.row_group(groups[0]).num_rows * _ROWS_AT_ONCE // size
            yield from read_in_batches(file, column, groups[0], max(1, rows))
        else:
            yield read_columns(file, [column], groups)[column.id]


def _sizes(file: DataFile, column: Column) -> list[int]:
    """Return how many values of a column each row group has: one per row, or one per array element."""
    groups = [file.metadata.row_group(n) for n in range(file.metadata.num_row_groups)]
    steps = find_column(file.tree, column, file.path) if column.type.name == "array" else None
    if not steps:
        return [group.num_rows for group in groups]
    return [group.column(steps[-1].first).num_values for group in groups]


def _batches(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yield the numbers of the row groups that are decoded together; a large one by itself."""
    groups: list[int] = []
    rows = 0
    for number, size in enumerate(sizes):
        if groups and (rows >= _ROWS_AT_ONCE or size > _LARGEST_GROUP):
            yield groups
            groups, rows = [], 0
        groups.append(number)
        rows += size
    if groups:
        yield groups


def post(
    data: DataFiles,
    column: Column,
    key_type: str,
    claims: Sequence[Claim],
    hidden: Mapping[str, BitMap],
    tally: Tally,
) -> Iterator[Postings]:
    """Yield the postings of a column for the files that index it now; add their visible rows to `tally`.

    Invariant: `tally` is changed once, when the generator is exhausted. Memory: up to four bytes per row of
    all claims for the codes, as many while they are sorted, and the distinct keys; see `bitmaps`.
    """
    own_claims = [claim for claim in claims if column.id in claim.columns]
    raised = BitMap()
    coded = [code(data, column, key_type, own_claims, raised)]
    # Nothing else may hold the codes, which `posted` frees.
    yield from posted(coded.pop(), raised, column, key_type, own_claims, hidden, tally)


def posted(
    coded: Coded,
    raised: BitMap,
    column: Column,
    key_type: str,
    own_claims: Sequence[Claim],
    hidden: Mapping[str, BitMap],
    tally: Tally,
) -> Iterator[Postings]:
    """Yield the postings of a coded column of the files `own_claims`; see `post`.

    `raised`: where a term raises.
    """
    keys, counts = coded.keys, -hidden_counts(coded, own_claims, hidden)
    extent = max(claim.base + claim.rows for claim in own_claims)
    first = min(claim.base for claim in own_claims) // BLOCK * BLOCK
    slabs = laid_out(coded, first, extent)
    del coded
    if extent - first >= _ROWS_AT_ONCE:
        # Otherwise Arrow's pool would keep the memory of decoding and hashing beside what is allocated next.
        pa.default_memory_pool().release_unused()
    for slab in slabs:
        codes = slice(slab.first, slab.first + len(slab.cardinality))
        counts[codes] += slab.cardinality.astype(np.int32)
        some = keys.slice(slab.first, len(slab.cardinality))
        yield postings_of(column.id, key_type, some, slab)
    tally.add(column.id, key_type, keys, counts)
    if raised:
        yield _raised_postings(column, raised, own_claims, hidden, tally)


def _raised_postings(
    column: Column, raised: BitMap, claims: Sequence[Claim], hidden: Mapping[str, BitMap], tally: Tally
) -> Postings:
    """Return the posting of the rows where a term raises an error, and count the visible ones."""
    id_, keys = counted_raised(column, raised, claims, hidden, tally)
    bitmaps = pa.array([raised.serialize()], pa.binary())
    return Postings(id_, RAISED_TYPE, keys, np.array([len(raised)], dtype=np.int64), bitmaps)


def counted_raised(
    column: Column, raised: BitMap, claims: Sequence[Claim], hidden: Mapping[str, BitMap], tally: Tally
) -> tuple[str, pa.BinaryArray]:
    """Count the visible rows where a term raises an error; return id and only key of their posting."""
    shown = raised.copy()
    for claim in claims:
        if claim.slice.path in hidden:
            shown -= hidden[claim.slice.path].shift(claim.base)
    id_, keys = raised_id(column.id), pa.array([RAISED_KEY], pa.binary())
    tally.add(id_, RAISED_TYPE, keys, np.array([len(shown)], dtype=np.int64))
    return id_, keys


def laid_out(coded: Coded, first: int, extent: int) -> Iterator[Bitmaps]:
    """Build the bitmap of each code over the positions from `first` (a multiple of BLOCK) up to `extent`."""
    codes, positions = coded.listed(first, extent)
    return bitmaps(codes, first, len(coded.keys), pays, positions=positions)


def code(
    data: DataFiles, column: Column, key_type: str, claims: Sequence[Claim], raised: BitMap | None = None
) -> Coded:
    """Return the codes of a column by position of the row space.

    The positions where a term raises an error are added to `raised`; their code is that of NULL.
    """
    coding = coding_of(column, key_type, SpillingCoding)
    raising = BitMap() if raised is None else raised
    for claim in claims:
        _add(coding, data, column, claim, raising)
    return coding.finish()


def _add(
    coding: Coding | ElementCoding, data: DataFiles, column: Column, claim: Claim, raising: BitMap
) -> None:
    """Add the rows of a file.

    The last decoded values are freed on return, before the remaining files are coded.
    """
    position = claim.base
    if isinstance(column, IndexedTerm):
        for values, raised in data.computed(claim.slice, claim.rows, column):
            coding.add(position, values)
            if raised is not None:
                raising |= bitmap_where(raised).shift(position)
            position += len(values)
        return
    for values in data.values(claim.slice, claim.rows, column):
        coding.add(position, values)
        position += len(values)


def hidden_counts(
    coded: Coded, claims: Sequence[Claim], hidden: Mapping[str, BitMap]
) -> npt.NDArray[np.int32]:
    """Count the hidden rows per code, int32: a file has fewer rows than 32 bits can count."""
    out = np.zeros(coded.absent + 1, dtype=np.int32)
    for claim in claims:
        if claim.slice.path in hidden:
            positions = positions_in(hidden[claim.slice.path])
            codes, _ = coded.codes_at(positions[positions < claim.rows].astype(np.int64) + claim.base)
            np.add.at(out, codes, np.int32(1))
    return out[:-1]


def postings_of(column: str, key_type: str, keys: pa.BinaryArray, slab: Bitmaps) -> Postings:
    """Return the postings of a slab, without the keys that no row has."""
    return Postings(column, key_type, *stored(keys, slab))


def stored(
    keys: pa.BinaryArray, slab: Bitmaps
) -> tuple[pa.BinaryArray, npt.NDArray[np.int64], pa.BinaryArray, pa.Table]:
    """Return keys, cardinalities, bitmaps and sparse postings of a slab, without the keys that no row has."""
    counts = np.where(slab.sparse, slab.cardinality, 0)
    sparse = encoded(slab.positions, counts) if slab.sparse.any() else none(len(keys))
    bitmaps, cardinality, present = slab.arrow(), slab.cardinality, slab.cardinality > 0
    if not present.all():
        numbers = pa.array(np.flatnonzero(present))
        keys, bitmaps, cardinality = keys.take(numbers), bitmaps.take(numbers), cardinality[present]
        sparse = sparse.take(numbers)
    return keys, cardinality, bitmaps, sparse


def why_unreadable(storage: Storage, slice_: FileSlice, columns: Sequence[Column]) -> str | None:
    """Return why the footer, one of `columns` or the hidden rows cannot be read, or None if all can.

    Cost: the footer, and the values of the columns, some row groups at a time.
    """
    data = DataFiles(storage, columns)
    try:
        rows = int(data.open(slice_).metadata.num_rows)
        for column in columns:
            for _ in data.values(slice_, rows, column):
                pass
        if slice_.hidden is not None:
            slice_.hidden.read(storage)
    except HiddenRowsError as error:
        return f"data file {slice_.path}: {error}"
    except SourceError as error:
        return str(error)
    return None
