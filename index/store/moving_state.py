"""The state of an index while files are added and removed.

Only the index table, which knows its commits, uses this class.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from tailbit.index.kinds.files.kind import FILES
from tailbit.index.kinds.kind import Kind
from tailbit.index.kinds.ledger import LEDGER
from tailbit.index.kinds.rows import kind_of
from tailbit.index.kinds.settings import SETTINGS
from tailbit.index.model import FileRecord, IndexFile, Ledger, Settings
from tailbit.index.store.own_files import check_files
from tailbit.index.store.state import IndexState


class MovingState(IndexState):
    """The state of an index while files are added and removed: cached records are extended, not reread."""

    def extend(self, added: Sequence[IndexFile], removed: Sequence[str]) -> None:
        """Apply files that another process has added and removed. Cost: reads the added records."""
        if any(kind_of(path) == FILES.name and path not in self.files for path in removed):
            # A file that came and went meanwhile may have held the last word on a data file, which a merge of
            # records drops where nothing is left of the data file.
            self._readers.pop(FILES, None)
        before = {kind: self.paths_of(kind) for kind in (SETTINGS, LEDGER)}
        self._swap(added, removed)
        if self.paths_of(SETTINGS) != before[SETTINGS]:
            identity = self.index_id
            self._take_settings(SETTINGS.reader(self))
            if self.index_id != identity:
                # The index was emptied and created again in place, so every cached record is void.
                self._readers.clear()
        if self.paths_of(LEDGER) != before[LEDGER]:
            self._take_ledger(LEDGER.reader(self))
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
        """Apply a commit that this process has made.

        `added`, `removed`: index files. `records`: the new records of data files, all that the files of kind
        `files` in `added` hold. `ledger`, `settings`: those after the commit. `seq`: the commit's change
        number.
        """
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
