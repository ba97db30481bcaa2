"""Sorted index files read side by side, so that what belongs to one key meets in one small table.

Eight rows by hand, two files of two batches each:

    file 1        A B D | E
    file 2        A C | D F

    heads         ends at      table
    A B D, A C    C            A B A C      D stays: file 2 may still hold a D
    D, D F        D            D D
    E, F          E            E
    F             F            F
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

GROUP_ROWS, GROUP_BYTES = 1 << 15, 1 << 20
"""Where a row group of a merged file ends: what a look-up decodes."""

Key = tuple[tuple[bool, bytes | str], ...]


def aligned(inputs: Sequence[Iterator[pa.Table]], by: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of inputs that are each sorted by `by` (nulls first), in tables of rising key ranges.

    Invariant: rows of equal key are in one table, as long as an input has them in one batch. Memory: one
    batch of every input.
    """
    heads = [_next(batches) for batches in inputs]
    while any(head is not None for head in heads):
        end = min(key_at(head, by, len(head) - 1) for head in heads if head is not None)
        parts = []
        for number, head in enumerate(heads):
            if head is None:
                continue
            cut = _rows_up_to(head, by, end)
            if cut:
                parts.append(head.slice(0, cut))
                heads[number] = head.slice(cut) if cut < len(head) else _next(inputs[number])
        yield pa.concat_tables(parts)


def regrouped(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables of the size of a row group, however small the pieces they come in."""
    waiting: list[pa.Table] = []
    for table in tables:
        if len(table):
            waiting.append(table)
        if sum(map(len, waiting)) >= GROUP_ROWS or sum(t.nbytes for t in waiting) >= GROUP_BYTES:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()


def sort(table: pa.Table, by: Sequence[str]) -> pa.Table:
    """A table by some columns, nulls before all else; equal rows stay in their order.

    A column that says "not null" sorts before each, since how pyarrow is told where nulls go differs by
    release.
    """
    keys: dict[str, pa.ChunkedArray | pa.Array] = {}
    for name in by:
        keys[f"{name} is set"] = pc.cast(pc.is_valid(table[name]), pa.int8())
        keys[name] = table[name]
    return table.take(pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys]))


def starts(table: pa.Table, by: Sequence[str]) -> npt.NDArray[np.int64]:
    """The rows of a sorted table at which another key begins."""
    changed = np.zeros(len(table), dtype=bool)
    changed[:1] = True
    for name in by:
        codes = table[name].combine_chunks().dictionary_encode(null_encoding="encode").indices
        changed[1:] |= np.diff(np.asarray(codes)) != 0
    return np.flatnonzero(changed)


def key_at(table: pa.Table, by: Sequence[str], row: int) -> Key:
    """The key of one row as a value that orders as the files are sorted: null before all else."""
    values = (table[name][row].as_py() for name in by)
    return tuple((value is not None, value if value is not None else b"") for value in values)


def _next(batches: Iterator[pa.Table]) -> pa.Table | None:
    return next((batch for batch in batches if len(batch)), None)


def _rows_up_to(table: pa.Table, by: Sequence[str], end: Key) -> int:
    low, high = 0, len(table)
    while low < high:
        middle = (low + high) // 2
        if key_at(table, by, middle) <= end:
            low = middle + 1
        else:
            high = middle
    return low
