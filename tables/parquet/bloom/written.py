"""The Bloom filters that writers left in data files, read as far as a question needs them.

A question about few values reads a filter's header and one block per value; the header is cached. A filter
whose header is damaged or names an unknown algorithm is treated as missing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Mask
from tailbit.tables.cache import Cache, share
from tailbit.tables.parquet.bloom.blocks import BLOCK_BYTES, Bloom, blocks_of
from tailbit.tables.parquet.bloom.xxh64 import Hashes
from tailbit.tables.parquet.layout import Layout
from tailbit.tables.parquet.thrift import read_struct

_SIZE, _ALGORITHM, _HASH, _PACKING = 1, 2, 3, 4
"""Thrift fields in the header of a filter; each of the last three is a union whose only member has id 1."""

_HEADER_BYTES = 64
"""Bytes that hold the header of a filter."""

_WHOLE = 1 << 16
"""Filters of up to this many bytes are read as a whole; of others, blocks are read."""

_FEW = 16
"""Up to this many values are looked up block by block."""

_HELD: Cache[tuple[int, int, int], Any] = Cache(share(1 / 64))
"""Filters that were read, by layout, row group and leaf; of a large one, only where its blocks are."""


class _Place(NamedTuple):
    """The offset of a filter's blocks in the file, and their number."""

    start: int
    blocks: int


def groups_with_filter(layout: Layout, leaf: int) -> frozenset[int]:
    """Return the row groups in which a leaf has a filter, according to the footer; the layout caches them."""
    known: frozenset[int] | None = layout.derived.get((__name__, leaf))
    if known is None:
        groups = range(layout.metadata.num_row_groups)
        known = frozenset(group for group in groups if _offset(layout, group, leaf) is not None)
        layout.derived[__name__, leaf] = known
    return known


def may_hold(source: pa.NativeFile, layout: Layout, group: int, leaf: int, hashes: Hashes) -> Mask:
    """Return, per hash, whether the row group may hold its value, by a leaf's filter; True without a filter.

    Cost: the header, once, and a read per hash; the whole filter if it is small or the hashes are many.
    """
    held = _HELD.get((layout.number, group, leaf), lambda: _read(source, layout, group, leaf))
    if held is None:
        return np.ones(len(hashes), dtype=np.bool_)
    if isinstance(held, Bloom):
        return held.may_hold(hashes)
    return _in_blocks(source, held, hashes)


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
