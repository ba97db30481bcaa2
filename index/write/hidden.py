"""Hidden rows for a task: of a file slice from the source, of a file record from the index."""

from __future__ import annotations

from pyroaring import BitMap

from tailbit.base.errors import CorruptIndexError
from tailbit.base.once import once
from tailbit.index.model import FileRecord
from tailbit.index.store.state import IndexState
from tailbit.index.store.table import MetadataTable
from tailbit.tables.cache import HANDLES_BYTES, Cache, share
from tailbit.tables.model import FileSlice
from tailbit.tables.positions import most_bytes
from tailbit.tables.storage import NO_OPTIONS, Storage, StorageOptions

_OPENED: Cache[tuple[str, StorageOptions], MetadataTable] = Cache(HANDLES_BYTES)
"""Indexes that stay open between the tasks of a process, by path; bounded in bytes, not in tables."""

_LATEST: Cache[tuple[str, str], BitMap] = Cache(share(1 / 64))
"""Rows that tasks of this process have found hidden, by index and identity: the next change asks for them."""


def _opened(path: str, options: StorageOptions) -> MetadataTable:
    def load() -> tuple[MetadataTable, int]:
        index = MetadataTable.open(path, options=options)
        return index, index.bytes_held

    return _OPENED.get((path, options), load)


class HiddenRowsReader:
    """Reader of hidden rows by identity, each once per task. The index is opened only if it is needed."""

    def __init__(self, index_path: str, options: StorageOptions = NO_OPTIONS) -> None:
        self._path, self._options = index_path, options
        self._known: dict[str, BitMap] = {}

    @once
    def index(self) -> MetadataTable:
        """Return the index, refreshed; it stays open between the tasks of a process."""
        opened = _opened(self._path, self._options)
        opened.refresh()
        return opened

    @property
    def state(self) -> IndexState:
        """Return the present state of the index."""
        return self.index.state

    def of_slice(self, source: Storage, slice_: FileSlice) -> BitMap:
        """Return the rows hidden from a file slice; each identity is read once."""
        if slice_.hidden is None:
            return BitMap()
        if slice_.hidden.id not in self._known:
            self._known[slice_.hidden.id] = slice_.hidden.read(source)
        return self._known[slice_.hidden.id]

    def of_record(self, record: FileRecord) -> BitMap:
        """Return the hidden rows with which a recorded file is counted.

        Raises:
            CorruptIndexError: the index has lost the hidden rows.
        """
        if not record.hidden:
            return BitMap()
        if record.hidden not in self._known:
            hidden = _LATEST.held((self._path, record.hidden))
            if hidden is None:
                hidden = self.state.hidden_rows(record.hidden)
            if hidden is None:
                raise CorruptIndexError(file=record.path, reason=f"hidden rows {record.hidden} are lost")
            self._known[record.hidden] = hidden
        return self._known[record.hidden]

    def keep(self, identity: str, rows: BitMap) -> None:
        """Keep hidden rows, which never change, for later tasks, under the identity that will be recorded."""
        _LATEST.hold((self._path, identity), rows, most_bytes(rows))
