"""How the rows of one row space are grouped by a column: the cheapest way by estimate, with its reason.

The rates are those of one core, measured with `benchmarks/facets.py`; they need only be right in proportion,
since all ways are measured by the same rod. Making codes is dear once and cheap ever after, so it is chosen
too when questions about this column have already cost in other ways what making them costs.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from pyroaring import BitMap

from tailbit.index.analytics.codes import held_codes
from tailbit.index.keys import key_type_of
from tailbit.index.kinds.bitmap_index.segment import Segment
from tailbit.index.predicate.tree import key_ranges
from tailbit.index.predicate.value_sets import ValueSet
from tailbit.index.query.row_space import SpaceView
from tailbit.tables.cache import Cache
from tailbit.tables.model import Column


class Way(enum.Enum):
    """How rows are grouped by a column."""

    RECORDED = "recorded counts"
    """The index keeps how many visible rows each value has: no row is looked at."""

    CARDINALITIES = "recorded cardinalities"
    """Every row of the row space is asked for: each posting says how many it has."""

    INTERSECTIONS = "intersections"
    """Each key's posting is intersected with the rows."""

    CODES = "codes by position"
    """The code of each row is looked up."""

    DATA = "data"
    """The column is read at the rows."""

    PARTITION = "partition values"
    """The log says the value of whole files."""


_READ_BYTE, _DECODED, _DECODED_KEY = 4.5e-6, 3e-4, 1e-3
"""Reading a byte of postings; decoding a container, and a bitmap. All times are ms."""

_PAIR, _STEP = 3e-5, 5e-6
"""Intersecting two containers, and a step in them."""

_LOOK_UP, _CODE = 8e-6, 1e-6
"""Looking up a row's code; the sum of a code."""

_CODED_ROW, _CODED_CONTAINER, _CODED_BIT = 2e-5, 2.5e-4, 1e-6
"""Making codes: a row and a container of arrays, a position of a bitset."""

_FILE, _VALUE, _ROW, _GROUP = 0.6, 1.5e-5, 1.2e-4, 100_000
"""Opening a data file; decoding a value; taking a row; values that one wanted row makes us decode."""

_BLOCK, _ARRAY_LIMIT, _GALLOP = 1 << 16, 4096, 64
"""Positions of a container; most of an array; where intersecting gallops through the larger one."""


@dataclass(frozen=True)
class Choice:
    """A way for one row space, and what each was estimated to take (ms); `rows`: how many are grouped."""

    space: str
    rows: int
    way: Way
    estimates: dict[Way, float]

    @property
    def estimate(self) -> float:
        """What the chosen way was estimated to take, in ms."""
        return self.estimates[self.way]


SPENT: Cache[tuple[str, str], list[float]] = Cache(10_000)
"""What other ways than codes have cost by estimate, in ms, by segments and column."""


def choose(
    space: SpaceView, segments: Sequence[Segment], column: Column, bits: BitMap, among: ValueSet | None
) -> Choice:
    """The cheapest way to group some positions of a row space by a column that its segments serve.

    `among`: values, one of which every row has, where that is known. Cost: footers, and one binary search a
    file.
    """
    if all(len(bits) == space.extent == segment.rows for segment in segments):
        return Choice(space.space, len(bits), Way.CARDINALITIES, {Way.CARDINALITIES: 0.0})
    held = all(held_codes(segment, column.id) is not None for segment in segments)
    look_up = _LOOK_UP * len(bits) + _CODE * sum(s.weight(column.id)[0] for s in segments)
    found = {
        Way.INTERSECTIONS: sum(_intersections(s, column, len(bits), among) for s in segments),
        Way.CODES: look_up if held else look_up + sum(_making(s, column.id) for s in segments),
        Way.DATA: _reading(space, bits),
    }
    way = min(found, key=lambda way: found[way])
    if way is not Way.CODES and _is_due("|".join(s.name for s in segments), column.id, found, way):
        way = Way.CODES
    return Choice(space.space, len(bits), way, found)


def choose_codes(space: SpaceView, serving: Mapping[str, Sequence[Segment]], bits: BitMap) -> Choice:
    """Codes by position or the data: the cheaper way to tell the keys of several columns of some rows.

    `serving`: the segments of each column, by its id.
    """
    found = {Way.CODES: 0.0, Way.DATA: _reading(space, bits) * len(serving)}
    for column, segments in serving.items():
        found[Way.CODES] += _LOOK_UP * len(bits)
        found[Way.CODES] += sum(_making(s, column) for s in segments if held_codes(s, column) is None)
    names = "|".join(segment.name for segments in serving.values() for segment in segments)
    way = min(found, key=lambda way: found[way])
    if way is Way.DATA and _is_due(names, ",".join(serving), found, way):
        way = Way.CODES
    return Choice(space.space, len(bits), way, found)


def _is_due(segments: str, column: str, found: dict[Way, float], way: Way) -> bool:
    """Whether codes are to be made although another way is cheaper now: it has been taken often enough."""
    spent = SPENT.get((segments, column), lambda: ([0.0], 1))
    again = spent[0] > 0
    spent[0] += found[way]
    return again and spent[0] * _PATIENCE >= found[Way.CODES]


_PATIENCE = 2
"""Codes are made by the time that other ways have cost half of what making them costs."""


class _Shape(NamedTuple):
    """Postings of a segment's column: keys, bytes, containers, and positions of each container."""

    keys: int
    size: int
    containers: float
    positions: float

    @classmethod
    def of(cls, rows: int, keys: int, size: int) -> _Shape:
        """By rows and bytes, as if the keys were spread evenly; fewer containers where the bytes are few."""
        per_key = max(1.0, min(rows / _BLOCK, rows / max(1, keys)))
        containers = max(1.0, min(keys * per_key, size / 10))
        return cls(keys, size, containers, rows / containers)


def _intersections(segment: Segment, column: Column, rows: int, among: ValueSet | None) -> float:
    keys, size = segment.weight(column.id)
    shape = _Shape.of(segment.rows, keys, size)
    share = 1.0
    if among is not None:
        ranges = key_ranges(among, key_type_of(column.type), segment.columns[column.id])
        some, _ = segment.weight(column.id, [*ranges.sure, *ranges.maybe])
        points = sum(low is not None and low == high for low, _, high, _ in ranges.sure)
        if points == len(ranges.sure) and not ranges.maybe:
            some = min(points, some)
        share = some / max(1, keys)
    wanted = rows / max(1.0, segment.rows / _BLOCK)
    each = _PAIR + _STEP * _steps(wanted, min(shape.positions, _BLOCK))
    cold = _READ_BYTE * size + _DECODED * shape.containers + _DECODED_KEY * keys
    return share * (each * shape.containers + (0.0 if segment.is_held(column.id) else cold))


def _steps(some: float, others: float) -> float:
    """Steps that it takes to intersect two containers of so many positions."""
    few, many = sorted((some, others))
    if many > _ARRAY_LIMIT:
        return min(few, _ARRAY_LIMIT / 4)
    return few * math.log2(many + 2) if few * _GALLOP < many else few + many


def _making(segment: Segment, column: str) -> float:
    keys, size = segment.weight(column)
    shape = _Shape.of(segment.rows, keys, size)
    if shape.positions > _ARRAY_LIMIT:
        return _READ_BYTE * size + _CODED_BIT * shape.containers * _BLOCK
    return _READ_BYTE * size + _CODED_ROW * segment.rows + _CODED_CONTAINER * shape.containers


def _reading(space: SpaceView, bits: BitMap) -> float:
    counts = space.counts_by_file(bits)
    touched = counts > 0
    values = np.minimum(space.rows[touched], counts[touched] * _GROUP)
    return _FILE * int(touched.sum()) + _VALUE * int(values.sum()) + _ROW * len(bits)
