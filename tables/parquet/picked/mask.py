"""Wanted rows of whole row groups by Polars, which leaves the others out while it decodes.

pyarrow decodes every row of a page before one can be left out. Polars decodes only the rows where a predicate
is TRUE, if it knows that from other columns. So row groups are put together in memory as a Parquet file with
one column more, of packed booleans that say which rows are wanted; this column is the predicate. Pages
without a wanted row are not even decompressed, so nothing is gained by leaving them out.

Polars is told how values are stored and nothing of what they mean: except for decimals, the bytes that it
gives become Arrow arrays of the type that pyarrow would read, and `decode` makes of these what the table
means, as everywhere. Columns of other types, and all where Polars fails, are left to pyarrow.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tailbit.arrays import Longs
from tailbit.tables.model import Column
from tailbit.tables.parquet.data_file import find_column
from tailbit.tables.parquet.decode import Decoder
from tailbit.tables.parquet.file import MAGIC
from tailbit.tables.parquet.layout import Layout
from tailbit.tables.parquet.leaves import ParquetNode
from tailbit.tables.parquet.picked.footer import (
    CODECS,
    written_bits,
    written_chunk,
    written_end,
    written_leaf,
    written_row_group,
)

if TYPE_CHECKING:
    from types import ModuleType

Groups = Sequence[tuple[int, Longs]]
"""Row groups, each with ascending rows of it."""

_MASK = "wanted"
_OLDEST = 2
"""The major version of Polars that this was proven with."""
_SAME_BYTES = {
    "BOOLEAN": (pa.bool_(),),
    "INT32": (pa.int32(), pa.date32(), pa.int8(), pa.int16(), pa.uint8(), pa.uint16(), pa.uint32()),
    "INT64": (pa.int64(), pa.uint64()),
    "FLOAT": (pa.float32(),),
    "DOUBLE": (pa.float64(),),
    "BYTE_ARRAY": (pa.string(), pa.binary()),
}
"""Types whose values are what is stored, or its low bytes. Timestamps in microseconds are, too."""
_DECIMALS = ("INT32", "INT64", "FIXED_LEN_BYTE_ARRAY")

_forked = False


def _after_fork() -> None:
    global _forked
    _forked = "polars" in sys.modules


os.register_at_fork(after_in_child=_after_fork)


def polars() -> ModuleType | None:
    """Polars; None where it cannot be loaded, and in a process forked from one that used it.

    There its threads are gone.
    """
    if _forked:
        return None
    try:
        import polars
    except ImportError:
        return None
    return polars if int(polars.__version__.split(".")[0]) >= _OLDEST else None


class Masked(NamedTuple):
    """A column that can be read by mask: its field, leaf and stored type; its leaf as a schema holds it."""

    column: Column
    node: ParquetNode
    leaf: int
    type: pa.DataType
    written: bytes


def maskable(layout: Layout, path: str, columns: Sequence[Column], groups: Groups) -> list[Masked]:
    """Those of the columns that Polars reads to the values that pyarrow does."""
    out: list[Masked] = []
    for column in columns:
        steps = find_column(layout.tree, column, path)
        if not steps or len(steps) != 1 or steps[0].children:
            continue
        leaf = steps[0].first
        chunks = (layout.metadata.row_group(group).column(leaf) for group, _ in groups)
        type_ = _plain(steps[0].field.type)
        written = _written(layout.metadata.schema.column(leaf), type_, str(len(out)))
        if written is not None and all(str(chunk.compression) in CODECS for chunk in chunks):
            out.append(Masked(column, steps[0], leaf, type_, written))
    return out


def _plain(type_: pa.DataType) -> pa.DataType:
    """The one type of all that pyarrow reads the same texts or bytes as, if a file's own schema says so."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if type_ in (pa.large_string(), pa.string_view()):
        return pa.string()
    return pa.binary() if type_ in (pa.large_binary(), pa.binary_view()) else type_


def _written(leaf: pq.ColumnSchema, type_: pa.DataType, name: str) -> bytes | None:
    """A leaf under another name; None where its values are more than their bytes, or nested."""
    if leaf.max_repetition_level or leaf.max_definition_level > 1:
        return None
    physical, nullable = str(leaf.physical_type), bool(leaf.max_definition_level)
    if pa.types.is_decimal128(type_) and physical in _DECIMALS:
        of = (type_.precision, type_.scale)
        return written_leaf(name, physical, nullable, leaf.length, of)
    if type_ in _SAME_BYTES.get(physical, ()) or (physical == "INT64" and _is_micros(leaf, type_)):
        return written_leaf(name, physical, nullable)
    return None


def _is_micros(leaf: pq.ColumnSchema, type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_timestamp(type_)
        and type_.unit == "us"
        and "timeUnit=microseconds" in str(leaf.logical_type)
    )


def read_masked(
    layout: Layout, source: pa.NativeFile, path: str, columns: Sequence[Masked], groups: Groups
) -> dict[str, pa.ChunkedArray]:
    """The columns by id, at those rows of those row groups; nothing where Polars cannot read them.

    Memory: the compressed chunks, and the wanted rows twice.

    Raises:
        LegacyCalendarError, DataFileError: as `read_columns`, of wanted values.
    """
    library = polars()
    if library is None or not columns:
        return {}
    failed = (library.exceptions.PolarsError, library.exceptions.PanicException)
    try:
        data = _assembled(layout, source, columns, groups)
        scan = library.scan_parquet(data, use_statistics=False, glob=False, hive_partitioning=False)
        frame = scan.filter(library.col(_MASK)).drop(_MASK).collect()
        table = frame.to_arrow(compat_level=library.CompatLevel.oldest())
        if table.num_rows != sum(len(rows) for _, rows in groups):
            return {}
        stored = [_as_stored(table.column(n), its.type) for n, its in enumerate(columns)]
    except (*failed, pa.ArrowException, OSError, ValueError, KeyError):
        return {}
    return {its.column.id: _decoded(layout, path, its, s) for its, s in zip(columns, stored, strict=True)}


def _as_stored(values: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """What Polars gave in the type that pyarrow reads: the same bytes; offsets and numbers may shrink."""
    if values.type == type_:
        return values
    if pa.types.is_string(type_):
        chunks = [chunk.view(pa.large_string()).cast(type_) for chunk in values.chunks]
    elif pa.types.is_binary(type_) or values.type.bit_width != type_.bit_width:
        return values.cast(type_)
    else:
        chunks = [chunk.view(type_) for chunk in values.chunks]
    return pa.chunked_array(chunks, type_)


def _decoded(layout: Layout, path: str, its: Masked, stored: pa.ChunkedArray) -> pa.ChunkedArray:
    decode = Decoder(layout.metadata, path, its.column.label)
    return pa.chunked_array([decode.array(chunk, its.column, its.node) for chunk in stored.chunks])


class _Span(NamedTuple):
    """Bytes of the data file and where they come to stand."""

    at: int
    start: int
    size: int


def _assembled(layout: Layout, source: pa.NativeFile, columns: Sequence[Masked], groups: Groups) -> bytes:
    """The row groups with a mask, as one Parquet file.

    Cost: one copy. The bytes are allocated at once and read in place: memory that the process has used before
    is used again, where pieces put together would be copied to new pages, which costs three times as much.
    """
    size, spans, written = len(MAGIC), [], []
    for group, _ in groups:
        row_group, first, chunks = layout.metadata.row_group(group), size, []
        for its in columns:
            span, chunk = _moved(row_group.column(its.leaf), size, row_group.num_rows)
            spans.append(span)
            chunks.append(chunk)
            size += span.size
        written.append((chunks, size - first, row_group.num_rows))
    end, at, row_groups = [], size, []
    for (_, rows), (chunks, packed, number) in zip(groups, written, strict=True):
        mask = np.zeros(number, bool)
        mask[rows] = True
        page = written_bits(np.packbits(mask, bitorder="little").tobytes(), number)
        chunks.append(written_chunk("BOOLEAN", "UNCOMPRESSED", number, len(page), len(page), at, None))
        row_groups.append(written_row_group(chunks, packed + len(page), number))
        end.append(page)
        at += len(page)
    leaves = [*(its.written for its in columns), written_leaf(_MASK, "BOOLEAN", nullable=False)]
    end.append(written_end(leaves, row_groups, sum(number for _, _, number in written)))
    return _filled(source, spans, size, b"".join(end))


def _moved(chunk: pq.ColumnChunkMetaData, at: int, rows: int) -> tuple[_Span, bytes]:
    """Where a chunk lies and comes to stand, and how a footer says so."""
    data, dictionary = chunk.data_page_offset, chunk.dictionary_page_offset
    start = min(data, dictionary) if dictionary else data
    if chunk.num_values != rows:
        raise ValueError(f"a chunk has {chunk.num_values} values in {rows} rows")
    written = written_chunk(
        str(chunk.physical_type),
        str(chunk.compression),
        rows,
        chunk.total_uncompressed_size,
        chunk.total_compressed_size,
        at + data - start,
        at if dictionary else None,
    )
    return _Span(at, start, chunk.total_compressed_size), written


def _filled(source: pa.NativeFile, spans: Sequence[_Span], size: int, end: bytes) -> bytes:
    whole = io.BytesIO(bytes(size + len(end)))
    with whole.getbuffer() as view:
        view[: len(MAGIC)] = MAGIC
        view[size:] = end
        for at, start, length in _joined(spans):
            source.seek(start)
            if source.readinto(view[at : at + length]) != length:
                raise ValueError(f"it ends before byte {start + length}")
    return whole.getvalue()


def _joined(spans: Sequence[_Span]) -> list[_Span]:
    """Spans that stand side by side in both files as one."""
    out: list[_Span] = []
    for span in spans:
        if out and out[-1].start + out[-1].size == span.start:
            out[-1] = out[-1]._replace(size=out[-1].size + span.size)
        else:
            out.append(span)
    return out
