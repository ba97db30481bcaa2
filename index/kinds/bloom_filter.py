"""Kind `bloom_filter`: Bloom filters of columns, for row groups whose data files have no filters.

A row is the filter of one column in one row group of a data file. Where the data file has a filter of its
own, the row has none, since questions read the data file's filter. The hash of its footer identifies a data
file. Files of equal footers may hold different values: each file adds rows, and a row group
may hold a value if any of its rows says so.

    column  key_type  footer  unit  rows    filter
    id      integer   9f3c    0     100000  131072 bytes
    id      integer   9f3c    1     40000   52448 bytes
    uuid    string    9f3c    0     100000

All filters of a column are read together and cached up to a limit of bytes; the lookup of a value tests one
block of each filter. Every row may match in a row group without a filter, in a file that is not indexed, and
for a condition that lists no values. No filter proves that a row has a value, so no row surely matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CorruptIndexError
from tailbit.base.lazy import lazy
from tailbit.index.evaluation.row_space import EMPTY, Access, Bounds, SpaceView, claims
from tailbit.index.index_files import aligned, sort, starts
from tailbit.index.keys import Value, bytes_of, encode_array, encode_value, key_type_of
from tailbit.index.kinds import files
from tailbit.index.kinds.files import FILES, FooterKind, RecordedPlaces, RowGroupLayout, RowGroups
from tailbit.index.kinds.kind import (
    Blame,
    CheckedSource,
    Definable,
    Entering,
    Merged,
    MergeGroup,
    Problem,
    View,
    conform,
    read_groups,
    stored_type,
)
from tailbit.index.kinds.settings import BLOOM_FORMAT
from tailbit.index.model import Definition, key_type_of_column
from tailbit.index.predicate.tree import Leaf, Node
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, filled, no_rows, numpy_of
from tailbit.tables.cache import Cache, share
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    from tailbit.index.evaluation.row_space import Access
    from tailbit.index.kinds.kind import Entering
    from tailbit.tables.parquet import bloom, data_file
    from tailbit.tables.parquet import layout as parquet_layout
    from tailbit.tables.parquet import rows as parquet_rows
    from tailbit.tables.parquet.bloom import Hashes, Words
    from tailbit.tables.parquet.data_file import DataFile
else:
    bloom = lazy("tailbit.tables.parquet.bloom")
    data_file = lazy("tailbit.tables.parquet.data_file")
    parquet_layout = lazy("tailbit.tables.parquet.layout")
    parquet_rows = lazy("tailbit.tables.parquet.rows")


@dataclass(frozen=True, eq=False)
class Filters:
    """The filters of one column of one key type, a row each.

    `row_groups`: what the rows are about. `starts`, `blocks`: first block of each filter in `words`, and its
    number of blocks; 0 blocks if the index has no filter.
    """

    row_groups: RowGroups
    starts: Longs
    blocks: Longs
    words: Words

    @classmethod
    def of(cls, table: pa.Table) -> Filters:
        """Return the filters in some rows of the index."""
        blocks = _blocks(table)
        data = b"".join(filter_ for filter_ in table["filter"].to_pylist() if filter_)
        units, rows = (numpy_of(table[name], dtype=np.int64) for name in ("unit", "rows"))
        if len(units) and not 0 <= units.min() <= units.max() < len(units):
            raise ValueError(f"row groups are numbered {units.min()} to {units.max()} in {len(units)} rows")
        words = np.frombuffer(data, dtype="<u4").reshape(-1, bloom.WORDS)
        groups = RowGroups.of(table["footer"].combine_chunks(), units, rows)
        return cls(groups, np.cumsum(blocks) - blocks, blocks, words)

    def may_hold(self, hashes: Hashes) -> Mask:
        """Return, per row group, whether it may hold one of the hashed values."""
        may: Mask = self.blocks == 0
        unsure = np.flatnonzero(~may)
        starts, blocks = self.starts[unsure], self.blocks[unsure]
        may_be_there = np.zeros(len(unsure), dtype=np.bool_)
        for number in range(len(hashes)):
            masks = bloom.masks_of(hashes[number : number + 1])
            words = self.words[starts + bloom.blocks_of(hashes[number], blocks)]
            may_be_there |= (words & masks == masks).all(axis=1)
        may[unsure] = may_be_there
        groups = np.zeros(len(self.row_groups.rows), dtype=np.bool_)
        groups[self.row_groups.numbers[may]] = True
        return groups

    def hold(self, groups: slice, hashes: Hashes) -> Mask:
        """Return, per hash, whether a filter of some row groups may hold it; True if one has no filter."""
        owners = self.row_groups.numbers
        numbers = np.flatnonzero((owners >= groups.start) & (owners < groups.stop))
        may_be_there: Mask = np.full(len(hashes), bool((self.blocks[numbers] == 0).any()))
        for number in numbers.tolist():
            start, blocks = int(self.starts[number]), int(self.blocks[number])
            if blocks:
                may_be_there |= bloom.Bloom(self.words[start : start + blocks]).may_hold(hashes)
        return may_be_there


def _blocks(table: pa.Table) -> Longs:
    """Return the number of blocks of each row's filter; 0 for a row without a filter."""
    filters = table["filter"].combine_chunks()
    sizes = numpy_of(filled(pc.binary_length(filters), 0), dtype=np.int64)
    if (sizes % bloom.BLOCK_BYTES).any() or (numpy_of(pc.is_valid(filters)) & (sizes == 0)).any():
        raise ValueError("a Bloom filter has no whole blocks")
    blocks: Longs = sizes // bloom.BLOCK_BYTES
    return blocks


_FILTERS: Cache[tuple[str, frozenset[str], str, str], Filters] = Cache(share(1 / 32))
"""The filters that this process has read: by the root of the index, its files, column and key type."""


class BloomFilters:
    """Reader of the filters in the index files `paths`. Threads may share a reader."""

    def __init__(self, storage: Storage, paths: Iterable[str]) -> None:
        self._storage, self.paths = storage, frozenset(paths)

    def of(self, column: Column) -> Filters:
        """Return the filters of a column that were made with its present key type."""
        key_type = key_type_of(column.type)
        key = str(self._storage.root), self.paths, column.id, key_type
        return _FILTERS.get(key, lambda: self._read(column.id, key_type))

    def table(self, path: str, column: str) -> pa.Table:
        """Return the rows of a column in one index file."""
        rows = conform(read_groups(self._storage, path, "column", column, SCHEMA.names), SCHEMA)
        return pc.filter(rows, pc.equal(rows["column"], arrow_scalar(column)))

    def _read(self, column: str, key_type: str) -> tuple[Filters, int]:
        tables = []
        for path in sorted(self.paths):
            rows = self.table(path, column)
            tables.append(pc.filter(rows, pc.equal(rows["key_type"], arrow_scalar(key_type))))
            try:
                _blocks(tables[-1])
            except ValueError as damage:
                raise CorruptIndexError(file=path, reason=str(damage)) from damage
        filters = Filters.of(pa.concat_tables([no_rows(SCHEMA), *tables]))
        return filters, filters.words.nbytes + 64 * len(filters.blocks)


def hashes_of_values(values: Sequence[Value], column: Column) -> Hashes:
    """Return the hashes of values in the canonical form of a column's type."""
    key_type = key_type_of(column.type)
    return bloom.hashes_of_texts([encode_value(value, key_type) for value in values])


@dataclass(frozen=True, eq=False)
class BloomAccess(Access):
    """Access to the Bloom filters of one definition; `columns`: the ids of its columns."""

    definition: Definition
    filters: BloomFilters
    recorded_files: RecordedPlaces
    columns: frozenset[str]
    _layouts: dict[str, RowGroupLayout] = field(default_factory=dict)

    def serves(self, node: Node) -> bool:
        """Return whether a condition lists values of one column of the definition."""
        if not isinstance(node, Leaf) or node.column.partition or node.column.id not in self.columns:
            return False
        return stored_type(node.column) is not None and node.true.listed(bloom.MOST_VALUES) is not None

    def bounds(self, node: Node, space: SpaceView) -> Bounds:
        """Return the rows of the row groups that may hold a value of a condition."""
        if not isinstance(node, Leaf) or not self.serves(node):
            return Bounds.between(EMPTY, space.visible)
        filters, id_ = self.filters.of(node.column), node.column.id
        if id_ not in self._layouts:
            self._layouts[id_] = RowGroupLayout(filters.row_groups, self.recorded_files, self.definition.id)
        placed, values = self._layouts[id_].placed(space), node.true.listed(bloom.MOST_VALUES) or []
        may = filters.may_hold(hashes_of_values(values, node.column))[placed.numbers]
        maybe = claims(placed.bases[may], placed.rows[may]) | placed.unknown
        return Bounds.between(EMPTY, maybe & space.visible)


SCHEMA = pa.schema(
    [
        ("column", pa.string()),
        ("key_type", pa.string()),
        ("footer", pa.string()),
        ("unit", pa.int64()),
        ("rows", pa.int64()),
        ("filter", pa.binary()),
    ]
)

SORTED_BY = ("column", "key_type", "footer", "unit")

FALSE_POSITIVES = 0.01
"""Share of absent values that pass a filter; a filter then takes 1.3 bytes a value."""

GROUP_BYTES = 4 << 20
"""Bytes of filters, about, in a row group of an index file; a row group holds filters of one column."""


def built(entering: Sequence[Entering], columns: Sequence[Column]) -> Iterator[pa.Table]:
    """Yield the rows of columns in data files, column by column. Cost: their values are read and hashed."""
    for column in sorted(columns, key=lambda column: column.id):
        key_type = stored_type(column)
        if key_type is not None:
            for file in entering:
                yield _rows(file, column, key_type)


def _rows(file: Entering, column: Column, key_type: str) -> pa.Table:
    """Return the rows of a column in a data file."""
    opened = file.open()
    layout = parquet_layout.layout_of(opened.metadata, opened.tree, opened.head)
    counts = np.diff(layout.starts).tolist()
    steps = data_file.find_column(opened.tree, column, opened.path)
    own = bloom.groups_with_filter(layout, steps[-1].first) if steps and not steps[-1].children else ()
    filters = [
        None if group in own else _filter(opened, column, key_type, group) for group in range(len(counts))
    ]
    many = len(counts)
    return pa.table(
        [
            pa.repeat(column.id, many),
            pa.repeat(key_type, many),
            pa.repeat(file.footer, many),
            pa.array(range(many), pa.int64()),
            pa.array(counts, pa.int64()),
            pa.array(filters, pa.binary()),
        ],
        schema=SCHEMA,
    )


def _filter(file: DataFile, column: Column, key_type: str, group: int) -> bytes:
    """Return the filter of a column in one row group."""
    values = data_file.read_columns(file, [column], [group])[column.id]
    hashes = [hashes_of_keys(encode_array(chunk.drop_null(), key_type)) for chunk in values.chunks]
    return bloom.Bloom.of(np.unique(np.concatenate([NO_HASHES, *hashes])), FALSE_POSITIVES).written()


NO_HASHES: Hashes = np.zeros(0, dtype=np.uint64)


def hashes_of_keys(keys: pa.BinaryArray) -> Hashes:
    """Return the hashes of keys, none of them null."""
    return bloom.hashes_of_bytes(*bytes_of(keys)) if len(keys) else NO_HASHES


def needed(rows: pa.Table, footers: pa.Array, columns: Iterable[str]) -> pa.Table:
    """Return the rows of some footers and columns, sorted, without duplicates."""
    named = pc.is_in(rows["column"], value_set=pa.array(sorted(columns), pa.string()))
    rows = sort(rows.filter(pc.and_(named, pc.is_in(rows["footer"], value_set=footers))), SORTED_BY)
    again = np.ones(len(rows), dtype=np.bool_)
    again[starts(rows, SORTED_BY)] = False
    seen: set[tuple[object, ...]] = set()
    first = np.ones(len(rows), dtype=np.bool_)
    # Only rows of one row group of one footer can be equal, so no other filters become objects.
    for row_number in np.flatnonzero(again | np.append(again[1:], False)[: len(again)]).tolist():
        row = tuple(rows[name][row_number].as_py() for name in SCHEMA.names)
        first[row_number] = row not in seen
        seen.add(row)
    return rows if first.all() else rows.filter(arrow_array(first))


_SAMPLED = 8
"""Number of files whose values a verification reads."""


def _unfit(column: Column) -> str | None:
    if column.partition:
        return "the log has the values of {term}, a partition column"
    key_type_of_column(column)
    return None


class BloomFilterKind(FooterKind["BloomFilters"]):
    """Kind whose rows are each the filter of one column in one row group of a data file."""

    name: ClassVar[str] = "bloom_filter"
    definable: ClassVar[Mapping[str, Definable]] = {
        "bloom_filter": Definable(
            4,
            other_names=("bloom_filters", "bloomfilter"),
            columns_of="Bloom filters are",
            unfit=_unfit,
        )
    }
    defined: ClassVar[bool] = True
    schema: ClassVar[pa.Schema] = SCHEMA
    sorted_by: ClassVar[tuple[str, ...]] = SORTED_BY

    def format_of(self, definition: Definition) -> int:
        """Return the format that has filters."""
        return BLOOM_FORMAT

    def reader(self, view: View) -> BloomFilters:
        """Return the reader of the live files; nothing is read before it is needed."""
        return BloomFilters(view.storage, view.paths_of(self))

    def accesses(self, view: View, columns: Sequence[Column]) -> Sequence[Access]:
        """Return the access of each definition; none if the file records cannot be read."""
        definitions = self.definitions(view)
        recorded_files = self.recorded_places(view) if definitions else None
        if recorded_files is None:
            return ()
        return [
            BloomAccess(definition, view.reader(self), recorded_files, _ids([definition]))
            for definition in definitions
        ]

    def build(self, entering: Sequence[Entering], columns: Sequence[Column]) -> Iterator[pa.Table]:
        """Yield the filters of columns in data files. Cost: their values are read and hashed."""
        return built(entering, columns)

    def grouped(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield rows, given column by column, as row groups of one column and some megabytes of filters."""
        whole = (table for table in tables if len(table))
        for _, own in groupby(whole, key=lambda table: table["column"][0].as_py()):
            rows = pa.concat_tables(own).combine_chunks()
            sizes = numpy_of(pc.fill_null(pc.binary_length(rows["filter"]), 0), dtype=np.int64)
            groups = np.cumsum(sizes) // GROUP_BYTES
            cuts = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(rows)]
            yield from (rows.slice(low, high - low) for low, high in pairwise(cuts))

    def merge(self, view: View, group: MergeGroup, earliest: int | None) -> Merged:
        """Write the filters that are still needed: a claimed file has the footer, a definition the column."""
        footers, named = view.reader(FILES).footers(), _ids(self.definitions(view))
        inputs = [self.batches(view.storage, path) for path in group.inputs]
        stored = pa.concat_arrays([pa.array([], pa.string()), *self._footers(view, group.inputs)])
        gone = stored.filter(pc.invert(pc.is_in(stored, value_set=footers)))
        rows = (needed(batch, footers, named) for batch in aligned(inputs, ["column"]))
        files = self.write_stream(view.storage, rows)
        return Merged(tuple(files), forgotten=frozenset(gone.to_pylist()))

    def _footers(self, view: View, paths: Sequence[str]) -> Iterator[pa.StringArray]:
        for path in paths:
            for batch in self.batches(view.storage, path):
                yield pc.unique(batch["footer"].combine_chunks())

    def check(self, view: View, source: CheckedSource) -> Iterator[Problem]:
        """Yield the filters that lack a value of a sampled data file."""
        definitions = self.definitions(view)
        filters, ids = view.reader(self), {definition.id for definition in definitions}
        built = view.reader(FILES).built(source.slices, ids) if ids else []
        for slice_, record in files.sample(built, _SAMPLED):
            named = _ids(
                [built_definition for built_definition in definitions if built_definition.id in record.built]
            )
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
    blamed, column_filters = min(filters.paths, default=""), filters.of(column)
    groups = column_filters.row_groups.by_footer().get(footer)
    if groups is None:
        return
    key_type = key_type_of(column.type)
    hashes = [
        hashes_of_keys(encode_array(table[column.id].combine_chunks().drop_null(), key_type))
        for table in parquet_rows.fetch(source.storage, slice_, [column], None)
    ]
    every = np.unique(np.concatenate([np.zeros(0, np.uint64), *hashes]))
    if not column_filters.hold(groups, every).all():
        yield Problem(where, "they do not hold a value of the file", Blame.FILE, blamed)


def _ids(definitions: Iterable[Definition]) -> frozenset[str]:
    """Return the ids of the columns that definitions name."""
    return frozenset(term.columns[0].id for definition in definitions for term in definition.terms)
