"""Sorted distinct keys in a scratch file, read a piece at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from tailbit.tables.storage.scratch import Scratch

PIECE_ROWS, PIECE_BYTES = 1 << 15, 1 << 20
"""Limits of a piece: keys that are written and read together."""

_SCHEMA = pa.schema([("key", pa.binary())])


class SpilledKeys:
    """Sorted distinct keys, null first if there is one; they are appended in order, then read by slices.

    Memory: some bytes per piece, and the keys of a slice while it is read.
    """

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._pieces: list[tuple[int, int]] = []
        self._ends: list[int] = [0]
        self._first = pa.nulls(0, pa.binary())
        self._change: Callable[[pa.BinaryArray], pa.BinaryArray] | None = None

    def __len__(self) -> int:
        return len(self._first) + self._ends[-1]

    def append(self, keys: pa.BinaryArray) -> None:
        """Write keys behind all others."""
        rows = max(1, min(PIECE_ROWS, PIECE_BYTES * len(keys) // max(1, keys.nbytes)))
        for begin in range(0, len(keys), rows):
            piece = pa.record_batch([keys.slice(begin, rows)], schema=_SCHEMA)
            self._pieces.append(self._scratch.append(piece.serialize()))
            self._ends.append(self._ends[-1] + len(piece))

    def changed(
        self, first: pa.BinaryArray, change: Callable[[pa.BinaryArray], pa.BinaryArray]
    ) -> SpilledKeys:
        """Return the keys `first` followed by these keys, to which `change` is applied when they are read."""
        out = SpilledKeys(self._scratch)
        out._pieces, out._ends, out._first, out._change = self._pieces, self._ends, first, change
        return out

    def slice(self, start: int, many: int) -> pa.BinaryArray:
        """Return `many` keys from index `start` on. Cost: reading the pieces that hold them."""
        arrays = [self._first.slice(start, many)]
        low = max(0, start - len(self._first))
        high = min(self._ends[-1], start + many - len(self._first))
        if low < high:
            numbers = np.searchsorted(self._ends, [low, high - 1], side="right") - 1
            for number in range(int(numbers[0]), int(numbers[1]) + 1):
                begin, end = max(low, self._ends[number]), min(high, self._ends[number + 1])
                arrays.append(self._read(number).slice(begin - self._ends[number], end - begin))
        return pa.concat_arrays(arrays)

    def pieces(self) -> Iterator[pa.BinaryArray]:
        """Yield all keys that were appended, a piece at a time."""
        for number in range(len(self._pieces)):
            yield self._read(number)

    def _read(self, number: int) -> pa.BinaryArray:
        keys = pa.ipc.read_record_batch(self._scratch.read(self._pieces[number]), _SCHEMA).column(0)
        return keys if self._change is None else self._change(keys)


Keys = pa.BinaryArray | SpilledKeys
"""Sorted distinct keys, null first if there is one, in memory or in a scratch file."""
