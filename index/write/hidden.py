"""Hidden rows for a task: of a slice from the source, of a record from the index that counted them."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from functools import cached_property

import pyarrow as pa
from pyroaring import BitMap

from tailbit.errors import CorruptIndexError
from tailbit.index.kinds.records import HIDDEN_ROWS, SCHEMAS, write_stream
from tailbit.index.model import FileRecord, IndexFile
from tailbit.index.store.table import IndexTable
from tailbit.tables.model import FileSlice
from tailbit.tables.storage import Storage


@functools.lru_cache(maxsize=8)
def _opened(path: str) -> IndexTable:
    return IndexTable.open(path)


class HiddenRowsReader:
    """Hidden rows by identity, each read once a task. The index is opened only where it is asked."""

    def __init__(self, index_path: str) -> None:
        self._path = index_path
        self._known: dict[str, BitMap] = {}

    @cached_property
    def index(self) -> IndexTable:
        """The index as it is now; kept open between the tasks of a process."""
        found = _opened(self._path)
        found.refresh()
        return found

    def of_slice(self, source: Storage, piece: FileSlice) -> BitMap:
        """The rows hidden from a file slice; each description of them is read once."""
        if piece.hidden is None:
            return BitMap()
        if piece.hidden.id not in self._known:
            self._known[piece.hidden.id] = piece.hidden.read(source)
        return self._known[piece.hidden.id]

    def of_record(self, record: FileRecord) -> BitMap:
        """The hidden rows that a file is counted under.

        Raises:
            CorruptIndexError: the index has lost them.
        """
        if not record.hidden:
            return BitMap()
        if record.hidden not in self._known:
            found = self.index.hidden_rows(record.hidden)
            if found is None:
                raise CorruptIndexError(file=record.path, reason=f"hidden rows {record.hidden} are lost")
            self._known[record.hidden] = found
        return self._known[record.hidden]


def write_hidden_rows(storage: Storage, found: Mapping[str, BitMap]) -> IndexFile | None:
    """Hidden rows by identity as one file sorted by identity; None where there are none."""
    if not found:
        return None
    ids = sorted(found)
    table = pa.table(
        [ids, [len(found[i]) for i in ids], [found[i].serialize() for i in ids]],
        schema=SCHEMAS[HIDDEN_ROWS],
    )
    (file,) = write_stream(storage, _one_by_one(table), HIDDEN_ROWS)
    return file


def _one_by_one(table: pa.Table) -> Iterator[pa.Table]:
    """Each row on its own: row groups are cut by what rows weigh together."""
    return (table.slice(row, 1) for row in range(len(table)))
