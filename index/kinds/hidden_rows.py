"""Kind `hidden_rows`: the rows hidden under one identity, as by a deletion vector; equal ids hide equal rows.

Files are sorted by id. Row-group statistics select the row groups to read; no others are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.errors import CorruptIndexError, HiddenRowsError, SourceError
from tailbit.index.index_files import GROUP_BYTES, GROUP_ROWS, aligned, open_index_file, sort
from tailbit.index.kinds.files import FILES
from tailbit.index.kinds.kind import (
    Blame,
    CheckedSource,
    Kind,
    Merged,
    MergeGroup,
    Problem,
    View,
    reading,
    row_groups,
)
from tailbit.index.model import IndexFile
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, numpy_of
from tailbit.tables.cache import Cache, share
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    import pyarrow.parquet as pq


_IDENTITIES: Cache[tuple[str, str, int], dict[str, bytes]] = Cache(share(1 / 64))
"""Serialized bitmaps of hidden rows that this process has read, by root of the index, file and row group."""

_OTHERS = "the rows in the index are not those that the source hides"


class HiddenRowsKind(Kind["KnownHiddenRows"]):
    """Kind with one row per set of hidden rows, such as a deletion vector: its id, cardinality and bitmap."""

    name: ClassVar[str] = "hidden_rows"
    schema: ClassVar[pa.Schema] = pa.schema(
        [("id", pa.string()), ("cardinality", pa.int64()), ("bitmap", pa.binary())]
    )
    sorted_by: ClassVar[tuple[str, ...]] = ("id",)

    def reader(self, view: View) -> KnownHiddenRows:
        """Return the reader of hidden rows by identity."""
        return KnownHiddenRows(view)

    def renewed(
        self, reader: KnownHiddenRows, view: View, added: Sequence[IndexFile], removed: Sequence[str]
    ) -> KnownHiddenRows:
        """Return the same reader, without the footers of removed files."""
        reader.forget(removed)
        return reader

    def merge(self, view: View, group: MergeGroup, earliest: int | None) -> Merged:
        """Write one row per identity.

        Merges above the lowest size class keep only identities in use; the source still has all others.
        """
        in_use = None if group.size_class == 0 else view.reader(FILES).identities()
        current = None if in_use is None else arrow_array(list(in_use), pa.string())
        forgotten: set[str] = set()
        inputs = [self.batches(view.storage, path) for path in group.inputs]
        batches = (_distinct(rows, current, forgotten) for rows in aligned(inputs, self.sorted_by))
        written = self.write_stream(view.storage, batches)
        return Merged(tuple(written), forgotten=frozenset(forgotten))

    def in_use(self, view: View) -> Iterable[str]:
        """Return the identities in use; a restore of the source may bring identities back into use."""
        return view.reader(FILES).identities()

    def check(self, view: View, source: CheckedSource) -> Iterator[Problem]:
        """Yield the hidden rows of the index that differ from those of the source.

        Hidden rows whose file is gone from an older version are skipped.
        """
        stored = view.reader(self)
        for identity, rows in source.hidden.items():
            where = f"hidden rows {identity}"
            try:
                known_rows = stored.get(identity)
                if known_rows is not None and known_rows != rows():
                    yield Problem(where, _OTHERS, Blame.HIDDEN)
            except CorruptIndexError as damage:
                yield Problem.of(damage)
            except HiddenRowsError as unreadable:
                if source.at_head or not unreadable.fields.get("gone"):
                    yield Problem(where, str(unreadable))
            except SourceError as unreadable:
                yield Problem(where, str(unreadable))

    def read_whole(self, storage: Storage, path: str) -> None:
        """Decode every bitmap of one file."""
        for data in self.read(storage, path)["bitmap"].to_pylist():
            _decoded(data, path)


HIDDEN_ROWS = HiddenRowsKind()


def _distinct(rows: pa.Table, current: pa.Array | None, forgotten: set[str]) -> pa.Table:
    if current is not None:
        is_current = pc.is_in(rows["id"], value_set=current)
        forgotten.update(pc.filter(rows["id"], pc.invert(is_current)).to_pylist())
        rows = pc.filter(rows, is_current)
    codes = numpy_of(pc.dictionary_encode(rows["id"].combine_chunks()).indices)
    first = np.unique(codes, return_index=True)[1]
    rows = pc.take(rows, arrow_array(first))
    return sort(rows, ["id"])


class KnownHiddenRows:
    """The rows hidden under each identity that the index knows.

    The reader is not locked: `IndexState` lets one thread at a time use it.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._footers: dict[str, pq.FileMetaData] = {}
        self._latest = ""
        """The file that held what was asked for last: rows hidden together are asked for together."""

    def get(self, identity: str) -> BitMap | None:
        """Return a new bitmap of hidden positions, or None if no file holds the identity.

        Cost: on first use, one row group per file whose statistics admit the identity.
        """
        for path in sorted(self._view.paths_of(HIDDEN_ROWS), key=lambda path: path != self._latest):
            for group in row_groups(self._footer(path), "id", identity):
                serialized = self._group(path, group).get(identity)
                if serialized is not None:
                    self._latest = path
                    return _decoded(serialized, path)
        return None

    def forget(self, paths: Iterable[str]) -> None:
        """Drop the footers of files that are no longer live."""
        for path in paths:
            self._footers.pop(path, None)

    def _footer(self, path: str) -> pq.FileMetaData:
        footer = self._footers.get(path)
        if footer is None:
            with reading(path), open_index_file(self._view.storage, path) as file:
                footer = self._footers[path] = file.metadata
        return footer

    def _group(self, path: str, group: int) -> dict[str, bytes]:
        key = str(self._view.storage.root), path, group
        return _IDENTITIES.get(key, lambda: self._read(path, group))

    def _read(self, path: str, group: int) -> tuple[dict[str, bytes], int]:
        with reading(path), open_index_file(self._view.storage, path) as file:
            rows = file.read_row_group(group, columns=["id", "bitmap"])
        bitmaps = dict(zip(rows["id"].to_pylist(), rows["bitmap"].to_pylist(), strict=True))
        return bitmaps, sum(map(len, bitmaps.values()))


def _decoded(data: bytes, path: str) -> BitMap:
    try:
        return BitMap.deserialize(data)
    except (ValueError, IndexError, MemoryError) as damage:
        raise CorruptIndexError(file=path, reason=f"a bitmap is damaged: {damage}") from damage


def write_hidden_rows(storage: Storage, bitmaps: Mapping[str, BitMap]) -> IndexFile | None:
    """Write hidden rows by identity as one file sorted by identity; return None if there are none."""
    if not bitmaps:
        return None
    ids = sorted(bitmaps)
    table = pa.table(
        [ids, [len(bitmaps[i]) for i in ids], [bitmaps[i].serialize() for i in ids]],
        schema=HIDDEN_ROWS.schema,
    )
    is_one_group = table.nbytes < GROUP_BYTES and len(table) < GROUP_ROWS
    (file,) = HIDDEN_ROWS.write_stream(storage, [table] if is_one_group else _one_by_one(table))
    return file


def _one_by_one(table: pa.Table) -> Iterator[pa.Table]:
    """Return the rows one by one, because row groups are cut by the bytes of their rows."""
    return (table.slice(row, 1) for row in range(len(table)))
