"""Where positions of old row spaces lie in the merged one, and their bitmaps moved there.

A claim is `[base, base + rows)` of a row space. Positions outside the kept claims vanish; neighbours that
stay neighbours move together, so a row space without gaps costs one mask and one shift per bitmap.

Eight rows by hand: a row space of files a, b and c, of which b is dropped, and then a row space of file d.

    old position     0    1    2    3    4    5    6    7    |    0    1    2
    file, row        a 0  a 1  a 2  b 0  b 1  b 2  c 0  c 1  |  d 0  d 1  d 2
    starts, ends     [0, 3) and [6, 8)                       |  [0, 3)
    targets          0 and 3                                 |  5
    new position     0    1    2    -    -    -    3    4    |    5    6    7

    posting of UA    {0 2 4 7} becomes {0 2 4}               |  {1} becomes {6}; united: {0 2 4 6}
    posting of AA    {3} vanishes: a single position is moved as a number, with all others of its kind
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from tailbit.index.kinds.bitmap_index.row_group import SINGLE, SINGLE_BYTES, read_bitmap, single_heads
from tailbit.index.model import FileRecord, NewClaim
from tailbit.index.parquet.sorted_rows import starts
from tailbit.once import once
from tailbit.tables.positions import bitmap_of, positions_in

Longs = npt.NDArray[np.int64]

_FEW_RUNS = 8


@dataclass(frozen=True)
class Moves:
    """How one old row space moves: int64 starts, ends and new starts of its runs, by start.

    Invariant: runs do not overlap, before or after.
    """

    starts: Longs
    ends: Longs
    targets: Longs

    @once
    def kept(self) -> BitMap:
        """The old positions that move; all others vanish."""
        bits = BitMap()
        for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True):
            bits.add_range(start, end)
        return bits

    def move(self, bits: BitMap) -> BitMap:
        """The new positions of old ones. Cost: a mask and a shift per run; past a few runs, an array pass."""
        bits = bits & self.kept
        shifts = (self.targets - self.starts).tolist()
        if len(shifts) == 1 or not bits:
            return bits.shift(shifts[0]) if bits else bits
        if len(shifts) <= _FEW_RUNS:
            runs = zip(self.starts.tolist(), self.ends.tolist(), shifts, strict=True)
            return BitMap.union(*((bits & BitMap(range(a, b))).shift(by) for a, b, by in runs))
        moved = self.positions(positions_in(bits).astype(np.int64))
        return bitmap_of(moved)

    def positions(self, old: Longs) -> Longs:
        """New positions of old ones; -1 for those that vanish."""
        if not len(self.starts):
            return np.full(len(old), -1, dtype=np.int64)
        run = np.searchsorted(self.starts, old, side="right") - 1
        inside = (run >= 0) & (old < self.ends[run])
        return np.where(inside, old - self.starts[run] + self.targets[run], -1)


class Input(NamedTuple):
    """A segment that is merged: how its row space moves, its path, and the extent it was written for."""

    moves: Moves
    path: str
    rows: int


def lay_out(
    claims: Sequence[Sequence[FileRecord]], keep: Callable[[FileRecord], bool], space: str
) -> tuple[list[Moves], list[NewClaim], int]:
    """Lay the claims of old row spaces, each by base, end to end in a new one.

    Returns: the moves of each old row space, what becomes of every claim, and the rows of the new row space.
    """
    moves, moved, top = [], [], 0
    for old in claims:
        runs: list[list[int]] = []
        for record in old:
            base, rows = record.base or 0, record.rows or 0
            if not keep(record):
                moved.append(NewClaim(record.path, record.space or "", base, None, None))
                continue
            if runs and runs[-1][1] == base:
                runs[-1][1] += rows
            elif rows:
                runs.append([base, base + rows, top])
            moved.append(NewClaim(record.path, record.space or "", base, space, top))
            top += rows
        moves.append(Moves(*np.array(runs, dtype=np.int64).reshape(-1, 3).T))
    return moves, moved, top


def combine(rows: pa.Table, inputs: Sequence[Input]) -> pa.Table:
    """Postings of several row spaces as postings of one: one row per key that keeps a position.

    `rows`: key, cardinality, bitmap and source (number in `inputs`) of one column, sorted by key; equal keys
    meet here. Returns key, cardinality, bitmap in the same order. Keys with one position in one source, which
    make up columns of high cardinality, are moved as arrays; each other bitmap costs a few C calls.

    Raises:
        CorruptIndexError: a bitmap of an input does not check.
    """
    keys = rows["key"].combine_chunks()
    group = np.cumsum(np.bincount(starts(rows, ["key"]), minlength=len(keys))) - 1
    source = np.asarray(rows["source"], dtype=np.int64)
    bitmaps = rows["bitmap"].combine_chunks().cast(pa.large_binary())
    alone = np.bincount(group)[group] == 1
    counts = np.asarray(rows["cardinality"], dtype=np.int64)
    single = _singles(bitmaps, alone & (counts == 1))
    single_rows, encoded = _move_singles(bitmaps, source, np.flatnonzero(single), inputs)
    many_rows, cards, many = _move_many(bitmaps, counts, source, group, np.flatnonzero(~single), inputs)
    at = np.r_[single_rows, many_rows]
    order = np.argsort(at, kind="stable")
    cardinality = np.r_[np.ones(len(single_rows), dtype=np.int64), cards]
    out = pa.concat_arrays([encoded, pa.array(many, pa.binary())])
    return pa.table(
        {
            "key": keys.take(pa.array(at[order])),
            "cardinality": cardinality[order],
            "bitmap": out.take(pa.array(order)),
        }
    )


def _singles(bitmaps: pa.LargeBinaryArray, likely: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which of the likely bitmaps hold one position and are spelled as the format demands."""
    rows = np.flatnonzero(likely & (_lengths(bitmaps) == SINGLE_BYTES))
    out = np.zeros(len(bitmaps), dtype=np.bool_)
    out[rows[single_heads(_read_singles(bitmaps, rows))]] = True
    return out


def _read_singles(bitmaps: pa.LargeBinaryArray, rows: Longs) -> npt.NDArray[np.void]:
    """Bitmaps of 18 bytes as fields, copied."""
    data = bitmaps.take(pa.array(rows)).buffers()[2]
    if not len(rows) or data is None:
        return np.zeros(0, dtype=SINGLE)
    singles: npt.NDArray[np.void] = np.frombuffer(data, dtype=SINGLE, count=len(rows)).copy()
    return singles


def _lengths(values: pa.LargeBinaryArray) -> Longs:
    return np.diff(_offsets(values))


def _offsets(values: pa.LargeBinaryArray) -> Longs:
    buffer = values.buffers()[1]
    return np.frombuffer(buffer, dtype=np.int64)[values.offset : values.offset + len(values) + 1]


def _move_singles(
    bitmaps: pa.LargeBinaryArray, source: Longs, rows: Longs, inputs: Sequence[Input]
) -> tuple[Longs, pa.BinaryArray]:
    """Move bitmaps of one position each; returns the rows that keep it, and their new bitmaps."""
    if not len(rows):
        return rows, pa.array([], pa.binary())
    singles = _read_singles(bitmaps, rows)
    old = (singles["high"].astype(np.int64) << 16) | singles["low"]
    new = np.full(len(rows), -1, dtype=np.int64)
    for number, input_ in enumerate(inputs):
        mine = source[rows] == number
        new[mine] = input_.moves.positions(old[mine])
    kept = new >= 0
    singles, new = singles[kept], new[kept]
    singles["high"], singles["low"] = new >> 16, new & 0xFFFF
    offsets = np.arange(len(new) + 1, dtype=np.int32) * SINGLE_BYTES
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(singles.tobytes())]
    return rows[kept], pa.BinaryArray.from_buffers(pa.binary(), len(new), buffers)


def _move_many(
    bitmaps: pa.LargeBinaryArray,
    counts: Longs,
    source: Longs,
    group: Longs,
    rows: Longs,
    inputs: Sequence[Input],
) -> tuple[Longs, Longs, list[bytes]]:
    """Move and unite the other bitmaps; returns the first row of each key, cardinalities, bitmaps."""
    firsts: list[int] = []
    cards: list[int] = []
    out: list[bytes] = []
    cuts = (
        np.flatnonzero(np.r_[True, np.diff(group[rows]) != 0, True]) if len(rows) else np.zeros(1, np.int64)
    )
    values = bitmaps.take(pa.array(rows)).to_pylist()
    expected, origins = counts[rows].tolist(), [inputs[number] for number in source[rows].tolist()]
    for a, b in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        moved = [
            origins[i].moves.move(read_bitmap(values[i], expected[i], origins[i].rows, origins[i].path))
            for i in range(a, b)
        ]
        bits = moved[0] if len(moved) == 1 else BitMap.union(*moved)
        if bits:
            firsts.append(int(rows[a]))
            cards.append(len(bits))
            out.append(bits.serialize())
    return np.array(firsts, dtype=np.int64), np.array(cards, dtype=np.int64), out
