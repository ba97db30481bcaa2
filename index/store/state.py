"""The contents of an index: read from its live files on first use, and moved on by commits.

The files that the index's log names are checked: their paths, and their hash in the ledger. No checksum
covers a Delta log. A flipped bit can turn an action into an unknown one or change its path; then a file would
be added or removed without any error.

Nothing here knows versions or commits: the index table, which knows its commits, passes the files added and
removed to `MovingState`, and nobody else does.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import ForeignIndexError, MalformedLogError
from tailbit.index.kinds.files import FILES, RecordedFiles
from tailbit.index.kinds.hidden_rows import HIDDEN_ROWS
from tailbit.index.kinds.kind import Kind, R, kind_of
from tailbit.index.kinds.ledger import LEDGER
from tailbit.index.kinds.schemas import KINDS, Kinds
from tailbit.index.kinds.settings import SETTINGS, settings_from_arrow
from tailbit.index.kinds.value_counts import VALUE_COUNTS, Counts, stored_counts
from tailbit.index.model import FileRecord, IndexFile, Ledger, Settings
from tailbit.index.postings.layout import NAME as POSTINGS
from tailbit.index.postings.segment import Segment
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.model import Version
from tailbit.tables.storage import Storage, at_once

_OWN = re.compile(r"kind=\w+/(?!\.)[^/\0]+")
_HEADS = (LEDGER.name, SETTINGS.name)


def is_own(path: str) -> bool:
    """Return whether a path in the index's log is that of a file in the folder of a kind."""
    return _OWN.fullmatch(path) is not None


def number_of(paths: Iterable[str]) -> int:
    """Compute a 64-bit hash of a set of files; the hash of two disjoint sets together is the XOR of theirs.

    Ledger and settings files are left out, because they are replaced by each commit, which records the hash.
    """
    number = 0
    for path in paths:
        if kind_of(path) not in _HEADS:
            number ^= int.from_bytes(hashlib.sha256(path.encode()).digest()[:8], "big")
    return number


def hash_text(number: int) -> str:
    """Return the hash as the ledger writes it."""
    return f"{number:016x}"


def check_files(paths: Iterable[str], ledger: Ledger | None, number: int) -> None:
    """Raise if a path is not that of an index file, or if the live files do not have the ledger's hash.

    `number`: the hash of all live files. A ledger of an older release records no hash.

    Raises:
        MalformedLogError: a path is not in a folder of a kind, or the set of files differs.
    """
    strange = next((path for path in paths if not is_own(path)), None)
    if strange is not None:
        raise MalformedLogError(file="_delta_log", reason=f"{strange!r} is no file of an index")
    if ledger is not None and ledger.held and ledger.held != hash_text(number):
        raise MalformedLogError(file="_delta_log", reason="it names other files than were committed")


_NO_SETTINGS = "it is a Delta table without the settings of an index"


@dataclass(frozen=True, eq=False)
class IndexPortion:
    """What an index records of some data files, and the index files that questions about them read.

    It travels to other processes, which read the index files by their names: an index file never changes, so
    that all processes answer from the same state of the index, whatever is committed meanwhile.
    """

    storage: Storage
    path: str
    files: Sequence[IndexFile]
    settings: Settings
    ledger: Ledger | None
    seq: int
    records: pa.Table

    def state(self) -> IndexState:
        """Return the state of an index that has no other data files. Cost: no file is read."""
        return IndexState(self.storage, self.path, self.files, KINDS, threading.RLock(), self)


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
        self,
        storage: Storage,
        path: str,
        files: Iterable[IndexFile],
        kinds: Kinds,
        lock: threading.RLock,
        portion: IndexPortion | None = None,
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
        if portion is not None:
            self.settings, self.ledger, self.seq = portion.settings, portion.ledger, portion.seq
            self._readers[FILES] = RecordedFiles(portion.records)
            return
        heads = at_once(storage, [partial(SETTINGS.reader, self), partial(LEDGER.reader, self)])
        for take, rows in zip((self._take_settings, self._take_ledger), heads, strict=True):
            take(rows)
        check_files(self.files, self.ledger, self._number)

    def portion(self, rows: Longs) -> IndexPortion:
        """Return the portion of some data files; `rows`: their numbers in the table of records."""
        records = pc.take(self.recorded.table(), arrow_array(rows))
        spaces = set(pc.unique(records["space"]).to_pylist()) - {None}
        paths = [segment.path for space in spaces for segment in self.segments_of(space)]
        elsewhere = (POSTINGS, VALUE_COUNTS.name, FILES.name, *_HEADS)
        paths += [path for path in self.files if kind_of(path) not in elsewhere]
        files = tuple(self.files[path] for path in paths)
        return IndexPortion(self.storage, self.path, files, self.settings, self.ledger, self.seq, records)

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
        return hash_text(self._number ^ number_of({file.path for file in added}) ^ number_of(set(removed)))

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

    def _renew(self, kinds: Iterable[Kind[Any]], added: Sequence[IndexFile], removed: Sequence[str]) -> None:
        for kind in list(kinds):
            renewed = kind.renewed(self._readers[kind], self, added, removed)
            if renewed is None:
                del self._readers[kind]
            else:
                self._readers[kind] = renewed


@dataclass(frozen=True, slots=True)
class IndexStatistics:
    """Sizes of an index: live files and bytes per kind, segments, row spaces."""

    version: int
    files: Mapping[str, int]
    bytes: Mapping[str, int]
    segments: int
    spaces: int


def statistics_of(version: Version, state: IndexState) -> IndexStatistics:
    """Return the sizes of an index at a version of its own log. No file is read."""
    files: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for path, file in state.files.items():
        files[kind_of(path)] += 1
        sizes[kind_of(path)] += file.size
    return IndexStatistics(version, files, sizes, files[POSTINGS], len(state.spaces))
