"""Bitmap records: for each column, value and file of a table, the rows of the file that hold the value.

RFC-92 of Apache Hudi describes this view; here it is made from tables of every format. Nothing is written
into the table.

Worked example: two files; the index covers only a.parquet, whose row 2 is hidden.

    a.parquet   UA AA (UA) NULL      postings, cut at the file       UA [0]   AA [1]   NULL [3]
    b.parquet   UA DL                the data is read                UA [0]   DL [1]
"""

from __future__ import annotations

import heapq
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import ColumnTypeError, CorruptIndexError, UsageError
from tailbit.base.once import once
from tailbit.index.evaluation.row_space import SpaceView, claims
from tailbit.index.functions.casting import cast
from tailbit.index.functions.tree import Call
from tailbit.index.keys import decode_keys, encode_array, is_textual, is_truncated, key_type_of, widen_keys
from tailbit.index.postings.segment import Segment
from tailbit.index.query.selection import Selection
from tailbit.index.values.literals import FLOATING, Literal
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, filled, numpy_of
from tailbit.tables.model import Column, DataType, FileSlice
from tailbit.tables.parquet.decode import float_texts
from tailbit.tables.parquet.rows import Positions, fetch_files, row_counts, visible_positions
from tailbit.tables.partition_values import partition_array
from tailbit.tables.positions import bitmap_of
from tailbit.tables.table import GroupOfFile

SCHEMA = pa.schema(
    [
        pa.field("column", pa.string(), nullable=False),
        pa.field("value", pa.string()),
        pa.field("value_is_null", pa.bool_(), nullable=False),
        pa.field("partition", pa.string(), nullable=False),
        pa.field("file_id", pa.string(), nullable=False),
        pa.field("base_instant", pa.string()),
        pa.field("file", pa.string(), nullable=False),
        pa.field("positions", pa.binary(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
    ]
)
"""The columns of records. `positions`: a portable 32-bit Roaring bitmap; `rows`: the number of its rows."""

KEYED_SCHEMA = SCHEMA.append(pa.field("key", pa.string())).append(
    pa.field("bitmap", pa.string(), nullable=False)
)
"""`SCHEMA` with the key of RFC-92, which is null for a value of NULL, and the bitmap in Base64."""

_BATCH_RECORDS, _BATCH_BYTES = 8192, 8 << 20
_MANY = 1 << 16
"""A bitmap of more rows is cut file by file, without an array of its positions."""

_FILES = 4096
"""Files whose description is cached for their next records."""


class _File(NamedTuple):
    """A file, and its partition, file id, base instant and path, as records have them."""

    slice_: FileSlice
    names: tuple[str, str, str | None, str]


Record = tuple[bytes | None, _File, BitMap]
"""The key of a value (None: NULL; for a text, all of it), a file, and the positions of the rows there."""


@dataclass
class _Batch:
    """The records of one column that make the next batch."""

    column: Column
    keys: list[bytes | None] = field(default_factory=list)
    files: list[tuple[str, str, str | None, str]] = field(default_factory=list)
    positions: list[bytes] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    size: int = 0

    def add(self, key: bytes | None, file: _File, bits: BitMap) -> bool:
        """Add a record; return whether the batch is full."""
        bits.run_optimize()
        self.keys.append(key)
        self.files.append(file.names)
        self.positions.append(bits.serialize())
        self.rows.append(len(bits))
        self.size += len(self.positions[-1]) + len(key or b"")
        return self.size >= _BATCH_BYTES or len(self.keys) >= _BATCH_RECORDS

    def batch(self) -> pa.RecordBatch:
        """Return the records."""
        keys = arrow_array(self.keys, pa.binary())
        names = [arrow_array([self.column.label] * len(keys), pa.string())]
        files = [arrow_array(list(column), pa.string()) for column in zip(*self.files, strict=True)]
        counts = arrow_array(self.rows, pa.int64())
        values = [texts_of_keys(keys, self.column), pc.is_null(keys)]
        return pa.RecordBatch.from_arrays(
            [*names, *values, *files, arrow_array(self.positions, pa.binary()), counts], schema=SCHEMA
        )


@dataclass(frozen=True)
class BitmapRecords:
    """The bitmap records of a table at one version.

    `selection`: all rows of the version. `group_of`: the partition and file group of a file.

    Invariant: per column, every visible row of a file is in exactly one record. Right at any lag: rows that
    the postings of the index do not tell are read from the data of just their files.
    """

    selection: Selection
    group_of: Callable[[FileSlice], GroupOfFile]

    def batches(self, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
        """Yield the records of columns, column by column, in batches.

        Memory: some bitmaps of a row space and a row group of postings, or the distinct values of a file.
        """
        for column in columns:
            batch = _Batch(column)
            for record in self._records(column):
                if batch.add(*record):
                    yield batch.batch()
                    batch = _Batch(column)
            if batch.keys:
                yield batch.batch()

    def _records(self, column: Column) -> Iterator[Record]:
        for space in self.selection.coverage.spaces:
            rest = space.visible
            if not column.partition:
                posted = BitMap()
                try:
                    for key, bits in _posted(column, space):
                        posted |= bits
                        yield from ((key, *cut) for cut in self._cut(space, bits))
                except CorruptIndexError as damage:
                    self.selection.damages.note(damage)
                rest = rest - posted
            for file, bits in self._cut(space, rest):
                yield from self._read(column, file, bits)
        for number in self.selection.coverage.uncovered.tolist():
            file = self._file(number)
            file = file._replace(slice_=file.slice_.of_any_size())
            (rows,) = row_counts(self.selection.storage, [file.slice_])
            shown = visible_positions(rows, self.selection.coverage.hidden_of(number))
            yield from self._read(column, file, bitmap_of(shown))

    @once
    def _file(self) -> Callable[[int], _File]:
        """Return a function, cached, from the number of a file in the snapshot to its description."""

        @lru_cache(maxsize=_FILES)
        def described(number: int) -> _File:
            slice_ = self.selection.snapshot.files[number]
            return _File(slice_, (*self.group_of(slice_), slice_.path))

        return described

    def _cut(self, space: SpaceView, bits: BitMap) -> Iterator[tuple[_File, BitMap]]:
        """Yield positions of a row space file by file, for the files that have any."""
        if len(bits) <= _MANY:
            for number, positions in space.split(bits):
                yield self._file(number), bitmap_of(positions)
            return
        for order in np.flatnonzero(space.counts_by_file(bits)).tolist():
            base = space.bases[order : order + 1]
            own = bits & claims(base, space.rows[order : order + 1])
            yield self._file(int(space.files[order])), own.shift(-int(base[0]))

    def _read(self, column: Column, file: _File, bits: BitMap) -> Iterator[Record]:
        """Yield the records of some rows of a file by the file's data, or by its partition value."""
        if not bits:
            return
        if column.partition:
            text = file.slice_.partition.get(column.physical[0])
            (key,) = _whole_keys(partition_array(column, text, 1), column).to_pylist()
            yield key, file, bits
            return
        positions: Positions = np.frombuffer(bits.to_array(), dtype=np.uint32).astype(np.uint64)
        tables = fetch_files(self.selection.storage, [(file.slice_, positions)], [column])
        chunks = (chunk for table in tables for chunk in table.column(0).chunks)
        coded = pa.chunked_array(
            [pc.dictionary_encode(_whole_keys(chunk, column)) for chunk in chunks]
        ).unify_dictionaries()
        keys = coded.chunk(0).dictionary
        codes = numpy_of(
            filled(pa.chunked_array([c.indices for c in coded.chunks]), len(keys)), dtype=np.int64
        )
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
            code = int(codes[order[start]])
            yield (
                keys[code].as_py() if code < len(keys) else None,
                file,
                bitmap_of(positions[order[start:end]]),
            )


def _posted(column: Column, space: SpaceView) -> Iterator[tuple[bytes | None, BitMap]]:
    """Yield the keys of a column and their visible rows in a row space, NULL first.

    Left out are rows of files without postings of the column, and rows whose key does not hold the value.
    """
    key_type = key_type_of(column.type)
    segments = space.serving(column)
    shown = space.visible - (space.unposted(column.id) or BitMap()) if segments else BitMap()
    streams = [_keyed(segment, column, key_type) for segment in segments]
    for (is_value, key), postings in groupby(heapq.merge(*streams, key=itemgetter(0)), itemgetter(0)):
        bits = shown & BitMap.union(*(posting for _, posting in postings))
        if bits and not (is_textual(key_type) and is_truncated(key)):
            yield (key if is_value else None), bits


def _keyed(segment: Segment, column: Column, key_type: str) -> Iterator[tuple[tuple[bool, bytes], BitMap]]:
    """Yield the postings of a segment under (is not NULL, key), ascending, in the column's key type."""
    for keys, postings in segment.postings(column.id):
        wide = widen_keys(keys, segment.columns[column.id], key_type)
        for key, posting in zip(wide.to_pylist(), postings, strict=True):
            yield (key is not None, key or b""), posting


def _whole_keys(values: pa.Array, column: Column) -> pa.BinaryArray:
    """Return the keys of values; those of texts are whole, however long they are."""
    key_type = key_type_of(column.type)
    return pc.cast(values, pa.binary()) if is_textual(key_type) else encode_array(values, key_type)


def check_columns(columns: Sequence[Column]) -> None:
    """Check that columns have records.

    Raises:
        UsageError: no column is named.
        ColumnTypeError: values of a column have no text.
    """
    if not columns:
        raise UsageError(reason="no column is named or indexed", hint="Name the columns of the records.")
    for column in columns:
        if not has_records(column):
            reason = "its values have no texts by which records could name them"
            raise ColumnTypeError(column=column.label, type=column.type.sql, reason=reason, hint=_HINT)


_HINT = "Name columns of type BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, DECIMAL, STRING, DATE or TIMESTAMP."


def has_records(column: Column) -> bool:
    """Return whether the values of a column are plain and have texts; bytes need not be text."""
    try:
        return key_type_of(column.type) != "binary"
    except ColumnTypeError:
        return False


def with_rfc92_keys(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    r"""Yield records with `key`, `<column>$<value>$<partition>$<file id>`, and `bitmap`, in Base64.

    In a value, `$` and `\` stand behind a `\`, as in Hudi's secondary index. A value of NULL has no key.
    """
    for batch in batches:
        escaped = pc.replace_substring(pc.replace_substring(batch["value"], "\\", "\\\\"), "$", "\\$")
        keys = pc.binary_join_element_wise(
            batch["column"], escaped, batch["partition"], batch["file_id"], "$"
        )
        bitmaps = [b64encode(bits).decode() for bits in batch["positions"].to_pylist()]
        arrays = [*batch.columns, keys, arrow_array(bitmaps, pa.string())]
        yield pa.RecordBatch.from_arrays(arrays, schema=KEYED_SCHEMA)


_TEXT = DataType("string")


def texts_of_keys(keys: pa.BinaryArray, column: Column) -> pa.StringArray:
    """Return the texts of the values that keys of a column stand for; NULL stays null.

    A key of a text holds all of the text, however long the text is.
    """
    key_type = key_type_of(column.type)
    if is_textual(key_type):
        return keys.view(pa.string())
    values = decode_keys(keys, key_type, column.type)
    if column.type.name in FLOATING:
        return float_texts(values)
    call = Call("cast", (Literal(column.type, None),), _TEXT, ("UTC",))
    return cast(call, [values]).values
