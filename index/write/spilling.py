"""Coding of a column with more distinct keys than memory may hold: sorted runs on disk, then a merge.

Only keys are written; the code of each row stays in memory. A run is what `Coding` makes of the rows since
the last run: sorted keys, and rows as codes among them. A merge of the runs gives each key of a run its index
among the keys of all runs.

Worked example: six rows, two runs.

    values          c a c | b c d
    keys of runs    a c   | b c d
    all keys        a b c d
    tables          0 2   | 1 2 3      by code in the run
    codes           2 0 2 | 1 2 3
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tailbit.index.parquet.sorted_rows import aligned, starts
from tailbit.index.roaring.coding import CodedColumn, CodedPart, Coding, order_with_nulls
from tailbit.index.roaring.collected import Codes
from tailbit.index.roaring.spilled import SpilledKeys
from tailbit.tables.arrow import numpy_of
from tailbit.tables.cache import share
from tailbit.tables.storage.scratch import Scratch

HELD_BYTES = share(1 / 16)
"""Bytes of distinct keys that a task holds before it sorts them into a run."""


class SpillingCoding(Coding):
    """Collector of the rows of one column like `Coding`, which holds about `held` bytes of keys at most.

    Memory: that of `Coding` for the held keys, three times that while they are sorted, and twelve bytes per
    distinct key. Fewer keys never touch the disk.
    """

    def __init__(self, type_: pa.DataType, key_type: str, held: int | None = None) -> None:
        super().__init__(type_, key_type)
        self._held = HELD_BYTES if held is None else held
        self._scratch = Scratch()
        self._runs: list[tuple[SpilledKeys, list[CodedPart]]] = []

    def add(self, start: int, values: pa.ChunkedArray) -> None:
        """Add rows from position `start` on, in the column's Arrow type or dictionary-coded."""
        super().add(start, values)
        if self.key_bytes > self._held:
            self._spill()

    def finish(self) -> CodedColumn:
        """Return the codes of all rows added. Cost: encodes and sorts the distinct values.

        Raises:
            StorageError: the disk of the scratch file is full or refuses.
        """
        if not self._runs:
            return super().finish()
        self._spill()
        keys, tables = self._merged()
        parts: list[CodedPart] = []
        for table in tables:
            _, of_run = self._runs.pop(0)
            parts += (_through(part, table) for part in of_run)
        return CodedColumn(keys, sorted(parts, key=lambda part: part.start))

    def _spill(self) -> None:
        """Write the keys of the rows since the last run as a run of their own."""
        coded = super().finish()
        self.key_bytes = 0
        keys = SpilledKeys(self._scratch)
        keys.append(coded.keys.slice(0, len(coded.keys)))
        self._runs.append((keys, coded.parts))
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


def _through(part: CodedPart, table: Codes) -> CodedPart:
    """Return rows of a run with their codes among all keys; `table`: code in the run to code among all."""
    own = table[part.shift :] if part.table is None else table[part.table]
    return replace(part, table=own, shift=0)


def _numbered(keys: SpilledKeys, run: int) -> Iterator[pa.Table]:
    """Yield the keys of a run, each with the number of the run."""
    for piece in keys.pieces():
        yield pa.table({"key": piece, "run": np.full(len(piece), run, dtype=np.int32)})
