"""Kind `column_stats`: statistics of columns and expressions per row group of data files.

The statistics of columns come from footers, those of expressions from values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.errors import DataFileError
from tailbit.base.lazy import lazy
from tailbit.index.index_files import aligned, write_index_file, write_parquet
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
from tailbit.index.kinds.stats_rows import (
    ENCODINGS,
    SCHEMA,
    Footer,
    built,
    directory,
    packed,
    united,
)
from tailbit.index.model import TERM, Definition, IndexFile
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, numpy_of
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    from tailbit.index.evaluation.row_space import Access
    from tailbit.index.expression import indexed_term
    from tailbit.index.expression.indexed_term import IndexedTerm
    from tailbit.index.kinds import stats_access as stored
    from tailbit.index.kinds.stats_access import ColumnStats
    from tailbit.index.kinds.stats_rows import Computed
    from tailbit.tables.parquet import data_file
    from tailbit.tables.parquet import layout as parquet_layout
    from tailbit.tables.parquet import rows as parquet_rows
else:
    indexed_term = lazy("tailbit.index.expression.indexed_term")
    stored = lazy("tailbit.index.kinds.stats_access")
    data_file = lazy("tailbit.tables.parquet.data_file")
    parquet_layout = lazy("tailbit.tables.parquet.layout")
    parquet_rows = lazy("tailbit.tables.parquet.rows")

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

    def write_stream(self, storage: Storage, tables: Iterable[pa.Table]) -> list[IndexFile]:
        """Write the directory and then rows, given column by column, as one file; no file without rows."""
        groups = packed(tables)
        first = next(groups, None)
        if first is None:
            return []
        every = chain([first], groups)
        name, schema = self.name, self.schema
        return [
            write_index_file(
                storage, name, name, lambda to: write_parquet(to, schema, every, encodings=ENCODINGS)
            )
        ]

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
        columns = (united(rows) for rows in aligned(inputs, ["column"]))
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
