"""The form in which a file's column is tested: as stored, or as dictionary codes replaced by test results.

As stored: numbers and texts whose bytes are the table's values. As codes: if a chunk holds only a dictionary
and codes, each value of the dictionary is tested once, by the function that tests rows, and the dictionary is
replaced by the results: decoding the chunk then is testing it.

Example: is the value > 6?

    dictionary    7  3  9        codes   0 1 1 NULL 2
    replaced by   1  0  1        decoded 1 0 0 NULL 1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from tailbit.tables.model import Column
from tailbit.tables.parquet.data_file import flat_column
from tailbit.tables.parquet.decode import written_legacy
from tailbit.tables.parquet.layout import Layout
from tailbit.tables.parquet.leaves import plain_type
from tailbit.tables.parquet.relabelling import declared_type
from tailbit.tables.parquet.row_assembly.by_polars import CHECKED
from tailbit.tables.parquet.row_assembly.footer import written_leaf
from tailbit.tables.parquet.value_search.condition import Floats, Numbers, Part, Stored, Test, Texts
from tailbit.tables.schema import arrow_type
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_DISTINCT = 4
"""Dictionaries are tested if they hold at most one value per 4 rows."""
_CALENDAR = ("date", "timestamp", "timestamp_ntz")
_NUMBERS = ("BOOLEAN", "INT32", "INT64")


class Form(NamedTuple):
    """A leaf column as Polars reads it: `written` is its name and type in the assembled file's schema.

    `coded`: whether its dictionary is replaced by test results.
    """

    leaf: int
    written: bytes
    coded: bool


def form_of(
    storage: Storage, layout: Layout, path: str, test: Test, groups: Sequence[int], name: str
) -> Form | None:
    """Return the form in which the column of a test is tested in row groups of a file; None if there is none.

    Cost: if dictionaries are to be tested, reads the page headers, once.
    """
    column, stored = test.column, test.stored
    node = flat_column(layout, column, path)
    if node is None:
        return None
    leaf = node.first
    described = layout.metadata.schema.column(leaf)
    chunks = [layout.chunk(group, leaf) for group in groups]
    if not CHECKED.issuperset(chunk.codec for chunk in chunks):
        return None
    nullable = bool(described.max_definition_level)
    if stored is not None and _is_as_meant(layout, described, plain_type(node.field.type), column, stored):
        return Form(leaf, written_leaf(name, str(described.physical_type), nullable), False)
    if all(chunk.coded for chunk in chunks) and _have_few_values(storage, layout, path, groups, leaf):
        return Form(leaf, written_leaf(name, "INT32", nullable), True)
    return None


def _is_as_meant(
    layout: Layout, leaf: pq.ColumnSchema, stored: pa.DataType, column: Column, test: Stored
) -> bool:
    """Return whether the stored values of a leaf are the table's values, and can be tested as stored."""
    physical = str(leaf.physical_type)
    if column.type.char_length or not _is_same(stored, arrow_type(column.type, column.label), leaf):
        return False
    if declared_type(stored, column) is not None:
        return False
    if column.type.name in _CALENDAR and written_legacy(layout.metadata, is_int96=False):
        return False
    if isinstance(test, Numbers):
        return physical in _NUMBERS
    if isinstance(test, Floats):
        return physical in ("FLOAT", "DOUBLE")
    return isinstance(test, (Texts, Part)) and physical == "BYTE_ARRAY"


def _is_same(stored: pa.DataType, meant: pa.DataType, leaf: pq.ColumnSchema) -> bool:
    if pa.types.is_timestamp(meant):
        micros = "timeUnit=microseconds" in str(leaf.logical_type)
        return bool(micros and pa.types.is_timestamp(stored) and (stored.tz is None) == (meant.tz is None))
    return bool(stored == meant)


def _have_few_values(storage: Storage, layout: Layout, path: str, groups: Sequence[int], leaf: int) -> bool:
    """Return whether the chunks hold only codes, and their dictionaries few values per row."""
    values = 0
    with storage.open(storage.resolve(path)) as source:
        for group in groups:
            pages = layout.pages(source, group, leaf)
            if pages is None or pages.dictionary is None or not pages.coded.all():
                return False
            values += pages.dictionary.values
    return bool(values * _DISTINCT <= sum(layout.starts[g + 1] - layout.starts[g] for g in groups))
