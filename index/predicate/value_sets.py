"""Sets of the values of one column: sorted disjoint intervals or their complement, and whether NULL belongs.

Every condition on a single column becomes two such sets, where it is TRUE and where it is FALSE; bitmaps,
partition values, log statistics and rows are all evaluated with them. Values are canonical
(`tailbit.index.keys`), of the column's key type.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from functools import reduce
from typing import Any, NamedTuple

from tailbit.base.dataclass import dataclass
from tailbit.index.keys import Value, ordered_int


class Interval(NamedTuple):
    """The values between two bounds; None is unbounded; a point is closed with lo equal to hi.

    An interval without upper bound contains NaN, which is the greatest value.
    """

    lo: Value | None
    lo_closed: bool
    hi: Value | None
    hi_closed: bool


def beyond_prefix(prefix: bytes) -> bytes:
    """Return the least bytes above all texts that begin with a prefix, which is not empty.

    UTF-8 has no byte 0xff, so the last byte can be incremented.
    """
    return prefix[:-1] + bytes([prefix[-1] + 1])


Rank = int | bytes
Cut = tuple[int, Rank, int]
"""A point on the line of values.

`(0, r, 0)` lies just below the value of rank r, `(0, r, 1)` just above it; `(-1, 0, 0)` and `(1, 0, 0)` are
the two ends.
"""

_BOTTOM: Cut = (-1, 0, 0)
_TOP: Cut = (1, 0, 0)
Span = tuple[Cut, Cut]


@dataclass(slots=True)
class Prepared:
    """Forms derived from intervals, cached so that many files and chunks share their cost.

    `spans`: the intervals as cuts; `gaps`: the spans between them. `rows`: by key type, the form that
    `tailbit.index.predicate.truth` searches. `keys`: by current and stored key type, the key ranges
    (`tailbit.index.predicate.key_ranges`).
    """

    spans: list[Span] | None = None
    gaps: list[Span] | None = None
    rows: dict[object, Any] = field(default_factory=dict)
    keys: dict[tuple[str, str], Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ValueSet:
    """Set of non-null values (those in `intervals`, or all others if `complement`), and whether NULL belongs.

    Invariant: intervals are sorted, disjoint, not empty and do not touch.
    """

    intervals: tuple[Interval, ...] = ()
    complement: bool = False
    nulls: bool = False
    prepared: Prepared = field(default_factory=Prepared, compare=False, repr=False)

    @staticmethod
    def of(intervals: Iterable[Interval], complement: bool = False, nulls: bool = False) -> ValueSet:
        """Return the union of any intervals as a set."""
        listed = list(intervals)
        return _of_spans(_united(sorted(map(_span, listed))), _values_by_rank(listed), complement, nulls)

    @staticmethod
    def points(values: Iterable[Value], complement: bool = False, nulls: bool = False) -> ValueSet:
        """Return the set of some values. Cost: a sort, since single values never touch."""
        by_rank = {rank_of(value): value for value in values}
        ordered = (by_rank[rank] for rank in sorted(by_rank))
        return ValueSet(tuple(Interval(v, True, v, True) for v in ordered), complement, nulls)

    def inverse(self) -> ValueSet:
        """Return the complement; NULL belongs if it did not belong before."""
        return ValueSet(self.intervals, not self.complement, not self.nulls, self.prepared)

    def others(self) -> ValueSet:
        """Return all other non-null values."""
        return ValueSet(self.intervals, not self.complement, False, self.prepared)

    def intersect(self, other: ValueSet) -> ValueSet:
        """Return the intersection of two sets."""
        nulls = self.nulls and other.nulls
        value_of = _values_by_rank([*self.intervals, *other.intervals])
        own, theirs = _spans(self), _spans(other)
        if self.complement and other.complement:
            return _of_spans(_united(sorted([*own, *theirs])), value_of, True, nulls)
        own = _inverted(own) if self.complement else own
        theirs = _inverted(theirs) if other.complement else theirs
        return _of_spans(list(_common(own, theirs)), value_of, False, nulls)

    def union(self, other: ValueSet) -> ValueSet:
        """Return the union of two sets."""
        return self.inverse().intersect(other.inverse()).inverse()

    @staticmethod
    def union_of(sets: Sequence[ValueSet]) -> ValueSet:
        """Return the union of many sets. Cost: a sort of the intervals, unless many sets are complements."""
        listed = [s for s in sets if not s.complement]
        plain = ValueSet.of((i for s in listed for i in s.intervals), nulls=any(s.nulls for s in listed))
        return reduce(ValueSet.union, _united_in_pairs([s for s in sets if s.complement]), plain)

    @staticmethod
    def intersection_of(sets: Sequence[ValueSet]) -> ValueSet:
        """Return the intersection of many sets. Cost: as for the union of their inverses."""
        return ValueSet.union_of([s.inverse() for s in sets]).inverse()

    def spans(self) -> list[Span]:
        """Return the non-null values of the set as sorted disjoint spans, cached."""
        prepared = self.prepared
        if prepared.spans is None:
            prepared.spans = _spans(self)
        if not self.complement:
            return prepared.spans
        if prepared.gaps is None:
            prepared.gaps = _inverted(prepared.spans)
        return prepared.gaps

    def listed(self, most: int) -> list[Value] | None:
        """Return the values of a set that lists at most `most`, none of them NULL; None for other sets."""
        if self.complement or self.nulls or len(self.intervals) > most:
            return None
        if not all(map(_is_point, self.intervals)):
            return None
        return [interval.lo for interval in self.intervals if interval.lo is not None]

    def contains(self, value: Value | None) -> bool:
        """Return whether a canonical value, or NULL, belongs to the set."""
        return self.nulls if value is None else self.touches(value, value)

    def touches(self, lo: Value | None, hi: Value | None) -> bool:
        """Return whether a non-null value between `lo` and `hi` (both closed, None unbounded) may belong.

        Cost: one binary search, once the spans are known.
        """
        return meets(self.spans(), closed(lo, hi))


def _united_in_pairs(sets: list[ValueSet]) -> list[ValueSet]:
    """Return the union of sets as a list of one set, or of none if there are no sets.

    Cost: sets are united in pairs, so each interval is merged a logarithmic number of times.
    """
    while len(sets) > 1:
        pairs = [a.union(b) for a, b in zip(sets[::2], sets[1::2], strict=False)]
        sets = pairs + sets[len(pairs) * 2 :]
    return sets


def closed(lo: Value | None, hi: Value | None) -> Span:
    """Return the span between two bounds, both included; None is unbounded."""
    return _span(Interval(lo, True, hi, True))


def meets(spans: list[Span], span: Span) -> bool:
    """Return whether a span shares a value with one of sorted disjoint spans."""
    lo, hi = span
    index = bisect_right(spans, lo, key=_end)
    return lo < hi and index < len(spans) and spans[index][0] < hi


def _end(span: Span) -> Cut:
    return span[1]


NOTHING = ValueSet()
EVERYTHING = NOTHING.inverse()
VALUES = ValueSet(complement=True)
"""Every value but NULL."""
NULL = ValueSet(nulls=True)


def rank_of(value: Value) -> Rank:
    """Return the rank of a canonical value: values of one column compare as their ranks do."""
    return ordered_int(value, "double") if isinstance(value, float) else value


def _span(interval: Interval) -> Span:
    lo = _BOTTOM if interval.lo is None else (0, rank_of(interval.lo), 0 if interval.lo_closed else 1)
    hi = _TOP if interval.hi is None else (0, rank_of(interval.hi), 1 if interval.hi_closed else 0)
    return lo, hi


def _spans(values: ValueSet) -> list[Span]:
    return [_span(i) for i in values.intervals]


def _values_by_rank(intervals: Iterable[Interval]) -> dict[Rank, Value]:
    """Map the rank of each bounded end of some intervals (its sort key, NaN last) to the value of the end."""
    return {rank_of(v): v for i in intervals for v in (i.lo, i.hi) if v is not None}


def _united(spans: Iterable[Span]) -> list[Span]:
    """Unite sorted spans that meet, and drop empty spans."""
    out: list[Span] = []
    for lo, hi in spans:
        if lo >= hi:
            continue
        if out and lo <= out[-1][1]:
            out[-1] = (out[-1][0], max(hi, out[-1][1]))
        else:
            out.append((lo, hi))
    return out


def _inverted(spans: list[Span]) -> list[Span]:
    cuts = [_BOTTOM, *(cut for span in spans for cut in span), _TOP]
    return [(lo, hi) for lo, hi in zip(cuts[::2], cuts[1::2], strict=True) if lo < hi]


def _common(own: list[Span], theirs: list[Span]) -> Iterator[Span]:
    a = b = 0
    while a < len(own) and b < len(theirs):
        lo, hi = max(own[a][0], theirs[b][0]), min(own[a][1], theirs[b][1])
        if lo < hi:
            yield lo, hi
        if own[a][1] < theirs[b][1]:
            a += 1
        else:
            b += 1


def _of_spans(spans: list[Span], value_of: dict[Rank, Value], complement: bool, nulls: bool) -> ValueSet:
    intervals = (
        Interval(
            value_of[lo[1]] if lo[0] == 0 else None,
            lo[0] == 0 and lo[2] == 0,
            value_of[hi[1]] if hi[0] == 0 else None,
            hi[0] == 0 and hi[2] == 1,
        )
        for lo, hi in spans
    )
    return ValueSet(tuple(intervals), complement, nulls)


def _is_point(interval: Interval) -> bool:
    return interval.lo is not None and interval.lo == interval.hi
