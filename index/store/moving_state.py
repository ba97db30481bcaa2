"""The state of an index whose files come and go: the index table alone, which knows its commits, has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from tailbit.index.kinds.files.kind import FILES
from tailbit.index.kinds.kind import Kind
from tailbit.index.kinds.ledger import LEDGER
from tailbit.index.kinds.settings import SETTINGS
from tailbit.index.model import FileRecord, IndexFile, Ledger, Settings
from tailbit.index.store.own_files import check_files
from tailbit.index.store.state import IndexState


class MovingState(IndexState):
    """What an index says while files come and go: what has been read is extended, never read again."""

    def extend(self, added: Sequence[IndexFile], removed: Sequence[str]) -> None:
        """Files that another process has committed come and go. Cost: reads the records that came."""
        before = {kind: self.paths_of(kind) for kind in (SETTINGS, LEDGER)}
        self._swap(added, removed)
        if self.paths_of(SETTINGS) != before[SETTINGS]:
            identity = self.index_id
            self._read_settings()
            if self.index_id != identity:
                # The index was emptied in place: nothing of what was recorded holds.
                self._readers.clear()
        if self.paths_of(LEDGER) != before[LEDGER]:
            self._read_ledger()
        check_files((file.path for file in added), self.ledger, self._number)
        self._renew(self._readers, added, removed)

    def note(
        self,
        added: Sequence[IndexFile],
        removed: Sequence[str],
        records: Sequence[FileRecord] | pa.Table,
        ledger: Ledger | None,
        settings: Settings,
        seq: int,
    ) -> None:
        """Take in what was committed by this process: of kind `files`, `records` is all there is to know."""
        self._swap(added, removed)
        self.seq, self.ledger, self.settings = seq, ledger, settings
        self._renew([kind for kind in self._readers if kind != FILES], added, removed)
        if FILES in self._readers and isinstance(records, pa.Table):
            self.recorded.extend_rows(records)
        elif FILES in self._readers:
            self.recorded.extend(records)

    def _renew(self, known: Iterable[Kind[Any]], added: Sequence[IndexFile], removed: Sequence[str]) -> None:
        for kind in list(known):
            renewed = kind.renewed(self._readers[kind], self, added, removed)
            if renewed is None:
                del self._readers[kind]
            else:
                self._readers[kind] = renewed
