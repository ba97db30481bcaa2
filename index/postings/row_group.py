"""A row group of postings in memory, decoded lazily.

The returned bitmaps are shared: a caller that changes one changes the results of others.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs, Mask
from tailbit.base.errors import CorruptIndexError
from tailbit.index.keys import KeyRange
from tailbit.index.postings.gaps import FIRST, Gaps
from tailbit.index.roaring.containers import COOKIE
from tailbit.tables import compute as pc
from tailbit.tables.arrow import numpy_of
from tailbit.tables.positions import BitPositions, bitmap_of

_PER_KEY = 200
"""Bytes that a decoded bitmap takes in addition to its containers."""

_PER_CONTAINER, _PER_POSITION = 22, 2
"""Bytes of a container of a sparse key, and of each position in it."""

_CACHED_PER_POSITION = 4
"""Decoded bitmaps of sparse keys are cached in up to this many bytes per stored position."""

_FEW = 256
"""Up to this many keys come as cached bitmaps, not as positions, so that they are counted without a union."""

_RUNS = 64
"""Up to this many runs of neighbouring keys are decoded run by run, at some 50 us each."""

_SEARCHES = 4
"""After this many lookups the keys are copied to a list, which is searched faster."""

Cover = tuple[list[BitMap], list[BitPositions]]
"""Dense postings, and the positions of sparse postings."""

SINGLE_BYTES = 18
"""Bytes of a portable Roaring bitmap of one position."""

SINGLE = np.dtype(
    [
        ("cookie", "<u4"),
        ("containers", "<u4"),
        ("high", "<u2"),
        ("less", "<u2"),
        ("at", "<u4"),
        ("low", "<u2"),
    ],
    align=False,
)
"""A bitmap of one position: cookie, containers, (high half, positions less one), offset, low half."""


def single_heads(singles: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    """Return which SINGLE entries are bitmaps of one position; that position itself is not checked."""
    head = (singles["cookie"] == COOKIE) & (singles["containers"] == 1)
    heads: npt.NDArray[np.bool_] = head & (singles["less"] == 0) & (singles["at"] == SINGLE_BYTES - 2)
    return heads


def read_bitmap(data: Any, cardinality: int, rows: int, path: str) -> BitMap:
    """Decode a bitmap from bytes or a view of them; check it against its cardinality and its row space.

    Raises:
        CorruptIndexError: the bitmap does not decode, or contradicts its cardinality or row space.
    """
    try:
        bits = BitMap.deserialize(data)
    except (ValueError, IndexError, MemoryError) as damage:
        raise CorruptIndexError(file=path, reason=f"a bitmap is damaged: {damage}") from damage
    if len(bits) != cardinality:
        raise CorruptIndexError(
            file=path, reason=f"a bitmap has {len(bits)} positions, {cardinality} are recorded"
        )
    if bits and bits.max() >= rows:
        raise CorruptIndexError(file=path, reason=f"position {bits.max()} is beyond the {rows} rows")
    return bits


class RowGroup:
    """The postings of one row group: keys ascending, NULL's posting apart.

    A posting is decoded on first use and cached. A sparse posting is cached only within a limit of bytes per
    stored position, and only if few are wanted: the others stay encoded, and any span of them is decoded at
    once. `size`: bytes to account for; `listed`: number of positions of sparse keys. Threads may share a row
    group: at worst a bitmap is decoded twice.
    """

    def __init__(self, table: pa.Table, rows: int, path: str) -> None:
        self._keys = table["key"].combine_chunks()
        self._data = table["bitmap"].combine_chunks()
        self._cardinality: npt.NDArray[np.int64] = numpy_of(table["cardinality"])
        self._rows, self._path = rows, path
        sparse = FIRST in table.column_names
        self._sparse = Gaps.of(table, self._cardinality, rows) if sparse else Gaps.none(len(table), rows)
        if not np.array_equal(self._sparse.is_sparse, numpy_of(pc.is_null(self._data))):
            raise CorruptIndexError(file=path, reason="a posting has two forms, or none")
        self._first = 1 if len(self._keys) and not self._keys[0].is_valid else 0
        self._bitmaps: dict[int, BitMap] = {}
        self._list: list[bytes] | None = None
        self._searches = 0
        dense = len(self._keys) - int(np.count_nonzero(self._sparse.is_sparse))
        self.listed = self._sparse.stored
        self._room = _CACHED_PER_POSITION * self.listed
        self.size = 2 * table.nbytes + _PER_KEY * dense + self._room

    @property
    def keys(self) -> pa.BinaryArray:
        """Return the keys; null, for NULL, first."""
        return self._keys

    @property
    def cardinality(self) -> npt.NDArray[np.int64]:
        """Return the number of positions of each key."""
        return self._cardinality

    @property
    def null(self) -> BitMap | None:
        """Return the posting of NULL, or None if there is none."""
        return self._bitmap(0) if self._first else None

    def find(self, key: bytes) -> BitMap | None:
        """Return the posting of a key, or None if there is none."""
        index = self._place(key, bisect_left)
        if index < len(self._keys) and self._keys[index].as_py() == key:
            return self._bitmap(index)
        return None

    def select(self, key_range: KeyRange) -> tuple[list[bytes], list[BitMap]]:
        """Return the keys in a range, ascending, and their postings."""
        a, b = self._span(key_range)
        if a >= b:
            return [], []
        keys = self._keys[a:b].to_pylist() if self._list is None else self._list[a:b]
        return keys, self._all(a, b)

    def every(self) -> list[BitMap]:
        """Return all postings, in the order of `keys`."""
        return self._all(0, len(self._keys))

    def cover(self, key_range: KeyRange, few: bool = True) -> Cover:
        """Return the dense postings of the keys in a range, and all positions of the sparse ones, unordered.

        `few`: whether few keys come as bitmaps, which are cached. Cost: a decoded bitmap per dense key, once;
        a few vector operations per position of sparse keys.
        """
        a, b = self._span(key_range)
        if a >= b:
            return [], []
        if few and b - a <= _FEW:
            cached = [bits for index in range(a, b) if (bits := self._bitmaps.get(index)) is not None]
            if len(cached) == b - a or self._room > 0:
                return cached if len(cached) == b - a else self._all(a, b), []
        return self._apart(np.arange(a, b), lambda: self._sparse.apart(a, b))

    def cover_some(self, marked: Mask) -> Cover:
        """Return what `cover` returns, for the keys that the mask `marked` marks.

        Cost: a pass over all bytes of gaps if the keys lie apart.
        """
        edges = np.flatnonzero(np.diff(marked, prepend=False, append=False)).reshape(-1, 2).tolist()
        keys = np.flatnonzero(marked)
        if len(edges) > _RUNS:
            return self._apart(keys, lambda: self._sparse.only(marked).apart(0, len(keys)))
        return self._apart(
            keys, lambda: [positions for a, b in edges for positions in self._sparse.apart(a, b)]
        )

    def _apart(self, keys: Longs, listed: Callable[[], Iterable[BitPositions]]) -> Cover:
        """Return the dense postings among some keys, and the positions that `listed` decodes."""
        dense = [self._bitmap(index) for index in keys[~self._sparse.is_sparse[keys]].tolist()]
        try:
            return dense, [positions for positions in listed() if len(positions)]
        except ValueError as damage:
            raise CorruptIndexError(file=self._path, reason=str(damage)) from damage

    def _span(self, key_range: KeyRange) -> tuple[int, int]:
        low, low_closed, high, high_closed = key_range
        a = self._first if low is None else self._place(low, bisect_left if low_closed else bisect_right)
        if high is None:
            return a, len(self._keys)
        return a, self._place(high, bisect_right if high_closed else bisect_left)

    def _place(self, key: bytes, bisect: Callable[..., int]) -> int:
        """Return the insertion index of a key among the keys."""
        self._searches += 1
        if self._list is None and self._searches > _SEARCHES:
            self._list = [key or b"" for key in self._keys.to_pylist()]
        if self._list is not None:
            return bisect(self._list, key, self._first)
        keys = self._keys
        return bisect(range(len(keys)), key, self._first, key=lambda i: keys[i].as_py())

    def _positions(self, low: int, high: int) -> BitPositions:
        """Return the positions of the sparse keys among the keys `[low, high)`."""
        try:
            return self._sparse.positions(low, high)
        except ValueError as damage:
            raise CorruptIndexError(file=self._path, reason=str(damage)) from damage

    def _all(self, low: int, high: int) -> list[BitMap]:
        """Return the postings of the keys `[low, high)`; those of sparse keys are decoded together."""
        is_sparse, counts = self._sparse.is_sparse[low:high].tolist(), self._sparse.counts[low:high].tolist()
        numbers = array("I", self._positions(low, high).tobytes())
        out, offset = [], 0
        for i, (sparse, many) in enumerate(zip(is_sparse, counts, strict=True)):
            if sparse:
                out.append(BitMap(numbers[offset : offset + many]))
                self._keep(low + i, out[-1])
            else:
                out.append(self._bitmap(low + i))
            offset += many
        return out

    def _serialized(self, index: int) -> Any:
        """Return a view of the bytes of a bitmap; copying them would take longer than reading them.

        Arrow has no data buffer if all bitmaps are null or empty.
        """
        _, offsets, data = self._data.buffers()
        low, high = np.frombuffer(offsets, dtype=np.int32, count=2, offset=4 * (self._data.offset + index))
        return memoryview(data if data is not None else b"").cast("B")[low:high]

    def _keep(self, index: int, sparse: BitMap) -> None:
        """Cache the bitmap of a sparse key if there is room; a bitmap cached before takes no more of it."""
        containers = min(len(sparse), 1 + (self._rows >> 16))
        size = _PER_KEY + _PER_CONTAINER * containers + _PER_POSITION * len(sparse)
        if index not in self._bitmaps and size <= self._room:
            self._room -= size
            self._bitmaps[index] = sparse

    def _bitmap(self, index: int) -> BitMap:
        bitmap = self._bitmaps.get(index)
        if bitmap is None and self._sparse.is_sparse[index]:
            bitmap = bitmap_of(self._positions(index, index + 1))
            self._keep(index, bitmap)
        elif bitmap is None:
            bitmap = read_bitmap(
                self._serialized(index), int(self._cardinality[index]), self._rows, self._path
            )
            self._bitmaps[index] = bitmap
        return bitmap
