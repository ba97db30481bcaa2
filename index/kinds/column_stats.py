"""Kind `column_stats`: statistics of columns and expressions per row group of data files.

The statistics of columns come from footers, those of expressions from values.

Statistics of an expression: computed from its values, row group by row group. Two data files of equal footers
may hold different values. Their statistics of an expression then have one unit in common, and are united into
bounds that hold for both files.

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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import DataFileError
from tailbit.base.lazy import lazy
from tailbit.index.index_files import GROUP_ROWS, aligned
from tailbit.index.keys import SIGN, encode_array, is_textual, key_type_of
from tailbit.index.kinds import files
from tailbit.index.kinds.files import FILES, FooterKind, RowGroups
from tailbit.index.kinds.kind import (
    Blame,
    CheckedSource,
    Definable,
    Entering,
    Merged,
    MergeGroup,
    Problem,
    View,
    stored_type,
)
from tailbit.index.model import TERM, Definition
from tailbit.index.predicate.value_sets import beyond_prefix
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, no_rows, numpy_of
from tailbit.tables.model import Column, FileSlice

if TYPE_CHECKING:
    from tailbit.index.evaluation.row_space import Access
    from tailbit.index.expression import indexed_term
    from tailbit.index.expression.indexed_term import IndexedTerm
    from tailbit.index.kinds import stats_access as stored
    from tailbit.index.kinds.stats_access import ColumnStats
    from tailbit.tables.parquet import bounds as footer_bounds
    from tailbit.tables.parquet import data_file
    from tailbit.tables.parquet import layout as parquet_layout
    from tailbit.tables.parquet import rows as parquet_rows
    from tailbit.tables.parquet.bounds import ChunkStatistics
    from tailbit.tables.parquet.layout import Layout
else:
    indexed_term = lazy("tailbit.index.expression.indexed_term")
    stored = lazy("tailbit.index.kinds.stats_access")
    data_file = lazy("tailbit.tables.parquet.data_file")
    parquet_layout = lazy("tailbit.tables.parquet.layout")
    parquet_rows = lazy("tailbit.tables.parquet.rows")
    footer_bounds = lazy("tailbit.tables.parquet.bounds")


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
    return stored.united(pa.concat_tables(tables)) if tables else None


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


def _cut(tables: Sequence[pa.Table]) -> Iterator[pa.Table]:
    table = pa.concat_tables([no_rows(SCHEMA), *tables]).combine_chunks()
    return (table.slice(begin, GROUP_ROWS) for begin in range(0, len(table), GROUP_ROWS))


_SAMPLED = 200
"""Number of files whose footers a verification reads."""

_COMPUTED = 8
"""Number of files whose values a verification reads, if there are statistics of expressions."""


class ColumnStatsKind(FooterKind["ColumnStats"]):
    """Kind whose rows are each the statistics of one column in one row group of a data file."""

    name: ClassVar[str] = "column_stats"
    definable: ClassVar[Mapping[str, Definable]] = {"column_stats": Definable(None)}
    defined: ClassVar[bool] = True
    schema: ClassVar[pa.Schema] = SCHEMA
    sorted_by: ClassVar[tuple[str, ...]] = ("column", "unit")
    encodings: ClassVar[Mapping[str, str]] = ENCODINGS
    # Few files are merged, because a question reads every file.
    lowest: ClassVar[int] = 4
    others: ClassVar[int] = 2

    def reader(self, view: View) -> ColumnStats:
        """Return the reader of the live files; nothing is read before it is needed."""
        return stored.ColumnStats(view.storage, view.paths_of(self))

    def accesses(self, view: View, columns: Sequence[Column]) -> Sequence[Access]:
        """Return the access of each definition; none if the file records cannot be read."""
        from tailbit.index.kinds.stats_access import StatsAccess, StatsOfClaims, TermStatsAccess

        definitions = self.definitions(view)
        recorded_files = self.recorded_places(view) if definitions else None
        if recorded_files is None:
            return ()
        of_claims = StatsOfClaims(view.reader(self), recorded_files)
        terms = [column for column in columns if isinstance(column, indexed_term.IndexedTerm)]
        of_terms = (
            TermStatsAccess(definition, of_claims, term)
            for definition in definitions
            for term in terms
            if term.id in definition.expression_ids
        )
        return [
            *(StatsAccess(definition, of_claims, _ids(definition)) for definition in definitions),
            *of_terms,
        ]

    def build(self, entering: Sequence[Entering], columns: Sequence[Column]) -> Iterator[pa.Table]:
        """Yield the directory of data files, then the statistics of columns and expressions in them.

        Cost: the footers, which the task has read, and the values that expressions read.
        """
        if not entering:
            return iter(())
        files = ((file, file.open()) for file in entering)
        layout_of = parquet_layout.layout_of
        layouts = [(file, layout_of(opened.metadata, opened.tree, opened.head)) for file, opened in files]
        footers = [Footer(file.footer, layout, file.slice.path, file.computed) for file, layout in layouts]
        return built(footers, columns)

    def grouped(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield rows, given column by column, as row groups; columns of few rows share a row group."""
        pending: list[pa.Table] = []
        for table in tables:
            pending.append(table)
            if sum(map(len, pending)) >= _FEW_ROWS:
                yield from _cut(pending)
                pending = []
        yield from _cut(pending)

    def merge(self, view: View, group: MergeGroup, earliest: int | None) -> Merged:
        """Write the statistics of each footer of a claimed file once.

        Statistics of other footers, and of columns that no definition names any more, are dropped. A file
        whose claim was dropped is indexed again if it returns, so its statistics are not needed.
        """
        stats = stored.ColumnStats(view.storage, group.inputs)
        groups = stats.row_groups
        in_use = numpy_of(pc.is_in(groups.footers, value_set=view.reader(FILES).footers()), dtype=bool)
        forgotten = frozenset(groups.footers.filter(arrow_array(~in_use)).to_pylist())
        definitions = self.definitions(view)
        if not in_use.any() or not definitions:
            return Merged((), forgotten=forgotten)
        used_units = np.repeat(in_use, np.diff(groups.starts))
        new_numbers = np.where(used_units, np.cumsum(used_units) - 1, -1)
        inputs = [
            _renumbered(self.batches(view.storage, path), new_numbers[numbers], definitions)
            for path, numbers in stats.numbers.items()
        ]
        columns = (stored.united(rows) for rows in aligned(inputs, ["column"]))
        files = self.write_stream(view.storage, chain([_directory(groups, used_units)], columns))
        return Merged(tuple(files), forgotten=forgotten)

    def check(self, view: View, source: CheckedSource) -> Iterator[Problem]:
        """Yield the statistics that are missing, or that differ from the footers or values of some files."""
        definitions = self.definitions(view)
        if not definitions:
            return
        built = view.reader(FILES).built(source.slices, {definition.id for definition in definitions})
        stats = view.reader(self)
        units_of, blamed = stats.row_groups.by_footer(), min(stats.paths, default="")
        for slice_, record in built:
            if record.footer not in units_of:
                where = f"column statistics of {slice_.path}"
                yield Problem(where, "there are none", Blame.FILE, blamed)
        built = [(slice_, record) for slice_, record in built if record.footer in units_of]
        for slice_, record in files.sample(built, _SAMPLED):
            yield from _differences(stats, units_of[record.footer], slice_, source, source.columns, blamed)
        for slice_, record in files.sample(built, _COMPUTED):
            own = {id_ for index in definitions if index.id in record.built for id_ in index.expression_ids}
            expressions = [term for term in source.expressions if term.id in own]
            yield from _differences(stats, units_of[record.footer], slice_, source, expressions, blamed)


COLUMN_STATS = ColumnStatsKind()


def _differences(
    stats: ColumnStats,
    units: slice,
    slice_: FileSlice,
    source: CheckedSource,
    columns: Sequence[Column],
    blamed: str,
) -> Iterator[Problem]:
    """Yield the columns and expressions of a file whose stored statistics contradict the file.

    Columns whose type was widened are skipped, and so is a file that is gone from an older version.
    """
    if source.is_gone(slice_):
        return

    def computed(term: IndexedTerm) -> Computed:
        for table in parquet_rows.fetch(source.storage, slice_, indexed_term.sources_of([term]), None):
            values, raising = indexed_term.with_terms(table, [term])
            yield values[term.id], raising.get(term.id)

    try:
        layout = data_file.open_layout(source.storage, slice_.path, slice_.size)
    except DataFileError as unreadable:
        yield Problem.of_source(slice_.path, unreadable)
        return
    for column in columns:
        for cells in stats.cells(column.id):
            if cells.key_type != stored_type(column) or not cells.recorded[units].any():
                continue
            rows = list(built([Footer("", layout, slice_.path, computed)], [column]))[1:]
            compare = cells.hold if isinstance(column, indexed_term.IndexedTerm) else cells.same
            if not rows or not compare(
                units, stored.cells_of(rows[0], cells.key_type, units.stop - units.start)
            ):
                where = f"column statistics of {column.label} in {slice_.path}"
                yield Problem(where, "they are not those of the file", Blame.FILE, blamed)


def _directory(groups: RowGroups, used_units: Mask) -> pa.Table:
    """Return the directory of the units that stay."""
    files = np.repeat(np.arange(len(groups.footers)), np.diff(groups.starts))[used_units]
    return directory(groups.footers.take(arrow_array(files)).to_pylist(), groups.rows[used_units].tolist())


def _ids(definition: Definition) -> frozenset[str] | None:
    """Return the ids of the columns that a definition names; None if it covers all columns."""
    if not definition.terms:
        return None
    return frozenset(term.columns[0].id for term in definition.terms if term.is_column)


def _named(column: pa.ChunkedArray, definitions: Sequence[Definition]) -> pa.ChunkedArray:
    """Return which rows are of a column or an expression that some definition names."""
    ids = [_ids(definition) for definition in definitions]
    names = {id_ for definition in definitions for id_ in definition.expression_ids}.union(*filter(None, ids))
    named = pc.is_in(column, value_set=arrow_array(sorted(names), pa.string()))
    if None not in ids:
        return named
    return pc.or_(named, pc.and_(pc.is_valid(column), pc.invert(pc.starts_with(column, pattern=TERM))))


def _renumbered(
    batches: Iterator[pa.Table], numbers: Longs, definitions: Sequence[Definition]
) -> Iterator[pa.Table]:
    """Yield the rows that definitions name, with new unit numbers, without rows of dropped units (-1)."""
    for batch in batches:
        rows = batch.filter(_named(batch["column"], definitions))
        units = numbers[numpy_of(rows["unit"], dtype=np.int64)]
        column = rows.column_names.index("unit")
        yield rows.set_column(column, "unit", arrow_array(units)).filter(arrow_array(units >= 0))
