"""A Parquet file is opened only if its footer agrees with itself and with the file.

No checksum covers a footer, and one flipped bit in a field's name would silently turn a column into NULLs. A
footer states most facts twice: names in the schema and in every column chunk, row counts in the file, in its
row groups and in their chunks, and chunk offsets that must not overlap. If two of them differ, the file is
damaged. pyarrow aborts the process when Python inspects a damaged column chunk before a read has accepted the
chunk, so names are searched in the footer's bytes, and chunks are inspected only after they are read.
Columns are selected by the numbers of their leaves: dotted names are ambiguous if names hold dots. Source:
Parquet format, FileMetaData; Thrift compact protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa
from pyarrow._parquet import ParquetReader

from tailbit.tables.cache import Cache
from tailbit.tables.parquet.thrift import read_struct, written_text, written_texts

if TYPE_CHECKING:
    import pyarrow.parquet as pq
    from typing_extensions import Self


class ParquetNode(NamedTuple):
    """A field, its leaves `first` to `end` (excluded), and the fields inside it."""

    field: pa.Field
    first: int
    end: int
    children: tuple[ParquetNode, ...]

    @property
    def leaves(self) -> range:
        """The numbers of the field's leaf columns."""
        return range(self.first, self.end)

    def child(self, name: str) -> ParquetNode | None:
        """Return the inner field of exactly this name, or None."""
        return next((c for c in self.children if c.field.name == name), None)


def parquet_tree(schema: pa.Schema, leaves: int) -> ParquetNode:
    """Return the fields of a file with `leaves` leaf columns as one tree whose root stands for a row.

    Raises:
        ValueError: the Arrow schema stored in the file does not match its columns.
    """
    root = _node(pa.field("", pa.struct(list(schema))), 0)
    if root.end != leaves:
        raise ValueError(f"{leaves} columns, but its schema has {root.end}")
    return root


def _node(field: pa.Field, first: int) -> ParquetNode:
    children: list[ParquetNode] = []
    leaf = first
    for inner in _inner(field.type):
        children.append(_node(inner, leaf))
        leaf = children[-1].end
    return ParquetNode(field, first, leaf if children else first + 1, tuple(children))


def _inner(type_: pa.DataType) -> list[pa.Field]:
    if isinstance(type_, pa.BaseExtensionType):
        return _inner(type_.storage_type)
    if pa.types.is_struct(type_):
        return [type_.field(i) for i in range(type_.num_fields)]
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        return [type_.value_field]
    return []


def plain_type(type_: pa.DataType) -> pa.DataType:
    """Return the plain text or binary type of a dictionary, large or view type in a file's schema."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if type_ in (pa.large_string(), pa.string_view()):
        return pa.string()
    return pa.binary() if type_ in (pa.large_binary(), pa.binary_view()) else type_


MAGIC = b"PAR1"
_ENCRYPTED = b"PARE"
_ALGORITHM = 8
"""The field of a footer that says how columns are encrypted."""
_TAIL = 8
ENDS = len(MAGIC) + _TAIL
"""Bytes of a Parquet file around its data and footer: `PAR1` first, a length and `PAR1` last."""

LARGEST_FOOTER = 1 << 30
"""Size limit of a footer in bytes: ten thousand columns in a thousand row groups take less."""

_LEAST_LIMIT = 1000
_ROW_GROUPS_FIELD = 4
_NO_CODECS = frozenset(bytes([0x15, n, 0x16]) for n in range(1 << 7) if n % 2 or n > 14)
"""Bytes between a chunk's name and its size that are no codec: pyarrow aborts the process on these."""


class EncryptedParquet(ValueError):
    """An error for a Parquet file whose footer or columns are encrypted."""


class ParquetFile:
    """A Parquet file whose pages Arrow's threads fetch and decode only if the source is not read by Python.

    Such a thread may hold the last reference to a buffer. If that buffer is a Python object and the
    interpreter is shutting down, the process aborts with "terminate called ...". So a `pa.BufferReader` must
    read an `arrow_buffer`. This class replaces pyarrow's own, since `pyarrow.parquet` imports every file
    system: 0.02 s. `options` are those of pyarrow's `ParquetReader.open`.
    """

    def __init__(self, source: pa.NativeFile, **options: Any) -> None:
        self.threaded = not isinstance(source, pa.PythonFile)
        ahead = self.threaded and not isinstance(source, pa.BufferReader)
        self.reader = ParquetReader()
        self.reader.open(source, pre_buffer=ahead, arrow_extensions_enabled=True, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the source."""
        self.reader.close()

    @property
    def metadata(self) -> pq.FileMetaData:
        """Return the footer."""
        return self.reader.metadata

    @property
    def schema_arrow(self) -> pa.Schema:
        """Return the fields of the file in Arrow's types."""
        return self.reader.schema_arrow

    def read(self, columns: Sequence[str] | None = None, use_threads: bool = True) -> pa.Table:
        """Return all rows of the given columns, or of all columns."""
        return self.read_row_groups(range(self.metadata.num_row_groups), columns, use_threads)

    def read_row_group(self, number: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of one row group."""
        return self.read_row_groups([number], columns)

    def read_row_groups(
        self, numbers: Sequence[int], columns: Sequence[str] | None = None, use_threads: bool = True
    ) -> pa.Table:
        """Return the rows of the given row groups."""
        leaves, threads = self._leaves_of(columns), use_threads and self.threaded
        read = partial(self.reader.read_row_groups, column_indices=leaves, use_threads=threads)
        return self.in_order(numbers, columns, read)

    def in_order(
        self, numbers: Sequence[int], columns: Sequence[object] | None, read: Callable[[list[int]], pa.Table]
    ) -> pa.Table:
        """Read row groups with `read`, which takes their numbers; one by one if Python reads the file.

        Given all row groups at once, Arrow reads the file column by column, and nothing could be fetched
        ahead. Without any column, only a single call returns the right number of rows.
        """
        if self.threaded or not numbers or (columns is not None and not columns):
            return read(list(numbers))
        return pa.concat_tables([read([number]) for number in numbers])

    def _leaves_of(self, columns: Sequence[str] | None) -> list[int] | None:
        """Return the leaves of columns, which may be nested fields joined by dots; None for all columns."""
        if columns is None:
            return None
        paths = [".".join(steps) + "." for steps in self.reader.column_paths]
        return [leaf for name in columns for leaf, path in enumerate(paths) if path.startswith(f"{name}.")]


def arrow_buffer(pieces: Sequence[bytes | memoryview]) -> pa.Buffer:
    """Concatenate bytes into one buffer in Arrow's own memory, which Arrow's threads may read as a file."""
    buffer = pa.allocate_buffer(sum(map(len, pieces)))
    with pa.FixedSizeBufferWriter(buffer) as out:
        for piece in pieces:
            out.write(piece)
    return buffer


File = TypeVar("File", bound=ParquetFile)


def open_parquet(source: pa.NativeFile, **options: Any) -> ParquetFile:
    """Open the Parquet file in `source`, after checking its footer.

    No list or text of the footer may be longer than the footer, so a wrong length cannot exhaust the memory.
    Cost: one pass over the footer's bytes, in addition to pyarrow's own.

    Raises:
        ValueError: the source is not a Parquet file, or its footer contradicts itself.
        pyarrow.ArrowException, OSError: the footer cannot be parsed.
    """
    return open_shaped(source, ParquetFile, **options)[0]


def open_shaped(source: pa.NativeFile, kind: type[File], **options: Any) -> tuple[File, Shape]:
    """Open a Parquet file as `open_parquet` does, as an object of class `kind`; return it with its shape."""
    footer = read_footer(source)
    limit = max(len(footer), _LEAST_LIMIT)
    file: File = kind(source, thrift_string_size_limit=limit, thrift_container_size_limit=limit, **options)
    _check_is_plain(file.metadata, footer)
    _check_rows(file.metadata)
    shape = _shape_of(file, footer)
    _check_names(file.metadata, shape, footer)
    return file, shape


class Shape(NamedTuple):
    """The part of a footer that files of one schema share.

    `head`: the bytes that hold version and schema. `tree`: the file's fields. `names`: for each leaf whose
    path is certain, the path and the bytes by which a column chunk names it. `schema_end`: the offset of the
    last leaf's name.
    """

    head: bytes
    tree: ParquetNode
    names: Sequence[tuple[str, bytes]]
    schema_end: int


_SHAPES: Cache[tuple[bytes, tuple[tuple[bytes, bytes], ...]], Shape] = Cache(4 << 20)
"""Shapes by the first bytes of a footer and its key-value metadata, which includes Arrow's own schema."""
_HEADS: Cache[bytes, bytes] = Cache(64)
"""Heads by their first bytes."""
CACHES = (_SHAPES, _HEADS)
"""The caches of footer shapes."""
_FIRST = 64


def _shape_of(file: ParquetFile, footer: bytes) -> Shape:
    """Return the shape of a file. Cost: a few comparisons if a file of this shape was opened before."""
    head = _HEADS.cached(footer[:_FIRST])
    if head is None or not footer.startswith(head):
        _, end = read_struct(footer, 0, until=_ROW_GROUPS_FIELD - 1)
        head = footer[: end + 1]
        if head[-1] >> 4:
            _HEADS.forget(lambda first: first == footer[:_FIRST])
            _HEADS.hold(footer[:_FIRST], head)
    texts = tuple(sorted((file.metadata.metadata or {}).items()))

    def load() -> tuple[Shape, int]:
        tree = parquet_tree(file.schema_arrow, file.metadata.num_columns)
        steps = [steps for field in tree.children for steps in _names(file.metadata.schema, field, ())]
        names = [(".".join(path), written_texts(path)) for path in steps]
        shape = Shape(head[:-1], tree, names, _behind_schema(file.metadata.schema, footer))
        return shape, 8 * len(head)

    return _SHAPES.get((head, texts), load)


def read_footer(source: pa.NativeFile) -> bytes:
    """Return the bytes of a file's footer.

    Raises:
        EncryptedParquet: the footer is encrypted.
        ValueError: the source is not a Parquet file, or its footer is larger than `LARGEST_FOOTER`.
    """
    size = source.size()
    tail = source.read_at(_TAIL, max(size - _TAIL, 0))
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] == _ENCRYPTED:
        raise EncryptedParquet("its footer is encrypted")
    if tail[4:] != MAGIC or length > size - ENDS:
        raise ValueError("it has no Parquet footer")
    if length > LARGEST_FOOTER:
        raise ValueError(f"its footer has {length} bytes, and at most {LARGEST_FOOTER} are read")
    return bytes(source.read_at(length, size - _TAIL - length))


def _check_is_plain(metadata: pq.FileMetaData, footer: bytes) -> None:
    """Check that no column is encrypted: pyarrow aborts the process if such a column is read.

    If columns are encrypted but the footer is not, a signature follows the metadata in the footer.
    """
    if metadata.serialized_size != len(footer) and _ALGORITHM in read_struct(footer, 0)[0]:
        raise EncryptedParquet("its columns are encrypted")


def _check_rows(metadata: pq.FileMetaData) -> None:
    counts = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    if min(counts, default=0) < 0 or sum(counts) != metadata.num_rows:
        raise ValueError(f"its row groups have {sum(counts)} rows, its footer says {metadata.num_rows}")


def _check_names(metadata: pq.FileMetaData, shape: Shape, footer: bytes) -> None:
    """Check that the footer names the columns of every row group as its schema does, in order."""
    offset, find = shape.schema_end, footer.find
    for group in range(metadata.num_row_groups):
        for name, text in shape.names:
            offset = find(text, offset) + len(text)
            if offset < len(text):
                raise ValueError(f"column {name!r} of its schema is not in row group {group}")
            if footer[offset : offset + 3] in _NO_CODECS:
                raise ValueError(f"column {name!r} has no known codec in row group {group}")


def _behind_schema(schema: pq.ParquetSchema, footer: bytes) -> int:
    """Return the offset of the last leaf's name in a footer's schema: the row groups come after it."""
    offset = 0
    for leaf in range(len(schema)):
        offset = footer.find(written_text(schema.column(leaf).name.encode()), offset) + 1
    return offset


def _names(schema: pq.ParquetSchema, node: ParquetNode, above: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the path of each leaf of a field as parts; a part may itself hold dots.

    Lists and maps have path parts that Arrow does not know; if names below them hold dots, the parts are
    ambiguous and the leaves are left out.
    """
    here = (*above, node.field.name)
    if not node.children:
        yield here
    elif pa.types.is_struct(node.field.type):
        for child in node.children:
            yield from _names(schema, child, here)
    elif not any(_dotted(child) for child in node.children):
        length = len(".".join(here)) + 1
        for leaf in node.leaves:
            rest = schema.column(leaf).path[length:]
            yield (*here, *rest.split(".")) if rest else here


def _dotted(node: ParquetNode) -> bool:
    return "." in node.field.name or any(_dotted(child) for child in node.children)


def read_leaves(
    file: ParquetFile, leaves: Sequence[int], row_groups: Sequence[int] | None, use_threads: bool
) -> pa.Table:
    """Read leaf columns of row groups (None: all), nested as in the file.

    Raises:
        ValueError: a chunk does not have a value for every row, or overlaps another chunk.
        pyarrow.ArrowException, OSError: a page cannot be decoded.
    """
    groups = list(range(file.metadata.num_row_groups)) if row_groups is None else list(row_groups)
    threads = use_threads and file.threaded
    read = partial(file.reader.read_row_groups, column_indices=list(leaves), use_threads=threads)
    table = file.in_order(groups, leaves, read)
    check_chunks(file.metadata, groups, leaves)
    rows = sum(file.metadata.row_group(group).num_rows for group in groups)
    if leaves and table.num_rows != rows:
        raise ValueError(f"{table.num_rows} rows can be read of {rows}")
    return table


def check_chunks(metadata: pq.FileMetaData, groups: Iterable[int], leaves: Sequence[int]) -> None:
    """Check the value counts and offsets of chunks already read. Cost: about a microsecond per chunk."""
    repeated = [metadata.schema.column(leaf).max_repetition_level > 0 for leaf in leaves]
    spans = []
    for number in groups:
        group = metadata.row_group(number)
        for leaf, many in zip(leaves, repeated, strict=True):
            chunk = group.column(leaf)
            values, rows = chunk.num_values, group.num_rows
            if values < rows or (values > rows and not many):
                raise ValueError(f"column {chunk.path_in_schema!r} has {values} values in {rows} rows")
            if values:
                spans.append(_span(chunk))
    _check_spans(spans)


def _span(chunk: pq.ColumnChunkMetaData) -> tuple[int, int]:
    """Return the start and end of a chunk; its dictionary page, if any, comes before its data pages."""
    start, dictionary = chunk.data_page_offset, chunk.dictionary_page_offset
    start = min(start, dictionary) if dictionary else start
    return start, start + chunk.total_compressed_size


def _check_spans(spans: list[tuple[int, int]]) -> None:
    before = len(MAGIC)
    for start, end in sorted(spans):
        if start < before or end < start:
            raise ValueError(f"a column chunk starts at byte {start}, inside of another")
        before = end
