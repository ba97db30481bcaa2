"""Rows of kind `bloom_filter`: the filter of one column in one row group of a data file.

Where the data file has a filter of its own, the row has none, since questions read the data file's filter.
The hash of its footer identifies a data file. Files of equal footers may hold different values: each file
adds rows, and a row group may hold a value if any of its rows says so.

    column  key_type  footer  unit  rows    filter
    id      integer   9f3c    0     100000  131072 bytes
    id      integer   9f3c    1     40000   52448 bytes
    uuid    string    9f3c    0     100000
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Mask
from tailbit.base.lazy import lazy
from tailbit.index.keys import encode_array
from tailbit.index.kinds.rows import stored_type
from tailbit.index.parquet.sorted_rows import sort
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, numpy_of
from tailbit.tables.model import Column

if TYPE_CHECKING:
    from tailbit.index.kinds.kind import Entering
    from tailbit.tables.parquet import bloom, data_file
    from tailbit.tables.parquet import layout as parquet_layout
    from tailbit.tables.parquet.bloom import Hashes
    from tailbit.tables.parquet.data_file import DataFile
else:
    data_file = lazy("tailbit.tables.parquet.data_file")
    parquet_layout = lazy("tailbit.tables.parquet.layout")
    bloom = lazy("tailbit.tables.parquet.bloom")
    bloom = lazy("tailbit.tables.parquet.bloom")
    bloom = lazy("tailbit.tables.parquet.bloom")

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
    """Return the rows of a column in a data file.

    Raises:
        DataFileError: the file cannot be read.
    """
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
    _, places, data = keys.buffers()
    if not len(keys) or places is None:
        return NO_HASHES
    ends = np.frombuffer(places, np.int32, len(keys) + 1, 4 * keys.offset)
    return bloom.hashes_of_bytes(ends.astype(np.int64), np.frombuffer(data or b"", np.uint8))


def kept(rows: pa.Table, footers: pa.Array, columns: Iterable[str]) -> pa.Table:
    """Return the rows of some footers and columns, sorted, without duplicates."""
    named = pc.is_in(rows["column"], value_set=pa.array(sorted(columns), pa.string()))
    rows = sort(rows.filter(pc.and_(named, pc.is_in(rows["footer"], value_set=footers))), SORTED_BY)
    again = np.logical_and.reduce([_as_before(rows[name].combine_chunks()) for name in SORTED_BY])
    seen: set[tuple[object, ...]] = set()
    first = np.ones(len(rows), dtype=np.bool_)
    # Only rows of one row group of one footer can be equal, so no other filters become objects.
    for at in np.flatnonzero(again | np.append(again[1:], False)[: len(again)]).tolist():
        row = tuple(rows[name][at].as_py() for name in SCHEMA.names)
        first[at] = row not in seen
        seen.add(row)
    return rows if first.all() else rows.filter(arrow_array(first))


def _as_before(values: pa.Array) -> Mask:
    """Return, per value, whether it equals the value before; there are no nulls."""
    out = np.zeros(len(values), dtype=np.bool_)
    out[1:] = numpy_of(pc.equal(values[1:], values[:-1]), dtype=np.bool_)
    return out


def grouped(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield rows, given column by column, as row groups of one column and some megabytes of filters."""
    whole = (table for table in tables if len(table))
    for _, own in groupby(whole, key=lambda table: table["column"][0].as_py()):
        rows = pa.concat_tables(own).combine_chunks()
        sizes = numpy_of(pc.fill_null(pc.binary_length(rows["filter"]), 0), dtype=np.int64)
        parts = np.cumsum(sizes) // GROUP_BYTES
        cuts = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(rows)]
        yield from (rows.slice(low, high - low) for low, high in pairwise(cuts))
