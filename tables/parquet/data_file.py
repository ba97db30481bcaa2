"""Columns of a data file, decoded in physical row order to the table's current logical types.

Fields are matched by physical name ignoring case (as Spark does), or by field id if the table maps columns by
id. A column that the file lacks is NULL in every row. Row order is physical order over all row groups, so
position i of a column is record position i. Decoding uses one thread by default: callers process as many
files at once as they have cores. Dates and times that Spark wrote in its legacy calendar are refused where
that calendar differs from the current one, and so are INT96 times whose microseconds overflow in pyarrow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from tailbit.base.errors import DataFileError, MalformedLogError, StorageError
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_scalar, in_one
from tailbit.tables.model import NULL_FOLDER, UNKNOWN_SIZE, Column, DataType
from tailbit.tables.parquet.decode import (
    Decoder,
    constant,
    find_field,
    has_ids,
    has_unit,
    holds,
    is_relabelled,
)
from tailbit.tables.parquet.file import (
    EncryptedParquet,
    ParquetFile,
    ParquetNode,
    check_chunks,
    open_shaped,
    read_footer,
    read_leaves,
)
from tailbit.tables.parquet.layout import Layout, keep_layout, known_layout, layout_of
from tailbit.tables.partition_values import partition_array
from tailbit.tables.schema import PRESENCE, arrow_type
from tailbit.tables.storage import Stat, Storage

if TYPE_CHECKING:
    import pyarrow.parquet as pq


_FIRST = -188_395_027_200
"""4000 BC in seconds since 1970; a day before 4713 BC may be decoded 584 years too late."""
_LAST = (1 << 63) // 1_000_000
"""The last second whose microseconds fit 64 bits."""


def int96_leaves(metadata: pq.FileMetaData, leaves: Sequence[int]) -> list[int]:
    """Return the leaf columns that are INT96."""
    return [leaf for leaf in leaves if metadata.schema.column(leaf).physical_type == "INT96"]


def check_int96(
    source: pa.NativeFile,
    metadata: pq.FileMetaData,
    leaves: Sequence[int],
    row_groups: Sequence[int] | None,
    path: str,
) -> None:
    """Check that pyarrow decodes the INT96 timestamps of these leaves correctly.

    It reads day and nanoseconds as unsigned, and its microseconds overflow; Spark writes negative days before
    4713 BC. In seconds nothing overflows, so a wrong time is out of range. Cost: decodes them again; some
    10 ms per million rows.

    Raises:
        DataFileError: a timestamp is outside the range that is decoded correctly.
    """
    file = ParquetFile(source, metadata=metadata, coerce_int96_timestamp_unit="s")
    for column in read_leaves(file, leaves, row_groups, use_threads=False).columns:
        for chunk in column.chunks:
            for times in _timestamps(chunk):
                bounds = pc.min_max(pc.cast(times, pa.int64()))
                low, high = bounds["min"].as_py(), bounds["max"].as_py()
                if low is not None and not _FIRST <= low <= high < _LAST:
                    reason = (
                        "it holds INT96 timestamps before 4000 BC or after 287,000 AD, which are not read"
                    )
                    raise DataFileError(file=path, reason=reason)


def _timestamps(values: pa.Array) -> Iterator[pa.Array]:
    """Yield the timestamp arrays in an array, at any nesting depth."""
    if pa.types.is_timestamp(values.type):
        yield values
    elif pa.types.is_struct(values.type):
        for field in values.flatten():
            yield from _timestamps(field)
    elif pa.types.is_map(values.type):
        yield from _timestamps(values.keys)
        yield from _timestamps(values.items)
    elif pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        yield from _timestamps(values.flatten())


_CODED = ("string", "binary")
_CODABLE = frozenset(("PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"))


class DataFile(ParquetFile):
    """An open data file with its path and the tree of its fields, which table columns are matched with."""

    path: str = ""
    tree: ParquetNode
    head: bytes = b""
    coded: frozenset[str] = frozenset()
    reopen: Callable[[], pa.NativeFile] | None = None


def open_data_file(
    storage: Storage, slice_path: str, expect_size: int | None = None, coded: Sequence[Column] = ()
) -> DataFile:
    """Open the data file at a path of the log. Cost: reads the footer.

    `coded`: top-level string or binary columns that `read_columns` should leave dictionary-coded; it reads
    them ten times as fast.
    """
    with named_file(storage, slice_path):
        return _opened(storage, _located(storage, slice_path, expect_size)[0], slice_path, coded)


def _opened(storage: Storage, path: str, slice_path: str, coded: Sequence[Column] = ()) -> DataFile:
    """Open the data file of a name in its store; `slice_path`: its path in the log."""
    file, shape = open_shaped(storage.open(path), DataFile, coerce_int96_timestamp_unit="us")
    file.path, file.tree, file.head = slice_path, shape.tree, shape.head
    file = _coding(storage.open(path), file, coded) if coded else file
    file.reopen = partial(storage.open, path)
    return file


def open_layout(
    storage: Storage, slice_path: str, expect_size: int | None = None, cached: bool = True
) -> Layout:
    """Return the layout of a data file from its footer, checked as `open_data_file` does.

    `cached=False`: for a file that is read once, so nothing of it is cached. Cost: one stat, if this process
    has already read the footer of this file in this state.
    """
    with named_file(storage, slice_path):
        path, stat = _located(storage, slice_path, expect_size)
        layout = known_layout(storage, path, stat)
        if layout is None:
            file = _opened(storage, path, slice_path)
            footer = (file.metadata, file.tree, file.head)
            layout = keep_layout(storage, path, stat, *footer) if cached else layout_of(*footer)
        return layout


@contextmanager
def named_file(storage: Storage, slice_path: str) -> Iterator[None]:
    """Turn errors that prevent reading one data file into a DataFileError that names the file."""
    try:
        with _permitted(storage, slice_path):
            yield
    except FileNotFoundError as gone:
        raise DataFileError(file=slice_path, reason="the file is missing") from gone
    except EncryptedParquet as closed:
        hint = "Have the table's writer write the file anew without encryption: no key is ever asked for."
        raise DataFileError(file=slice_path, reason=str(closed), hint=hint) from closed
    except (pa.ArrowException, OSError, ValueError) as wrong:
        raise DataFileError(file=slice_path, reason=f"it is not readable Parquet: {wrong}") from wrong


@contextmanager
def _permitted(storage: Storage, slice_path: str) -> Iterator[None]:
    """Turn a refusal that concerns only this file into a DataFileError; pass other refusals on."""
    try:
        yield
    except StorageError as refused:
        if storage.is_of_one_file(refused):
            reason = f"it cannot be read: {refused.fields.get('reason')}"
            raise DataFileError(file=slice_path, reason=reason) from refused
        raise


def _located(storage: Storage, slice_path: str, expect_size: int | None) -> tuple[str, Stat]:
    """Return the name and stat of a data file in its store, after comparing its size with `expect_size`."""
    path, stat = storage.locate(slice_path)
    if stat is None:
        raise DataFileError(file=slice_path, reason="the file is missing")
    if expect_size not in (None, UNKNOWN_SIZE, stat.size):
        raise DataFileError(file=slice_path, reason=f"it has {stat.size} bytes, the log says {expect_size}")
    return path, stat


def _coding(source: pa.NativeFile, file: DataFile, columns: Sequence[Column]) -> DataFile:
    """Open the file again so that pyarrow reads `columns` as dictionary codes where it can."""
    nodes = {c.id: find_column(file.tree, c, file.path) for c in columns if may_be_coded(c)}
    leaves = {
        id_: file.metadata.schema.column(steps[0].first).path
        for id_, steps in nodes.items()
        if steps and _is_codable(file.metadata, steps[0].first)
    }
    return opened_again(source, file, leaves)


def opened_again(source: pa.NativeFile, file: DataFile, coded: Mapping[str, str]) -> DataFile:
    """Open the file again without reading the footer again.

    `coded`: the columns to read as dictionary codes, mapped to their paths.
    """
    again = DataFile(
        source, metadata=file.metadata, read_dictionary=list(coded.values()), coerce_int96_timestamp_unit="us"
    )
    again.path, again.tree, again.coded = file.path, file.tree, frozenset(coded)
    return again


def file_in_memory(data: pa.Buffer, path: str, tree: ParquetNode, coded: Mapping[str, str]) -> DataFile:
    """Open a Parquet file that was assembled in memory, with its own footer, from pages of a data file.

    `path`, `tree`: those of the data file. `coded`: as in `opened_again`.
    """
    reopen = partial(pa.BufferReader, data)
    file = DataFile(reopen(), read_dictionary=list(coded.values()), coerce_int96_timestamp_unit="us")
    file.path, file.tree, file.coded, file.reopen = path, tree, frozenset(coded), reopen
    return file


def may_be_coded(column: Column) -> bool:
    """Return whether a column is top-level, and of a type that can be read as dictionary codes."""
    return column.type.name in _CODED and not column.type.char_length and len(column.physical) == 1


def _is_codable(metadata: pq.FileMetaData, leaf: int) -> bool:
    """Return whether pyarrow can read a column as codes: pages in a Parquet delta encoding prevent it."""
    groups = range(metadata.num_row_groups)
    return all(_CODABLE.issuperset(metadata.row_group(g).column(leaf).encodings) for g in groups)


def footer_hash(storage: Storage, slice_path: str) -> str:
    """Return 32 hex digits of the sha256 of a file's footer.

    The hash distinguishes files of the same name, size and time.

    Raises:
        DataFileError: the file is missing or has no Parquet footer.
    """
    try:
        with _permitted(storage, slice_path), storage.open(storage.resolve(slice_path)) as source:
            footer = read_footer(source)
    except FileNotFoundError as gone:
        raise DataFileError(file=slice_path, reason="the file is missing") from gone
    except ValueError as wrong:
        raise DataFileError(file=slice_path, reason=str(wrong)) from wrong
    return hashlib.sha256(footer).hexdigest()[:32]


def is_read_by_unit(storage: Storage, slice_path: str, columns: Iterable[Column]) -> bool:
    """Return whether values of some columns of a file depend on the units of times that the table declares.

    Cost: none unless the table declares units of these columns; else the footer.
    """
    timed = [column for column in columns if has_unit(column)]
    if not timed:
        return False
    layout = open_layout(storage, slice_path)
    nodes = ((column, field_of(layout, column, slice_path)) for column in timed)
    return any(steps is not None and is_relabelled(column, steps[-1]) for column, steps in nodes)


def read_columns(
    file: DataFile, columns: Sequence[Column], row_groups: Sequence[int] | None = None, threads: bool = False
) -> pa.Table:
    """Read columns (no partition columns), named by column id, in physical row order.

    Shape: all rows of `row_groups` (None: of the file). A leaf below a NULL struct is NULL.

    Raises:
        DataFileError: pages are damaged, two fields have the same name ignoring case, or values do not fit
            the type.
        LegacyCalendarError: dates or times are in the part of Spark's legacy calendar that differs.
        ColumnTypeError: the type cannot be decoded.
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
            pa.chunked_array([_lacking(file, column, type_, row_groups, rows)])
            if not steps or table is None
            else as_column(file, column, type_, steps, column_of(table, file.tree, steps, set(leaves)))
            for column, type_, steps in zip(columns, types, nodes_of_columns, strict=True)
        ]
    except (pa.ArrowException, OSError, ValueError) as wrong:
        raise DataFileError(file=file.path, reason=f"its columns cannot be decoded: {wrong}") from wrong
    return pa.table(dict(zip([c.id for c in columns], arrays, strict=True)))


def _lacking(
    file: DataFile, column: Column, type_: pa.DataType, row_groups: Sequence[int] | None, rows: int
) -> pa.Array:
    """Return a column that a file lacks: its constant, but NULL where the struct above is NULL."""
    value = value_in(file.tree, column, file.path)
    if column.type.name == PRESENCE:
        value = None if value is None else True
    if value is None or len(column.physical) == 1:
        return constant(value, type_, rows)
    levels = {name: getattr(column, name)[:-1] for name in ("name", "physical", "field_ids", "aliases")}
    above = replace(column, **levels, type=DataType(PRESENCE), default=None)
    present = in_one(read_columns(file, [above], row_groups)[above.id])
    return pc.if_else(present, arrow_scalar(value, type_), arrow_scalar(None, type_))


def value_in(tree: ParquetNode, column: Column, path: str) -> Any:
    """Return the value that a column has in the rows of a file that lacks it; None is NULL.

    Raises:
        DataFileError: the value would stand in a folder's name, and there is none or it is not of the type.
    """
    if not column.in_folder or has_ids(tree):
        return column.default
    named = (folder.partition("=") for folder in path.split("/")[:-1])
    texts = [unquote(text) for name, _, text in named if unquote(name) in column.aliases[-1]]
    if len(texts) != 1:
        reason = f"it lacks column {column.label}, and no folder of its path has the value of its partition"
        raise DataFileError(file=path, reason=reason)
    text = None if texts[0] == NULL_FOLDER else texts[0]
    try:
        return partition_array(column, text, 1)[0].as_py()
    except MalformedLogError as wrong:
        raise DataFileError(file=path, reason=str(wrong)) from wrong


def as_column(
    file: DataFile, column: Column, type_: pa.DataType, steps: list[ParquetNode], stored: pa.ChunkedArray
) -> pa.ChunkedArray:
    """Decode the stored values of a column to its logical type, or keep them as dictionary codes."""
    if column.id in file.coded and stored.type == pa.dictionary(pa.int32(), type_):
        return _checked(stored)
    decode = Decoder(file.metadata, file.path, column.label)
    return pa.chunked_array([decode.array(chunk, column, steps[-1]) for chunk in stored.chunks], type_)


def _checked(coded: pa.ChunkedArray) -> pa.ChunkedArray:
    """Check that all dictionary codes are in range: pyarrow checks codes only when it decodes them."""
    for chunk in coded.chunks:
        bounds = pc.min_max(chunk.indices)
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        if low is not None and not 0 <= low <= high < len(chunk.dictionary):
            raise ValueError("Index not in dictionary bounds")
    return coded


def _rows(file: ParquetFile, row_groups: Sequence[int] | None) -> int:
    if row_groups is None:
        return int(file.metadata.num_rows)
    return sum(file.metadata.row_group(g).num_rows for g in row_groups)


def find_column(tree: ParquetNode, column: Column, path: str) -> list[ParquetNode] | None:
    """Return the path of fields from the row to a column, the column last; None if the file lacks it.

    A file whose folder says that the column is NULL lacks it.

    Raises:
        DataFileError: the name is ambiguous, or the table maps by id and the file has no field ids.
    """
    steps: list[ParquetNode] = []
    node = tree
    if column.field_ids and not column.aliases and not has_ids(tree):
        raise DataFileError(file=path, reason="its fields have no ids, but the table maps columns by id")
    if column.is_null_in(path):
        return None
    for depth, name in enumerate(column.physical):
        number = column.field_ids[depth] if column.field_ids else None
        aliases = column.aliases[depth] if column.aliases else ()
        below = find_field(node, name, number, path, aliases)
        if below is None:
            return None
        steps.append(below)
        node = below
    return steps if holds(column, node, path) else None


def field_of(layout: Layout, column: Column, path: str) -> list[ParquetNode] | None:
    """Return what `find_column` finds in a file; the layout caches the result."""
    key = (column.physical, column.field_ids, column.aliases, column.pruned and column.type)
    if key not in layout.derived:
        layout.derived[key] = find_column(layout.tree, column, path)
    nodes: list[ParquetNode] | None = layout.derived[key]
    return nodes


def flat_column(layout: Layout, column: Column, path: str) -> ParquetNode | None:
    """Return the field of a top-level column that is not a struct, list or map; None for other columns.

    A row has one value of the column's leaf, or none.
    """
    steps = field_of(layout, column, path)
    if not steps or len(steps) > 1 or steps[0].children:
        return None
    leaf = layout.metadata.schema.column(steps[0].first)
    return None if leaf.max_repetition_level or leaf.max_definition_level > 1 else steps[0]


def column_of(
    table: pa.Table, tree: ParquetNode, steps: list[ParquetNode], leaves: set[int]
) -> pa.ChunkedArray:
    """Return a column from a table that holds only some leaves; NULL wherever a struct above is NULL."""
    out: pa.ChunkedArray | None = None
    node = tree
    for step in steps:
        read = [c for c in node.children if not leaves.isdisjoint(c.leaves)]
        number = next(i for i, c in enumerate(read) if c.first == step.first)
        out = table.column(number) if out is None else pc.struct_field(out, [number])
        node = step
    return out


_CODED_BYTES = 4
"""A chunk of at most this many bytes per row is mostly codes."""


def read_in_batches(file: DataFile, column: Column, group: int, rows: int) -> Iterator[pa.ChunkedArray]:
    """Yield a column (no partition column) of one row group, decoded as `read_columns` does, in batches.

    A batch has at most `rows` rows; a column that is missing, INT96 or mostly codes comes as one batch.
    Memory: the compressed column chunk and a batch.

    Raises:
        DataFileError, LegacyCalendarError, ColumnTypeError: a value cannot be decoded (see `read_columns`).
    """
    type_, steps = arrow_type(column.type, column.label), find_column(file.tree, column, file.path)
    leaves = list(steps[-1].leaves) if steps else []
    if not steps or int96_leaves(file.metadata, leaves) or _is_mostly_codes(file, column, group, leaves):
        yield read_columns(file, [column], [group])[column.id]
        return
    remaining = file.metadata.row_group(group).num_rows
    try:
        check_chunks(file.metadata, [group], leaves)
        with _opened_plain(file) as opened:
            for batch in opened.reader.iter_batches(rows, [group], column_indices=leaves, use_threads=False):
                stored = column_of(pa.Table.from_batches([batch]), file.tree, steps, set(leaves))
                remaining -= len(batch)
                yield as_column(opened, column, type_, steps, stored)
        if remaining:
            raise ValueError(f"{remaining} rows of row group {group} cannot be read")
    except (pa.ArrowException, OSError, ValueError) as wrong:
        raise DataFileError(file=file.path, reason=f"its columns cannot be decoded: {wrong}") from wrong


def _is_mostly_codes(file: DataFile, column: Column, group: int, leaves: Sequence[int]) -> bool:
    """Return whether a column chunk is read as codes, and its dictionary takes few of its bytes."""
    row_group = file.metadata.row_group(group)
    unpacked = sum(row_group.column(leaf).total_uncompressed_size for leaf in leaves)
    return column.id in file.coded and bool(unpacked <= _CODED_BYTES * row_group.num_rows)


def _opened_plain(file: DataFile) -> DataFile:
    """Open the Parquet file a second time, with every column read as values instead of dictionary codes.

    With codes, each batch would repeat the dictionary values of all batches before it. The caller's file
    object is not used, since pyarrow keeps a column chunk that was read in batches in memory until its file
    object is freed.
    """
    if file.reopen is None:
        raise ValueError("it cannot be opened a second time")
    return opened_again(file.reopen(), file, {})
