"""Postings of all columns at once, for few rows: one pass over numpy arrays instead of one pass per column.

A column of a thousand rows takes longer to set up than to lay out. So the keys of all columns are numbered
one column after the other, and their rows are laid out as those of one column of many keys.

Worked example, rows 0 to 3 of two columns:

    column    rows         keys      codes        numbered
    a         y x y NULL   NULL x y  2 1 2 0      2 1 2 0
    b         7 8 8 8      7 8       0 1 1 1      3 4 4 4
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.index.kinds.value_counts import Tally
from tailbit.index.model import RAISED_TYPE
from tailbit.index.postings.postings import AnyPostings, JointPostings
from tailbit.index.postings.row_groups import Owner
from tailbit.index.roaring.bitmaps import Bitmaps, bitmaps
from tailbit.index.roaring.coding import CodedColumn
from tailbit.index.roaring.collected import Codes
from tailbit.index.roaring.containers import pays
from tailbit.index.roaring.spilled import SpilledKeys
from tailbit.index.write.posting import (
    Claim,
    DataFiles,
    code,
    counted_raised,
    hidden_counts,
    post,
    posted,
    stored,
)
from tailbit.index.write.work import TaskColumn
from tailbit.tables.model import Column
from tailbit.tables.positions import BitPositions, positions_in

FEW_ROWS = 1 << 13
"""Up to this many rows are laid out together for all columns."""


@dataclass(frozen=True, eq=False)
class _Column:
    """A column of a few rows: its keys, and per row its code among them and its position, ascending."""

    id: str
    key_type: str
    keys: pa.BinaryArray
    codes: Codes
    positions: BitPositions


def post_all(
    data: DataFiles,
    columns: Sequence[TaskColumn],
    claims: Sequence[Claim],
    hidden: Mapping[str, BitMap],
    tally_of: Callable[[Column], Tally],
) -> Iterator[AnyPostings]:
    """Yield the postings of columns, which come in ascending order, and add visible rows to their tallies.

    Memory: that of `post`, or the codes and keys of all columns of `FEW_ROWS` rows.
    """
    # Files that are filled later come in any order.
    claims = sorted(claims, key=lambda claim: claim.base)
    few = len(columns) > 1 and sum(claim.rows for claim in claims) <= FEW_ROWS
    waiting: list[_Column] = []
    for indexed in columns:
        column, tally = indexed.column, tally_of(indexed.column)
        if not few:
            yield from post(data, column, indexed.key_type, claims, hidden, tally)
            continue
        mine, raised = [claim for claim in claims if column.id in claim.columns], BitMap()
        coded = code(data, column, indexed.key_type, mine, raised)
        if not isinstance(coded, CodedColumn) or isinstance(coded.keys, SpilledKeys):
            yield from _laid_out(waiting)
            waiting = []
            yield from posted(coded, raised, column, indexed.key_type, mine, hidden, tally)
            continue
        own = _listed(column.id, indexed.key_type, coded, mine)
        counts = np.bincount(own.codes, minlength=len(own.keys)) - hidden_counts(coded, mine, hidden)
        tally.add(column.id, indexed.key_type, own.keys, counts)
        waiting.append(own)
        if raised:
            waiting.append(_raised(column, raised, mine, hidden, tally))
    yield from _laid_out(waiting)


def _listed(id_: str, key_type: str, coded: CodedColumn, claims: Sequence[Claim]) -> _Column:
    codes, positions = [], []
    for claim in claims:
        codes.append(coded.codes(claim.base, claim.base + claim.rows))
        positions.append(np.arange(claim.base, claim.base + claim.rows, dtype=np.uint32))
    keys = coded.keys
    assert isinstance(keys, pa.Array)
    return _Column(id_, key_type, keys, np.concatenate(codes), np.concatenate(positions))


def _raised(
    column: Column, raised: BitMap, claims: Sequence[Claim], hidden: Mapping[str, BitMap], tally: Tally
) -> _Column:
    """Return the rows where a term raises an error as a column of one key, and count the visible ones."""
    id_, keys = counted_raised(column, raised, claims, hidden, tally)
    positions = positions_in(raised)
    return _Column(id_, RAISED_TYPE, keys, np.zeros(len(positions), dtype=np.uint8), positions)


def _laid_out(columns: Sequence[_Column]) -> Iterator[JointPostings]:
    """Yield the postings of columns, numbered one after the other."""
    if not columns:
        return
    ends = np.cumsum([len(column.keys) for column in columns])
    keys = pa.concat_arrays([column.keys for column in columns])
    firsts = ends - [len(column.keys) for column in columns]
    codes = np.concatenate(
        [
            column.codes.astype(np.uint32) + np.uint32(first)
            for column, first in zip(columns, firsts, strict=True)
        ]
    )
    positions = np.concatenate([column.positions for column in columns])
    for slab in bitmaps(codes, 0, len(keys), pays, positions=positions):
        yield _joint(columns, ends, keys.slice(slab.first, len(slab.cardinality)), slab)


def _joint(columns: Sequence[_Column], ends: Longs, keys: pa.BinaryArray, slab: Bitmaps) -> JointPostings:
    kept = np.flatnonzero(slab.cardinality > 0) + slab.first
    own = np.diff(np.searchsorted(kept, ends), prepend=0).tolist()
    owners = (Owner(c.id, c.key_type, many) for c, many in zip(columns, own, strict=True) if many)
    return JointPostings(tuple(owners), *stored(keys, slab))
