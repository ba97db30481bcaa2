"""An array column as codes: a row has the code of each of its distinct elements, at least one code.

The elements of a chunk lie one after the other and are coded as a column of their own, by `coding`; per row,
the offset of its elements is stored. NULL arrays and empty arrays have no element, so each has a key of its
own; NULL elements have one too (`tailbit.index.keys`). A row that holds an element twice has its code once.

Worked example: four rows, arrays of texts:

    array        [b, a, b]     NULL    []     [NULL, a]
    elements     b a b                        NULL a
    begins       0             3       3      3           5
    keys         NULL array, no element, NULL element, a, b
    codes        3 4           0       1      2 3
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.index.keys import NO_ELEMENT, element_type, mark_elements
from tailbit.index.roaring.coding import CodedColumn, Coding
from tailbit.index.roaring.collected import Codes, narrowest
from tailbit.index.roaring.containers import BLOCK
from tailbit.index.roaring.spilled import Keys, SpilledKeys
from tailbit.tables import compute as pc
from tailbit.tables.model import Column
from tailbit.tables.positions import BitPositions
from tailbit.tables.schema import arrow_type

_PIECE = 1 << 20
"""Rows that are processed together."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """A chunk of array values at consecutive positions from `start` on.

    The elements of row i are `[first + begins[i], first + begins[i + 1])`, by number; `nulls[i]`: the array
    is NULL.
    """

    start: int
    first: int
    begins: Codes
    nulls: Mask | None

    @property
    def end(self) -> int:
        """Return the position after the last row."""
        return self.start + len(self.begins) - 1


@dataclass(frozen=True)
class CodedElements:
    """An array column as the codes of each row's distinct elements.

    `keys`: sorted and distinct; null, first, stands for a NULL array. Some keys may have no row. `elements`:
    the code of each element, in the order of the data. `some_null`, `some_empty`: whether there are NULL
    arrays, and empty ones; each of the two moves the codes of elements among `keys` up by one.
    """

    keys: Keys
    elements: CodedColumn
    chunks: list[_Rows]
    some_null: bool
    some_empty: bool

    @property
    def absent(self) -> int:
        """Return one more than the last code."""
        return len(self.keys)

    def codes_at(self, positions: Longs) -> tuple[Codes, Longs]:
        """Return the codes of the rows at ascending positions, and the position of each code, in order.

        Cost and memory: the elements of the blocks that hold the positions.
        """
        codes, row_positions = [np.zeros(0, np.uint32)], [np.zeros(0, np.int64)]
        cuts = np.flatnonzero(np.diff(positions // BLOCK)) + 1
        for block_positions in np.split(positions, cuts) if len(positions) else ():
            first = int(block_positions[0]) // BLOCK * BLOCK
            marked = np.zeros(BLOCK, dtype=np.bool_)
            marked[block_positions - first] = True
            block_codes, lows = self._pairs(first, first + BLOCK)
            marked_pairs = np.flatnonzero(marked[lows])
            order = marked_pairs[np.argsort(lows[marked_pairs], kind="stable")]
            codes.append(block_codes[order])
            row_positions.append(lows[order].astype(np.int64) + first)
        return np.concatenate(codes), np.concatenate(row_positions)

    def counts(self, start: int, end: int) -> Longs:
        """Count the rows per code among the positions `[start, end)`. Memory: a block."""
        out = np.zeros(self.absent, dtype=np.int64)
        for block in range(start, end, BLOCK):
            out += np.bincount(self._pairs(block, min(block + BLOCK, end))[0], minlength=self.absent)
        return out

    def listed(self, start: int, end: int) -> tuple[Codes, BitPositions]:
        """Return all (code, position) pairs as two arrays, positions ascending per code.

        Memory: 8 bytes per pair.
        """
        codes, positions = [np.zeros(0, np.uint32)], [np.zeros(0, np.uint32)]
        for block in range(start, end, BLOCK):
            block_codes, lows = self._pairs(block, min(block + BLOCK, end))
            codes.append(block_codes)
            positions.append(lows + np.uint32(block))
        return np.concatenate(codes), np.concatenate(positions)

    def _pairs(self, start: int, end: int) -> tuple[Codes, Codes]:
        """Return the sorted distinct pairs of a block: codes (uint32), and rows from `start` on (uint16)."""
        pairs = [np.zeros(0, np.uint64)]
        for chunk in self.chunks:
            a, b = max(start, chunk.start), min(end, chunk.end)
            if a < b:
                codes, rows = self._of_part(chunk, a - chunk.start, b - chunk.start)
                rows += a - start
                packed = codes.astype(np.uint64 if self.absent > BLOCK else np.uint32)
                packed <<= packed.dtype.type(16)
                packed |= rows.astype(packed.dtype)
                pairs.append(packed)
        whole = np.concatenate(pairs[1:] if len(pairs) > 1 else pairs)
        whole.sort()
        if len(whole):
            whole = whole[np.append(True, whole[1:] != whole[:-1])]
        return (whole >> whole.dtype.type(16)).astype(np.uint32), whole.astype(np.uint16)

    def _of_part(self, chunk: _Rows, low: int, high: int) -> tuple[Codes, Longs]:
        """Return the codes of the rows `[low, high)` of a chunk, and parallel to them the row of each code.

        A row has a code per element; a NULL or empty array has one code. Rows are counted from `low`.
        """
        begins = chunk.begins[low : high + 1].astype(np.int64)
        sizes = np.diff(begins)
        codes = self.elements.codes(chunk.first + int(begins[0]), chunk.first + int(begins[-1]))
        shift, bare = self.some_null + self.some_empty, np.flatnonzero(sizes == 0)
        of_bare = np.full(len(bare), int(self.some_null), dtype=np.uint32)
        if chunk.nulls is not None:
            of_bare[chunk.nulls[low:high][bare]] = 0
        rows = np.concatenate([np.repeat(np.arange(high - low), sizes), bare])
        return np.concatenate([codes.astype(np.uint32) + np.uint32(shift), of_bare]), rows


class ElementCoding:
    """Collector of the rows of one array column; `finish` returns their codes.

    Memory: that of `Coding` for the elements, and four bytes per row.
    """

    def __init__(self, type_: pa.DataType, key_type: str, coding: type[Coding] = Coding) -> None:
        self._elements = coding(type_.value_type, key_type)
        self._rows: list[_Rows] = []
        self._many = 0

    def add(self, start: int, values: pa.ChunkedArray) -> None:
        """Add rows from position `start` on, in the column's Arrow type."""
        for chunk in values.chunks:
            for offset in range(0, len(chunk), _PIECE):
                self._add(start + offset, chunk.slice(offset, _PIECE))
            start += len(chunk)

    def _add(self, start: int, piece: pa.ListArray) -> None:
        elements = piece.flatten()
        begins = np.zeros(len(piece) + 1, dtype=np.int64)
        np.cumsum(np.asarray(pc.fill_null(pc.list_value_length(piece), 0)), out=begins[1:])
        nulls = np.asarray(piece.is_null()) if piece.null_count else None
        self._rows.append(_Rows(start, self._many, begins.astype(narrowest(len(elements))), nulls))
        self._elements.add(self._many, pa.chunked_array([elements]))
        self._many += len(elements)

    def finish(self) -> CodedElements:
        """Return the codes of all rows added. Cost: encodes and sorts the distinct elements."""
        elements = self._elements.finish()
        some_null = any(chunk.nulls is not None for chunk in self._rows)
        some_empty = any(_holds_empty(chunk) for chunk in self._rows)
        first = pa.array([None] * some_null + [NO_ELEMENT] * some_empty, pa.binary())
        if isinstance(elements.keys, SpilledKeys):
            keys: Keys = elements.keys.changed(first, mark_elements)
        else:
            keys = pa.concat_arrays([first, mark_elements(elements.keys)])
        return CodedElements(keys, elements, self._rows, some_null, some_empty)


def _holds_empty(chunk: _Rows) -> bool:
    """Return whether any array of a chunk is empty and not NULL."""
    bare = chunk.begins[1:] == chunk.begins[:-1]
    return bool(bare.any() if chunk.nulls is None else (bare & ~chunk.nulls).any())


Coded = CodedColumn | CodedElements
"""The codes of a column by position: one per row of plain values, any number per row of arrays."""


def coding_of(column: Column, key_type: str, coding: type[Coding] = Coding) -> Coding | ElementCoding:
    """Return the collector of the rows of a column, by the key type of its postings.

    `coding`: the collector of plain values and of elements.
    """
    type_, of_elements = arrow_type(column.type, column.label), element_type(key_type)
    return coding(type_, key_type) if of_elements is None else ElementCoding(type_, of_elements, coding)
