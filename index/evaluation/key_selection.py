"""Some keys of one column of a segment: the door from conditions to postings.

A condition says which keys: as ranges, or as a mask over all keys of the column. Which rows have these keys,
and how many, is answered here by whatever costs least: recorded cardinalities, where every row of the row
space is visible; a lookup of many single keys; postings, of many keys united once and cached; or the codes of
all positions. A code is the number of a key, and keys are sorted, so that a range of keys is a span of codes.

Worked example: the condition `n < 30` on a column with the keys 10, 20, 30 and 40.

    keys             10      20      30      40
    postings         {0 3}   {1}     {2 5}   {4}
    span             [1, 3)
    cardinality      3
    codes            1 2 3 1 4 3
    bitmaps          {0 1 3}
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Mask
from tailbit.base.lazy import lazy
from tailbit.base.once import once
from tailbit.index.evaluation.row_space import union
from tailbit.index.keys import KeyRange, element_type, posting_type_of
from tailbit.index.postings.segment import Segment
from tailbit.index.predicate.key_ranges import key_ranges
from tailbit.index.predicate.value_sets import ValueSet
from tailbit.tables import compute as pc
from tailbit.tables.arrow import numpy_of
from tailbit.tables.cache import Cache, share
from tailbit.tables.model import Column
from tailbit.tables.positions import positions_in

if TYPE_CHECKING:
    from tailbit.index.evaluation import costs
    from tailbit.index.postings import codes as row_codes
    from tailbit.index.postings import paged_lookup as lookup
    from tailbit.index.postings import sorted_keys
    from tailbit.index.postings.codes import Span
else:
    lookup = lazy("tailbit.index.postings.paged_lookup")
    sorted_keys = lazy("tailbit.index.postings.sorted_keys")
    row_codes = lazy("tailbit.index.postings.codes")
    costs = lazy("tailbit.index.evaluation.costs")

MANY_KEYS = 256
"""From this many keys on, alternatives to reading posting by posting are considered."""

_FEW_SPANS = 16
"""More spans than these are looked up in a mask of all keys: each span is a pass over all codes."""

_VERY_MANY, _NARROW, _A_POINT = 1 << 17, 8, 1024
"""A column with more keys is not read whole for ranges whose row groups hold under an eighth of its keys, nor
for fewer single keys than one in 1,024."""

_LOOKED_UP, _FEW_ROWS = 16, 32
"""From this many single keys on, they are looked up together if at most one row in 32 has one of them."""

_RANGE_BYTES = 300
"""Bytes that a range occupies in Python, for the cache's accounting."""

UNIONS: Cache[tuple[str, str, Hashable], BitMap] = Cache(share(1 / 32))
"""United postings of many keys, by segment, column and question; a segment never changes."""


class KeySelection(ABC):
    """Some keys of a column of a segment.

    `question`: identifies the keys among all selections of the column.
    """

    def __init__(self, segment: Segment, column: str, question: Hashable) -> None:
        self.segment, self.column, self.question = segment, column, question

    @property
    @abstractmethod
    def keys(self) -> int:
        """Return the number of keys, or an upper bound where too many keys would have to be read."""

    @property
    def share(self) -> float:
        """Return the share of the column's keys that are selected."""
        return self.keys / max(1, self.segment.weight(self.column)[0])

    def bitmaps(self) -> list[BitMap]:
        """Return bitmaps whose union is the rows of the keys.

        Rows with one key each are in one bitmap each. The postings of many keys come as one bitmap, and so do
        all sparse ones. Cost: the row groups of the keys.
        """
        if self.keys < MANY_KEYS:
            return self._postings()
        return [UNIONS.get((self.segment.name, self.column, self.question), self._united)]

    @property
    def has_codes(self) -> bool:
        """Return whether `count` can look up the codes of rows."""
        return False

    def count(self, rows: BitMap) -> int:
        """Count the rows of a set that have one of the keys."""
        return sum(rows.intersection_cardinality(bits) for bits in self.bitmaps())

    @abstractmethod
    def _postings(self) -> list[BitMap]:
        """Return the postings of the keys, read as they are."""

    @abstractmethod
    def _coded(self) -> BitMap | None:
        """Find the rows of the keys by codes; None if it is too costly to tell the codes of the keys."""

    def _united(self) -> tuple[BitMap, int]:
        """Unite the postings, by codes if that is cheaper; return the bytes to account for too."""
        bits = self._coded() if self._are_quicker_by_codes() else None
        bits = union(self._postings()) if bits is None else bits
        return bits, min(2 * len(bits), self.segment.rows // 8) + 1024 + self._size

    def _are_quicker_by_codes(self) -> bool:
        """Return whether codes are quicker than postings, or will be later; those of arrays do not exist."""
        segment, column = self.segment, self.column
        if element_type(segment.columns[column]) is not None:
            return False
        by_posting = costs.uniting(segment, column, self.share)
        by_codes = costs.making(segment, column) + costs.comparing(segment, int(self.share * segment.rows))
        if by_codes < by_posting or row_codes.held_codes(segment, column) is not None:
            return by_codes < by_posting
        return costs.is_due(segment.name, column, by_posting, by_codes)

    @property
    def _size(self) -> int:
        """Return the bytes of the question."""
        return 0


OPEN = -1
"""The outcome of a condition for a key whose rows need a recheck."""

Outcomes = npt.NDArray[np.int8]
"""Outcomes of a condition by number: `OPEN`, or what the caller numbers."""

_OUTCOMES: Cache[tuple[str, str, Hashable], tuple[Outcomes, Mapping[int, int]]] = Cache(share(3 / 64))
"""Outcomes per segment, column and condition, and the number of keys of each; a segment never changes."""


class KeyOutcomes(NamedTuple):
    """The outcome of a condition for each key of a column of a segment, NULL included.

    `question`: identifies the condition, and the type in which it is evaluated. `counts`: keys by outcome.
    """

    segment: Segment
    column: str
    question: Hashable
    outcomes: Outcomes
    counts: Mapping[int, int]

    @classmethod
    def of(
        cls, segment: Segment, column: str, question: Hashable, judged: Callable[[], Outcomes]
    ) -> KeyOutcomes:
        """Return the outcomes, cached; `judged` evaluates the condition over the distinct keys, once."""

        def counted() -> tuple[tuple[Outcomes, Mapping[int, int]], int]:
            outcomes = judged()
            numbers, counts = np.unique(outcomes, return_counts=True)
            return (
                outcomes,
                dict(zip(numbers.tolist(), counts.tolist(), strict=True)),
            ), outcomes.nbytes + 200

        return cls(segment, column, question, *_OUTCOMES.get((segment.name, column, question), counted))

    def keys(self, outcome: int) -> MarkedKeys:
        """Return the keys with one outcome."""
        return MarkedKeys(self, outcome)


class MarkedKeys(KeySelection):
    """Keys with one outcome of a condition."""

    def __init__(self, of: KeyOutcomes, outcome: int) -> None:
        super().__init__(of.segment, of.column, (of.question, outcome))
        self._of, self._outcome = of, outcome

    @property
    def keys(self) -> int:
        """Return the number of keys."""
        return self._of.counts.get(self._outcome, 0)

    @once
    def _marked(self) -> Mask:
        marked: Mask = self._of.outcomes == self._outcome
        return marked

    def _postings(self) -> list[BitMap]:
        return self.segment.cover_keys(self.column, self._marked) if self.keys else []

    def _coded(self) -> BitMap:
        return row_codes.codes_of(self.segment, self.column).among(self._marked)


class RangeKeys(KeySelection):
    """Keys in some ranges, which ascend; `points`: the ranges as keys, if each is a single key."""

    question: tuple[KeyRange, ...]

    def __init__(
        self,
        segment: Segment,
        column: str,
        ranges: Sequence[KeyRange],
        points: pa.BinaryArray | None = None,
    ) -> None:
        super().__init__(segment, column, tuple(ranges))
        self.points = points

    @property
    def keys(self) -> int:
        """Return the number of keys; of a narrow range of very many keys, that of its row groups."""
        return len(self.points) if self.points is not None else self._counted[0]

    @property
    def spans(self) -> Sequence[Span] | None:
        """Return the spans of codes; None for single keys, few keys, and few of very many keys."""
        return None if self.points is not None else self._counted[1]

    @once
    def _counted(self) -> tuple[int, Sequence[Span] | None]:
        """Return the number of keys in ranges, and their spans of codes, cached."""
        name = self.segment.name, self.column, self.question
        return _SPANS.get(name, lambda: (self._looked_for(), 1))

    def _looked_for(self) -> tuple[int, Sequence[Span] | None]:
        some = self.segment.weight(self.column, self.question)[0] if self.question else 0
        if some < MANY_KEYS or not self._are_worth(some * _NARROW):
            return some, None
        spans = row_codes.spans_of(self.segment.keys(self.column)[0], self.question)
        return sum(high - low for low, high in spans), spans

    def _are_worth(self, keys: int) -> bool:
        """Return whether all keys of the column are read for what is worth a read of `keys` keys."""
        return self.segment.weight(self.column)[0] <= max(_VERY_MANY, keys)

    def cardinality(self) -> int | None:
        """Add up the recorded cardinalities of the keys; None for single keys, and for few keys."""
        if self.spans is None or self.keys < MANY_KEYS:
            return None
        cardinality = self.segment.keys(self.column)[1]
        return sum(int(cardinality[low - 1 : high - 1].sum()) for low, high in self.spans)

    def bitmaps(self) -> list[BitMap]:
        """Return the rows of the keys as bitmaps; single keys of few rows are looked up together."""
        if not self.question:
            return []
        if self.points is not None and self._are_looked_up:
            return lookup.covered(self.segment, self.column, sorted_keys.LookupKeys(self.points))
        return super().bitmaps()

    def unread(self) -> int:
        """Return the bytes of postings to be read, before compression; 0 for lookups of record keys."""
        if self.points is not None and self.segment.is_paged:
            return 0
        return self.segment.unread(self.column, self.question)

    def reading(self) -> float:
        """Estimate the ms to read and unite the postings, as if none were cached."""
        return costs.reading(self.segment, self.column, self.question, self.share)

    @property
    def has_codes(self) -> bool:
        """Return whether the keys are spans of codes, and codes are cached."""
        return bool(self.spans) and row_codes.held_codes(self.segment, self.column) is not None

    def count(self, rows: BitMap) -> int:
        """Count the rows of a set that have one of the keys, by their codes if the rows are few."""
        if len(rows) * 4 <= self.segment.rows and self.spans is not None and self.has_codes:
            by_posting = costs.intersecting(self.segment, self.column, len(rows), self.share)
            if costs.looking_up(len(rows), 0) < by_posting:
                codes = row_codes.codes_of(self.segment, self.column)
                return codes.count_within(self.spans, positions_in(rows))
        return super().count(rows)

    @property
    def _are_looked_up(self) -> bool:
        """Return whether to look up single keys: they are record keys, or many of few rows each."""
        if self.segment.is_paged:
            return True
        if self.keys < _LOOKED_UP:
            return False
        positions = self.share * self.segment.sparse_positions(self.column)
        return 0 < positions * _FEW_ROWS < self.segment.rows

    def _postings(self) -> list[BitMap]:
        if len(self.question) < MANY_KEYS or (marked := self._marked) is None:
            return self.segment.cover(self.column, self.question)
        return self.segment.cover_keys(self.column, marked)

    def _coded(self) -> BitMap | None:
        if self.spans is not None and len(self.spans) <= _FEW_SPANS:
            return row_codes.codes_of(self.segment, self.column).within(self.spans)
        marked = self._marked
        return None if marked is None else row_codes.codes_of(self.segment, self.column).among(marked)

    @once
    def _marked(self) -> Mask | None:
        """Return the mask of the keys among all keys; None if they are few of very many."""
        if self.points is not None:
            if not self._are_worth(len(self.points) * _A_POINT):
                return None
            marked: Mask = numpy_of(pc.is_in(self.segment.keys(self.column)[0], self.points))
        elif self.spans is None:
            return None
        else:
            marked = np.zeros(len(self.segment.keys(self.column)[0]), dtype=np.bool_)
            for low, high in self.spans:
                marked[low - 1 : high - 1] = True
        return marked

    @property
    def _size(self) -> int:
        return _RANGE_BYTES * len(self.question)


_SPANS: Cache[tuple[str, str, tuple[KeyRange, ...]], tuple[int, Sequence[Span] | None]] = Cache(4096)
"""Keys and spans of codes per segment and ranges; a segment never changes."""


def keys_of(column: Column, values: ValueSet, segment: Segment) -> tuple[RangeKeys, RangeKeys | None]:
    """Return the keys of a value set, and truncated keys, which may be of its values or of others.

    The complement and NULL of the value set are left to the caller.
    """
    ranges = key_ranges(values, posting_type_of(column.type), segment.columns[column.id])
    sure = RangeKeys(segment, column.id, ranges.sure, ranges.points)
    return sure, RangeKeys(segment, column.id, ranges.maybe) if ranges.maybe else None
