"""Rows of kind `column_stats`: one per column or expression and row group of a data file.

Statistics of an expression: computed from its values, row group by row group. Two data files of equal footers
may hold different values. Their statistics of an expression then have one unit in common, and are united into
bounds that hold for both files.

Rows of columns are built from footers. The rows of an expression are computed from its values; they have the
id of the expression as `column`.

An index file begins with its directory: one row per row group (unit) of its data files, with the hash of the
data file's footer and the row count, `column` null. The rows of each column refer to units by number.
Statistics are a function of the footer, so its hash identifies a data file here, whatever its path.

Example: a data file of two row groups of 100 rows, and the columns `k` (long) and `s` (string).

    column  key_type  unit  footer  rows  low  high  low_text  high_text  nulls  bytes  exact
    -       -         0     9f3c    100
    -       -         1     9f3c    100
    k       integer   0                   3    97                         0      412    true
    k       integer   1                   98   201                        2      407    true
    s       string    0                              ab        xy         0      655    false
    s       string    1                              b         z          0      640    false
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import DataFileError
from tailbit.base.lazy import lazy
from tailbit.index.index_files import GROUP_ROWS, sort, starts
from tailbit.index.keys import SIGN, encode_array, is_textual, key_type_of
from tailbit.index.kinds.kind import stored_type
from tailbit.index.predicate.value_sets import beyond_prefix
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.model import Column

if TYPE_CHECKING:
    from tailbit.index.expression import indexed_term
    from tailbit.index.expression.indexed_term import IndexedTerm
    from tailbit.tables.parquet import bounds as footer_bounds
    from tailbit.tables.parquet.bounds import ChunkStatistics
    from tailbit.tables.parquet.layout import Layout
else:
    footer_bounds = lazy("tailbit.tables.parquet.bounds")
    indexed_term = lazy("tailbit.index.expression.indexed_term")


Computed = Iterable[tuple[pa.ChunkedArray, Mask | None]]
"""The values of an expression in row order, and where it raises; None where it raises nowhere."""

_NUMBERS = range(-SIGN, SIGN)
"""The ranks that a bound can hold."""


@dataclass
class _Group:
    """What is known of the values of one row group so far."""

    rows: int = 0
    nulls: int = 0
    low: bytes | None = None
    high: bytes | None = None
    raised: bool = False

    def add(self, values: pa.Array, raised: bool, key_type: str) -> None:
        """Add some values of the row group."""
        self.rows, self.nulls = self.rows + len(values), self.nulls + values.null_count
        self.raised = self.raised or raised
        if values.null_count == len(values):
            return
        ends = pc.min_max(_comparable(values, key_type))
        low, high = ends["min"].as_py(), ends["max"].as_py()
        self.low = low if self.low is None else min(self.low, low)
        self.high = high if self.high is None else max(self.high, high)

    def stated(self, key_type: str) -> ChunkStatistics:
        """Return the statistics; of a row group in which the expression raises, nothing is known."""
        if self.raised:
            return footer_bounds.ChunkStatistics(None, None, None, self.rows, 0, False)
        low, high = _bound(self.low, key_type), _bound(self.high, key_type)
        if low is None or high is None:
            low = high = None
        return footer_bounds.ChunkStatistics(
            low, high, self.nulls, self.rows, 0, low is not None or self.low is None
        )


def computed_statistics(pieces: Computed, term: IndexedTerm, starts: Longs) -> list[ChunkStatistics]:
    """Return the statistics of an expression per row group; bounds of texts are bytes, others are ranks.

    `starts`: the first row of each row group, and the number of rows as the last item.
    """
    key_type = key_type_of(term.type)
    groups = [_Group() for _ in starts[1:]]
    for group, values, raised in _by_group(pieces, starts):
        groups[group].add(values, raised, key_type)
    return [group.stated(key_type) for group in groups]


def _by_group(pieces: Computed, starts: Longs) -> Iterator[tuple[int, pa.Array, bool]]:
    """Yield number of row group, some of its values, and whether the expression raises for some of them."""
    group = row = 0
    for values, raised in pieces:
        offset, piece = 0, values.combine_chunks()
        while offset < len(piece):
            while row >= starts[group + 1]:
                group += 1
            end = min(len(piece), offset + int(starts[group + 1]) - row)
            yield (
                group,
                piece.slice(offset, end - offset),
                raised is not None and bool(raised[offset:end].any()),
            )
            row, offset = row + end - offset, end


def _comparable(values: pa.Array, key_type: str) -> pa.Array:
    """Return values as bytes that sort as the values do: texts as they are, other values as keys."""
    if not is_textual(key_type):
        return encode_array(values, key_type)
    if pa.types.is_dictionary(values.type):
        # Only the codes that occur: the dictionary may be that of more row groups.
        values = pc.take(values.dictionary, pc.drop_null(pc.unique(values.indices)))
    return pc.cast(values, pa.binary())


def _bound(key: bytes | None, key_type: str) -> Any:
    """Return a bound: a text as its bytes, a number as its rank; None if the rank has more than 64 bits."""
    if key is None or is_textual(key_type):
        return key
    number = int.from_bytes(key, "big")
    rank = number if len(key) == 1 else number - (1 << 8 * len(key) - 1)
    return rank if rank in _NUMBERS else None


SCHEMA = pa.schema(
    [
        ("column", pa.string()),
        ("key_type", pa.string()),
        ("unit", pa.int64()),
        ("footer", pa.string()),
        ("rows", pa.int64()),
        ("low", pa.int64()),
        ("high", pa.int64()),
        ("low_text", pa.binary()),
        ("high_text", pa.binary()),
        ("nulls", pa.int64()),
        ("bytes", pa.int64()),
        ("exact", pa.bool_()),
    ]
)

ENCODINGS = {
    **dict.fromkeys(("unit", "low", "high", "bytes"), "DELTA_BINARY_PACKED"),
    **dict.fromkeys(("low_text", "high_text"), "DELTA_BYTE_ARRAY"),
}

_LONGEST = 64
"""Bytes of a text that a bound holds: longer bounds are rounded outwards."""

_FEW_ROWS = 4096
"""Columns are collected into a row group until it has this many rows: columns of few rows share one."""


class Footer(NamedTuple):
    """The footer of a data file with its hash; `path` names the file in errors.

    `computed`: yields the values of an expression in row order, and where it raises.
    """

    hash: str
    layout: Layout
    path: str
    computed: Callable[[IndexedTerm], Computed] | None = None


def built(footers: Sequence[Footer], columns: Sequence[Column]) -> Iterator[pa.Table]:
    """Yield the directory of some data files and then the rows of each column, in order of column ids.

    Partition columns and columns of types without order have no rows. Files with equal footers count as one.
    """
    distinct = list({footer.hash: footer for footer in footers}.values())
    groups = [(footer.hash, rows) for footer in distinct for rows in np.diff(footer.layout.starts).tolist()]
    yield directory([name for name, _ in groups], [rows for _, rows in groups])
    for column in sorted(columns, key=lambda column: column.id):
        if isinstance(column, indexed_term.IndexedTerm):
            rows = _rows_of_values(footers, distinct, column)
        else:
            stated = enumerate(chain.from_iterable(_statistics(distinct, column)))
            cells = (cell for cell in stated if cell[1].low is not None or cell[1].nulls is not None)
            rows = _rows(column, cells)
        if rows is not None:
            yield rows


def directory(footers: Sequence[str], rows: Sequence[int]) -> pa.Table:
    """Return the directory of units, numbered from 0."""
    return _table(footer=footers, rows=rows, unit=range(len(rows)), length=len(rows))


def _rows_of_values(
    footers: Sequence[Footer], distinct: Sequence[Footer], term: IndexedTerm
) -> pa.Table | None:
    """Return the rows of an expression; those of files with equal footers are united."""
    units = np.cumsum([0, *(len(footer.layout.starts) - 1 for footer in distinct)]).tolist()
    first = {footer.hash: unit for footer, unit in zip(distinct, units, strict=False)}
    rows = []
    for footer in footers:
        if footer.computed is not None:
            groups = computed_statistics(footer.computed(term), term, footer.layout.starts)
            rows.append(_rows(term, enumerate(groups, first[footer.hash])))
    tables = [table for table in rows if table is not None]
    return united(pa.concat_tables(tables)) if tables else None


def united(rows: pa.Table) -> pa.Table:
    """Return one row per column, key type and unit, sorted; rows that differ are united to hold both bounds.

    Cost: one sort, and a step for each row that is not equal to its neighbour of the same unit.
    """
    ordered = sort(rows, _UNIT).combine_chunks()
    first = starts(ordered, _UNIT)
    if len(first) == len(ordered):
        return ordered
    ends = np.r_[first[1:], len(ordered)]
    single = ordered.take(arrow_array(first))
    several = np.flatnonzero(ends - first > 1).tolist()
    changed: dict[int, dict[str, Any]] = {}
    for number in several:
        alike = ordered.slice(first[number], ends[number] - first[number]).to_pylist()
        if any(row != alike[0] for row in alike):
            changed[number] = reduce(_both, alike)
    if not changed:
        return single
    unchanged = np.ones(len(single), dtype=bool)
    unchanged[list(changed)] = False
    others = pa.Table.from_pylist(list(changed.values()), schema=single.schema)
    return sort(pa.concat_tables([single.filter(arrow_array(unchanged)), others]), _UNIT)


_UNIT = ["column", "key_type", "unit"]


def _both(first: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Unite two rows of one unit into statistics that hold for the data of both."""
    out = dict(first, exact=False)
    for low, high in (("low", "high"), ("low_text", "high_text")):
        bounded = first[low] is not None and other[low] is not None
        out[low] = min(first[low], other[low]) if bounded else None
        out[high] = max(first[high], other[high]) if bounded else None
    if first["nulls"] != other["nulls"]:
        out["nulls"] = None
    return out


def _rows(column: Column, stated: Iterable[tuple[int, ChunkStatistics]]) -> pa.Table | None:
    """Return the rows of a column, from pairs of unit number and statistics; None if there are no pairs."""
    key_type, cells = stored_type(column), list(stated)
    if key_type is None or not cells:
        return None
    textual = is_textual(key_type)
    bounded = [_storable(group, _ends(group, column.type.scale)) for _, group in cells]
    low, high = zip(*(ends for _, ends in bounded), strict=True)
    return _table(
        column=[column.id] * len(cells),
        key_type=[key_type] * len(cells),
        unit=[unit for unit, _ in cells],
        nulls=[group.nulls for _, group in cells],
        bytes=[group.packed for _, group in cells],
        exact=[is_exact for is_exact, _ in bounded],
        length=len(cells),
        **({"low_text": low, "high_text": high} if textual else {"low": low, "high": high}),
    )


def _statistics(footers: Sequence[Footer], column: Column) -> list[list[ChunkStatistics]]:
    """Return the statistics of a column per file; unknown for a file in which its name is ambiguous."""
    try:
        return footer_bounds.column_statistics([(footer.layout, footer.path) for footer in footers], column)
    except DataFileError:
        if len(footers) > 1:
            return [groups for footer in footers for groups in _statistics([footer], column)]
        rows = np.diff(footers[0].layout.starts).tolist()
        return [[footer_bounds.ChunkStatistics(None, None, None, n, 0, False) for n in rows]]


_Ends = tuple[int | bytes | None, int | bytes | None]


def _storable(group: ChunkStatistics, ends: _Ends) -> tuple[bool, _Ends]:
    """Return whether bounds are exact, and the bounds; none if one is unknown or a rank exceeds 64 bits.

    A decimal that a file stores in 64 bits may have more at the larger scale that its column has by now.
    """
    fits = all(not isinstance(end, int) or -(1 << 63) <= end < 1 << 63 for end in ends)
    is_whole = (ends[0] is None) == (ends[1] is None)
    return (group.exact, ends) if fits and is_whole else (False, (None, None))


def _ends(group: ChunkStatistics, scale: int) -> _Ends:
    """Return the bounds as ranks; long texts are rounded outwards."""
    low, high = group.low, group.high
    if isinstance(low, (str, bytes)):
        least, most = (end.encode() if isinstance(end, str) else end for end in (low, high))
        if len(most) <= _LONGEST:
            return least[:_LONGEST], most
        cut = most[:_LONGEST].rstrip(b"\xff")
        return least[:_LONGEST], beyond_prefix(cut) if cut else None
    if isinstance(low, Decimal):
        return int(low.scaleb(scale)), int(high.scaleb(scale))
    return low, high


def _table(length: int, **columns: Sequence[object] | range) -> pa.Table:
    arrays = [
        arrow_array(list(columns[f.name]), f.type) if f.name in columns else pa.nulls(length, f.type)
        for f in SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def packed(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield rows, given column by column, as row groups; columns of few rows share a row group."""
    pending: list[pa.Table] = []
    for table in tables:
        pending.append(table)
        if sum(map(len, pending)) >= _FEW_ROWS:
            yield from _cut(pending)
            pending = []
    if any(map(len, pending)):
        yield from _cut(pending)


def _cut(tables: Sequence[pa.Table]) -> Iterator[pa.Table]:
    table = pa.concat_tables(tables).combine_chunks()
    return (table.slice(begin, GROUP_ROWS) for begin in range(0, len(table), GROUP_ROWS))
