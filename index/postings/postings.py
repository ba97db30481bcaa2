"""Writing of segments: postings of some columns of one row space become one immutable file.

A posting is (column, key) and its positions in the row space (the rows of several files, numbered from 0): a
portable 32-bit Roaring bitmap for a dense key, the columns of `gaps` for a sparse key. Rows are sorted by
(column, key), NULL first. A lookup decodes one row group.

A row group holds at most GROUP_ROWS keys and about GROUP_BYTES of postings, at four bytes per position of
sparse keys. Columns with many postings have row groups of their own, whose statistics name the column and a
range of keys. A row group costs half a millisecond and a kilobyte whatever it holds, so neighbouring columns
of few postings may share one; the file's metadata then says which rows belong to which column.

Worked example: bytes of postings, with at most 256 KiB in a shared row group.

    column         a     b     c          d     e
    bytes          2 K   9 K   3 M        1 K   1 K
    row groups     a b         c c c      d e
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import BrokenBitmapError
from tailbit.base.lazy import lazy
from tailbit.index.index_files import GROUP_BYTES, GROUP_ROWS, write_index_file, write_parquet
from tailbit.index.model import IndexFile
from tailbit.index.postings import gaps
from tailbit.index.postings.layout import (
    NAME,
    NUMBER,
    PACKED_SCHEMA,
    PAGE_ROWS,
    PAGED_GROUP_ROWS,
    PAGED_SCHEMA,
    ROWS,
    SCHEMA,
    SHARED,
    Section,
)
from tailbit.index.postings.paged_forms import stored
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, filled, in_one, numpy_of
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    from tailbit.index.postings import written
else:
    written = lazy("tailbit.index.postings.written")


Shared = dict[str, str]
"""A file's metadata about shared row groups: empty, or JSON under the name SHARED."""

POSITION_BYTES = 4
"""Bytes that a position of a sparse key counts towards the size of a row group."""

FEW_BYTES = 1 << 16
"""A column with this many bytes of keys and postings, or more, has row groups of its own."""

SHARED_BYTES = 1 << 18
"""Bytes of keys and postings in a shared row group, at most: a fraction of a millisecond to decode."""


class Owner(NamedTuple):
    """A column, the key type of its postings, and how many consecutive keys are its own."""

    column: str
    key_type: str
    keys: int


@dataclass(frozen=True)
class Postings:
    """All postings of one column of one row space, or a part of them in ascending order.

    `keys`: sorted, the null entry (NULL) first. `cardinality`: int64, the number of set positions. `bitmaps`:
    portable, serialized; null for a sparse key. `sparse`: the columns `gaps.SCHEMA`, null for a dense key;
    None if all keys are dense.
    """

    column: str
    key_type: str
    keys: pa.BinaryArray
    cardinality: npt.NDArray[np.int64]
    bitmaps: pa.BinaryArray
    sparse: pa.Table | None = None

    @property
    def owners(self) -> tuple[Owner, ...]:
        """Return the column as the only owner of the keys."""
        return (Owner(self.column, self.key_type, len(self.keys)),)


@dataclass(frozen=True)
class JointPostings:
    """All postings of several columns of one row space, one column after the other, as in `Postings`.

    `owners`: the columns, ascending, each with its number of keys.
    """

    owners: tuple[Owner, ...]
    keys: pa.BinaryArray
    cardinality: npt.NDArray[np.int64]
    bitmaps: pa.BinaryArray
    sparse: pa.Table | None = None


AnyPostings = Postings | JointPostings


def write_segment(
    storage: Storage, space: str, rows: int, postings: Iterable[AnyPostings], share: bool = False
) -> IndexFile:
    """Write postings, which come in ascending order of column and key, as one file.

    `rows`: the row count of the row space. The file's metadata holds the number, and bitmaps are checked
    against it when written and when read. `share`: columns of few postings have row groups together, which
    an index of an older format must not have. Memory: one of the postings and a row group at a time.
    """
    return write_index_file(storage, NAME, space, lambda to: encode_segment(to, space, rows, postings, share))


def write_paged_segment(
    storage: Storage, space: str, rows: int, postings: Iterable[AnyPostings], packs: bool
) -> IndexFile:
    """Write postings of record keys as `write_segment` does, in small pages and the forms of `paged_forms`.

    `packs`: whether UUIDs are stored as sixteen bytes, which an index of an older format must not have.
    """
    schema = (PACKED_SCHEMA if packs else PAGED_SCHEMA).with_metadata({ROWS: str(rows)})
    checked = (_checked(space, chunk, rows) for chunk in postings)
    tables = ((chunk.owners, _table(space, chunk, SCHEMA)) for chunk in checked)
    groups = (stored(group, packs) for group in cut(tables, None, PAGED_GROUP_ROWS))

    def write(to: pa.NativeFile) -> None:
        write_parquet(to, schema, groups, encodings=_PAGED_ENCODINGS, page_rows=PAGE_ROWS)

    return write_index_file(storage, NAME, space, write)


_PAGED_ENCODINGS = {
    **gaps.ENCODINGS,
    "cardinality": "DELTA_BINARY_PACKED",
    NUMBER: "DELTA_BINARY_PACKED",
}
"""Encodings without a dictionary, since single pages are read, and a dictionary is another page."""


def encode_segment(
    to: pa.NativeFile, space: str, rows: int, postings: Iterable[AnyPostings], share: bool = False
) -> None:
    """Write the bytes of a segment into a sink; see `write_segment`."""
    schema = SCHEMA.with_metadata({ROWS: str(rows)})
    checked = (_checked(space, chunk, rows) for chunk in postings)
    tables = ((chunk.owners, _table(space, chunk, schema)) for chunk in checked)
    shared: Shared = {}
    write_row_groups(to, schema, cut(tables, shared if share else None), shared)


def write_row_groups(
    to: pa.NativeFile, schema: pa.Schema, groups: Iterable[pa.Table], metadata: Shared | None = None
) -> None:
    """Write row groups of a segment as they are, without cutting them again.

    `metadata`: read when all row groups are written.
    """
    write_parquet(to, schema, groups, encodings=gaps.ENCODINGS, metadata=metadata)


def _checked(space: str, chunk: AnyPostings, rows: int) -> AnyPostings:
    cardinality = np.asarray(chunk.cardinality, dtype=np.int64)
    bitmaps = in_one(chunk.bitmaps)
    sparse = chunk.sparse or gaps.none(len(bitmaps))
    column = chunk.owners[0].column
    try:
        written.check_bitmaps(space, column, cardinality, bitmaps, rows)
        written.check_sparse(space, column, gaps.Gaps.of(sparse, cardinality, rows), bitmaps)
    except BrokenBitmapError as broken:
        if len(chunk.owners) == 1:
            raise
        raise _named(broken, chunk.owners) from broken
    return replace(chunk, cardinality=cardinality, bitmaps=bitmaps, sparse=sparse)


def _named(broken: BrokenBitmapError, owners: tuple[Owner, ...]) -> BrokenBitmapError:
    """Return the error with the column of the broken bitmap, and with its number within that column."""
    number = int(str(broken.fields["number"]))
    ends = accumulate(owner.keys for owner in owners)
    owner, end = next((owner, end) for owner, end in zip(owners, ends, strict=True) if number < end)
    own = {"column": owner.column, "number": number - end + owner.keys}
    return BrokenBitmapError(**{**broken.fields, **own})


def _table(space: str, chunk: AnyPostings, schema: pa.Schema) -> pa.Table:
    n = len(chunk.keys)
    columns = _repeated((owner.column, owner.keys) for owner in chunk.owners)
    key_types = _repeated((owner.key_type, owner.keys) for owner in chunk.owners)
    cardinality = arrow_array(chunk.cardinality, pa.int64())
    sparse = chunk.sparse or gaps.none(n)
    rows = [in_one(chunk.keys), cardinality, chunk.bitmaps, *sparse.columns]
    return pa.table([pa.repeat(space, n), columns, key_types, *rows], schema=schema)


def _repeated(texts: Iterable[tuple[str, int]]) -> pa.StringArray:
    return pa.concat_arrays([pa.repeat(text, many) for text, many in texts])


@dataclass(frozen=True, eq=False)
class _Rows:
    """A table of postings, with running sums per row: each has one entry more than rows and begins with 0."""

    table: pa.Table
    bytes: Longs
    keys: Longs
    sparse: Longs
    positions: Longs

    @classmethod
    def of(cls, table: pa.Table) -> _Rows:
        is_sparse = numpy_of(pc.is_valid(table[gaps.FIRST]))
        positions = np.where(is_sparse, numpy_of(table["cardinality"]), 0)
        bitmaps = numpy_of(filled(pc.binary_length(table["bitmap"]), 0), dtype=np.int64)
        keys = numpy_of(filled(pc.binary_length(table["key"]), 0), dtype=np.int64)
        return cls(table, *map(_sums, (bitmaps + POSITION_BYTES * positions, keys, is_sparse, positions)))

    def cut(self, low: int, high: int, group_rows: int) -> Iterator[tuple[int, int]]:
        """Cut rows into row groups of at most `group_rows` rows and GROUP_BYTES, or of one larger posting."""
        while low < high:
            most = int(self.bytes[low]) + GROUP_BYTES
            end = int(np.searchsorted(self.bytes, most, side="right")) - 1
            end = min(max(end, low + 1), low + group_rows, high)
            yield low, end
            low = end


@dataclass(frozen=True, eq=False)
class _Piece:
    """Rows `[low, high)` of one column, at most a row group."""

    rows: _Rows
    owner: Owner
    low: int
    high: int

    @property
    def size(self) -> int:
        """Return the bytes of keys and postings."""
        return sum(int(sums[self.high] - sums[self.low]) for sums in (self.rows.bytes, self.rows.keys))

    @property
    def table(self) -> pa.Table:
        """Return the rows."""
        return self.rows.table.slice(self.low, self.high - self.low)

    def section(self) -> Section:
        """Return the entry of these rows in the file's metadata, for a shared row group."""
        own, low, high = self.rows, self.low, self.high
        sparse, positions = (int(sums[high] - sums[low]) for sums in (own.sparse, own.positions))
        keys = own.table["key"]
        first = low if keys[low].is_valid else low + 1
        ends = (keys[first].as_py(), keys[high - 1].as_py()) if first < high else (None, None)
        return Section(self.owner[0], self.owner[1], high - low, sparse, positions, self.size, *ends)


def _sums(numbers: np.ndarray[Any, Any]) -> Longs:
    return np.concatenate([[0], np.cumsum(numbers, dtype=np.int64)])


def cut(
    tables: Iterable[tuple[Sequence[Owner], pa.Table]], shared: Shared | None, group_rows: int = GROUP_ROWS
) -> Iterator[pa.Table]:
    """Cut postings, in ascending order, into row groups of at most `group_rows` keys.

    `shared`: once all row groups are yielded, holds the file's metadata about those that columns of few
    postings share; if None, each row group holds one column.
    """
    sections: dict[str, list[list[Any]]] = {}
    for number, pieces in enumerate(_in_row_groups(_pieces(tables, group_rows), shared is not None)):
        if len(pieces) > 1:
            sections[str(number)] = [_written(piece.section()) for piece in pieces]
        yield _table_of(pieces)
    if sections and shared is not None:
        shared[SHARED] = json.dumps(sections, separators=(",", ":"))


def _written(section: Section) -> list[Any]:
    keys = [None if key is None else b64encode(key).decode() for key in section[-2:]]
    return [*section[:-2], *keys]


def _pieces(tables: Iterable[tuple[Sequence[Owner], pa.Table]], group_rows: int) -> Iterator[_Piece]:
    """Cut the postings of each column into pieces as full as the limits allow."""
    pending: _Piece | None = None
    for owners, table in tables:
        if pending is not None and len(owners) == 1 and pending.owner[:2] == owners[0][:2]:
            table = pa.concat_tables([pending.table, table])
            owners = [Owner(*owners[0][:2], len(table))]
        elif pending is not None:
            yield pending
        pending, rows, low = None, _Rows.of(table), 0
        for owner in owners:
            for a, b in rows.cut(low, low + owner.keys, group_rows):
                if pending is not None:
                    yield pending
                pending = _Piece(rows, owner, a, b)
            low += owner.keys
    if pending is not None:
        yield pending


def _in_row_groups(pieces: Iterable[_Piece], share: bool) -> Iterator[list[_Piece]]:
    """Yield the pieces of each row group; with `share`, small neighbouring pieces are in one."""
    waiting: list[_Piece] = []
    size = 0
    for piece in pieces:
        few = share and piece.size < FEW_BYTES
        if waiting and (not few or size + piece.size > SHARED_BYTES):
            yield waiting
            waiting, size = [], 0
        if few:
            waiting.append(piece)
            size += piece.size
        else:
            yield [piece]
    if waiting:
        yield waiting


def _table_of(pieces: Sequence[_Piece]) -> pa.Table:
    """Return the rows of a row group. Neighbouring pieces of one table are not copied one by one."""
    tables = []
    for _, some in groupby(pieces, key=lambda piece: id(piece.rows)):
        own = list(some)
        tables.append(own[0].rows.table.slice(own[0].low, own[-1].high - own[0].low))
    return pa.concat_tables(tables).combine_chunks()
