"""Which files of a snapshot the index covers, where their rows lie, and which of those rows are visible.

Input: a snapshot and the recorded files of an index. Output: one `SpaceView` per row space with its visible
rows, and the uncovered rest. Only a file whose path, size and modification time are those recorded, in the
lineage that the ledger vouches for, is covered: an index that lags or belongs to another history costs time,
not rows. Bits outside the claims of covered files are masked by `visible`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from tailbit.index.metadata_table import IndexTable
from tailbit.index.segment import Segment
from tailbit.tables.delta.deletion_vectors import read_deletion_vector
from tailbit.tables.delta.snapshot import Snapshot
from tailbit.tables.storage import Storage

Rows = npt.NDArray[np.int64]

_SEPARATOR = "\x1f"
"""Joins the ids of posted columns into one text, so that files with the same columns share one set."""


@dataclass
class SpaceView:
    """The covered files of one row space, as one snapshot sees them.

    `files`: int64 row numbers in `snapshot.files`, ordered by `bases`. `bases`, `rows`: int64, the claims
    `[base, base + rows)`. `posted`: int64, per file the number of its set of posted columns in `column_sets`.
    `hidden`: per file with hidden rows, its order number and how to get them.
    """

    space: str
    files: Rows
    bases: Rows
    rows: Rows
    posted: Rows
    column_sets: Sequence[frozenset[str]]
    hidden: Sequence[tuple[int, Callable[[], BitMap]]]
    segments: Sequence[Segment]
    leaf_cache: dict[object, BitMap] = field(default_factory=dict)

    @cached_property
    def visible(self) -> BitMap:
        """Positions that the snapshot shows. Cost: runs of claims plus hidden rows, once."""
        bits = claims(self.bases, self.rows)
        for order, load in self.hidden:
            bits -= load().shift(int(self.bases[order]))
        return bits

    @cached_property
    def extent(self) -> int:
        """Number of rows claimed."""
        return int(self.rows.sum())

    def segments_of(self, column_id: str) -> list[Segment]:
        """The segments of this row space that hold postings of a column."""
        return [s for s in self.segments if column_id in s.columns]

    def unposted(self, column_id: str) -> BitMap | None:
        """Visible positions of files for which this column is not posted; None where there are none."""
        lacking = np.array([column_id not in posted for posted in self.column_sets], dtype=bool)
        missing = lacking[self.posted]
        if not missing.any():
            return None
        return self.visible & claims(self.bases[missing], self.rows[missing])

    def split(self, bits: BitMap) -> list[tuple[int, npt.NDArray[np.uint64]]]:
        """Split positions of the row space into (row number in snapshot.files, positions in the file)."""
        if not bits:
            return []
        at = np.frombuffer(bits.to_array(), dtype=np.uint32).astype(np.int64)
        owner = np.searchsorted(self.bases, at, side="right") - 1
        starts = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
        ends = np.r_[starts[1:], len(at)]
        return [
            (int(self.files[owner[s]]), (at[s:e] - self.bases[owner[s]]).astype(np.uint64))
            for s, e in zip(starts.tolist(), ends.tolist(), strict=True)
        ]

    def counts_by_file(self, bits: BitMap) -> Rows:
        """Number of set positions in each claim, in the order of `files`."""
        lows, highs = self.bases.tolist(), (self.bases + self.rows).tolist()
        return np.array(
            [bits.range_cardinality(a, b) for a, b in zip(lows, highs, strict=True)], dtype=np.int64
        )


@dataclass(frozen=True)
class Coverage:
    """A snapshot divided into covered row spaces and uncovered files (row numbers in `snapshot.files`)."""

    snapshot: Snapshot
    spaces: Sequence[SpaceView]
    uncovered: Rows
    hidden_of: Callable[[int], BitMap | None]


def claims(bases: Rows, rows: Rows) -> BitMap:
    """The union of `[base, base + rows)`; adjacent claims are added as one range."""
    bits = BitMap()
    if not len(bases):
        return bits
    order = np.argsort(bases, kind="stable")
    low, high = bases[order], bases[order] + rows[order]
    first = np.r_[True, low[1:] != high[:-1]]
    last = np.r_[first[1:], True]
    for a, b in zip(low[first].tolist(), high[last].tolist(), strict=True):
        bits.add_range(a, b)
    return bits


def cover(snapshot: Snapshot, storage: Storage, index: IndexTable | None, trusted: bool) -> Coverage:
    """Divide a snapshot by what the index has recorded.

    Invariant: every live file is in exactly one row space or in `uncovered`. Cost: vectorised joins over the
    live files; hidden rows are loaded only for the row spaces that are asked.
    """
    hidden_of = _hidden_loader(snapshot, storage, index)
    everything = np.arange(len(snapshot.files), dtype=np.int64)
    if index is None or index.ledger is None or not trusted or not len(everything):
        return Coverage(snapshot, (), everything, hidden_of)
    recorded = index.files_table()
    live = snapshot.files.table
    at = pc.index_in(live["path"], value_set=recorded["path"].combine_chunks())
    mine = recorded.take(at)
    same = _and(
        pc.equal(mine["size"], live["size"]),
        pc.equal(mine["mtime"], live["mtime"]),
        pc.equal(mine["lineage"], index.ledger.lineage),
        pc.is_valid(mine["space"]),
    )
    covered = np.asarray(same, dtype=bool)
    spaces = _spaces(everything[covered], mine.filter(pa.array(covered)), snapshot, index, hidden_of)
    return Coverage(snapshot, spaces, everything[~covered], hidden_of)


def _and(*masks: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    out = np.asarray(pc.fill_null(masks[0], False), dtype=bool)
    for mask in masks[1:]:
        out = out & np.asarray(pc.fill_null(mask, False), dtype=bool)
    return out


def _spaces(
    files: Rows,
    mine: pa.Table,
    snapshot: Snapshot,
    index: IndexTable,
    hidden_of: Callable[[int], BitMap | None],
) -> list[SpaceView]:
    names = mine["space"].combine_chunks().dictionary_encode()
    codes = np.asarray(names.indices, dtype=np.int64)
    bases = np.asarray(mine["base"], dtype=np.int64)
    rows = np.asarray(mine["rows"], dtype=np.int64)
    posted = pc.binary_join(mine["columns"], _SEPARATOR).combine_chunks().dictionary_encode()
    sets = [frozenset(str(text).split(_SEPARATOR)) for text in posted.dictionary.to_pylist()]
    posted_codes = np.asarray(posted.indices, dtype=np.int64)
    order = np.lexsort((bases, codes))
    cuts = np.flatnonzero(np.r_[True, np.diff(codes[order]) != 0, True]) if len(order) else np.array([0])
    with_hidden = set(snapshot.files.dv_rows.tolist())
    views = []
    for a, b in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        part = order[a:b]
        space = str(names.dictionary[int(codes[part[0]])])
        numbers = files[part]
        hidden = [
            (i, _loader(hidden_of, int(n))) for i, n in enumerate(numbers.tolist()) if int(n) in with_hidden
        ]
        views.append(
            SpaceView(
                space=space,
                files=numbers,
                bases=bases[part],
                rows=rows[part],
                posted=posted_codes[part],
                column_sets=sets,
                hidden=hidden,
                segments=index.segments_of(space),
            )
        )
    return views


def _loader(hidden_of: Callable[[int], BitMap | None], number: int) -> Callable[[], BitMap]:
    return lambda: hidden_of(number) or BitMap()


def _hidden_loader(
    snapshot: Snapshot, storage: Storage, index: IndexTable | None
) -> Callable[[int], BitMap | None]:
    """Hidden rows of a live file by row number: from the index where it knows them, else from the source."""

    def load(number: int) -> BitMap | None:
        hidden = snapshot.files[number].hidden
        if hidden is None:
            return None
        known = index.hidden_rows(hidden.id) if index is not None else None
        return known if known is not None else read_deletion_vector(storage, hidden)

    return load
