"""K-way merge of sorted index files, so that all rows of one key come in one small table.

Worked example: eight rows in two files of two batches each.

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

from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, filled, numpy_of

GROUP_ROWS, GROUP_BYTES = 1 << 15, 1 << 20
"""Limits of a row group of a merged file, which is what a lookup decodes."""

Key = tuple[tuple[bool, bytes | str], ...]


def aligned(inputs: Sequence[Iterator[pa.Table]], by: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows of inputs that are each sorted by `by` (nulls first), in tables of ascending key ranges.

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
    """Yield the same rows in tables of the size of a row group, however small the given tables are."""
    waiting: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        if len(table):
            waiting.append(table)
            rows, size = rows + len(table), size + table.nbytes
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()


def sort(table: pa.Table, by: Sequence[str]) -> pa.Table:
    """Sort a table by some columns, nulls first; equal rows stay in their order.

    Columns with the same value in all rows are ignored; a table that is already sorted is returned unchanged.
    Cost: keys of eight bytes are sorted as numbers, all else by Arrow.
    """
    table = table.combine_chunks()
    varying = [name for name in by if _changes(table, name).any()]
    if len(varying) == 1 and (words := words_of(table[varying[0]].combine_chunks())) is not None:
        if (words[1:] >= words[:-1]).all():
            return table
        # A stable sort merges concatenated sorted pieces.
        return table.take(arrow_array(np.argsort(words, kind="stable")))
    return _sorted_by_arrow(table, varying) if varying else table


def _sorted_by_arrow(table: pa.Table, by: Sequence[str]) -> pa.Table:
    """Return the table sorted by Arrow; before each column, a column "is set" puts nulls first.

    The option of pyarrow for the order of nulls differs by release.
    """
    keys: dict[str, pa.ChunkedArray | pa.Array] = {}
    for name in by:
        keys[f"{name} is set"] = pc.cast(pc.is_valid(table[name]), pa.int8())
        keys[name] = table[name]
    return pc.take(table, pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys]))


def words_of(keys: pa.Array) -> npt.NDArray[np.uint64] | None:
    """Return keys as numbers of the same order; None unless all keys have eight bytes and none is null."""
    if not pa.types.is_binary(keys.type) or keys.null_count or not len(keys):
        return None
    ends = np.frombuffer(keys.buffers()[1], dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1]
    if ends[-1] - ends[0] != _WORD * len(keys) or (np.diff(ends) != _WORD).any():
        return None
    data = np.frombuffer(keys.buffers()[2], dtype=np.uint8)[ends[0] : ends[-1]]
    words: npt.NDArray[np.uint64] = data.view(">u8").astype(np.uint64)
    return words


_WORD = 8


def starts(table: pa.Table, by: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the row numbers (int64) at which a new key begins, in a table sorted by the columns `by`."""
    changed = np.zeros(len(table), dtype=bool)
    changed[:1] = True
    for name in by:
        changed[1:] |= _changes(table, name)
    return np.flatnonzero(changed)


def _changes(table: pa.Table, name: str) -> npt.NDArray[np.bool_]:
    """Return which rows but the first differ from the previous row; null is a value of its own."""
    values = table[name].combine_chunks()
    words = words_of(values)
    if words is not None:
        return np.asarray(words[1:] != words[:-1])
    other = filled(pc.not_equal(values[1:], values[:-1]), False)
    there = numpy_of(pc.is_valid(values))
    changes: npt.NDArray[np.bool_] = numpy_of(other) | (there[1:] != there[:-1])
    return changes


def key_at(table: pa.Table, by: Sequence[str], row: int) -> Key:
    """Return the key of one row as a value that compares as the files are sorted: nulls first."""
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
