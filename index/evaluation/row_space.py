"""One row space as one snapshot sees it: its covered files, their claims, and the visible rows.

A row space numbers the rows of several data files from 0, file after file; the range of a file there is its
claim. Positions outside the claims of covered files, and positions of hidden rows, are masked by `visible`:
no other part of a query handles them.

Example: a row space of eight rows was laid out for files a, c and b; c was removed from the table since, and
row 1 of a is hidden. The view has the claims of a and b alone.

    position     0    1    2    3    4    5    6    7
    file, row    a 0  a 1  a 2  c 0  c 1  b 0  b 1  b 2
    bases        [0, 5]
    rows         [3, 3]
    visible      x         x              x    x    x

    split({0, 2, 6})              a: [0, 2], b: [1]
    counts_by_file({0, 2, 6})     [2, 1]

Bounds of the rows where a predicate is TRUE, and set operations on positions.

Worked example: `carrier = 'UA' AND dest = 'SFO'`, of which only `carrier` is indexed:

    carrier = 'UA'    sure {0 4 7}    maybe {0 4 7}        exact: the posting of UA
    dest = 'SFO'      sure {}         maybe all rows       no posting: any row may match
    AND               sure {}         maybe {0 4 7}        three rows are rechecked on data
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.lazy import lazy
from tailbit.base.once import once
from tailbit.index.keys import widens
from tailbit.index.model import RAISED_KEY, Definition, is_of_term, raised_id
from tailbit.index.postings.segment import Segment
from tailbit.index.predicate.computed import Computed
from tailbit.index.predicate.tree import Leaf, Node
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, numpy_of
from tailbit.tables.cache import Cache
from tailbit.tables.model import Column
from tailbit.tables.positions import BitPositions, positions_in
from tailbit.tables.snapshot import FileList
from tailbit.tables.storage import at_once

if TYPE_CHECKING:
    from tailbit.index.predicate import truth
else:
    truth = lazy("tailbit.index.predicate.truth")


EMPTY = BitMap()


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """Positions in a row space where a predicate is surely TRUE, and where it may be TRUE.

    `sure` lies in `maybe`. `exact`: whether both are equal, so that no row needs a recheck.
    """

    sure: BitMap
    maybe: BitMap
    exact: bool

    @classmethod
    def exactly(cls, bits: BitMap) -> Bounds:
        """Return exact bounds: no row needs a recheck."""
        return cls(bits, bits, True)

    @classmethod
    def between(cls, sure: BitMap, maybe: BitMap) -> Bounds:
        """Return bounds whose rows in `maybe` but not in `sure` need a recheck. Cost: counts two bitmaps."""
        return cls(sure, maybe, len(sure) == len(maybe))


class Stated(NamedTuple):
    """Statistics of one column per file of a row space, in the order of its files.

    `low`, `high`: ranks (`value_sets`). `bounded`: whether these bound the non-null values of the file.
    `tight`: whether `low` and `high` are values of visible rows; if not `bounded`, whether all rows are NULL.
    `nulls`: the number of visible rows that are NULL, -1 if unknown.
    """

    low: Longs
    high: Longs
    bounded: Mask
    tight: Mask
    nulls: Longs


def intersection(sets: list[BitMap]) -> BitMap:
    """Intersect position sets, starting with the smallest."""
    first, *others = sorted(sets, key=len)
    out = first
    for positions in others:
        if not out:
            break
        out = out & positions
    return out


def union(sets: list[BitMap]) -> BitMap:
    """Unite position sets."""
    if len(sets) == 1:
        return sets[0]
    return BitMap.union(*sets) if sets else EMPTY


FileNumbers = npt.NDArray[np.int64]
"""Row numbers of files in `snapshot.files`."""

Segments = Sequence[Segment]
"""Segments with postings of one column, whose keys widen to the column's type."""

_LEAVES = 256
"""Limit of cached conditions per partition column, and of cached choices, of a row space."""


class Access(ABC):
    """Bounds, equivalents or statistics that one definition has for conditions on other columns."""

    definition: Definition

    @property
    def values(self) -> Column | None:
        """Return the term whose values have postings; None if the definition has no postings."""
        return None

    def same(self, node: Node) -> Node | None:
        """Return a condition on the definition's own values that is TRUE for the same rows, or None."""
        return None

    @abstractmethod
    def serves(self, node: Node) -> bool:
        """Return whether `bounds` can bound a condition."""

    @abstractmethod
    def bounds(self, node: Node, space: SpaceView) -> Bounds:
        """Return bounds of the rows of a row space where a condition is TRUE.

        Raises:
            CorruptIndexError: an index file is damaged; the caller scans the files of this row space.
        """

    def stated(self, column: Column, space: SpaceView) -> Stated | None:
        """Return extremes and NULLs of a column in the files of a row space; None without statistics."""
        return None


class PartitionTexts:
    """Partition values as the log's text, each distinct text once."""

    def __init__(self, files: FileList) -> None:
        self._files = files
        self._memo: dict[str, tuple[Longs, list[str | None]]] = {}

    def of(self, physical: str) -> tuple[Longs, list[str | None]]:
        """Return per file the number of its text (int64), and the texts.

        Cost: one vectorised pass per column, once.
        """
        if physical not in self._memo:
            texts = pa.concat_arrays(
                [arrow_array([], pa.string()), *self._files.partition_texts(physical).chunks]
            )
            coded = pc.dictionary_encode(texts, null_encoding="encode")
            codes = numpy_of(coded.indices, dtype=np.int64)
            self._memo[physical] = (codes, coded.dictionary.to_pylist())
        return self._memo[physical]


@dataclass(frozen=True, eq=False)
class _Leaves:
    """Conditions on a partition column, each with the positions where it is TRUE and where it raises.

    The positions are valid only for files with the same `texts`. Safe to share between threads.
    """

    texts: pa.Array
    bounds: Cache[Leaf | Computed, tuple[BitMap, BitMap]] = field(default_factory=lambda: Cache(_LEAVES))


@dataclass(eq=False)
class SpaceView:
    """The covered files of one row space, as one snapshot sees them.

    `accesses`: one per definition that can bound conditions on other columns. `files`: int64 row
    numbers in `snapshot.files`, ordered by `bases`. `bases`, `rows`: int64, the claims
    `[base, base + rows)`. `posted`: int64, per file the number of its set of posted columns in `column_sets`.
    `hidden_ids`: objects, per file the identity of its hidden rows, empty where none are hidden; `hidden_of`
    gives the rows of a file by its number in the snapshot. `before`: the view of another version. Its
    visible rows are reused where claims and hidden rows are the same, and its results of conditions on a
    partition column where claims and partition values are the same.
    Safe to share between threads: at worst something is computed twice.
    """

    space: str
    files: FileNumbers
    bases: Longs
    rows: Longs
    posted: Longs
    column_sets: Sequence[frozenset[str]]
    hidden_ids: npt.NDArray[np.object_]
    hidden_of: Callable[[int], BitMap | None]
    segments: Sequence[Segment]
    partitions: PartitionTexts
    accesses: Sequence[Access] = ()
    before: SpaceView | None = None
    choices: Cache[int, Any] = field(default_factory=lambda: Cache(_LEAVES), repr=False)
    _leaves: dict[str, _Leaves] = field(default_factory=dict, repr=False)
    _leaves_before: Mapping[str, _Leaves] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.before is not None and self._same_claims(self.before):
            self._leaves_before = {**self.before._leaves_before, **self.before._leaves}

    @once
    def visible(self) -> BitMap:
        """Return the positions that the snapshot shows.

        Cost: once a step per claim and hidden row; with a view of another version, only for claims that
        differ.
        """
        before, self.before = self.before, None
        return self._shown() if before is None else self._shown_since(before)

    @once
    def hidden(self) -> BitPositions:
        """Return the positions of the claims that the snapshot does not show, ascending."""
        return positions_in(claims(self.bases, self.rows) - self.visible)

    @once
    def visible_by_file(self) -> Longs:
        """Count the visible rows of each file, in the order of `files`."""
        return self.counts_by_file(self.visible)

    @property
    def origin(self) -> SpaceView | None:
        """Return the newest view in the chain of `before` whose visible rows are known."""
        return self if "visible" in self.__dict__ else self.before

    def _same_claims(self, other: SpaceView) -> bool:
        return np.array_equal(self.bases, other.bases) and np.array_equal(self.rows, other.rows)

    def _shown(self) -> BitMap:
        bits = claims(self.bases, self.rows)
        self._hide(bits, np.flatnonzero(self.hidden_ids != ""))
        return bits

    def _shown_since(self, before: SpaceView) -> BitMap:
        _, own_claims, theirs = np.intersect1d(self.bases, before.bases, return_indices=True)
        same = (self.rows[own_claims] == before.rows[theirs]) & (
            self.hidden_ids[own_claims] == before.hidden_ids[theirs]
        )
        same = np.asarray(same, dtype=bool)
        gone = np.setdiff1d(np.arange(len(before.files)), theirs[same])
        fresh = np.setdiff1d(np.arange(len(self.files)), own_claims[same])
        if len(gone) + len(fresh) > len(self.files):
            return self._shown()
        bits = before.visible.copy()
        bits -= claims(before.bases[gone], before.rows[gone])
        bits |= claims(self.bases[fresh], self.rows[fresh])
        self._hide(bits, fresh[self.hidden_ids[fresh] != ""])
        return bits

    def _hide(self, bits: BitMap, orders: Longs) -> None:
        reads = (partial(self.hidden_of, number) for number in self.files[orders].tolist())
        # A store is asked for the hidden rows of several files at once.
        several = at_once(self.segments[0].storage, reads) if self.segments else (read() for read in reads)
        for order, hidden in zip(orders.tolist(), several, strict=True):
            if hidden:
                bits -= hidden.shift(int(self.bases[order]))

    @once
    def extent(self) -> int:
        """Return the number of positions in the claims."""
        return int(self.rows.sum())

    def serving(self, column: Column) -> list[Segment]:
        """Return the segments with postings of a column; none if the keys of one do not widen to its type."""
        segments = [s for s in self.segments if column.id in s.columns]
        return segments if all(widens(s.columns[column.id], column.type) for s in segments) else []

    def stated(self, column: Column) -> Stated | None:
        """Return the statistics that some definition has of a column in the files; None without any."""
        statements = (access.stated(column, self) for access in self.accesses)
        return next((statement for statement in statements if statement is not None), None)

    def posts(self, id_: str) -> bool:
        """Return whether some segment has postings under an id."""
        return any(id_ in segment.columns for segment in self.segments)

    def unposted(self, column_id: str) -> BitMap | None:
        """Return the visible positions whose value is in no posting of a column or term.

        They are the rows of files without such postings, and the rows for which the term's expression raises.
        None if every file has the postings and no row is recorded as raising.
        """
        lacking = np.array([column_id not in posted for posted in self.column_sets], dtype=bool)
        missing = lacking[self.posted]
        raised = self._raised(column_id) if is_of_term(column_id) else None
        if not missing.any():
            return raised and self.visible & raised
        unknown = claims(self.bases[missing], self.rows[missing])
        return self.visible & (unknown | raised if raised else unknown)

    def _raised(self, id_: str) -> BitMap | None:
        raised = raised_id(id_)
        lookups = [s.lookup(raised, RAISED_KEY) for s in self.segments if raised in s.columns]
        return BitMap.union(BitMap(), *(bits for bits in lookups if bits)) if lookups else None

    def where_partition(self, leaf: Leaf | Computed) -> BitMap:
        """Return the claims of the files whose partition value makes a leaf TRUE.

        Cost: one evaluation over the distinct texts of the row space, once per leaf.
        """
        return self._where(leaf)[0]

    def raising_partition(self, leaf: Leaf | Computed) -> BitMap:
        """Return the claims of the files whose partition value makes a leaf raise."""
        return self._where(leaf)[1]

    def _where(self, leaf: Leaf | Computed) -> tuple[BitMap, BitMap]:
        assert leaf.column is not None
        physical = leaf.column.physical[0]
        return self._leaves_of(physical).bounds.get(leaf, lambda: (self._judged(leaf, physical), 1))

    def _judged(self, leaf: Leaf | Computed, physical: str) -> tuple[BitMap, BitMap]:
        codes, texts = self.partitions.of(physical)
        file_codes = codes[self.files]
        used = np.unique(file_codes)
        judged = np.zeros((2, len(texts)), dtype=bool)
        judged[:, used] = truth.partition_values_match(leaf, [texts[code] for code in used.tolist()])
        true, raised = judged[:, file_codes]
        return claims(self.bases[true], self.rows[true]), claims(self.bases[raised], self.rows[raised])

    def _leaves_of(self, physical: str) -> _Leaves:
        """Return the cached conditions of a column; those of `before` if all files have the same values."""
        leaves = self._leaves.get(physical)
        if leaves is None:
            codes, texts = self.partitions.of(physical)
            own_texts = pc.take(arrow_array(texts, pa.string()), arrow_array(codes[self.files]))
            before = self._leaves_before.get(physical)
            leaves = before if before is not None and before.texts.equals(own_texts) else _Leaves(own_texts)
            self._leaves[physical] = leaves
        return leaves

    def split(self, bits: BitMap, shared: bool = False) -> list[tuple[int, npt.NDArray[np.uint64]]]:
        """Split positions of the row space into (row number in snapshot.files, positions in the file).

        `shared`: files with all rows among the positions share one read-only array.
        """
        if not bits:
            return []
        if shared and len(bits) == int(self.rows.sum()):
            counts = self.rows.tolist()
            every = _shared_rows(max(counts))
            return [(number, every[:n]) for number, n in zip(self.files.tolist(), counts, strict=True) if n]
        positions = positions_in(bits)
        owners, starts, ends = self._owners(positions)
        whole = (ends - starts == self.rows[owners]) & shared
        all_rows = _shared_rows((ends - starts).max(where=whole, initial=0))
        spans = zip(owners.tolist(), starts.tolist(), ends.tolist(), whole.tolist(), strict=True)
        return [
            (
                int(self.files[owner]),
                all_rows[: end - start]
                if every
                else positions[start:end].astype(np.uint64) - np.uint64(self.bases[owner]),
            )
            for owner, start, end, every in spans
        ]

    def split_whole(self, bits: BitMap) -> tuple[list[int], BitMap]:
        """Return the files with all visible rows among positions, as row numbers, and the other positions.

        Cost: one C call per file; no array of positions is built.
        """
        whole = (self.counts_by_file(bits) == self.visible_by_file) & (self.visible_by_file > 0)
        if not whole.any():
            return [], bits
        return self.files[whole].tolist(), bits - claims(self.bases[whole], self.rows[whole])

    def _owners(self, positions: BitPositions) -> tuple[Longs, Longs, Longs]:
        """Return the claims that have positions, and where their positions begin and end in `positions`.

        Cost: at most one binary search per claim.
        """
        if len(positions) > len(self.bases):
            starts = np.searchsorted(positions, self.bases.astype(positions.dtype))
            ends = np.r_[starts[1:], len(positions)]
            some = np.flatnonzero(ends > starts)
            return some, starts[some], ends[some]
        owner = np.searchsorted(self.bases, positions, side="right") - 1
        starts = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
        return owner[starts], starts, np.r_[starts[1:], len(positions)]

    def counts_by_file(self, bits: BitMap) -> Longs:
        """Count the set positions in each claim, in the order of `files`. Cost: one C call per file."""
        lows, highs = self.bases.tolist(), (self.bases + self.rows).tolist()
        return np.array(
            [bits.range_cardinality(a, b) for a, b in zip(lows, highs, strict=True)], dtype=np.int64
        )


def _shared_rows(many: int) -> npt.NDArray[np.uint64]:
    """Return positions from 0 on in a read-only array."""
    rows = np.arange(many, dtype=np.uint64)
    rows.flags.writeable = False
    return rows


def claims(bases: Longs, rows: Longs) -> BitMap:
    """Return the union of `[base, base + rows)`; adjacent claims are added as one range.

    >>> claims(np.array([0, 5]), np.array([3, 3])).to_array().tolist()
    [0, 1, 2, 5, 6, 7]
    """
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
