"""Union of the postings of several row spaces, key by key, as postings of one row space.

Sparse postings are moved all at once, as arrays; each dense one costs a few C calls. Each key is encoded
again by its merged size: a sparse key may become dense, and vice versa.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs
from tailbit.base.errors import CorruptIndexError
from tailbit.index.kinds.bitmap_index.merging.moves import Input, Moves, move_all
from tailbit.index.parquet.sorted_rows import starts
from tailbit.index.postings.gaps import FIRST, Gaps, encoded
from tailbit.index.postings.row_group import read_bitmap
from tailbit.index.roaring.containers import pays, ranges, roaring_bytes
from tailbit.tables.arrow import arrow_array, numpy_of
from tailbit.tables.positions import BitPositions, bitmap_of, positions_in


def combine(rows: pa.Table, inputs: Sequence[Input]) -> pa.Table:
    """Merge the postings per key; return one row per key that keeps a position.

    `rows`: the columns `segment.STORED` and source (number in `inputs`) of one column, sorted by key, so that
    equal keys are neighbours. Returns those columns in the same order.

    Raises:
        CorruptIndexError: a posting of an input fails the checks.
    """
    group = np.cumsum(np.bincount(starts(rows, ["key"]), minlength=len(rows))) - 1
    source = numpy_of(rows["source"], dtype=np.int64)
    counts = numpy_of(rows["cardinality"], dtype=np.int64)
    dense = numpy_of(rows[FIRST].is_null())
    as_bits = (np.bincount(group, weights=dense) > 0)[group]
    parts = [_sparse(rows, group, source, counts, np.flatnonzero(~as_bits), inputs)]
    if as_bits.any():
        parts.append(_dense(rows, group, source, counts, np.flatnonzero(as_bits), inputs))
    out = pa.concat_tables([_encoded(part) for part in parts])
    at = np.concatenate([part.at for part in parts])
    keys = rows["key"].combine_chunks()
    if len(parts) > 1:
        order = np.argsort(at)
        at, out = at[order], out.take(arrow_array(order))
    return out.add_column(0, "key", keys if len(at) == len(keys) else keys.take(arrow_array(at)))


class _Merged:
    """Merged keys that keep at least one position.

    `at`: row of each key in the input. `counts`: number of its positions. `bitmaps`: bitmap of each key, or
    None if its positions are in `positions`; the whole list is None if no key has a bitmap.
    """

    def __init__(
        self, at: Longs, counts: Longs, positions: BitPositions, bitmaps: Sequence[bytes | None] | None = None
    ) -> None:
        self.at, self.counts, self.positions, self.bitmaps = at, counts, positions, bitmaps


def _encoded(part: _Merged) -> pa.Table:
    cardinality = arrow_array(part.counts)
    counts = part.counts
    if part.bitmaps is None:
        bitmaps = pa.nulls(len(counts), pa.binary())
    else:
        bitmaps = arrow_array(part.bitmaps, pa.binary())
        counts = np.where(numpy_of(bitmaps.is_null()), counts, 0)
    sparse = encoded(part.positions, counts)
    return sparse.add_column(0, "cardinality", cardinality).add_column(1, "bitmap", bitmaps)


def _sparse(
    rows: pa.Table, group: Longs, source: Longs, counts: Longs, mine: Longs, inputs: Sequence[Input]
) -> _Merged:
    """Merge the keys that are sparse in every input."""
    if not len(mine):
        return _Merged(mine, mine, np.zeros(0, dtype=np.uint32))
    if len(mine) < len(rows):
        rows, group, source, counts = rows.take(arrow_array(mine)), group[mine], source[mine], counts[mine]
    moved = move_all(inputs, source, counts, _read(rows, source, counts, inputs))
    owner = np.repeat(group, counts)
    if moved.min() < 0:
        moved, owner = moved[moved >= 0], owner[moved >= 0]
    moved, owner = _rising(moved, owner)
    counts_of_groups = np.bincount(owner - group[0], minlength=int(group[-1] - group[0]) + 1)
    firsts = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
    kept = counts_of_groups[group[firsts] - group[0]]
    at = mine[firsts[kept > 0]]
    return _as_they_pay(at, kept[kept > 0], moved.astype(np.uint32))


def _read(rows: pa.Table, source: Longs, counts: Longs, inputs: Sequence[Input]) -> Longs:
    """Return the positions of sparse postings in their old row spaces."""
    extents = np.array([i.rows for i in inputs], dtype=np.int64)
    sparse = Gaps.of(rows, counts, int(extents.max()))
    twice = np.flatnonzero(numpy_of(rows["bitmap"].is_valid()))
    try:
        if len(twice):
            raise ValueError("a posting has two forms")
        positions = sparse.positions(0, len(rows)).astype(np.int64)
        beyond = np.flatnonzero(positions[np.cumsum(counts) - 1] >= extents[source])
        if len(beyond):
            raise ValueError("a position is beyond the rows")
    except ValueError as damage:
        paths = ", ".join(sorted({inputs[number].path for number in np.unique(source).tolist()}))
        raise CorruptIndexError(file=paths, reason=str(damage)) from damage
    return positions


def _rising(moved: Longs, owner: Longs) -> tuple[Longs, Longs]:
    """Return positions and owners, sorted by owner and position, without duplicates.

    The input lacks this order only if segments of one row space share a key.
    """
    falls = (moved[1:] <= moved[:-1]) & (owner[1:] == owner[:-1])
    if not falls.any():
        return moved, owner
    order = np.lexsort((moved, owner))
    moved, owner = moved[order], owner[order]
    once = np.r_[True, (moved[1:] != moved[:-1]) | (owner[1:] != owner[:-1])]
    return moved[once], owner[once]


def _as_they_pay(at: Longs, counts: Longs, positions: BitPositions) -> _Merged:
    """Keep the sparse form of the keys for which it still pays; give the other keys bitmaps."""
    ends = np.cumsum(counts)
    if not len(at):
        return _Merged(at, counts, positions)
    firsts, lasts = positions[ends - counts].astype(np.int64), positions[ends - 1].astype(np.int64)
    sparse = pays(counts, firsts, lasts, roaring_bytes(positions, counts))
    if sparse.all():
        return _Merged(at, counts, positions)
    bitmaps: list[bytes | None] = [None] * len(at)
    for i in np.flatnonzero(~sparse).tolist():
        bits = bitmap_of(positions[ends[i] - counts[i] : ends[i]])
        bits.run_optimize()
        bitmaps[i] = bits.serialize()
    stay = positions[ranges((ends - counts)[sparse], counts[sparse])]
    return _Merged(at, counts, stay, bitmaps)


def _dense(
    rows: pa.Table, group: Longs, source: Longs, counts: Longs, mine: Longs, inputs: Sequence[Input]
) -> _Merged:
    """Merge the keys that are dense in some input."""
    cuts = np.append(np.flatnonzero(np.diff(group[mine], prepend=-1)), len(mine)).tolist()
    read = _Bitmaps(rows.take(arrow_array(mine)), source[mine], counts[mine], inputs)
    firsts: list[int] = []
    merged_bitmaps: list[BitMap] = []
    for a, b in pairwise(cuts):
        moved = [read.moved(i) for i in range(a, b)]
        bits = moved[0] if len(moved) == 1 else BitMap.union(*moved)
        if bits:
            firsts.append(int(mine[a]))
            merged_bitmaps.append(bits)
    data = [bits.serialize() for bits in merged_bitmaps]
    numbers = [
        (len(bits), bits.min(), bits.max(), len(d)) for bits, d in zip(merged_bitmaps, data, strict=True)
    ]
    sizes = np.array(numbers, dtype=np.int64).reshape(-1, 4)
    sparse = pays(*sizes.T)
    listed = [positions_in(merged_bitmaps[i]) for i in np.flatnonzero(sparse).tolist()]
    positions = np.concatenate([np.zeros(0, dtype=np.uint32), *listed])
    bitmaps = [None if alone else d for alone, d in zip(sparse.tolist(), data, strict=True)]
    return _Merged(np.array(firsts, dtype=np.int64), sizes[:, 0], positions, bitmaps)


class _Bitmaps:
    """Reader of postings, dense or sparse, as bitmaps in the merged row space."""

    def __init__(self, rows: pa.Table, source: Longs, counts: Longs, inputs: Sequence[Input]) -> None:
        self._data = rows["bitmap"].to_pylist()
        self._counts, self._origins = counts.tolist(), [inputs[number] for number in source.tolist()]
        self._sparse = Gaps.of(rows, counts, max(i.rows for i in inputs))
        self._held = self._sparse.held.tolist()

    def moved(self, at: int) -> BitMap:
        """Return the posting of row `at`, moved to the merged row space."""
        origin = self._origins[at]
        moves: Moves = origin.moves
        if not self._held[at]:
            data = self._data[at] or b""
            bits = read_bitmap(data, self._counts[at], origin.rows, origin.path)
            return moves.move(bits)
        try:
            bits = bitmap_of(self._sparse.positions(at, at + 1))
        except ValueError as damage:
            raise CorruptIndexError(file=origin.path, reason=str(damage)) from damage
        if bits.max() >= origin.rows:
            reason = f"position {bits.max()} is beyond the {origin.rows} rows"
            raise CorruptIndexError(file=origin.path, reason=reason)
        return moves.move(bits)
