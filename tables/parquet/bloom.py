"""Bloom filters of Parquet files: which row groups surely do not hold a value, as writers recorded it.

A value sets one bit in each of the eight words of one block of 32 bytes: the upper half of its hash (XXH64,
seed 0, here of many values at once) names the block, the lower half the bits. A question about few values
reads a filter's header and one block per value; the header is cached. A filter whose header is damaged or
names an unknown algorithm is treated as missing. Source: Parquet format, BloomFilter.md; the xxHash
specification (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.tables.cache import Cache, share
from tailbit.tables.model import Column
from tailbit.tables.parquet.data_file import field_of, named_file
from tailbit.tables.parquet.decode import declared_type, written_legacy
from tailbit.tables.parquet.file import ParquetNode
from tailbit.tables.parquet.layout import Layout
from tailbit.tables.parquet.thrift import read_struct
from tailbit.tables.storage import Storage

Hashes = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)

_STRIPE, _LANES = 32, 4
"""Bytes of a stripe, and words in it, each of which has an accumulator."""


def hashes_of_words(values: npt.NDArray[np.integer]) -> Hashes:
    """Return the hashes of integers of four or eight bytes, by their bytes as they are stored.

    >>> hashes_of_words(np.array([0], np.int64)).tolist()
    [3803688792395291579]
    """
    width = values.dtype.itemsize
    words = values.view(f"u{width}").astype(np.uint64)
    start = np.full(len(values), _P5 + np.uint64(width))
    return _final(_with_word(start, words) if width == 8 else _with_half(start, words))


def hashes_of_bytes(bounds: Longs, data: Bytes) -> Hashes:
    """Return the hashes of texts; `bounds`: where each begins in `data`, and where the last one ends.

    Cost: a few numpy calls per word of the longest text, each over the texts that reach this word.

    >>> hashes_of_bytes(np.array([0, 0, 3]), np.frombuffer(b"abc", np.uint8)).tolist()
    [17241709254077376921, 4952883123889572249]
    """
    starts, lengths = bounds[:-1].astype(np.int64), np.diff(bounds).astype(np.int64)
    padded = np.concatenate([data, np.zeros(8, np.uint8)])
    hashes, offsets = np.full(len(starts), _P5), starts.copy()
    long = np.flatnonzero(lengths >= _STRIPE)
    if len(long):
        hashes[long] = _of_stripes(padded, starts[long], lengths[long] // _STRIPE)
        offsets[long] += lengths[long] // _STRIPE * _STRIPE
    hashes += lengths.astype(np.uint64)
    ends = bounds[1:].astype(np.int64)
    while len(rows := np.flatnonzero(ends - offsets >= 8)):
        hashes[rows] = _with_word(hashes[rows], _words(padded, offsets[rows], 8))
        offsets[rows] += 8
    rows = np.flatnonzero(ends - offsets >= 4)
    hashes[rows] = _with_half(hashes[rows], _words(padded, offsets[rows], 4))
    offsets[rows] += 4
    while len(rows := np.flatnonzero(ends > offsets)):
        mixed = hashes[rows] ^ padded[offsets[rows]].astype(np.uint64) * _P5
        hashes[rows] = _turned(mixed, 11) * _P1
        offsets[rows] += 1
    return _final(hashes)


def _of_stripes(data: Bytes, starts: Longs, stripes: Longs) -> Hashes:
    """Return the hash of the whole stripes of each text; `stripes`: their number, at least one."""
    zeros = np.zeros(len(starts), np.uint64)
    lanes = [zeros + _P1 + _P2, zeros + _P2, zeros, zeros - _P1]
    for stripe in range(int(stripes.max())):
        rows = np.flatnonzero(stripes > stripe)
        for lane, sums in enumerate(lanes):
            words = _words(data, starts[rows] + _STRIPE * stripe + 8 * lane, 8)
            sums[rows] = _round(sums[rows], words)
    out = sum((_turned(sums, by) for sums, by in zip(lanes, (1, 7, 12, 18), strict=True)), np.uint64(0))
    for sums in lanes:
        out = (out ^ _round(np.zeros_like(sums), sums)) * _P1 + _P4
    return out


def _words(data: Bytes, offsets: Longs, width: int) -> Hashes:
    """Return the little-endian words of `width` bytes at some offsets."""
    windows = np.lib.stride_tricks.sliding_window_view(data, width)
    return windows[offsets].view(f"<u{width}")[:, 0].astype(np.uint64)


def _turned(words: Hashes, by: int) -> Hashes:
    turned: Hashes = (words << np.uint64(by)) | (words >> np.uint64(64 - by))
    return turned


def _round(sums: Hashes, words: Hashes) -> Hashes:
    mixed: Hashes = _turned(sums + words * _P2, 31) * _P1
    return mixed


def _with_word(hashes: Hashes, words: Hashes) -> Hashes:
    mixed: Hashes = _turned(hashes ^ _round(np.zeros_like(words), words), 27) * _P1 + _P4
    return mixed


def _with_half(hashes: Hashes, words: Hashes) -> Hashes:
    mixed: Hashes = _turned(hashes ^ words * _P1, 23) * _P2 + _P3
    return mixed


def _final(hashes: Hashes) -> Hashes:
    hashes = (hashes ^ (hashes >> np.uint64(33))) * _P2
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _P3
    final: Hashes = hashes ^ (hashes >> np.uint64(32))
    return final


Words = npt.NDArray[np.uint32]
"""The words of a filter, little-endian: rows of eight."""

WORDS, BLOCK_BYTES = 8, 32

MOST_VALUES = 1024
"""Most values that filters are asked about: among more values, some would pass by chance."""

_SALT = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31],
    dtype=np.uint32,
)

_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


@dataclass(frozen=True, eq=False)
class Bloom:
    """A filter in memory: `words`, uint32, a row of eight per block."""

    words: Words

    @classmethod
    def of(cls, hashes: Hashes, false_positives: float) -> Bloom:
        """Return a filter of some values, which other values pass with the probability `false_positives`.

        `hashes`: distinct hashes of the values.
        """
        bits = -WORDS * max(1, len(hashes)) / math.log(1 - false_positives ** (1 / WORDS))
        words = np.zeros((max(1, math.ceil(bits / 8 / BLOCK_BYTES)), WORDS), dtype=np.uint32)
        np.bitwise_or.at(words, blocks_of(hashes, len(words)), masks_of(hashes))
        return cls(words)

    @classmethod
    def read(cls, data: bytes) -> Bloom:
        """Return the filter that `data` encodes.

        Raises:
            ValueError: the bytes are empty or not whole blocks.
        """
        if not data or len(data) % BLOCK_BYTES:
            raise ValueError(f"a Bloom filter of {len(data)} bytes has no whole blocks")
        return cls(np.frombuffer(data, dtype="<u4").reshape(-1, WORDS))

    def may_hold(self, hashes: Hashes) -> Mask:
        """Return, per hash, whether the filter may hold its value; False: it surely does not."""
        return _have(self.words[blocks_of(hashes, len(self.words))], hashes)

    def written(self) -> bytes:
        """Return the bytes of the filter."""
        return self.words.astype("<u4").tobytes()


def blocks_of(hashes: Hashes, blocks: int | Longs) -> Longs:
    """Return the block number of each hash; `blocks`: the filter's block count, per hash or for all."""
    numbers: Longs = ((hashes >> _HALF) * np.asarray(blocks, dtype=np.uint64) >> _HALF).astype(np.int64)
    return numbers


def masks_of(hashes: Hashes) -> Words:
    """Return the bits that each hash has in its block: uint32, rows of eight."""
    keys = (hashes & _LOW).astype(np.uint32)
    masks: Words = np.uint32(1) << (keys[:, None] * _SALT >> np.uint32(27))
    return masks


def _have(blocks: Words, hashes: Hashes) -> Mask:
    masks = masks_of(hashes)
    present: Mask = (blocks & masks == masks).all(axis=1)
    return present


_WORDS: dict[str, np.dtype[Any]] = {"INT32": np.dtype(np.int32), "INT64": np.dtype(np.int64)}
_FLOATS: dict[str, np.dtype[Any]] = {"FLOAT": np.dtype(np.float32), "DOUBLE": np.dtype(np.float64)}
_WHOLE_NUMBERS = ("byte", "short", "integer", "long")
_TEXTS = ("string", "binary")


def hashes_in_file(values: Sequence[Any], column: Column, layout: Layout, node: ParquetNode) -> Hashes | None:
    """Return the hashes that a file's filters would hold for some values; None if filters prove nothing.

    `values`: canonical, of the column's type. Filters prove nothing if a value may be stored in an unknown
    way, or in more ways than can be listed. A value that the file's type cannot hold has no hash.
    """
    leaf = layout.metadata.schema.column(node.first)
    physical, stored, name = str(leaf.physical_type), node.field.type, column.type.name
    if leaf.max_repetition_level or column.type.char_length:
        return None
    if name in _TEXTS and physical == "BYTE_ARRAY" and _is_text(stored):
        return hashes_of_texts(values)
    if name in ("float", "double") and _is_float(name, physical, stored):
        return _of_floats(values, _FLOATS[physical])
    if physical in _WORDS and _is_same(name, stored, column, layout):
        return _of_whole(values, _WORDS[physical])
    if physical == "FIXED_LEN_BYTE_ARRAY" and name == "decimal" and _is_same(name, stored, column, layout):
        return _of_long(values, int(leaf.length))
    return None


def _is_text(stored: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(stored) or types.is_binary(stored))


def _is_float(name: str, physical: str, stored: pa.DataType) -> bool:
    expected = {"FLOAT": "float", "DOUBLE": "double"}.get(physical)
    return name == expected and bool(pa.types.is_floating(stored))


def _is_same(name: str, stored: pa.DataType, column: Column, layout: Layout) -> bool:
    """Return whether the numbers that the file stores are the canonical values of the column's type."""
    types = pa.types
    if name in _WHOLE_NUMBERS:
        return bool(types.is_signed_integer(stored))
    if name == "decimal":
        return bool(types.is_decimal(stored)) and stored.scale == column.type.scale
    modern = not written_legacy(layout.metadata, is_int96=False)
    if name == "date":
        return modern and bool(types.is_date32(stored))
    in_micros = types.is_timestamp(stored) and stored.unit == "us" and declared_type(stored, column) is None
    return modern and in_micros and name in ("timestamp", "timestamp_ntz")


def hashes_of_texts(values: Sequence[bytes]) -> Hashes:
    """Return the hashes of some bytes."""
    bounds = np.concatenate([[0], np.cumsum([len(value) for value in values], dtype=np.int64)])
    return hashes_of_bytes(bounds.astype(np.int64), np.frombuffer(b"".join(values), dtype=np.uint8))


def _of_whole(values: Sequence[int], width: np.dtype[Any]) -> Hashes:
    most = np.iinfo(width)
    fitting = [value for value in values if most.min <= value <= most.max]
    return hashes_of_words(np.array(fitting, dtype=width))


def _of_long(values: Sequence[int], length: int) -> Hashes:
    most = 1 << (8 * length - 1)
    fitting = [value for value in values if -most <= value < most]
    return hashes_of_texts([value.to_bytes(length, "big", signed=True) for value in fitting])


def _of_floats(values: Sequence[float], width: np.dtype[Any]) -> Hashes | None:
    """Return the hashes of numbers: two for zero (0.0, -0.0); None if one is NaN, which has many."""
    if any(map(math.isnan, values)):
        return None
    with np.errstate(over="ignore"):
        exact = [value for value in values if float(width.type(value)) == value]
    both = exact + [-0.0 for value in exact if value == 0] + [0.0 for value in exact if value == 0]
    return hashes_of_words(np.array(both, dtype=width).view(f"i{width.itemsize}"))


_SIZE, _ALGORITHM, _HASH, _PACKING = 1, 2, 3, 4
"""Thrift fields in the header of a filter; each of the last three is a union whose only member has id 1."""

_HEADER_BYTES = 64
"""Bytes that hold the header of a filter."""

_WHOLE = 1 << 16
"""Filters of up to this many bytes are read as a whole; of others, blocks are read."""

_FEW = 16
"""Up to this many values are looked up block by block."""

_FILTERS: Cache[tuple[int, int, int], Any] = Cache(share(1 / 64))
"""Filters that were read, by layout, row group and leaf; of a large one, only where its blocks are."""


class _Place(NamedTuple):
    """The offset of a filter's blocks in the file, and their number."""

    start: int
    blocks: int


def groups_with_filter(layout: Layout, leaf: int) -> frozenset[int]:
    """Return the row groups in which a leaf has a filter, according to the footer; the layout caches them."""
    groups_cached: frozenset[int] | None = layout.derived.get((__name__, leaf))
    if groups_cached is None:
        groups = range(layout.metadata.num_row_groups)
        groups_cached = frozenset(group for group in groups if _offset(layout, group, leaf) is not None)
        layout.derived[__name__, leaf] = groups_cached
    return groups_cached


def may_hold(source: pa.NativeFile, layout: Layout, group: int, leaf: int, hashes: Hashes) -> Mask:
    """Return, per hash, whether the row group may hold its value, by a leaf's filter; True without a filter.

    Cost: the header, once, and a read per hash; the whole filter if it is small or the hashes are many.
    """
    filter_ = _FILTERS.get((layout.number, group, leaf), lambda: _read(source, layout, group, leaf))
    if filter_ is None:
        return np.ones(len(hashes), dtype=np.bool_)
    if isinstance(filter_, Bloom):
        return filter_.may_hold(hashes)
    return _in_blocks(source, filter_, hashes)


def _offset(layout: Layout, group: int, leaf: int) -> int | None:
    """Return the offset of a leaf's filter; None if there is none, or this pyarrow cannot read the offset."""
    offset: int | None = getattr(layout.metadata.row_group(group).column(leaf), "bloom_filter_offset", None)
    return offset


def _read(source: pa.NativeFile, layout: Layout, group: int, leaf: int) -> tuple[Bloom | _Place | None, int]:
    offset = _offset(layout, group, leaf)
    place = None if offset is None else _place(source, offset)
    if place is None or place.blocks * BLOCK_BYTES > _WHOLE:
        return place, _HEADER_BYTES
    data = source.read_at(place.blocks * BLOCK_BYTES, place.start)
    return (Bloom.read(data) if len(data) == place.blocks * BLOCK_BYTES else None), len(data) + _HEADER_BYTES


def _place(source: pa.NativeFile, offset: int) -> _Place | None:
    try:
        header, length = read_struct(source.read_at(_HEADER_BYTES, offset), 0)
        size, kinds = header[_SIZE], [header[field] for field in (_ALGORITHM, _HASH, _PACKING)]
    except (ValueError, KeyError, OSError, pa.ArrowException):
        return None
    whole = isinstance(size, int) and size > 0 and size % BLOCK_BYTES == 0
    if not whole or any(list(kind) != [1] for kind in kinds) or offset + length + size > source.size():
        return None
    return _Place(offset + length, size // BLOCK_BYTES)


def _in_blocks(source: pa.NativeFile, place: _Place, hashes: Hashes) -> Mask:
    if len(hashes) > _FEW:
        return Bloom.read(source.read_at(place.blocks * BLOCK_BYTES, place.start)).may_hold(hashes)
    numbers = blocks_of(hashes, place.blocks).tolist()
    blocks = [Bloom.read(source.read_at(BLOCK_BYTES, place.start + BLOCK_BYTES * n)) for n in numbers]
    return np.array([bool(b.may_hold(hashes[n : n + 1])[0]) for n, b in enumerate(blocks)], dtype=np.bool_)


def groups_with_any(
    storage: Storage, layout: Layout, path: str, column: Column, groups: Sequence[int], values: Sequence[Any]
) -> Mask:
    """Return, for each of some row groups, whether it may hold one of some values; True without a filter.

    `values`: canonical, of the column's type. Cost: nothing where the footer names no filter of the column.
    """
    every = np.ones(len(groups), dtype=np.bool_)
    steps = field_of(layout, column, path)
    if not steps or steps[-1].children:
        return every
    leaf = steps[-1].first
    having = groups_with_filter(layout, leaf)
    filtered = [number for number, group in enumerate(groups) if group in having]
    hashes = hashes_in_file(values, column, layout, steps[-1]) if filtered else None
    if hashes is None:
        return every
    with named_file(storage, path), storage.open(storage.resolve(path)) as source:
        for number in filtered:
            every[number] = bool(may_hold(source, layout, groups[number], leaf, hashes).any())
    return every
