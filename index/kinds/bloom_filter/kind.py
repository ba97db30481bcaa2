"""Kind `bloom_filter`: Bloom filters of columns, for row groups whose data files have no filters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from tailbit.base.errors import CorruptIndexError
from tailbit.base.lazy import lazy
from tailbit.index.kinds.bloom_filter.rows import (
    SCHEMA,
    SORTED_BY,
    built,
    grouped,
    hashes_of_keys,
    kept,
)
from tailbit.index.kinds.files import recorded
from tailbit.index.kinds.files.kind import FILES
from tailbit.index.kinds.kind import Blame, CheckedSource, Entering, Kind, Problem, View
from tailbit.index.kinds.rows import stored_type
from tailbit.index.model import Definition, IndexFile
from tailbit.index.parquet.index_file import write_index_file, write_parquet
from tailbit.index.parquet.sorted_rows import aligned
from tailbit.tables import compute as pc
from tailbit.tables.arrow import numpy_of
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    from tailbit.index import keys
    from tailbit.index.evaluation.row_space import Access
    from tailbit.index.kinds import merging
    from tailbit.index.kinds.bloom_filter import reader as stored
    from tailbit.index.kinds.bloom_filter.reader import BloomFilters
    from tailbit.tables.parquet import rows as parquet_rows
else:
    keys = lazy("tailbit.index.keys")
    merging = lazy("tailbit.index.kinds.merging")
    stored = lazy("tailbit.index.kinds.bloom_filter.reader")
    parquet_rows = lazy("tailbit.tables.parquet.rows")

_SAMPLED = 8
"""Number of files whose values a verification reads."""


class BloomFilterKind(Kind["BloomFilters"]):
    """Kind whose rows are each the filter of one column in one row group of a data file."""

    name: ClassVar[str] = "bloom_filter"
    defined: ClassVar[bool] = True
    schema: ClassVar[pa.Schema] = SCHEMA
    sorted_by: ClassVar[tuple[str, ...]] = SORTED_BY

    def reader(self, view: View) -> BloomFilters:
        """Return the reader of the live files; nothing is read before it is needed."""
        return stored.BloomFilters(view.storage, view.paths_of(self))

    def renewed(
        self, reader: BloomFilters, view: View, added: Sequence[IndexFile], removed: Sequence[str]
    ) -> BloomFilters | None:
        """Return the same reader if no file of filters came or went."""
        return reader if view.paths_of(self) == reader.paths else None

    def accesses(self, view: View, columns: Sequence[Column]) -> Sequence[Access]:
        """Return the access of each definition; none if the file records cannot be read."""
        from tailbit.index.kinds.bloom_filter.access import BloomAccess
        from tailbit.index.kinds.files.places import RecordedPlaces

        definitions = self.definitions(view)
        if not definitions:
            return ()
        try:
            places = RecordedPlaces(view.reader(FILES).table())
        except CorruptIndexError:
            return ()
        return [
            BloomAccess(definition, view.reader(self), places, _ids([definition]))
            for definition in definitions
        ]

    def build(self, entering: Sequence[Entering], columns: Sequence[Column]) -> Iterator[pa.Table]:
        """Yield the filters of columns in data files. Cost: their values are read and hashed."""
        return built(entering, columns)

    def write_stream(self, storage: Storage, tables: Iterable[pa.Table]) -> list[IndexFile]:
        """Write rows, given column by column, as one file; return no file if there are no rows."""
        groups = list(grouped(tables))
        name = self.name
        return (
            [write_index_file(storage, name, name, lambda to: write_parquet(to, SCHEMA, groups))]
            if groups
            else []
        )

    def due(self, view: View, earliest: int | None) -> Iterator[merging.MergeGroup]:
        """Yield the size classes that are full; all files, if there is no definition of this kind."""
        if not self.definitions(view):
            yield from merging.due_at_once(self.name, view.files_of(self))
            return
        yield from merging.due_by_size(self.name, view.files_of(self))

    def merge(self, view: View, group: merging.MergeGroup, earliest: int | None) -> merging.Merged:
        """Write the filters that are still needed: a claimed file has the footer, a definition the column."""
        footers, named = view.reader(FILES).footers(), _ids(self.definitions(view))
        inputs = [self.batches(view.storage, path) for path in group.inputs]
        held = pa.concat_arrays([pa.array([], pa.string()), *self._footers(view, group.inputs)])
        gone = held.filter(pc.invert(pc.is_in(held, value_set=footers)))
        rows = (kept(part, footers, named) for part in aligned(inputs, ["column"]))
        files = self.write_stream(view.storage, rows)
        return merging.Merged(tuple(files), forgotten=frozenset(gone.to_pylist()))

    def _footers(self, view: View, paths: Sequence[str]) -> Iterator[pa.StringArray]:
        for path in paths:
            for batch in self.batches(view.storage, path):
                yield pc.unique(batch["footer"].combine_chunks())

    def in_use(self, view: View) -> Iterable[str]:
        """Return the hashes of the footers of files with a claim."""
        footers: list[str] = view.reader(FILES).footers().to_pylist()
        return footers

    def check(self, view: View, source: CheckedSource) -> Iterator[Problem]:
        """Yield the filters that lack a value of a sampled data file."""
        definitions = self.definitions(view)
        filters, ids = view.reader(self), {definition.id for definition in definitions}
        mine = view.reader(FILES).built(source.slices, ids) if ids else []
        for slice_, record in recorded.sample(mine, _SAMPLED):
            named = _ids([made for made in definitions if made.id in record.built])
            for column in source.columns:
                if column.id in named and stored_type(column) and not source.is_gone(slice_):
                    yield from _lacking(filters, record.footer, slice_, source, column)


BLOOM_FILTER = BloomFilterKind()


def _lacking(
    filters: BloomFilters, footer: str, slice_: FileSlice, source: CheckedSource, column: Column
) -> Iterator[Problem]:
    """Yield a problem if the filters of a column lack a value of a data file.

    A column whose key type has changed since is skipped.
    """
    where = f"Bloom filters of {column.label} in {slice_.path}"
    blamed, held = min(filters.paths, default=""), filters.of(column)
    own = numpy_of(pc.equal(held.footers, footer))
    if not own.any():
        return
    key_type = keys.key_type_of(column.type)
    hashes = [
        hashes_of_keys(keys.encode_array(table[column.id].combine_chunks().drop_null(), key_type))
        for table in parquet_rows.fetch(source.storage, slice_, [column], None)
    ]
    every = np.unique(np.concatenate([np.zeros(0, np.uint64), *hashes]))
    if not held.hold(np.flatnonzero(own), every).all():
        yield Problem(where, "they do not hold a value of the file", Blame.FILE, blamed)


def _ids(definitions: Iterable[Definition]) -> frozenset[str]:
    """Return the ids of the columns that definitions name."""
    return frozenset(term.columns[0].id for definition in definitions for term in definition.terms)
