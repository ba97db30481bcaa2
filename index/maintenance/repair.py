"""Repair of an index: damaged parts are found, taken out in one commit, and built again by the indexer.

Removal of the damaged parts of an index in one commit, after which the indexer builds them again. A damaged
segment (file of postings) is removed with all segments of its row space and all claims (ranges of data files)
there: these data files become uncovered, so that queries scan them. Their value counts stay. New settings of
the same content then open a round, in which the indexer looks at every file, as for an added column: the
indexer finds the files without postings, and indexes them again. Of the data, nothing but hidden rows is read
here.

| damaged | removed | the indexer then |
|---|---|---|
| a segment | its row space, and the claims of it | posts the files of those claims again |
| value counts | all value counts | counts all files again |
| hidden rows | those rows, read again from the source | nothing; counts all files again if they are lost |
| file records | their files, written again from memory | nothing |
| ledger or settings | that file, written again from memory | nothing |
| another kind | that file: queries do without its rows | builds all files for the kind's definitions again |

Background reading of the files of an index in turn, so that damage is found before a query meets it. A file
that is missing or of another size is found at once; an altered file is found within a round through the whole
index, of which each pass reads a part.
"""

from __future__ import annotations

import errno
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CorruptIndexError, SourceError, StorageError
from tailbit.index.kinds.files import FILES, files_to_arrow, reclaimed
from tailbit.index.kinds.hidden_rows import HIDDEN_ROWS, write_hidden_rows
from tailbit.index.kinds.kind import Blame, Kind, Problem, kind_of
from tailbit.index.kinds.ledger import LEDGER
from tailbit.index.kinds.schemas import KINDS, Kinds
from tailbit.index.kinds.settings import SETTINGS
from tailbit.index.kinds.value_counts import VALUE_COUNTS
from tailbit.index.maintenance.alter import retried
from tailbit.index.model import FileRecord, IndexFile, Ledger
from tailbit.index.postings.layout import NAME as POSTINGS
from tailbit.index.postings.segment import Segment
from tailbit.index.store.state import IndexState
from tailbit.index.store.table import MetadataTable
from tailbit.tables.storage import Storage
from tailbit.tables.table import Table

PASSING = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES, errno.EPERM, errno.ESTALE, errno.ENOTCONN}
    | {errno.ETIMEDOUT, errno.EINTR, errno.EAGAIN, errno.EBUSY, errno.EHOSTDOWN, errno.ENETDOWN}
)
"""Errors of the operating system that say nothing about the bytes of a file."""


@dataclass(frozen=True)
class Damage:
    """The damaged parts of an index.

    `files`: index files that cannot be read. `spaces`: row spaces whose postings contradict the data.
    `counts`: the value counts are wrong. `hidden`: the hidden rows are wrong. `records`: the records are not
    those of the source's files.
    """

    files: frozenset[str] = frozenset()
    spaces: frozenset[str] = frozenset()
    counts: bool = False
    hidden: bool = False
    records: bool = False

    def __bool__(self) -> bool:
        return bool(self.files or self.spaces or self.counts or self.hidden or self.records)


def is_of_records(error: CorruptIndexError) -> bool:
    """Return whether an error names file records, ledger or settings, without which no part can be mended."""
    return kind_of(str(error.fields.get("file"))) in (FILES.name, LEDGER.name, SETTINGS.name)


def damage_of(problems: Iterable[Problem]) -> Damage:
    """Return all that problems blame; nothing if the source is at fault.

    The counts of a data file are lost if the file is gone and the postings or hidden rows by which it was
    counted are gone too: then everything is counted again.
    """
    names: dict[Blame, set[str]] = {blame: set() for blame in Blame}
    for problem in problems:
        names[problem.blame].add(problem.name)
    of_index = {name for name in names[Blame.FILE] if name.startswith("kind=")}
    return Damage(
        frozenset(of_index),
        frozenset(names[Blame.SPACE]),
        counts=bool(names[Blame.COUNTS] or names[Blame.FILE] - of_index),
        hidden=bool(names[Blame.HIDDEN]),
        records=bool(names[Blame.RECORDS]),
    )


def why_damaged(storage: Storage, path: str, kinds: Kinds = KINDS) -> str | None:
    """Return why a file of an index cannot be read as written, or None if it can. Cost: reads all of it.

    A file of a kind that this release does not know is skipped, because only the release that writes it can
    check it.
    """
    kind = kinds.of(path)
    if kind is None:
        return None
    try:
        kind.read_whole(storage, path)
    except CorruptIndexError as damage:
        _pass_on(damage.__cause__, path)
        return str(damage.fields.get("reason"))
    except (pa.ArrowException, ValueError, OSError) as damage:
        _pass_on(damage, path)
        return str(damage)
    return None


def _pass_on(cause: BaseException | None, path: str) -> None:
    if isinstance(cause, StorageError):
        raise cause
    if isinstance(cause, OSError) and cause.errno in PASSING:
        raise StorageError(path=path, reason=cause.strerror or str(cause)) from cause


def spaces_of(state: IndexState, damage: Damage) -> set[str]:
    """Return the row spaces with damaged segments or postings; a segment's file name holds its row space."""
    of_files = {Segment(state.storage, path).space for path in damage.files if kind_of(path) == POSTINGS}
    return of_files | damage.spaces


@dataclass(frozen=True, slots=True)
class Mended:
    """The result of a repair: removed index files, and numbers of data files to index or count again."""

    removed: tuple[str, ...]
    to_post: int
    to_count: int


def mend(index: MetadataTable, table: Table, damage: Damage, reason: str) -> Mended:
    """Remove the damaged parts of an index in one commit; `reason` is recorded with each uncovered file.

    Two concurrent repairs are applied one after the other. Cost: a record for each file to post, or for each
    live file if all must be counted again; and the hidden rows that were lost.
    """
    return retried(index, lambda: _attempt(index, table, damage, reason))


def _attempt(index: MetadataTable, table: Table, damage: Damage, reason: str) -> Mended:
    state = index.state
    damage = replace(damage, files=damage.files & state.files.keys())
    damage = replace(damage, files=damage.files | _other_hidden(state, damage))
    if not damage:
        return Mended((), 0, 0)
    hidden, some_lost = _hidden_again(state, table, damage)
    recount = some_lost or damage.counts or _holds(damage.files, VALUE_COUNTS)
    spaces = spaces_of(state, damage)
    uncovered = _uncovered(state, spaces, reason)
    records = uncovered
    if recount:
        records = records | _uncounted(state, records)
    lost = _definitions_of(state, damage)
    if lost:
        records = records | _unbuilt(state, records, lost)
    removes = _removed(state, damage, spaces, recount)
    rows = _written_again(state, records) if _holds(damage.files, FILES) else None
    again = bool(spaces or recount or lost or damage.records)
    settings = replace(state.settings, version=state.settings.version + again)
    index.commit(
        list(records.values()) if rows is None else rows,
        hidden,
        _ledger(state, records) if again else None,
        removes=removes,
        settings=settings,
    )
    to_count = sum(record.left is None for record in records.values()) if recount else 0
    return Mended(tuple(removes), sum(r.left is None for r in uncovered.values()), to_count)


def _definitions_of(state: IndexState, damage: Damage) -> set[str]:
    """Return the ids of the definitions of which some rows are in damaged files, except postings."""
    kinds = set(map(kind_of, damage.files))
    return {definition.id for definition in state.settings.definitions if definition.kind in kinds}


def _unbuilt(state: IndexState, changed: dict[str, FileRecord], lost: set[str]) -> dict[str, FileRecord]:
    """Return the records of files built for lost definitions, without these definitions, by path."""
    every = (changed.get(record.path, record) for record in state.recorded.records())
    return {
        record.path: replace(record, built=tuple(id_ for id_ in record.built if id_ not in lost))
        for record in every
        if not lost.isdisjoint(record.built)
    }


def _holds(paths: Iterable[str], kind: Kind[Any]) -> bool:
    return any(kind_of(path) == kind.name for path in paths)


def _written_again(state: IndexState, changed: dict[str, FileRecord]) -> pa.Table:
    """Return all records as rows, some of them changed."""
    return files_to_arrow([changed.get(record.path, record) for record in state.recorded.records()])


def _uncovered(state: IndexState, spaces: Iterable[str], reason: str) -> dict[str, FileRecord]:
    """Return the records that claim a range of some row spaces, without their claims, by path.

    A counted record keeps the definitions for which it is counted: its counts can be subtracted later.
    """
    out = {}
    for record in (record for space in spaces for record in state.recorded.claims(space)):
        bare = reclaimed(record, None, None)
        if record.left is None:
            bare = replace(bare, built=record.built if record.counted else (), error=reason)
        out[record.path] = bare
    return out


def _uncounted(state: IndexState, changed: dict[str, FileRecord]) -> dict[str, FileRecord]:
    """Return the records of all live files, marked as not counted, by path."""
    live = (changed.get(record.path, record) for record in state.recorded.live())
    return {
        record.path: replace(
            record, counted=False, hidden="", built=record.built if record.space is not None else ()
        )
        for record in live
    }


def _other_hidden(state: IndexState, damage: Damage) -> set[str]:
    """Return the other damaged files of hidden rows if one is damaged: what they hold is read again too."""
    if damage.hidden or not _holds(damage.files, HIDDEN_ROWS):
        return set()
    others = state.paths_of(HIDDEN_ROWS) - damage.files
    return {path for path in others if why_damaged(state.storage, path, state.kinds) is not None}


def _hidden_again(state: IndexState, table: Table, damage: Damage) -> tuple[list[IndexFile], bool]:
    """Read hidden rows again from the source into a file to commit.

    Return the file, and whether some hidden rows in use are lost.
    """
    if not damage.hidden and not _holds(damage.files, HIDDEN_ROWS):
        return [], False
    sound = [f.path for f in state.files_of(HIDDEN_ROWS) if f.path not in damage.files and not damage.hidden]
    stored = {i for path in sound for i in HIDDEN_ROWS.read(state.storage, path)["id"].to_pylist()}
    lost = state.recorded.identities() - stored
    vectors = _vectors(state, table, lost)
    written = write_hidden_rows(state.storage, vectors)
    return [] if written is None else [written], not lost <= vectors.keys()


def _vectors(state: IndexState, table: Table, identities: set[str]) -> dict[str, BitMap]:
    """Return the hidden rows by identity, read from the source at the recorded version."""
    out: dict[str, BitMap] = {}
    if state.ledger is None or not identities:
        return out
    try:
        files = table.snapshot(state.ledger.version).files
        for number in files.with_hidden.tolist():
            hidden = files.hidden(number)
            if hidden is not None and hidden.id in identities:
                out[hidden.id] = hidden.read(table.storage)
    except SourceError:
        return out
    return out


def _removed(state: IndexState, damage: Damage, spaces: set[str], recount: bool) -> list[str]:
    """Return the index files to remove, except ledger and settings.

    A commit with new settings replaces both.
    """
    gone = {segment.path for space in spaces for segment in state.segments_of(space)}
    gone |= {path for path in damage.files if kind_of(path) not in (LEDGER.name, SETTINGS.name)}
    if recount:
        gone |= state.paths_of(VALUE_COUNTS)
    if damage.hidden:
        gone |= state.paths_of(HIDDEN_ROWS)
    if _holds(damage.files, FILES):
        gone |= state.paths_of(FILES)
    return sorted(gone)


def _ledger(state: IndexState, records: dict[str, FileRecord]) -> Ledger | None:
    """Return the ledger with the number of uncounted live files raised."""
    ledger = state.ledger
    if ledger is None:
        raise CorruptIndexError(file="kind=ledger", reason="there is none, though files are recorded")
    pairs = ((state.recorded.get(path), record) for path, record in records.items())
    fewer = sum(
        recorded is not None and recorded.left is None and recorded.counted and not record.counted
        for recorded, record in pairs
    )
    return replace(ledger, uncounted=ledger.uncounted + fewer)


BYTES_A_PASS = 64 << 20
"""Bytes of index files that a pass reads, and at least one file."""


class Scrubber:
    """Reader of the files of one index, pass by pass; it needs an `index` object of its own.

    `last`: the file that was read last, after which the next pass goes on.

    Cost of a pass: a listing of each kind's folder, and the files that it reads. `is_through`: the last pass
    came to the end of a round through the whole index.
    """

    def __init__(self, index: MetadataTable, bytes_a_pass: int = BYTES_A_PASS, last: str = "") -> None:
        self._index, self._bytes = index, bytes_a_pass
        self.last = last
        self.is_through = False

    def look(self) -> list[CorruptIndexError]:
        """Return the damage that one pass finds in the newest version, one error per file."""
        self._index.refresh()
        damaged = {path: reason for path, reason in self._of_sizes().items() if path in self._live_now()}
        for path in self._next():
            reason = why_damaged(self._index.storage, path, self._index.kinds)
            if reason is not None and path in self._live_now():
                damaged[path] = reason
        return [CorruptIndexError(file=path, reason=reason) for path, reason in sorted(damaged.items())]

    def _live_now(self) -> dict[str, object]:
        """Return the live files after a refresh, since files that left the index may be gone from disk."""
        self._index.refresh()
        return dict(self._index.state.files)

    def _of_sizes(self) -> dict[str, str]:
        """Return the live files that are missing or of another size than their commit says, and the reason.

        Files of a kind that this release does not know are skipped.
        """
        kinds = self._index.kinds
        live = {path: file for path, file in self._index.state.files.items() if kinds.of(path) is not None}
        sizes = {
            f"kind={kind.name}/{entry.name}": entry.size
            for kind in kinds
            for entry in self._index.storage.list(f"kind={kind.name}")
        }
        out = {}
        for path, file in live.items():
            if path not in sizes:
                out[path] = "it is missing"
            elif sizes[path] != file.size:
                out[path] = f"it has {sizes[path]} bytes, {file.size} were written"
        return out

    def _next(self) -> list[str]:
        """Return the files to read in this pass, by path."""
        files = self._index.state.files
        paths = sorted(files)
        first = bisect_right(paths, self.last) % max(1, len(paths))
        chosen: list[str] = []
        total = 0
        self.is_through = True
        for number, path in enumerate([*paths[first:], *paths[:first]]):
            total += files[path].size
            if chosen and total > self._bytes:
                self.is_through = number >= len(paths) - first
                break
            chosen.append(path)
        self.last = chosen[-1] if chosen else ""
        return chosen
