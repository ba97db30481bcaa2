"""Writing of segments: postings of some columns of one row space become one immutable file.

A posting is (column, key) and its positions in the row space (the rows of several files, numbered from 0): a
portable 32-bit Roaring bitmap for a dense key, the columns of `gaps` for a sparse key. Rows are sorted by
(column, key), NULL first. A lookup decodes one row group; `row_groups` says how rows are cut into them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import BrokenBitmapError
from tailbit.base.lazy import lazy
from tailbit.index.index_files import write_index_file, write_parquet
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
)
from tailbit.index.postings.paged_forms import stored
from tailbit.index.postings.row_groups import Owner, Shared, cut
from tailbit.tables.arrow import arrow_array, in_one
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    from tailbit.index.postings import written
else:
    written = lazy("tailbit.index.postings.written")


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
