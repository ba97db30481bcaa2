"""Decoding of wanted rows by mask: Polars filters the rows of whole row groups while it decodes.

pyarrow decodes every row of a page before it can drop any. So row groups are assembled in memory as a Parquet
file with one more column, the mask of the wanted rows (see `by_polars`). Polars does not even decompress
pages without a wanted row, so cutting them out would gain nothing.

Polars is told how values are stored, but not what they mean: except for decimals, the bytes that it returns
become Arrow arrays of the type that pyarrow would read, and `decode` converts them to the table's types as
for every reader. Columns of other types, and all columns if Polars fails, are left to pyarrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.base.errors import DataFileError, StorageError
from tailbit.tables import compute as pc
from tailbit.tables.model import Column
from tailbit.tables.parquet.data_file import flat_column
from tailbit.tables.parquet.decode import Decoder
from tailbit.tables.parquet.layout import Chunk, Layout
from tailbit.tables.parquet.leaves import ParquetNode, plain_type
from tailbit.tables.parquet.row_assembly.assembly import Assembly
from tailbit.tables.parquet.row_assembly.by_polars import CHECKED, MASK_LEAF, failures, polars, wanted_rows
from tailbit.tables.parquet.row_assembly.footer import written_leaf
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    from types import ModuleType

    import pyarrow.parquet as pq

Groups = Sequence[tuple[int, Longs]]
"""Row groups by number, each with its wanted rows, ascending."""

_FEW = 1 << 16
"""Below this many rows, chunks are copied into one: many small chunks cost more than the copy."""
_SAME_BYTES = {
    "BOOLEAN": (pa.bool_(),),
    "INT32": (pa.int32(), pa.date32(), pa.int8(), pa.int16(), pa.uint8(), pa.uint16(), pa.uint32()),
    "INT64": (pa.int64(), pa.uint64()),
    "FLOAT": (pa.float32(),),
    "DOUBLE": (pa.float64(),),
    "BYTE_ARRAY": (pa.string(), pa.binary()),
}
"""Types whose values are the stored bytes or their low bytes, as are timestamps in microseconds."""
_DECIMALS = ("INT32", "INT64", "FIXED_LEN_BYTE_ARRAY")


class Part(NamedTuple):
    """A data file's share of a batch: row groups, each with its wanted rows."""

    layout: Layout
    path: str
    groups: Groups

    @property
    def rows(self) -> int:
        """The number of wanted rows."""
        return sum(len(rows) for _, rows in self.groups)


class Masked(NamedTuple):
    """A column that Polars can read by mask: field, leaf, stored type, and the leaf encoded for a footer.

    `chunks`: the column chunk of each row group.
    """

    column: Column
    node: ParquetNode
    leaf: int
    type: pa.DataType
    written: bytes
    chunks: Sequence[Chunk]


def _maskable(part: Part, columns: Sequence[Column]) -> list[Masked]:
    """Return the columns that Polars decodes to the same values as pyarrow."""
    layout, path, groups = part
    out: list[Masked] = []
    for column in columns:
        node = flat_column(layout, column, path)
        if node is None:
            continue
        leaf = node.first
        chunks = [layout.chunk(group, leaf) for group, _ in groups]
        type_ = plain_type(node.field.type)
        written = _written(layout.metadata.schema.column(leaf), type_, str(len(out)))
        if written is not None and all(chunk.codec in CHECKED for chunk in chunks):
            out.append(Masked(column, node, leaf, type_, written, chunks))
    return out


def _written(leaf: pq.ColumnSchema, type_: pa.DataType, name: str) -> bytes | None:
    """Encode a leaf under another name; None if Polars might read other values than pyarrow."""
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
    storage: Storage, parts: Sequence[Part], columns: Sequence[Column]
) -> list[dict[str, pa.ChunkedArray]]:
    """Return for each part the columns at its wanted rows, by id, without those that Polars cannot read.

    Neighbouring parts that store the columns alike are decoded together, since each call costs some 2 ms.
    Memory: the compressed chunks, and the wanted rows twice.

    Raises:
        LegacyCalendarError, DataFileError: a value at a wanted row cannot be decoded (see `read_columns`).
    """
    library, out = polars(), list[dict[str, pa.ChunkedArray]]()
    maskable = [(part, _maskable(part, columns) if library else []) for part in parts]
    for _, group in groupby(maskable, key=_stored_as):
        alike = list(group)
        decoded = _stored_columns(library, storage, alike) if library and alike[0][1] else None
        at = 0
        for part, leaves in alike:
            out.append({})
            if decoded is not None:
                of = [values.slice(at, part.rows) for values in decoded]
                out[-1] = {m.column.id: _decoded(part, m, v) for m, v in zip(leaves, of, strict=True)}
            at += part.rows
    return out


def _stored_as(part: tuple[Part, Sequence[Masked]]) -> list[tuple[str, bytes, pa.DataType]]:
    return [(leaf.column.id, leaf.written, leaf.type) for leaf in part[1]]


def _stored_columns(
    library: ModuleType, storage: Storage, parts: Sequence[tuple[Part, Sequence[Masked]]]
) -> list[pa.ChunkedArray] | None:
    """Return the columns in their stored form at the wanted rows of all parts; None if Polars fails."""
    rows, columns = sum(part.rows for part, _ in parts), parts[0][1]
    try:
        frame = wanted_rows(library, _assembled(storage, parts))
        if frame.height != rows:
            return None
        frame = frame.rechunk() if rows < _FEW else frame
        table = frame.to_arrow(compat_level=library.CompatLevel.newest())
        return [_as_stored(table.column(n), leaf.type) for n, leaf in enumerate(columns)]
    except (*failures(library), pa.ArrowException, OSError, ValueError, KeyError, StorageError):
        return None


def _as_stored(values: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """Convert what Polars returned to the type that pyarrow reads: same bytes; integers may be narrowed."""
    if values.type == type_:
        return values
    if pa.types.is_string(type_):
        chunks = [chunk.view(type_) for chunk in pc.cast(values, pa.binary()).chunks]
    elif pa.types.is_binary(type_) or values.type.bit_width != type_.bit_width:
        return pc.cast(values, type_)
    else:
        chunks = [chunk.view(type_) for chunk in values.chunks]
    return pa.chunked_array(chunks, type_)


def _decoded(part: Part, leaf: Masked, stored: pa.ChunkedArray) -> pa.ChunkedArray:
    decode = Decoder(part.layout.metadata, part.path, leaf.column.label)
    try:
        return pa.chunked_array([decode.array(chunk, leaf.column, leaf.node) for chunk in stored.chunks])
    except pa.ArrowException as wrong:
        raise DataFileError(file=part.path, reason=f"its columns cannot be decoded: {wrong}") from wrong


def _assembled(storage: Storage, parts: Sequence[tuple[Part, Sequence[Masked]]]) -> bytes:
    """Assemble the row groups with a mask as one Parquet file."""
    out = Assembly()
    for (layout, path, groups), columns in parts:
        sizes = np.diff(layout.starts).tolist()
        for place, (group, wanted) in enumerate(groups):
            for leaf in columns:
                chunk = leaf.chunks[place]
                if chunk.values != sizes[group]:
                    raise ValueError(f"a chunk has {chunk.values} values in {sizes[group]} rows")
                out.add_chunk(chunk, path)
            out.add_mask(wanted, sizes[group])
            out.end_row_group(sizes[group])
    return out.done(storage, [*(leaf.written for leaf in parts[0][1]), MASK_LEAF])
