"""Row groups of a segment: which postings are read together.

A row group holds at most GROUP_ROWS keys and about GROUP_BYTES of postings, at four bytes per position of
sparse keys. Columns with many postings have row groups of their own, whose statistics name the column and a
range of keys. A row group costs half a millisecond and a kilobyte whatever it holds, so neighbouring columns
of few postings may share one; the file's metadata then says which rows belong to which column.

Worked example: bytes of postings, with at most 256 KiB in a shared row group.

    column         a     b     c          d     e
    bytes          2 K   9 K   3 M        1 K   1 K
    row groups     a b         c c c      d e
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.index.index_files import GROUP_BYTES, GROUP_ROWS
from tailbit.index.postings import gaps
from tailbit.index.postings.layout import SHARED, Section
from tailbit.tables import compute as pc
from tailbit.tables.arrow import filled, numpy_of

Shared = dict[str, str]
"""A file's metadata about shared row groups: empty, or JSON under the name SHARED."""

POSITION_BYTES = 4
"""Bytes that a position of a sparse key counts towards the size of a row group."""

FEW_BYTES = 1 << 16
"""A column with this many bytes of keys and postings, or more, has row groups of its own."""

SHARED_BYTES = 1 << 18
"""Bytes of keys and postings in a shared row group, at most: a fraction of a millisecond to decode."""


class Owner(NamedTuple):
    """A column, the key type of its postings, and how many consecutive keys are its own."""

    column: str
    key_type: str
    keys: int


@dataclass(frozen=True, eq=False)
class _Rows:
    """A table of postings, with running sums per row: each has one entry more than rows and begins with 0."""

    table: pa.Table
    bytes: Longs
    keys: Longs
    sparse: Longs
    positions: Longs

    @classmethod
    def of(cls, table: pa.Table) -> _Rows:
        is_sparse = numpy_of(pc.is_valid(table[gaps.FIRST]))
        positions = np.where(is_sparse, numpy_of(table["cardinality"]), 0)
        bitmaps = numpy_of(filled(pc.binary_length(table["bitmap"]), 0), dtype=np.int64)
        keys = numpy_of(filled(pc.binary_length(table["key"]), 0), dtype=np.int64)
        return cls(table, *map(_sums, (bitmaps + POSITION_BYTES * positions, keys, is_sparse, positions)))

    def cut(self, low: int, high: int, group_rows: int) -> Iterator[tuple[int, int]]:
        """Cut rows into row groups of at most `group_rows` rows and GROUP_BYTES, or of one larger posting."""
        while low < high:
            most = int(self.bytes[low]) + GROUP_BYTES
            end = int(np.searchsorted(self.bytes, most, side="right")) - 1
            end = min(max(end, low + 1), low + group_rows, high)
            yield low, end
            low = end


@dataclass(frozen=True, eq=False)
class _Piece:
    """Rows `[low, high)` of one column, at most a row group."""

    rows: _Rows
    owner: Owner
    low: int
    high: int

    @property
    def size(self) -> int:
        """Return the bytes of keys and postings."""
        return sum(int(sums[self.high] - sums[self.low]) for sums in (self.rows.bytes, self.rows.keys))

    @property
    def table(self) -> pa.Table:
        """Return the rows."""
        return self.rows.table.slice(self.low, self.high - self.low)

    def section(self) -> Section:
        """Return the entry of these rows in the file's metadata, for a shared row group."""
        own, low, high = self.rows, self.low, self.high
        sparse, positions = (int(sums[high] - sums[low]) for sums in (own.sparse, own.positions))
        keys = own.table["key"]
        first = low if keys[low].is_valid else low + 1
        ends = (keys[first].as_py(), keys[high - 1].as_py()) if first < high else (None, None)
        return Section(self.owner[0], self.owner[1], high - low, sparse, positions, self.size, *ends)


def _sums(numbers: np.ndarray[Any, Any]) -> Longs:
    return np.concatenate([[0], np.cumsum(numbers, dtype=np.int64)])


def cut(
    tables: Iterable[tuple[Sequence[Owner], pa.Table]], shared: Shared | None, group_rows: int = GROUP_ROWS
) -> Iterator[pa.Table]:
    """Cut postings, in ascending order, into row groups of at most `group_rows` keys.

    `shared`: once all row groups are yielded, holds the file's metadata about those that columns of few
    postings share; if None, each row group holds one column.
    """
    sections: dict[str, list[list[Any]]] = {}
    for number, pieces in enumerate(_in_row_groups(_pieces(tables, group_rows), shared is not None)):
        if len(pieces) > 1:
            sections[str(number)] = [_written(piece.section()) for piece in pieces]
        yield _table_of(pieces)
    if sections and shared is not None:
        shared[SHARED] = json.dumps(sections, separators=(",", ":"))


def _written(section: Section) -> list[Any]:
    keys = [None if key is None else b64encode(key).decode() for key in section[-2:]]
    return [*section[:-2], *keys]


def _pieces(tables: Iterable[tuple[Sequence[Owner], pa.Table]], group_rows: int) -> Iterator[_Piece]:
    """Cut the postings of each column into pieces as full as the limits allow."""
    pending: _Piece | None = None
    for owners, table in tables:
        if pending is not None and len(owners) == 1 and pending.owner[:2] == owners[0][:2]:
            table = pa.concat_tables([pending.table, table])
            owners = [Owner(*owners[0][:2], len(table))]
        elif pending is not None:
            yield pending
        pending, rows, low = None, _Rows.of(table), 0
        for owner in owners:
            for a, b in rows.cut(low, low + owner.keys, group_rows):
                if pending is not None:
                    yield pending
                pending = _Piece(rows, owner, a, b)
            low += owner.keys
    if pending is not None:
        yield pending


def _in_row_groups(pieces: Iterable[_Piece], share: bool) -> Iterator[list[_Piece]]:
    """Yield the pieces of each row group; with `share`, small neighbouring pieces are in one."""
    waiting: list[_Piece] = []
    size = 0
    for piece in pieces:
        few = share and piece.size < FEW_BYTES
        if waiting and (not few or size + piece.size > SHARED_BYTES):
            yield waiting
            waiting, size = [], 0
        if few:
            waiting.append(piece)
            size += piece.size
        else:
            yield [piece]
    if waiting:
        yield waiting


def _table_of(pieces: Sequence[_Piece]) -> pa.Table:
    """Return the rows of a row group. Neighbouring pieces of one table are not copied one by one."""
    tables = []
    for _, some in groupby(pieces, key=lambda piece: id(piece.rows)):
        own = list(some)
        tables.append(own[0].rows.table.slice(own[0].low, own[-1].high - own[0].low))
    return pa.concat_tables(tables).combine_chunks()
