"""The contents of an index, read from its live files on first use and cached: the view for readers.

This module does not know versions or commits: callers of `moving_state` pass the files added and removed.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

from pyroaring import BitMap

from tailbit.base.errors import ForeignIndexError
from tailbit.index.kinds.files.kind import FILES
from tailbit.index.kinds.files.recorded import RecordedFiles
from tailbit.index.kinds.hidden_rows import HIDDEN_ROWS
from tailbit.index.kinds.kind import Kind, R
from tailbit.index.kinds.ledger import LEDGER
from tailbit.index.kinds.rows import kind_of
from tailbit.index.kinds.schemas import Kinds
from tailbit.index.kinds.settings import SETTINGS, settings_from_arrow
from tailbit.index.kinds.value_counts import VALUE_COUNTS, Counts, stored_counts
from tailbit.index.model import IndexFile, Ledger, Settings
from tailbit.index.postings.layout import NAME as POSTINGS
from tailbit.index.postings.segment import Segment
from tailbit.index.store.own_files import check_files, held, number_of
from tailbit.tables.storage import Storage, at_once

_NO_SETTINGS = "it is a Delta table without the settings of an index"


class IndexState:
    """The live files of an index, and the records read from these files, cached.

    Threads may share a state for queries. A caller that needs several values of the same version must hold
    `lock`, since the state changes only under that lock; `hidden_rows` and `value_counts` take the lock
    themselves. `kinds`: the record kinds of the index. `seq`: the number of the last change; each commit
    raises it by one.

    Raises:
        ForeignIndexError: no settings are among the files, so the table is not an index.
        IndexFormatError: the settings are of another format.
        MalformedLogError: the files are not those that were committed, or lie elsewhere.
    """

    def __init__(
        self, storage: Storage, path: str, files: Iterable[IndexFile], kinds: Kinds, lock: threading.RLock
    ) -> None:
        self.storage = storage
        self.path = path
        self.kinds = kinds
        self.lock = lock
        self.files: dict[str, IndexFile] = {}
        self._of_kind: defaultdict[str, dict[str, IndexFile]] = defaultdict(dict)
        self._number = 0
        self._swap(files, ())
        self._readers: dict[Kind[Any], Any] = {}
        self.settings: Settings
        self.ledger: Ledger | None
        self.seq: int
        heads = at_once(storage, [partial(SETTINGS.reader, self), partial(LEDGER.reader, self)])
        for take, rows in zip((self._take_settings, self._take_ledger), heads, strict=True):
            take(rows)
        check_files(self.files, self.ledger, self._number)

    def files_of(self, kind: Kind[Any]) -> list[IndexFile]:
        """Return the live files of one kind.

        Cost: proportional to the number of these files.
        """
        return list(self._of_kind[kind.name].values())

    def paths_of(self, kind: Kind[Any]) -> frozenset[str]:
        """Return the paths of the live files of one kind."""
        return frozenset(self._of_kind[kind.name])

    def reader(self, kind: Kind[R]) -> R:
        """Return the reader of a kind over its live files; it is created on first use and kept up to date."""
        if kind not in self._readers:
            self._readers[kind] = kind.reader(self)
        return cast(R, self._readers[kind])

    @property
    def index_id(self) -> str:
        """Return the identity of this index; its app transaction is named after it."""
        return self.settings.index_id

    @property
    def recorded(self) -> RecordedFiles:
        """Return the file records of all source files."""
        return self.reader(FILES)

    @property
    def spaces(self) -> Mapping[str, list[Segment]]:
        """Map each row space to its segments; a live segment stays the same object and keeps its footer."""
        by_space: Mapping[str, list[Segment]] = self.reader(self.kinds[POSTINGS]).by_space
        return by_space

    def segments_of(self, space: str) -> list[Segment]:
        """Return the segments of one row space; their footers are read on first use."""
        return self.spaces.get(space, [])

    def hidden_rows(self, identity: str) -> BitMap | None:
        """Return the rows hidden under a deletion vector identity; None if the index does not know it."""
        with self.lock:
            return self.reader(HIDDEN_ROWS).get(identity)

    def value_counts(self, column: str, key_type: str | None = None) -> Counts:
        """Return the keys of a column and their visible rows.

        `key_type`: that of the settings or a wider one; None for that of the settings.
        """
        with self.lock:
            key_type = key_type or self.settings.definition(column).key_type
            return self.reader(VALUE_COUNTS).of(column, key_type)

    def stored_counts(self, column: str) -> Iterator[tuple[str, Counts]]:
        """Yield the keys and visible rows of a column as stored, for each key type that counts it."""
        return stored_counts(self.storage, self.paths_of(VALUE_COUNTS), column)

    def held_after(self, added: Sequence[IndexFile], removed: Iterable[str]) -> str:
        """Return the ledger's hash of the files that are live after adding and removing the given files."""
        return held(self._number ^ number_of({file.path for file in added}) ^ number_of(set(removed)))

    def _swap(self, added: Iterable[IndexFile], removed: Iterable[str]) -> None:
        for path in removed:
            if self.files.pop(path, None) is not None:
                self._number ^= number_of([path])
            self._of_kind[kind_of(path)].pop(path, None)
        for file in added:
            if file.path not in self.files:
                self._number ^= number_of([file.path])
            self.files[file.path] = self._of_kind[kind_of(file.path)][file.path] = file

    def _take_settings(self, rows: Any) -> None:
        if not len(rows):
            raise ForeignIndexError(path=self.path, reason=_NO_SETTINGS)
        self.settings, self.seq = settings_from_arrow(rows, self.path)

    def _take_ledger(self, ledger: Any) -> None:
        self.ledger = ledger
        self.seq = max(self.seq, -1 if self.ledger is None else self.ledger.seq)
