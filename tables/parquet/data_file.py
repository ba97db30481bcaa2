"""Columns of a data file, decoded to the table's current logical types.

Fields are found by physical name ignoring case (as Spark does), or by field id where the table maps by id. A
column that the file lacks is NULL in every row. Older, narrower types are cast up. Row order is physical
order over all row groups, so position i of a column is record position i. One thread, unless told otherwise:
callers run as many files at once as they have cores. Dates and times that Spark wrote in its legacy calendar
are refused where that calendar differs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailbit.errors import DataFileError, StorageError
from tailbit.tables.model import UNKNOWN_SIZE, Column
from tailbit.tables.parquet.decode import Decoder, field_id, find_field
from tailbit.tables.parquet.file import ParquetFile, open_shaped, read_footer, read_leaves
from tailbit.tables.parquet.int96 import check_int96, int96_leaves
from tailbit.tables.parquet.layout import Layout, keep_layout, known_layout
from tailbit.tables.parquet.leaves import ParquetNode
from tailbit.tables.schema import arrow_type
from tailbit.tables.storage import Stat, Storage

_CODED = ("string", "binary")
_CODABLE = frozenset(("PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"))


class DataFile(ParquetFile):
    """An open data file that knows its path, its fields, and how the table maps columns to them."""

    path: str = ""
    tree: ParquetNode
    head: bytes = b""
    coded: frozenset[str] = frozenset()
    reopen: Callable[[], pa.NativeFile] | None = None


def open_data_file(
    storage: Storage, slice_path: str, expect_size: int | None = None, coded: Sequence[Column] = ()
) -> DataFile:
    """The data file at a path of the log. Cost: reads the footer.

    `coded`: columns that `read_columns` is to leave dictionary-coded where they are strings or binary at top
    level; it reads them ten times as fast.

    Raises:
        DataFileError: missing, of another size than expected, or not Parquet.
        UnsafePathError: the path leaves the table.
    """
    with named_file(storage, slice_path):
        path, _ = _located(storage, slice_path, expect_size)
        file, shape = open_shaped(storage.open(path), DataFile, coerce_int96_timestamp_unit="us")
        file.path, file.tree, file.head = slice_path, shape.tree, shape.head
        file = _coding(storage.open(path), file, coded) if coded else file
        file.reopen = partial(storage.open, path)
    return file


def open_layout(storage: Storage, slice_path: str, expect_size: int | None = None) -> Layout:
    """What the footer of a data file says, checked as `open_data_file` does.

    Cost: one look at the file's state, where this process has read the footer of this state before.

    Raises:
        DataFileError: as `open_data_file`.
        UnsafePathError: the path leaves the table.
    """
    with named_file(storage, slice_path):
        path, stat = _located(storage, slice_path, expect_size)
        known = known_layout(storage, path, stat)
        if known is None:
            file = open_data_file(storage, slice_path, expect_size)
            known = keep_layout(storage, path, stat, file.metadata, file.tree, file.head)
        return known


@contextmanager
def named_file(storage: Storage, slice_path: str) -> Iterator[None]:
    """Whatever keeps one data file from being read names it."""
    try:
        with _permitted(storage, slice_path):
            yield
    except FileNotFoundError as gone:
        raise DataFileError(file=slice_path, reason="the file is missing") from gone
    except (pa.ArrowException, OSError, ValueError) as wrong:
        raise DataFileError(file=slice_path, reason=f"it is not readable Parquet: {wrong}") from wrong


@contextmanager
def _permitted(storage: Storage, slice_path: str) -> Iterator[None]:
    """A file that this user may not read is named; all else that a store refuses passes on."""
    try:
        yield
    except StorageError as refused:
        if storage.is_of_one_file(refused):
            reason = f"it cannot be read: {refused.fields.get('reason')}"
            raise DataFileError(file=slice_path, reason=reason) from refused
        raise


def _located(storage: Storage, slice_path: str, expect_size: int | None) -> tuple[str, Stat]:
    """The name of a data file in its store, and its state."""
    path, stat = storage.locate(slice_path)
    if stat is None:
        raise DataFileError(file=slice_path, reason="the file is missing")
    if expect_size not in (None, UNKNOWN_SIZE, stat.size):
        raise DataFileError(file=slice_path, reason=f"it has {stat.size} bytes, the log says {expect_size}")
    return path, stat


def _coding(source: pa.NativeFile, file: DataFile, columns: Sequence[Column]) -> DataFile:
    """The file once more, reading those of the columns as codes that can be."""
    nodes = {c.id: find_column(file.tree, c, file.path) for c in columns if may_be_coded(c)}
    leaves = {
        id_: file.metadata.schema.column(steps[0].first).path
        for id_, steps in nodes.items()
        if steps and _is_codable(file.metadata, steps[0].first)
    }
    return opened_again(source, file, leaves)


def opened_again(source: pa.NativeFile, file: DataFile, coded: Mapping[str, str]) -> DataFile:
    """The file once more, its footer not read again; `coded`: columns to read as codes, and their paths."""
    again = DataFile(
        source,
        metadata=file.metadata,
        read_dictionary=list(coded.values()),
        coerce_int96_timestamp_unit="us",
    )
    again.path, again.tree, again.coded = file.path, file.tree, frozenset(coded)
    return again


def may_be_coded(column: Column) -> bool:
    """Whether a column's type and place let it be read as dictionary codes."""
    return column.type.name in _CODED and not column.type.char_length and len(column.physical) == 1


def _is_codable(metadata: pq.FileMetaData, leaf: int) -> bool:
    """Whether pyarrow can read a column as codes: not from pages in one of Parquet's delta encodings."""
    groups = range(metadata.num_row_groups)
    return all(_CODABLE.issuperset(metadata.row_group(g).column(leaf).encodings) for g in groups)


def footer_hash(storage: Storage, slice_path: str) -> str:
    """32 hex digits of the sha256 of the file's footer: tells files of one name, size and time apart.

    Raises:
        DataFileError: missing, or without a Parquet footer.
    """
    try:
        with _permitted(storage, slice_path), storage.open(storage.resolve(slice_path)) as source:
            footer = read_footer(source)
    except FileNotFoundError as gone:
        raise DataFileError(file=slice_path, reason="the file is missing") from gone
    except ValueError as wrong:
        raise DataFileError(file=slice_path, reason=str(wrong)) from wrong
    return hashlib.sha256(footer).hexdigest()[:32]


def read_columns(
    file: DataFile,
    columns: Sequence[Column],
    row_groups: Sequence[int] | None = None,
    threads: bool = False,
) -> pa.Table:
    """Columns (no partition columns) named by column id, in physical row order.

    Shape: the rows of the row groups asked for (None: of the file). A leaf below a NULL struct is NULL.

    Raises:
        DataFileError: damaged pages, two fields of one name ignoring case, or values that do not fit the
        type. LegacyCalendarError: dates or times in Spark's legacy calendar, from the part where it differs.
        ColumnTypeError: a type that cannot be decoded.
    """
    types = [arrow_type(c.type, c.label) for c in columns]
    try:
        nodes_of_columns = [find_column(file.tree, c, file.path) for c in columns]
        leaves = sorted({leaf for steps in nodes_of_columns if steps for leaf in steps[-1].leaves})
        table = read_leaves(file, leaves, row_groups, use_threads=threads) if leaves else None
        int96 = int96_leaves(file.metadata, leaves)
        if int96 and file.reopen is not None:
            check_int96(file.reopen(), file.metadata, int96, row_groups, file.path)
        rows = table.num_rows if table is not None else _rows(file, row_groups)
        arrays = [
            pa.chunked_array([pa.nulls(rows, type_)])
            if not steps or table is None
            else as_column(file, column, type_, steps, column_of(table, file.tree, steps, set(leaves)))
            for column, type_, steps in zip(columns, types, nodes_of_columns, strict=True)
        ]
    except (pa.ArrowException, OSError, ValueError) as wrong:
        raise DataFileError(file=file.path, reason=f"its columns cannot be decoded: {wrong}") from wrong
    return pa.table(dict(zip([c.id for c in columns], arrays, strict=True)))


def as_column(
    file: DataFile, column: Column, type_: pa.DataType, steps: list[ParquetNode], stored: pa.ChunkedArray
) -> pa.ChunkedArray:
    """Stored values of a column in its logical type, or as codes of it."""
    if column.id in file.coded and stored.type == pa.dictionary(pa.int32(), type_):
        return _checked(stored)
    decode = Decoder(file.metadata, file.path, column.label)
    return pa.chunked_array([decode.array(chunk, column, steps[-1]) for chunk in stored.chunks], type_)


def _checked(coded: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dictionary codes, each of which its dictionary has: pyarrow looks only where it decodes them.

    Raises:
        ValueError: a damaged page has others.
    """
    for chunk in coded.chunks:
        bounds = pc.min_max(chunk.indices)
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        if low is not None and not 0 <= low <= high < len(chunk.dictionary):
            raise ValueError("Index not in dictionary bounds")
    return coded


def _rows(file: pq.ParquetFile, row_groups: Sequence[int] | None) -> int:
    if row_groups is None:
        return int(file.metadata.num_rows)
    return sum(file.metadata.row_group(g).num_rows for g in row_groups)


def find_column(tree: ParquetNode, column: Column, path: str) -> list[ParquetNode] | None:
    """The fields on the way from the row to a column, the column last; None where the file lacks it.

    Raises:
        DataFileError: the name is ambiguous, or the table maps by id and the file has none.
    """
    steps: list[ParquetNode] = []
    at = tree
    if column.field_ids and all(field_id(c) is None for c in tree.children):
        raise DataFileError(file=path, reason="its fields have no ids, but the table maps columns by id")
    for depth, name in enumerate(column.physical):
        number = column.field_ids[depth] if column.field_ids else None
        below = find_field(at, name, number, path)
        if below is None:
            return None
        steps.append(below)
        at = below
    return steps


def field_of(layout: Layout, column: Column, path: str) -> list[ParquetNode] | None:
    """`find_column` in a data file whose footer is kept; looked for once.

    Raises:
        DataFileError: as `find_column`.
    """
    key = (column.physical, column.field_ids)
    if key not in layout.found:
        layout.found[key] = find_column(layout.tree, column, path)
    nodes: list[ParquetNode] | None = layout.found[key]
    return nodes


def flat_column(layout: Layout, column: Column, path: str) -> ParquetNode | None:
    """The field of a column that stands at the top of a file and is no struct, list or map; None for others.

    Raises:
        DataFileError: as `find_column`.
    """
    steps = field_of(layout, column, path)
    return steps[0] if steps and len(steps) == 1 and not steps[0].children else None


def column_of(
    table: pa.Table, tree: ParquetNode, steps: list[ParquetNode], leaves: set[int]
) -> pa.ChunkedArray:
    """A column out of a table that holds only some leaves; it is NULL where a struct above it is NULL."""
    out: pa.ChunkedArray | None = None
    at = tree
    for step in steps:
        read = [c for c in at.children if not leaves.isdisjoint(c.leaves)]
        number = next(i for i, c in enumerate(read) if c.first == step.first)
        out = table.column(number) if out is None else pc.struct_field(out, [number])
        at = step
    return out
