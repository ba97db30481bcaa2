"""Rows counted by combination of keys: positions of one row space by each method, and batches of values.

Counts of the distinct values of many batches, in no order. Batches are gathered, and merged into the tally
once they are larger than the tally. So each value is merged a few times, not once per batch, and memory is
bounded by the distinct values. Integers, and types stored as integers, are counted by place or sorted; other
values are grouped by Polars if there are many.

Worked example: two batches.

    values     b  a  b       counts  2  1  1
    values     a  NULL       counts  -  -
    tally      b  a  NULL    counts  3  2  1

Positions of one row space counted by combination of keys, by each method. Each method returns the
combinations, and the positions with a truncated key, which are not counted.

Worked example: four rows by codes.

    carrier           UA   AA   UA   UA      keys AA UA          codes  1 0 1 1
    dest              SFO  LAX  SFO  LAX     keys LAX SFO        codes  1 0 1 0
    folded            3    0    3    2       code 1 * 2 + code 2
    counted           (AA, LAX) 1   (UA, LAX) 1   (UA, SFO) 2
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs, Mask
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.grouping.choice import CountingWay, PartitionColumn, PostedColumn, SpaceColumn
from tailbit.index.grouping.dictionary import (
    CHUNK,
    Coded,
    Combinations,
    Folded,
    fold,
    full_keys,
    one_array,
    unfold,
)
from tailbit.index.keys import NO_KEYS, WORD_DIGITS, decimal_words
from tailbit.index.tuple_keys import truncated
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, numpy_of
from tailbit.tables.cache import Cache, share
from tailbit.tables.parquet.assembly import polars
from tailbit.tables.positions import BitPositions, bitmap_of, positions_in

_GATHERED = 1 << 28
"""Bytes of values gathered before they are merged."""

_MANY = 1 << 16
"""From this many values on, Polars is faster than pyarrow, its start included."""

_CLOSE = 4
"""Integers are dense if their range has at most this many places per integer."""

_TABLE_SIZE = 1 << 21
"""Largest range of integers counted by place in a processor cache; beyond it, sorting is quicker."""


class Tally:
    """Values of one type and the rows of each; `key_type`: the key type of the values."""

    def __init__(self, key_type: str) -> None:
        self.key_type = key_type
        self._counted: list[tuple[pa.Array, Longs | None]] = []
        self._gathered = 0
        self._base_bytes = 0

    def add(self, values: pa.Array | pa.ChunkedArray, counts: Longs | None = None) -> None:
        """Add values with the rows of each; None: one row each."""
        whole = one_array(values)
        whole = pc.cast(whole, pa.binary()) if pa.types.is_string(whole.type) else whole
        self._counted.append((whole, counts))
        self._gathered += whole.nbytes
        if self._gathered > max(_GATHERED, self._base_bytes):
            self._add_up()

    def keys(self) -> tuple[pa.BinaryArray, Longs]:
        """Return the distinct whole keys of the values, in no order, and the rows of each."""
        self._add_up()
        if not self._counted:
            return NO_KEYS, np.zeros(0, dtype=np.int64)
        ((values, counts),) = self._counted
        assert counts is not None
        keys = full_keys(values, self.key_type)
        # 0.0 and -0.0, and NaNs of different bits, are different values with one key.
        return _added_up([(keys, counts)]) if pa.types.is_floating(values.type) else (keys, counts)

    def _add_up(self) -> None:
        if not self._counted:
            return
        summed = _integers(self._counted)
        if summed is None:
            library = polars() if sum(len(values) for values, _ in self._counted) >= _MANY else None
            summed = _added_up(self._counted) if library is None else _grouped(library, self._counted)
        self._counted, self._gathered, self._base_bytes = [summed], 0, summed[0].nbytes


def _integers(counted: Sequence[tuple[pa.Array, Longs | None]]) -> tuple[pa.Array, Longs] | None:
    """Count integers; None for other values, and for many sparse integers that come with counts."""
    type_, plain = counted[0][0].type, [_plain(values) for values, _ in counted]
    if not pa.types.is_signed_integer(plain[0].type):
        return None
    bounds = pc.min_max(pa.chunked_array(plain))
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is None:
        return None
    loose = all(counts is None for _, counts in counted)
    if high - low >= (min(_TABLE_SIZE, _CLOSE * sum(map(len, plain))) if loose else _TABLE_SIZE):
        if not loose:
            return None
        numbers, counts = _sorted(plain, low, high)
        nulls = sum(values.null_count for values in plain)
    else:
        numbers, counts, nulls = _by_place(plain, [counts for _, counts in counted], low, high)
    some = np.full(1 if nulls else 0, nulls, dtype=np.int64)
    whole = pa.concat_arrays([arrow_array(numbers, plain[0].type), pa.nulls(len(some), plain[0].type)])
    return _typed(whole, type_), np.concatenate([counts, some])


def _by_place(
    plain: Sequence[pa.Array], counts_of_parts: Sequence[Longs | None], low: int, high: int
) -> tuple[Longs, Longs, int]:
    """Return the distinct integers of `[low, high]` and the rows of each, and the rows that are NULL.

    `counts_of_parts`: the rows that each value of a part stands for; None for one each.
    """
    sums, nulls = np.zeros(high - low + 1, dtype=np.int64), 0
    for values, counts in zip(plain, counts_of_parts, strict=True):
        distances = np.subtract(_present(values), low, dtype=np.int64)
        if counts is None:
            sums += np.bincount(distances, minlength=len(sums))
            nulls += values.null_count
        else:
            there = numpy_of(pc.is_valid(values))
            np.add.at(sums, distances, counts[there])
            nulls += int(counts[~there].sum())
    present = np.flatnonzero(sums)
    return present + low, sums[present], nulls


def _sorted(plain: Sequence[pa.Array], low: int, high: int) -> tuple[Longs, Longs]:
    """Count integers by sorting. Cost: a sort, of 32-bit words where the range allows."""
    narrow = np.uint32 if high - low < 1 << 32 else np.uint64
    numbers = np.empty(sum(len(values) - values.null_count for values in plain), dtype=narrow)
    filled_to = 0
    for values in map(_present, plain):
        # Unsigned differences wrap around, so they fit whatever the signs.
        numbers[filled_to:][: len(values)] = values.astype(np.int64).view(np.uint64) - np.uint64(
            low % (1 << 64)
        )
        filled_to += len(values)
    numbers.sort()
    starts = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]])
    wide = numbers[starts].astype(np.uint64) + np.uint64(low % (1 << 64))
    return wide.view(np.int64), np.diff(np.r_[starts, len(numbers)])


def _present(values: pa.Array) -> npt.NDArray[np.signedinteger]:
    """Return the integers that are not NULL."""
    present: npt.NDArray[np.signedinteger] = numpy_of(pc.drop_null(values) if values.null_count else values)
    return present


def _added_up(counted: Sequence[tuple[pa.Array, Longs | None]]) -> tuple[pa.Array, Longs]:
    encoded = pc.dictionary_encode(
        pa.concat_arrays([values for values, _ in counted]), null_encoding="encode"
    )
    codes = numpy_of(encoded.indices, dtype=np.int64)
    if all(counts is None for _, counts in counted):
        return encoded.dictionary, np.bincount(codes, minlength=len(encoded.dictionary))
    sums = np.zeros(len(encoded.dictionary), dtype=np.int64)
    np.add.at(sums, codes, np.concatenate([_counts(*values_and_counts) for values_and_counts in counted]))
    return encoded.dictionary, sums


def _grouped(library: Any, counted: Sequence[tuple[pa.Array, Longs | None]]) -> tuple[pa.Array, Longs]:
    """Count values with Polars, as integers where their type stores integers."""
    type_ = counted[0][0].type
    columns = {"value": library.from_arrow(pa.chunked_array([_plain(values) for values, _ in counted]))}
    rows = library.len().cast(library.Int64).alias("rows")
    if any(counts is not None for _, counts in counted):
        columns["rows"] = np.concatenate([_counts(*values_and_counts) for values_and_counts in counted])
        rows = library.col("rows").sum()
    # The streaming engine hashes each value once, batch by batch, in half the time of the in-memory engine.
    frame = library.LazyFrame(columns).group_by("value").agg(rows).collect(engine="streaming")
    values = one_array(frame["value"].to_arrow(compat_level=library.CompatLevel.oldest()))
    return _typed(values, type_), frame["rows"].to_numpy()


def _plain(values: pa.Array) -> pa.Array:
    type_ = values.type
    if pa.types.is_timestamp(type_):
        return values.view(pa.int64())
    if pa.types.is_date32(type_):
        return values.view(pa.int32())
    if pa.types.is_decimal128(type_) and type_.precision <= WORD_DIGITS:
        # Of a decimal's two words, the lower holds the whole value.
        low = np.ascontiguousarray(decimal_words(values).view(np.int64)[:, 0])
        return arrow_array(low, mask=numpy_of(pc.is_null(values)) if values.null_count else None)
    return values


def _typed(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Convert values that `_plain` made integers back to their type."""
    if pa.types.is_timestamp(type_) or pa.types.is_date32(type_):
        return values.view(type_)
    if pa.types.is_decimal128(type_) and type_.precision <= WORD_DIGITS:
        return _of_scale(pc.cast(values, pa.decimal128(WORD_DIGITS + 1, 0)), type_)
    return pc.cast(values, type_)


def _of_scale(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Reinterpret the same words as decimals of another type."""
    return pa.Array.from_buffers(type_, len(values), values.buffers(), offset=values.offset)


def _counts(values: pa.Array, counts: Longs | None) -> Longs:
    return np.ones(len(values), dtype=np.int64) if counts is None else counts


def count(
    space: SpaceView, columns: Sequence[SpaceColumn], bits: BitMap, method: CountingWay
) -> tuple[Combinations, BitMap]:
    """Count positions of a row space by a method other than reading their data."""
    if method is CountingWay.CODES:
        return by_codes(columns, bits)
    if method is CountingWay.INTERSECTIONS:
        return by_intersections(columns, bits)
    first = columns[0]
    return (
        all_rows(first, bits)
        if isinstance(first, PostedColumn)
        else (by_file(space, columns, bits), BitMap())
    )


def all_rows(column: PostedColumn, bits: BitMap) -> tuple[Combinations, BitMap]:
    """Count all rows of a row space by a column: the cardinality of each posting is its count."""
    counts, mask = column.cardinalities().copy(), truncated(column.keys, column.key_type)
    truncated_rows = BitMap()
    if mask is not None:
        counts[mask] = 0
        key_numbers, postings = column.postings()
        truncated_rows = _rows_of(key_numbers, postings, mask, bits)
    codes = np.flatnonzero(counts)
    return Combinations([Coded(column.keys, codes, column.segments)], counts[codes]), truncated_rows


def by_file(space: SpaceView, columns: Sequence[SpaceColumn], bits: BitMap) -> Combinations:
    """Count by partition columns. Cost: one count per file, whatever its rows."""
    partitions = [column for column in columns if isinstance(column, PartitionColumn)]
    counts = space.counts_by_file(bits)
    files = np.flatnonzero(counts)
    codes = [column.by_file[files] for column in partitions]
    folded, sums = fold(codes, [column.size for column in partitions], counts[files])
    return Combinations([Coded(c.keys, of) for c, of in zip(partitions, folded, strict=True)], sums)


def by_intersections(columns: Sequence[SpaceColumn], bits: BitMap) -> tuple[Combinations, BitMap]:
    """Intersect the postings of each combination that occurs with the rows."""
    levels, truncated_rows = [], BitMap()
    for column in columns:
        key_numbers, postings = column.postings()
        mask = truncated(column.keys, column.key_type)
        if mask is not None:
            truncated_rows |= _rows_of(key_numbers, postings, mask, bits)
            postings = [p for p, short in zip(postings, mask[key_numbers].tolist(), strict=True) if not short]
            key_numbers = key_numbers[~mask[key_numbers]]
        levels.append((key_numbers, postings))
    codes, counts = _intersected(levels, bits - truncated_rows if truncated_rows else bits)
    pairs = zip(columns, codes, strict=True)
    return Combinations([Coded(c.keys, of, c.segments) for c, of in pairs], counts), truncated_rows


def _rows_of(key_numbers: Longs, postings: Sequence[BitMap], mask: Mask, bits: BitMap) -> BitMap:
    """Return the rows whose key is marked in `mask`."""
    marked = zip(postings, mask[key_numbers].tolist(), strict=True)
    return bits & BitMap.union(BitMap(), *(posting for posting, short in marked if short))


def _intersected(levels: Sequence[tuple[Longs, Sequence[BitMap]]], bits: BitMap) -> tuple[list[Longs], Longs]:
    """Return the places of the postings of each combination that occurs, per level, and its row count."""
    (key_numbers, postings), *deeper = levels
    if not deeper:
        counts = np.array([bits.intersection_cardinality(p) for p in postings], dtype=np.int64)
        occurring = np.flatnonzero(counts)
        return [key_numbers[occurring]], counts[occurring]
    codes: list[list[Longs]] = [[_NONE] for _ in levels]
    all_counts = [_NONE]
    for place, posting in zip(key_numbers.tolist(), postings, strict=True):
        rows = bits & posting
        if rows:
            inner, counts = _intersected(deeper, rows)
            for level, of_level in zip(codes, [np.full(len(counts), place), *inner], strict=True):
                level.append(of_level)
            all_counts.append(counts)
    return [np.concatenate(level) for level in codes], np.concatenate(all_counts)


_NONE = np.zeros(0, dtype=np.int64)


class _Counted(NamedTuple):
    """Folded codes, ascending, with the number of positions of each.

    `short`: positions of truncated keys, which are not counted.
    """

    numbers: Longs
    counts: Longs
    short: BitMap

    def without(self, others: _Counted) -> _Counted:
        """Subtract other positions, all of which are counted here."""
        counts = self.counts.copy()
        counts[np.searchsorted(self.numbers, others.numbers)] -= others.counts
        occurring = counts > 0
        return _Counted(self.numbers[occurring], counts[occurring], self.short - others.short)


COUNTED: Cache[tuple[object, ...], _Counted] = Cache(share(1 / 64))
"""Combinations of all positions of row spaces, those of removed files included, by segments and columns."""

_OTHERS = 4
"""Unselected positions are few if at most one position in this many is unselected."""


def by_codes(columns: Sequence[SpaceColumn], bits: BitMap) -> tuple[Combinations, BitMap]:
    """Look up the codes of each row; all rows are left uncounted if their codes do not fold into 64 bits.

    Positions without a code are left out. If most positions of a row space match, the others are subtracted
    from the combinations of all positions, which change only with the segments, and are cached.
    """
    sizes = [len(column.keys) + 1 for column in columns]
    if math.prod(sizes) >= 1 << 62:
        return Combinations([Coded(column.keys, _NONE) for column in columns], _NONE), bits
    counted = _most(columns, sizes, bits) or _looked_up(columns, sizes, bits)
    codes = unfold(counted.numbers, sizes)
    coded = np.logical_and.reduce([code > 0 for code in codes])
    pairs = zip(columns, codes, strict=True)
    coded_columns = [Coded(column.keys, code[coded] - 1, column.segments) for column, code in pairs]
    return Combinations(coded_columns, counted.counts[coded]), counted.short


def _most(columns: Sequence[SpaceColumn], sizes: Sequence[int], bits: BitMap) -> _Counted | None:
    """Subtract the unselected positions from all; None if they are not few or a column has no segments."""
    if not all(column.segments for column in columns):
        return None
    extent = max(segment.rows for column in columns for segment in column.segments)
    if _OTHERS * (extent - len(bits)) > extent or (bits and bits.max() >= extent):
        return None
    every = BitMap(range(extent))
    others = every - bits
    names = [(segment.name, column.column.id) for column in columns for segment in column.segments]

    def sized() -> tuple[_Counted, int]:
        counted = _looked_up(columns, sizes, every)
        return counted, counted.numbers.nbytes + counted.counts.nbytes + 4 * len(counted.short)

    whole = COUNTED.get((*names, *(column.key_type for column in columns)), sized)
    return whole.without(_looked_up(columns, sizes, others)) if others else whole


def _looked_up(columns: Sequence[SpaceColumn], sizes: Sequence[int], bits: BitMap) -> _Counted:
    """Fold and count positions in chunks that stay in a processor cache."""
    masks = [truncated(column.keys, column.key_type) for column in columns]
    combined, short = Folded(math.prod(sizes)), BitMap()
    positions: BitPositions = positions_in(bits)
    for start in range(0, len(positions), CHUNK):
        chunk = positions[start : start + CHUNK]
        codes = [column.codes(chunk) for column in columns]
        folded = codes[0]
        for of_column, size in zip(codes[1:], sizes[1:], strict=True):
            folded = folded * np.int64(size) + of_column
        short_rows = [
            np.append(False, mask)[own] for mask, own in zip(masks, codes, strict=True) if mask is not None
        ]
        if short_rows:
            truncated_rows = np.logical_or.reduce(short_rows)
            short |= bitmap_of(chunk[truncated_rows])
            folded = folded[~truncated_rows]
        combined.add(folded)
    return _Counted(*combined.counted(), short)
