"""The Parquet files of the index: written, opened if their footer is valid, merged by key.

K-way merge of sorted index files, so that all rows of one key come in one small table. Worked example: eight
rows in two files of two batches each.

    file 1        A B D | E
    file 2        A C | D F

    heads         ends at      table
    A B D, A C    C            A B A C      D stays: file 2 may still hold a D
    D, D F        D            D D
    E, F          E            E
    F             F            F

Writing and opening of the Parquet files of the index. A file's name carries the length and the hash of its
footer, `<stem>.<footer length>.<sha256, 16 digits>.parquet`: the name is in the Delta commit, so a footer is
checked before it is parsed. Pages carry checksums, verified at every read. A file gets its final name only
once it is durable.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.errors import CorruptIndexError
from tailbit.base.faults import Fault, fault_point
from tailbit.base.lazy import lazy
from tailbit.index.model import IndexFile
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, filled, numpy_of
from tailbit.tables.parquet.file import ENDS, ParquetFile, arrow_buffer, read_footer
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    import pyarrow.parquet as pq
else:
    pq = lazy("pyarrow.parquet")


GROUP_ROWS, GROUP_BYTES = 1 << 15, 1 << 20
"""Limits of a row group of a merged file, which is what a lookup decodes."""

Key = tuple[tuple[bool, bytes | str], ...]


def aligned(inputs: Sequence[Iterator[pa.Table]], by: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows of inputs that are each sorted by `by` (nulls first), in tables of ascending key ranges.

    Invariant: rows of equal key are in one table, as long as an input has them in one batch. Memory: one
    batch of every input.
    """
    heads = [_next(batches) for batches in inputs]
    while any(head is not None for head in heads):
        end = min(key_at(head, by, len(head) - 1) for head in heads if head is not None)
        heads_of_range = []
        for number, head in enumerate(heads):
            if head is None:
                continue
            cut = _rows_up_to(head, by, end)
            if cut:
                heads_of_range.append(head.slice(0, cut))
                heads[number] = head.slice(cut) if cut < len(head) else _next(inputs[number])
        yield pa.concat_tables(heads_of_range)


def regrouped(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the same rows in tables of the size of a row group, however small the given tables are."""
    waiting: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        if len(table):
            waiting.append(table)
            rows, size = rows + len(table), size + table.nbytes
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()


def sort(table: pa.Table, by: Sequence[str]) -> pa.Table:
    """Sort a table by some columns, nulls first; equal rows stay in their order.

    Columns with the same value in all rows are ignored; a table that is already sorted is returned unchanged.
    Cost: keys of eight bytes are sorted as numbers, all else by Arrow.
    """
    table = table.combine_chunks()
    varying = [name for name in by if _changes(table, name).any()]
    if len(varying) == 1 and (words := words_of(table[varying[0]].combine_chunks())) is not None:
        if (words[1:] >= words[:-1]).all():
            return table
        # A stable sort merges concatenated sorted pieces.
        return table.take(arrow_array(np.argsort(words, kind="stable")))
    return _sorted_by_arrow(table, varying) if varying else table


def _sorted_by_arrow(table: pa.Table, by: Sequence[str]) -> pa.Table:
    """Return the table sorted by Arrow; before each column, a column "is set" puts nulls first.

    The option of pyarrow for the order of nulls differs by release.
    """
    keys: dict[str, pa.ChunkedArray | pa.Array] = {}
    for name in by:
        keys[f"{name} is set"] = pc.cast(pc.is_valid(table[name]), pa.int8())
        keys[name] = table[name]
    return pc.take(table, pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys]))


def words_of(keys: pa.Array) -> npt.NDArray[np.uint64] | None:
    """Return keys as numbers of the same order; None unless all keys have eight bytes and none is null."""
    if not pa.types.is_binary(keys.type) or keys.null_count or not len(keys):
        return None
    ends = np.frombuffer(keys.buffers()[1], dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1]
    if ends[-1] - ends[0] != _WORD * len(keys) or (np.diff(ends) != _WORD).any():
        return None
    data = np.frombuffer(keys.buffers()[2], dtype=np.uint8)[ends[0] : ends[-1]]
    words: npt.NDArray[np.uint64] = data.view(">u8").astype(np.uint64)
    return words


_WORD = 8


def starts(table: pa.Table, by: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the row numbers (int64) at which a new key begins, in a table sorted by the columns `by`."""
    changed = np.zeros(len(table), dtype=bool)
    changed[:1] = True
    for name in by:
        changed[1:] |= _changes(table, name)
    return np.flatnonzero(changed)


def _changes(table: pa.Table, name: str) -> npt.NDArray[np.bool_]:
    """Return which rows but the first differ from the previous row; null is a value of its own."""
    values = table[name].combine_chunks()
    words = words_of(values)
    if words is not None:
        return np.asarray(words[1:] != words[:-1])
    other = filled(pc.not_equal(values[1:], values[:-1]), False)
    there = numpy_of(pc.is_valid(values))
    changes: npt.NDArray[np.bool_] = numpy_of(other) | (there[1:] != there[:-1])
    return changes


def key_at(table: pa.Table, by: Sequence[str], row: int) -> Key:
    """Return the key of one row as a value that compares as the files are sorted: nulls first."""
    values = (table[name][row].as_py() for name in by)
    return tuple((value is not None, value if value is not None else b"") for value in values)


def _next(batches: Iterator[pa.Table]) -> pa.Table | None:
    return next((batch for batch in batches if len(batch)), None)


def _rows_up_to(table: pa.Table, by: Sequence[str], end: Key) -> int:
    low, high = 0, len(table)
    while low < high:
        middle = (low + high) // 2
        if key_at(table, by, middle) <= end:
            low = middle + 1
        else:
            high = middle
    return low


_LITTLE = 1 << 15
"""Files with fewer bytes of rows are not compressed."""

_SHORT = 1 << 16
"""Files of fewer bytes are read as a whole."""


def write_index_file(
    storage: Storage, kind: str, stem: str, write: Callable[[pa.NativeFile], None]
) -> IndexFile:
    """Write one file of a kind; after a failure the store has no file under its final name.

    `write` writes the bytes of the Parquet file into the given sink. The stem gets eight random digits.
    """
    folder = f"kind={kind}"
    unique = f"{stem}-{uuid.uuid4().hex[:8]}"
    with storage.create(folder, unique) as unfinished:
        write(unfinished.sink)
        fault_point(Fault.SEGMENT_HALF_WRITTEN)
        with unfinished.written() as source:
            footer, size = read_footer(source), source.size()
            rows = int(ParquetFile(source).metadata.num_rows)
        name = f"{unique}.{len(footer)}.{hashlib.sha256(footer).hexdigest()[:16]}.parquet"
        unfinished.publish(name)
    fault_point(Fault.SEGMENT_WRITTEN)
    return IndexFile(f"{folder}/{name}", size, rows)


def write_parquet(
    sink: pa.NativeFile,
    schema: pa.Schema,
    groups: Iterable[pa.Table],
    encodings: Mapping[str, str] | None = None,
    metadata: Mapping[str, str] | None = None,
    page_rows: int = 0,
) -> None:
    """Write one row group per table, with page checksums; of binary columns, only keys have statistics.

    A small file is not compressed: starting to read a compressed page takes longer than reading such a file.
    Columns are dictionary-coded, except binary ones and those in `encodings` (Parquet's encodings of leaves,
    by path). A column `key`, sorted by the caller, is delta-encoded: only the bytes not shared with the
    previous key are stored. `metadata`: key-value metadata of the file; the mapping is read after the last
    row group. `page_rows`: rows in a page, where only variable-length binary is compressed; 0: large pages.
    """
    encodings = {name: "DELTA_BYTE_ARRAY" for name in schema.names if name == "key"} | dict(encodings or {})
    named = {path.partition(".")[0] for path in encodings}
    little, groups = _is_little(iter(groups))
    with pq.ParquetWriter(
        sink,
        schema,
        compression=_compression(schema, little, page_rows > 0),
        use_dictionary=[f.name for f in schema if not _is_bytes(f.type) and f.name not in named],
        column_encoding=encodings or None,
        write_statistics=_with_statistics(schema),
        write_page_checksum=True,
        # A page ends with the batch that makes it longer than a byte.
        **({"write_batch_size": page_rows, "data_page_size": 1} if page_rows else {}),
    ) as out:
        for group in groups:
            out.write_table(group, row_group_size=max(1, len(group)))
        if metadata:
            out.add_key_value_metadata(metadata)


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(type_))


def _compression(schema: pa.Schema, little: bool, paged: bool) -> dict[str, str]:
    """Return the codec of each column."""
    plain = [field.name for field in schema if little or (paged and not pa.types.is_binary(field.type))]
    return dict.fromkeys(schema.names, "ZSTD") | dict.fromkeys(plain, "NONE")


def _is_little(groups: Iterator[pa.Table]) -> tuple[bool, Iterator[pa.Table]]:
    """Return whether all row groups together are small, and an iterator over the same row groups."""
    seen, size = list[pa.Table](), 0
    while size <= _LITTLE and (group := next(groups, None)) is not None:
        seen.append(group)
        size += group.nbytes
    return size <= _LITTLE, chain(seen, groups)


def _with_statistics(schema: pa.Schema) -> bool | list[str]:
    """Return the columns that get statistics, as pyarrow expects; binary values would fill the footer."""
    if not any(pa.types.is_binary(field.type) and field.name != "key" for field in schema):
        return True
    return [field.name for field in schema if field.name == "key" or not pa.types.is_binary(field.type)]


def open_index_file(storage: Storage, path: str, end: int = 0) -> ParquetFile:
    """Open a file of the index after checking its footer against its name.

    Pages are verified as they are read. `end`: bytes at the file's end that will be read (`Storage.open`).

    Raises:
        CorruptIndexError: the file is missing, truncated or altered.
    """
    if ".." in path.split("/"):
        raise CorruptIndexError(file=path, reason="its path leaves the index")
    try:
        wanted_length, wanted_hash = path.rsplit(".", 3)[1:3]
        source = _at_hand(storage.open_fixed(path, end))
        _check_footer(source, path, int(wanted_length), wanted_hash)
    except FileNotFoundError as gone:
        raise CorruptIndexError(file=path, reason="it is missing") from gone
    except (ValueError, OSError) as damage:
        raise CorruptIndexError(file=path, reason=str(damage)) from damage
    return _parsed(source, path, None)


def _at_hand(source: pa.NativeFile) -> pa.NativeFile:
    """Return a stream of a file; a short file is loaded into memory, which saves a system call per column."""
    size = source.size()
    if size > _SHORT:
        return source
    with source:
        return pa.BufferReader(arrow_buffer([source.read_at(size, 0)]))


def reopen_index_file(storage: Storage, path: str, footer: pq.FileMetaData | None) -> ParquetFile:
    """Open a file of the index whose footer was checked before; the footer is not read again.

    Raises:
        CorruptIndexError: the file is missing or cannot be parsed.
        StorageError: the store refuses, as a busy one does.
    """
    try:
        source = storage.open_fixed(path)
    except FileNotFoundError as gone:
        raise CorruptIndexError(file=path, reason="it is missing") from gone
    return _parsed(source, path, footer)


def _parsed(source: pa.NativeFile, path: str, footer: pq.FileMetaData | None) -> ParquetFile:
    try:
        return ParquetFile(source, metadata=footer, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as damage:
        raise CorruptIndexError(file=path, reason=str(damage)) from damage


def _check_footer(source: pa.NativeFile, path: str, length: int, expected: str) -> None:
    size = source.size()
    if size < length + ENDS:
        raise CorruptIndexError(file=path, reason=f"it is truncated: {size} bytes")
    try:
        footer = read_footer(source)
    except ValueError:
        footer = b""
    if len(footer) != length:
        raise CorruptIndexError(file=path, reason="it is truncated or altered at its end")
    if hashlib.sha256(footer).hexdigest()[:16] != expected:
        raise CorruptIndexError(file=path, reason="its footer is not the one that was written")
