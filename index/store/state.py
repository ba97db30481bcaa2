"""What one version of an index says, read from its live files when first asked and kept.

Nothing here knows versions or commits: `IndexTable` tells which files come and go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from tailbit.errors import ForeignIndexError
from tailbit.index.kinds import records as kinds
from tailbit.index.kinds.bitmap_index.segment import Segment
from tailbit.index.kinds.files.recorded import RecordedFiles
from tailbit.index.kinds.lookups import HiddenRows, ValueCounts
from tailbit.index.model import FileRecord, IndexFile, Ledger, Settings
from tailbit.tables.storage import Storage

_NO_SETTINGS = "it is a Delta table without the settings of an index"


class IndexState:
    """The live files of an index and what has been read of them.

    Raises:
        ForeignIndexError: there are no settings among the files: the table is not an index.
        IndexFormatError: the settings are of another format.
    """

    def __init__(self, storage: Storage, path: str, files: Iterable[IndexFile]) -> None:
        self.storage = storage
        self.path = path
        self.files: dict[str, IndexFile] = {file.path: file for file in files}
        self.hidden = HiddenRows(storage)
        self.counts = ValueCounts(storage)
        self._recorded: RecordedFiles | None = None
        self._spaces: dict[str, list[Segment]] | None = None
        self._segments: dict[str, Segment] = {}
        self.settings: Settings
        self.ledger: Ledger | None
        self.seq: int
        self._read_settings()
        self._read_ledger()

    def files_of(self, kind: str) -> list[IndexFile]:
        """The live files of one kind."""
        return [file for path, file in self.files.items() if kinds.kind_of(path) == kind]

    def paths_of(self, kind: str) -> frozenset[str]:
        """The paths of the live files of one kind."""
        return frozenset(file.path for file in self.files_of(kind))

    @property
    def recorded(self) -> RecordedFiles:
        """What is recorded of every source file."""
        if self._recorded is None:
            self._recorded = RecordedFiles(self._read_all(kinds.FILES))
        return self._recorded

    @property
    def spaces(self) -> Mapping[str, list[Segment]]:
        """Row space to its segments; a segment stays the same object, with its footer, while it is live."""
        if self._spaces is None:
            self._spaces = {}
            for path in sorted(self.paths_of(kinds.BITMAP_INDEX)):
                segment = self._segments.setdefault(path, Segment(self.storage, path))
                self._spaces.setdefault(segment.space, []).append(segment)
        return self._spaces

    def extend(self, added: Sequence[IndexFile], removed: Sequence[str]) -> None:
        """Files that another process has committed come and go. Cost: reads the records that came."""
        before = {kind: self.paths_of(kind) for kind in (kinds.SETTINGS, kinds.LEDGER)}
        self.swap(added, removed)
        if self.paths_of(kinds.SETTINGS) != before[kinds.SETTINGS]:
            self._read_settings()
        if self.paths_of(kinds.LEDGER) != before[kinds.LEDGER]:
            self._read_ledger()
        if self._recorded is not None:
            for file in added:
                if kinds.kind_of(file.path) == kinds.FILES:
                    self._recorded.extend_rows(kinds.read_records(self.storage, file.path))

    def swap(self, added: Sequence[IndexFile], removed: Sequence[str]) -> None:
        """Files come and go whose content is known already."""
        for path in removed:
            self.files.pop(path, None)
            self._segments.pop(path, None)
        self.files.update({file.path: file for file in added})
        self._spaces = None
        self.hidden.forget(removed)

    def note(
        self, records: Sequence[FileRecord] | pa.Table, ledger: Ledger | None, settings: Settings, seq: int
    ) -> None:
        """Take in what was committed by this process."""
        self.seq, self.ledger, self.settings = seq, ledger, settings
        if self._recorded is not None and isinstance(records, pa.Table):
            self._recorded.extend_rows(records)
        elif self._recorded is not None:
            self._recorded.extend(records)

    def _read_settings(self) -> None:
        rows = self._read_all(kinds.SETTINGS)
        if not len(rows):
            raise ForeignIndexError(path=self.path, reason=_NO_SETTINGS)
        self.settings, self.seq = kinds.settings_from_arrow(rows, self.path)

    def _read_ledger(self) -> None:
        self.ledger = kinds.ledger_from_arrow(self._read_all(kinds.LEDGER))
        self.seq = max(self.seq, -1 if self.ledger is None else self.ledger.seq)

    def _read_all(self, kind: str) -> pa.Table:
        parts = [kinds.read_records(self.storage, file.path) for file in self.files_of(kind)]
        return pa.concat_tables([kinds.no_rows(kinds.SCHEMAS[kind]), *parts])
