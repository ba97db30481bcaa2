"""Removal of the damaged parts of an index in one commit, after which the indexer builds them again.

A damaged segment (file of postings) is removed with all segments of its row space and all claims (ranges of
data files) there: these data files become uncovered, so that queries scan them. Their value counts stay. New
settings of the same content then open a round, in which the indexer looks at every file, as for an added
column: the indexer finds the files without postings, and indexes them again. Of the data, nothing but
hidden rows is read here.

| damaged | removed | the indexer then |
|---|---|---|
| a segment | its row space, and the claims of it | posts the files of those claims again |
| value counts | all value counts | counts all files again |
| hidden rows | those rows, read again from the source | nothing; counts all files again if they are lost |
| file records | their files, written again from memory | nothing |
| ledger or settings | that file, written again from memory | nothing |
| another kind | that file: queries do without its rows | builds all files for the kind's definitions again |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CorruptIndexError, SourceError
from tailbit.index.kinds.files.kind import FILES
from tailbit.index.kinds.files.rows import files_to_arrow, reclaimed
from tailbit.index.kinds.hidden_rows import HIDDEN_ROWS, write_hidden_rows
from tailbit.index.kinds.kind import Kind
from tailbit.index.kinds.ledger import LEDGER
from tailbit.index.kinds.rows import kind_of
from tailbit.index.kinds.settings import SETTINGS
from tailbit.index.kinds.value_counts import VALUE_COUNTS
from tailbit.index.maintenance.alter import retried
from tailbit.index.model import FileRecord, IndexFile, Ledger
from tailbit.index.repair.damage import Damage, spaces_of, why_damaged
from tailbit.index.store.state import IndexState
from tailbit.index.store.table import MetadataTable
from tailbit.tables.table import Table


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

    Raises:
        CorruptIndexError: the records of files cannot be read: all of the index must be built again.
        CommitConflictError: other writers were first again and again.
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
    """Return the other damaged files of hidden rows if one is damaged: what they hold is read again too.

    Raises:
        StorageError: the store fails for a reason that says nothing about a file.
    """
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
    kept = {i for path in sound for i in HIDDEN_ROWS.read(state.storage, path)["id"].to_pylist()}
    wanted = state.recorded.identities() - kept
    vectors = _vectors(state, table, wanted)
    written = write_hidden_rows(state.storage, vectors)
    return [] if written is None else [written], not wanted <= vectors.keys()


def _vectors(state: IndexState, table: Table, wanted: set[str]) -> dict[str, BitMap]:
    """Return the hidden rows by identity, read from the source at the recorded version."""
    out: dict[str, BitMap] = {}
    if state.ledger is None or not wanted:
        return out
    try:
        files = table.snapshot(state.ledger.version).files
        for number in files.with_hidden.tolist():
            hidden = files.hidden(number)
            if hidden is not None and hidden.id in wanted:
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
    fewer = sum(
        (now is not None and now.left is None and now.counted and not record.counted)
        for path, record in records.items()
        for now in [state.recorded.get(path)]
    )
    return replace(ledger, uncounted=ledger.uncounted + fewer)
