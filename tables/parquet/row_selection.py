"""Columns at rows of row groups: by pages or by mask, whichever is estimated to cost less.

By pages, pyarrow decodes the pages that hold wanted rows, all rows of each; by mask, Polars decodes the
wanted rows of whole row groups, and does not even decompress pages without one. Few small pages are quicker
by pages. A first estimate uses only row groups and positions, so that pages need not be found if a mask is
quicker anyway; a second one uses the pages, if they were found.

Polars is told how values are stored, but not what they mean: except for decimals, the bytes that it returns
become Arrow arrays of the type that pyarrow would read, and `decode` converts them to the table's types as
for every reader. Columns of other types, and all columns if Polars fails, are left to pyarrow. Repeated and
nested columns are read as whole row groups, and so is a file whose pages cannot be determined or decoded:
that gives the values, or the error.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.base.errors import DataFileError, StorageError
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.assembly import (
    CHECKED,
    CODECS,
    MASK_LEAF,
    Assembly,
    failures,
    pick,
    polars,
    wanted_rows,
    written_leaf,
)
from tailbit.tables.parquet.data_file import (
    DataFile,
    field_of,
    file_in_memory,
    flat_column,
    may_be_coded,
    named_file,
    open_data_file,
    read_columns,
)
from tailbit.tables.parquet.decode import Decoder
from tailbit.tables.parquet.file import ParquetNode, plain_type
from tailbit.tables.parquet.layout import Chunk, Layout, Pages
from tailbit.tables.schema import arrow_type
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    from types import ModuleType

    import pyarrow.parquet as pq


class ReadMethod(enum.Enum):
    """A method of decoding wanted rows."""

    PAGES = "pages"
    """Decode the pages that hold wanted rows, with pyarrow."""

    MASK = "mask"
    """Decode the wanted rows of whole row groups, with Polars."""


# Seconds of CPU time, measured on lineitem; only their ratios matter.
_BY_BYTE = 0.8e-9
"""Extra cost of a decompressed byte if read by pages and not by mask."""
_BY_VALUE = 1.7e-9
"""Extra cost of a page's value if read by pages and not by mask."""
_BY_TESTED_VALUE = 0.5e-9
"""Extra cost of a stored value if tested by numpy and not by Polars."""
_BY_FILE = 1.0e-3
"""Cost of each further file that is read on its own."""
_BY_QUESTION = 1.0e-3
"""Cost of Polars's plan for a file minus that of opening an excerpt."""
_LOADING = 0.12
"""Cost of loading Polars: it is loaded once doing without it has cost as much."""
_BATCH = 16 << 20
"""Most decompressed bytes, as far as known, that are decoded at once by pages."""
_MASKED_BATCH = 64 << 20
"""Most decompressed bytes of the row groups that are decoded at once by mask."""
_PACKED_BATCH = 28 << 20
"""Most compressed bytes of such a batch: the C library maps blocks over 32 MiB anew each time."""
_BATCH_ROWS = 1 << 20
_FEW_PAGES, _FEW_COLUMNS = 8, 64
"""The most pages, and columns, of which the pages are found before a method is chosen."""
_PAGE = 20_000
"""Assumed rows per page before the pages are found; usual writers make such pages or smaller ones."""
_SAMPLED = 16
"""If many rows are wanted, one in 16 is sampled to estimate which pages are touched."""


_missed = 0.0
"""Seconds that this process would have saved so far by using Polars."""


class Group(NamedTuple):
    """A row group with wanted rows: row count, number of rows in pages that hold a wanted row, and bytes.

    `leaves`: how many columns of Parquet are read.
    """

    number: int
    rows_wanted: Longs
    rows: int
    touched: int
    leaves: int
    unpacked: int
    packed: int

    @property
    def cut(self) -> int:
        """Decompressed bytes of the pages to be read."""
        return self.unpacked * self.touched // self.rows

    @property
    def values(self) -> int:
        """Values of the pages to be read."""
        return self.leaves * self.touched


def planned(
    layout: Layout,
    path: str,
    columns: Sequence[Column],
    positions: npt.NDArray[np.uint64] | None,
    method: ReadMethod | None = None,
) -> tuple[ReadMethod | None, list[Group]]:
    """Return the row groups that hold wanted rows, and the method to read them.

    Method None means by pages, unless the pages turn out to be large. The argument `method`, if given, is
    used without an estimate.
    """
    leaves = tuple(leaf for column in columns for leaf in _leaves(layout, column, path))
    groups = [
        _measured(layout, leaves, *group_and_rows) for group_and_rows in _rows_by_group(layout, positions)
    ]
    if method is None and not _is_few(groups) and quicker_by_mask(*_sums(groups)):
        method = ReadMethod.MASK
    return method, groups


def load_for(files: Iterable[Sequence[Group]]) -> bool:
    """Load Polars if loading costs less than it saves for some files together; return whether it does.

    If it does, each file is planned anew: for one file alone, Polars was not worth loading.
    """
    many = [groups for groups in files if not _is_few(groups)]
    return quicker_by_mask(*_sums([group for groups in many for group in groups]), len(many))


def _is_few(groups: Sequence[Group]) -> bool:
    """Return whether a file's wanted pages are so few that they are found before a method is chosen."""
    touched = sum(group.touched for group in groups)
    return touched <= _FEW_PAGES * _PAGE and all(group.leaves <= _FEW_COLUMNS for group in groups)


def _sums(groups: Sequence[Group]) -> tuple[int, int]:
    return sum(group.cut for group in groups), sum(group.values for group in groups)


T = TypeVar("T")


def batched(
    files: Iterable[tuple[T, ReadMethod | None, Sequence[Group]]],
) -> Iterator[tuple[ReadMethod | None, list[tuple[T, Groups]]]]:
    """Yield batches of row groups that are read at once, of bounded size, with their method.

    By mask a batch may span several files, else it holds one file. T is the type of a file.
    """
    batch: _Batch[T] | None = None
    for file, method, groups in files:
        if batch and not method is batch.method is ReadMethod.MASK:
            yield batch.done()
            batch = None
        for number, group in enumerate(groups):
            if batch and not batch.takes(group):
                yield batch.done()
                batch = None
            batch = batch or _Batch(method)
            batch.add(file, group, anew=not number)
    if batch:
        yield batch.done()


class _Batch(Generic[T]):
    """A batch of row groups under construction."""

    def __init__(self, method: ReadMethod | None) -> None:
        self.method = method
        self._files: list[tuple[T, list[tuple[int, Longs]]]] = []
        self._size = self._packed = self._rows = 0

    def takes(self, group: Group) -> bool:
        """Return whether the batch has room for the group."""
        masked, (size, rows) = self.method is ReadMethod.MASK, self._counted(group)
        return (
            self._size + size <= (_MASKED_BATCH if masked else _BATCH)
            and self._rows + rows <= _BATCH_ROWS
            and (not masked or self._packed + group.packed <= _PACKED_BATCH)
        )

    def add(self, file: T, group: Group, anew: bool) -> None:
        """Add a row group; `anew`: it is the first one of its file."""
        if anew or not self._files:
            self._files.append((file, []))
        self._files[-1][1].append((group.number, group.rows_wanted))
        size, rows = self._counted(group)
        self._size, self._rows, self._packed = (
            self._size + size,
            self._rows + rows,
            self._packed + group.packed,
        )

    def done(self) -> tuple[ReadMethod | None, list[tuple[T, Groups]]]:
        """Return the method, and the row groups of each file."""
        return self.method, [(file, groups) for file, groups in self._files]

    def _counted(self, group: Group) -> tuple[int, int]:
        masked = self.method is ReadMethod.MASK
        return (group.unpacked, len(group.rows_wanted)) if masked else (group.cut, group.touched)


def quicker_by_mask(size: int, values: int, files: int = 1) -> bool:
    """Return whether pages of `size` decompressed bytes and `values` values are read more quickly by mask.

    `files`: the number of files that the pages are in. The mask needs Polars, which must be loaded already,
    or cost less to import than it saves.
    """
    saved = _saved(size, values) + (files - 1) * _BY_FILE
    return saved > _needed() and polars() is not None


def quicker_tested(size: int, values: int) -> bool:
    """Return whether Polars tests stored values more quickly than numpy; notes what is lost where it is not.

    `size`: decompressed bytes of the chunks; `values`: their values.
    """
    saved = size * _BY_BYTE + values * _BY_TESTED_VALUE - _BY_QUESTION
    if saved > _needed() and polars() is not None:
        return True
    _note(saved)
    return False


def in_many_pages(layout: Layout, positions: npt.NDArray[np.uint64]) -> bool:
    """Return whether the wanted rows are so dense that hardly any page is without one."""
    return bool(len(positions) * _PAGE > layout.starts[-1])


def note_pages(size: int, values: int) -> None:
    """Record the time lost by reading pages without Polars, in which a mask would have been quicker.

    Once the lost time exceeds the time that the import takes, `quicker_by_mask` allows Polars to be imported.
    `size`: decompressed bytes of the pages; `values`: number of values decoded.
    """
    _note(_saved(size, values))


def _note(lost: float) -> None:
    global _missed
    if _needed():
        _missed += max(0.0, lost)


def _saved(size: int, values: int) -> float:
    return size * _BY_BYTE + values * _BY_VALUE - _BY_QUESTION


def is_loaded() -> bool:
    """Return whether this process has imported Polars."""
    return "polars" in sys.modules


def _needed() -> float:
    return 0.0 if is_loaded() else max(0.0, _LOADING - _missed)


def _leaves(layout: Layout, column: Column, path: str) -> Sequence[int]:
    steps = field_of(layout, column, path)
    return steps[-1].leaves if steps else ()


def _rows_by_group(layout: Layout, positions: npt.NDArray[np.uint64] | None) -> Groups:
    starts = layout.starts
    if positions is None or len(positions) == starts[-1]:
        sizes = np.diff(starts).tolist()
        every = np.arange(max(sizes, default=0))
        return [(group, every[:size]) for group, size in enumerate(sizes) if size]
    rows = positions.view(np.int64)
    cuts = np.searchsorted(rows, starts)
    return [
        (group, rows[cuts[group] : cuts[group + 1]] - starts[group])
        for group in np.flatnonzero(np.diff(cuts)).tolist()
    ]


def _measured(layout: Layout, leaves: tuple[int, ...], group: int, rows: Longs) -> Group:
    total = int(layout.starts[group + 1] - layout.starts[group])
    touched = total
    if len(rows) < total:
        pages = rows[:: 1 if len(rows) < _PAGE else _SAMPLED] // _PAGE
        touched = min(total, _PAGE * (1 + int(np.count_nonzero(pages[1:] != pages[:-1]))))
    return Group(group, rows, total, touched, len(leaves), *_sizes(layout, group, leaves))


def _sizes(layout: Layout, group: int, leaves: tuple[int, ...]) -> tuple[int, int]:
    """Return the decompressed and compressed bytes of a row group's chunks, cached for the last leaves."""
    known_leaves, of = layout.derived.get(("sizes",), ((), {}))
    if known_leaves != leaves:
        of = {}
        layout.derived["sizes",] = leaves, of
    if group not in of:
        chunks = [layout.chunk(group, leaf) for leaf in leaves]
        of[group] = sum(chunk.unpacked for chunk in chunks), sum(chunk.packed for chunk in chunks)
    size: tuple[int, int] = of[group]
    return size


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


class FileRows(NamedTuple):
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


def _maskable(rows_of_file: FileRows, columns: Sequence[Column]) -> list[Masked]:
    """Return the columns that Polars decodes to the same values as pyarrow."""
    layout, path, groups = rows_of_file
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
    storage: Storage, files: Sequence[FileRows], columns: Sequence[Column]
) -> list[dict[str, pa.ChunkedArray]]:
    """Return for each part the columns at its wanted rows, by id, without those that Polars cannot read.

    Neighbouring parts that store the columns alike are decoded together, since each call costs some 2 ms.
    Memory: the compressed chunks, and the wanted rows twice.
    """
    library, out = polars(), list[dict[str, pa.ChunkedArray]]()
    maskable = [(file, _maskable(file, columns) if library else []) for file in files]
    for _, group in groupby(maskable, key=_stored_as):
        alike = list(group)
        decoded = _stored_columns(library, storage, alike) if library and alike[0][1] else None
        offset = 0
        for file, leaves in alike:
            out.append({})
            if decoded is not None:
                of = [values.slice(offset, file.rows) for values in decoded]
                out[-1] = {m.column.id: _decoded_leaf(file, m, v) for m, v in zip(leaves, of, strict=True)}
            offset += file.rows
    return out


def _stored_as(file_and_columns: tuple[FileRows, Sequence[Masked]]) -> list[tuple[str, bytes, pa.DataType]]:
    return [(leaf.column.id, leaf.written, leaf.type) for leaf in file_and_columns[1]]


def _stored_columns(
    library: ModuleType, storage: Storage, files: Sequence[tuple[FileRows, Sequence[Masked]]]
) -> list[pa.ChunkedArray] | None:
    """Return the columns in their stored form at the wanted rows of all parts; None if Polars fails."""
    rows, columns = sum(file.rows for file, _ in files), files[0][1]
    try:
        frame = wanted_rows(library, _assembled(storage, files))
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


def _decoded_leaf(file: FileRows, leaf: Masked, stored: pa.ChunkedArray) -> pa.ChunkedArray:
    decode = Decoder(file.layout.metadata, file.path, leaf.column.label)
    try:
        return pa.chunked_array([decode.array(chunk, leaf.column, leaf.node) for chunk in stored.chunks])
    except pa.ArrowException as wrong:
        raise DataFileError(file=file.path, reason=f"its columns cannot be decoded: {wrong}") from wrong


def _assembled(storage: Storage, files: Sequence[tuple[FileRows, Sequence[Masked]]]) -> bytes:
    """Assemble the row groups with a mask as one Parquet file."""
    out = Assembly()
    for (layout, path, groups), columns in files:
        sizes = np.diff(layout.starts).tolist()
        for place, (group, rows) in enumerate(groups):
            for leaf in columns:
                chunk = leaf.chunks[place]
                if chunk.values != sizes[group]:
                    raise ValueError(f"a chunk has {chunk.values} values in {sizes[group]} rows")
                out.add_chunk(chunk, path)
            out.add_mask(rows, sizes[group])
            out.end_row_group(sizes[group])
    return out.done(storage, [*(leaf.written for leaf in files[0][1]), MASK_LEAF])


_MANY = 8
"""If more than one row in 8 is wanted, filtering by a mask is quicker than taking row numbers."""


class Cut(NamedTuple):
    """A column that can be read by pages: its leaf, and the pages of each row group with wanted rows."""

    column: Column
    leaf: int
    pages: list[Pages]


class OpenFile(NamedTuple):
    """A data file to read rows from: its slice, and the layout with which the reads were planned."""

    slice: FileSlice
    layout: Layout


def read_picked(
    storage: Storage,
    files: Sequence[tuple[OpenFile, Groups]],
    columns: Sequence[Column],
    method: ReadMethod | None,
    threads: bool,
) -> list[pa.Table]:
    """Return for each part the columns (no partition columns), named by id, at the part's rows.

    `method`: the method that was planned. `threads`: whether columns may be decoded on several cores.
    """
    selections = [FileRows(file.layout, file.slice.path, groups) for file, groups in files]
    masked = read_masked(storage, selections, columns) if method is ReadMethod.MASK else [{} for _ in files]
    return [
        _completed(storage, file.slice, selection, columns, decoded, threads, method is None)
        for (file, _), selection, decoded in zip(files, selections, masked, strict=True)
    ]


def _completed(
    storage: Storage,
    slice_: FileSlice,
    selection: FileRows,
    columns: Sequence[Column],
    decoded: dict[str, pa.ChunkedArray],
    threads: bool,
    choose: bool,
) -> pa.Table:
    """Return the columns of a part: those not decoded by mask are read by pages, else by whole row groups.

    `choose`: whether large pages may still be read by mask.
    """
    layout, path, groups = selection
    rest = [column for column in columns if column.id not in decoded]
    if rest:
        with named_file(storage, path), storage.open(storage.resolve(path)) as source:
            cuts = _cuttable(layout, source, path, rest, groups)
            if choose and _by_mask(cuts, groups):
                decoded = read_masked(storage, [selection], rest)[0]
                cuts = [cut for cut in cuts if cut.column.id not in decoded]
            try:
                decoded = decoded | _excerpted(layout, source, path, cuts, groups, threads)
            except DataFileError:
                pass
        rest = [column for column in columns if column.id not in decoded]
    if rest:
        decoded = decoded | _by_row_groups(storage, slice_, layout, rest, groups)
    return pa.table({column.id: decoded[column.id] for column in columns})


def _by_row_groups(
    storage: Storage, slice_: FileSlice, layout: Layout, columns: Sequence[Column], groups: Groups
) -> dict[str, pa.ChunkedArray]:
    file = open_data_file(storage, slice_.path, slice_.size)
    numbers = [group for group, _ in groups]
    sizes = np.diff(layout.starts)[numbers]
    before = np.cumsum(sizes) - sizes
    rows_read = np.concatenate([rows + base for (_, rows), base in zip(groups, before.tolist(), strict=True)])
    table = _rows_of_table(read_columns(file, columns, numbers), rows_read)
    return {column.id: table[column.id] for column in columns}


def _cuttable(
    layout: Layout, source: pa.NativeFile, path: str, columns: Sequence[Column], groups: Groups
) -> list[Cut]:
    out = []
    for column in columns:
        steps = field_of(layout, column, path)
        if not steps or len(steps[-1].leaves) != 1 or steps[-1].children:
            continue
        leaf = steps[-1].first
        pages = [
            layout.pages(source, group, leaf)
            for group, _ in groups
            if layout.chunk(group, leaf).codec in CODECS
        ]
        cuts = [cut for cut in pages if cut is not None]
        if len(cuts) == len(groups):
            out.append(Cut(column, leaf, cuts))
    return out


def _by_mask(cuts: Sequence[Cut], groups: Groups) -> bool:
    """Return whether these pages are read more quickly by mask, from the exact sizes of the wanted pages."""
    size = values = 0
    for cut in cuts:
        for pages, (_, rows) in zip(cut.pages, groups, strict=True):
            numbers = pages.holding(rows)
            size += int(pages.unpacked[numbers].sum())
            size += 0 if pages.dictionary is None else pages.dictionary.unpacked
            values += int((pages.firsts[numbers + 1] - pages.firsts[numbers]).sum())
    quicker = quicker_by_mask(size, values)
    if not quicker:
        note_pages(size, values)
    return quicker


class _Excerpted(NamedTuple):
    """Columns whose pages hold the same rows, and the row groups of an excerpt that hold these pages.

    `places`: the wanted rows among the rows of the selected pages; None for all rows.
    """

    members: Sequence[Cut]
    at: Sequence[int]
    places: Longs | None


def _excerpted(
    layout: Layout, source: pa.NativeFile, path: str, cuts: Sequence[Cut], groups: Groups, threads: bool
) -> dict[str, pa.ChunkedArray]:
    """Read columns, by id, from an excerpt of their pages."""
    alike: dict[tuple[bytes, ...], list[Cut]] = {}
    for cut in cuts:
        alike.setdefault(tuple(pages.same_rows for pages in cut.pages), []).append(cut)
    if not cuts:
        return {}
    excerpt = Assembly(layout)
    excerpts: list[_Excerpted] = []
    coded: dict[str, str] = {}
    try:
        for members in alike.values():
            numbers, rows_in_pages = _selected_pages(members[0].pages, groups)
            group_numbers = list[int]()
            selected = [[pages.of(n) for pages, n in zip(cut.pages, numbers, strict=True)] for cut in members]
            for cut, pages in zip(members, selected, strict=True):
                if may_be_coded(cut.column) and all(map(_are_codes, pages)):
                    coded[cut.column.id] = layout.metadata.schema.column(cut.leaf).path
            for order, (group, _) in enumerate(groups):
                for cut, pages in zip(members, selected, strict=True):
                    excerpt.add_pages(layout.chunk(group, cut.leaf), pages[order], path, cut.leaf)
                group_numbers.append(excerpt.end_row_group(int(selected[0][order].firsts[-1])))
            excerpts.append(_Excerpted(members, group_numbers, rows_in_pages))
        file = file_in_memory(excerpt.excerpt(source), path, layout.tree, coded)
    except (pa.ArrowException, OSError, ValueError, KeyError) as wrong:
        raise DataFileError(file=path, reason=f"its pages cannot be read: {wrong}") from wrong
    return _decoded_pages(file, excerpts, threads)


def _are_codes(pages: Pages) -> bool:
    """Return whether pages hold only codes, of a dictionary with fewer bytes than the pages have rows."""
    dictionary = pages.dictionary
    return dictionary is not None and bool(pages.coded.all()) and dictionary.unpacked < int(pages.firsts[-1])


def _selected_pages(pages: Sequence[Pages], groups: Groups) -> tuple[Sequence[Longs], Longs | None]:
    """Return pages and places as `pick` does; the places are None if all rows are wanted."""
    if all(len(rows) == of.firsts[-1] for of, (_, rows) in zip(pages, groups, strict=True)):
        return [np.arange(len(of.starts)) for of in pages], None
    return pick(pages, [rows for _, rows in groups])


def _decoded_pages(
    file: DataFile, excerpts: Sequence[_Excerpted], threads: bool
) -> dict[str, pa.ChunkedArray]:
    out: dict[str, pa.ChunkedArray] = {}
    for members, group_numbers, rows_in_pages in excerpts:
        whole = read_columns(file, [cut.column for cut in members], group_numbers, threads)
        table = whole if rows_in_pages is None else _rows_of_table(whole, rows_in_pages)
        out |= {cut.column.id: _plain(table[cut.column.id], cut.column) for cut in members}
    return out


def _plain(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    if pa.types.is_dictionary(values.type):
        return pc.cast(values, arrow_type(column.type, column.label))
    return values


def _rows_of_table(table: pa.Table, row_numbers: Longs) -> pa.Table:
    """Take the rows at ascending places; nested arrays get offset 0, which DuckDB and delta-rs need."""
    n, rows = len(row_numbers), table.num_rows
    if n == rows:
        return table
    nested = any(pa.types.is_nested(column) for column in table.schema.types)
    if n and int(row_numbers[-1] - row_numbers[0]) + 1 == n and not nested:
        return table.slice(int(row_numbers[0]), n)
    if n * _MANY > rows:
        mask = np.zeros(rows, bool)
        mask[row_numbers] = True
        return pc.filter(table, arrow_array(mask))
    return pc.take(table, arrow_array(row_numbers))
