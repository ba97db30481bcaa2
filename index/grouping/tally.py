"""Counts of the distinct values of many batches, in no order.

Batches are gathered, and merged into the tally once they are larger than the tally. So each value is merged a
few times, not once per batch, and memory is bounded by the distinct values. Integers, and types stored as
integers, are counted by place or sorted; other values are grouped by Polars if there are many.

Worked example: two batches.

    values     b  a  b       counts  2  1  1
    values     a  NULL       counts  -  -
    tally      b  a  NULL    counts  3  2  1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.index.grouping.dictionary import full_keys, one_array
from tailbit.index.keys import NO_KEYS
from tailbit.index.ordered import WORD_DIGITS
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, numpy_of
from tailbit.tables.parquet.assembly import polars

_GATHERED = 1 << 28
"""Bytes of values gathered before they are merged."""

_MANY = 1 << 16
"""From this many values on, Polars is faster than pyarrow, its start included."""

_CLOSE = 4
"""Integers are dense if their range has at most this many places per integer."""

_PLACES = 1 << 21
"""Largest range of integers counted by place in a processor cache; beyond it, sorting is quicker."""


class Tally:
    """Values of one type and the rows of each; `key_type`: the key type of the values."""

    def __init__(self, key_type: str) -> None:
        self.key_type = key_type
        self._parts: list[tuple[pa.Array, Longs | None]] = []
        self._gathered = 0
        self._kept = 0

    def add(self, values: pa.Array | pa.ChunkedArray, counts: Longs | None = None) -> None:
        """Add values with the rows of each; None: one row each."""
        whole = one_array(values)
        whole = pc.cast(whole, pa.binary()) if pa.types.is_string(whole.type) else whole
        self._parts.append((whole, counts))
        self._gathered += whole.nbytes
        if self._gathered > max(_GATHERED, self._kept):
            self._add_up()

    def keys(self) -> tuple[pa.BinaryArray, Longs]:
        """Return the distinct whole keys of the values, in no order, and the rows of each."""
        self._add_up()
        if not self._parts:
            return NO_KEYS, np.zeros(0, dtype=np.int64)
        ((values, counts),) = self._parts
        assert counts is not None
        keys = full_keys(values, self.key_type)
        # 0.0 and -0.0, and NaNs of different bits, are different values with one key.
        return _added_up([(keys, counts)]) if pa.types.is_floating(values.type) else (keys, counts)

    def _add_up(self) -> None:
        if not self._parts:
            return
        summed = _integers(self._parts)
        if summed is None:
            library = polars() if sum(len(values) for values, _ in self._parts) >= _MANY else None
            summed = _added_up(self._parts) if library is None else _grouped(library, self._parts)
        self._parts, self._gathered, self._kept = [summed], 0, summed[0].nbytes


def _integers(parts: Sequence[tuple[pa.Array, Longs | None]]) -> tuple[pa.Array, Longs] | None:
    """Count integers; None for other values, and for many sparse integers that come with counts."""
    type_, plain = parts[0][0].type, [_plain(values) for values, _ in parts]
    if not pa.types.is_signed_integer(plain[0].type):
        return None
    bounds = pc.min_max(pa.chunked_array(plain))
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is None:
        return None
    loose = all(counts is None for _, counts in parts)
    if high - low >= (min(_PLACES, _CLOSE * sum(map(len, plain))) if loose else _PLACES):
        if not loose:
            return None
        numbers, counts = _sorted(plain, low, high)
        nulls = sum(values.null_count for values in plain)
    else:
        numbers, counts, nulls = _by_place(plain, [counts for _, counts in parts], low, high)
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
        at = np.subtract(_present(values), low, dtype=np.int64)
        if counts is None:
            sums += np.bincount(at, minlength=len(sums))
            nulls += values.null_count
        else:
            there = numpy_of(pc.is_valid(values))
            np.add.at(sums, at, counts[there])
            nulls += int(counts[~there].sum())
    places = np.flatnonzero(sums)
    return places + low, sums[places], nulls


def _sorted(plain: Sequence[pa.Array], low: int, high: int) -> tuple[Longs, Longs]:
    """Count integers by sorting. Cost: a sort, of 32-bit words where the range allows."""
    narrow = np.uint32 if high - low < 1 << 32 else np.uint64
    numbers = np.empty(sum(len(values) - values.null_count for values in plain), dtype=narrow)
    at = 0
    for values in map(_present, plain):
        # Unsigned differences wrap around, so they fit whatever the signs.
        numbers[at:][: len(values)] = values.astype(np.int64).view(np.uint64) - np.uint64(low % (1 << 64))
        at += len(values)
    numbers.sort()
    starts = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]])
    wide = numbers[starts].astype(np.uint64) + np.uint64(low % (1 << 64))
    return wide.view(np.int64), np.diff(np.r_[starts, len(numbers)])


def _present(values: pa.Array) -> npt.NDArray[np.signedinteger]:
    """Return the integers that are not NULL."""
    present: npt.NDArray[np.signedinteger] = numpy_of(pc.drop_null(values) if values.null_count else values)
    return present


def _added_up(parts: Sequence[tuple[pa.Array, Longs | None]]) -> tuple[pa.Array, Longs]:
    encoded = pc.dictionary_encode(pa.concat_arrays([values for values, _ in parts]), null_encoding="encode")
    places = numpy_of(encoded.indices, dtype=np.int64)
    if all(counts is None for _, counts in parts):
        return encoded.dictionary, np.bincount(places, minlength=len(encoded.dictionary))
    sums = np.zeros(len(encoded.dictionary), dtype=np.int64)
    np.add.at(sums, places, np.concatenate([_counts(*part) for part in parts]))
    return encoded.dictionary, sums


def _grouped(library: Any, parts: Sequence[tuple[pa.Array, Longs | None]]) -> tuple[pa.Array, Longs]:
    """Count values with Polars, as integers where their type stores integers."""
    type_ = parts[0][0].type
    columns = {"value": library.from_arrow(pa.chunked_array([_plain(values) for values, _ in parts]))}
    rows = library.len().cast(library.Int64).alias("rows")
    if any(counts is not None for _, counts in parts):
        columns["rows"] = np.concatenate([_counts(*part) for part in parts])
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
        words = np.frombuffer(values.buffers()[1] or b"", dtype="<i8")[2 * values.offset :]
        low = np.ascontiguousarray(words[: 2 * len(values) : 2])
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
