"""What of an index is damaged goes in one commit, and the indexer builds it again. The rest stays.

A damaged segment goes with all segments of its row space, and the claims of that row space with it: its files
become uncovered, so that questions scan them. What is counted of them stays counted. New settings of the same
content then open a round, as for a column that comes: the indexer finds those files not posted, and posts
them. Nothing is read of the data here, but deletion vectors.

| damaged | what goes | what the indexer does |
|---|---|---|
| a segment | its row space, and the claims of it | posts the files of those claims again |
| value counts | all value counts | counts all files again |
| hidden rows | those rows, read again from the source | nothing; counts all files again where they are lost |
| file records | their files, written again from memory | nothing |
| ledger or settings | that file, written again from memory | nothing |
| a kind that comes | that file: questions do without its rows, as of files older than the kind | nothing |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyroaring import BitMap

from tailbit.errors import CommitConflictError, CorruptIndexError, SourceError
from tailbit.index.kinds.files.kind import FILES
from tailbit.index.kinds.files.rows import files_to_arrow, reclaimed
from tailbit.index.kinds.hidden_rows import HIDDEN_ROWS, write_hidden_rows
from tailbit.index.kinds.kind import Kind
from tailbit.index.kinds.ledger import LEDGER
from tailbit.index.kinds.rows import kind_of
from tailbit.index.kinds.settings import SETTINGS
from tailbit.index.kinds.value_counts import VALUE_COUNTS
from tailbit.index.model import FileRecord, IndexFile, Ledger
from tailbit.index.repair.damage import Damage, spaces_of
from tailbit.index.store.state import IndexState
from tailbit.index.store.table import MetadataTable
from tailbit.tables.table import Table

ATTEMPTS = 20
"""Commits tried beside a running indexer, which commits a few times a second at most."""


@dataclass(frozen=True, slots=True)
class Mended:
    """What a mending took out of an index: index files, and the data files to be posted or counted again."""

    removed: tuple[str, ...]
    to_post: int
    to_count: int


def mend(index: MetadataTable, table: Table, damage: Damage, reason: str) -> Mended:
    """Take out of the index what is damaged, in one commit; `reason` is noted with each file uncovered by it.

    Of two mendings at once one comes after the other. Cost: a record for each file that has to be posted, for
    each live file where all must be counted again; and the deletion vectors of lost hidden rows.

    Raises:
        CorruptIndexError: the records of files cannot be read: all of the index must be built again.
        CommitConflictError: other writers were first again and again.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            return _attempt(index, table, damage, reason)
        except CommitConflictError:
            index.refresh()
    return _attempt(index, table, damage, reason)


def _attempt(index: MetadataTable, table: Table, damage: Damage, reason: str) -> Mended:
    state = index.state
    damage = replace(damage, files=damage.files & state.files.keys())
    if not damage:
        return Mended((), 0, 0)
    hidden, lost = _hidden_again(state, table, damage)
    recount = lost or damage.counts or _holds(damage.files, VALUE_COUNTS)
    spaces = spaces_of(state, damage)
    uncovered = _uncovered(state, spaces, reason)
    records = uncovered
    if recount:
        records = records | _uncounted(state, records)
    removes = _removed(state, damage, spaces, recount)
    rows = _written_again(state, records) if _holds(damage.files, FILES) else None
    again = bool(spaces or recount or damage.records)
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


def _holds(paths: Iterable[str], kind: Kind[Any]) -> bool:
    return any(kind_of(path) == kind.name for path in paths)


def _written_again(state: IndexState, changed: dict[str, FileRecord]) -> pa.Table:
    """All records as rows, some of them changed."""
    return files_to_arrow([changed.get(record.path, record) for record in state.recorded.records()])


def _uncovered(state: IndexState, spaces: Iterable[str], reason: str) -> dict[str, FileRecord]:
    """The records that claim a range of some row spaces, without their claims, by path.

    A counted one keeps the columns that it is counted for, so that its counts can be taken back.
    """
    out = {}
    for record in (record for space in spaces for record in state.recorded.claims(space)):
        bare = reclaimed(record, None, None)
        if record.left is None:
            bare = replace(bare, columns=record.columns if record.counted else (), error=reason)
        out[record.path] = bare
    return out


def _uncounted(state: IndexState, changed: dict[str, FileRecord]) -> dict[str, FileRecord]:
    """The records of all live files as counted nowhere, by path."""
    live = (changed.get(record.path, record) for record in state.recorded.live())
    return {
        record.path: replace(
            record, counted=False, hidden="", columns=record.columns if record.space is not None else ()
        )
        for record in live
    }


def _hidden_again(state: IndexState, table: Table, damage: Damage) -> tuple[list[IndexFile], bool]:
    """Hidden rows read again from the source as a file to commit, and whether some that count are lost."""
    if not damage.hidden and not _holds(damage.files, HIDDEN_ROWS):
        return [], False
    sound = [f.path for f in state.files_of(HIDDEN_ROWS) if f.path not in damage.files and not damage.hidden]
    kept = {i for path in sound for i in HIDDEN_ROWS.read(state.storage, path)["id"].to_pylist()}
    wanted = state.recorded.identities() - kept
    vectors = _vectors(state, table, wanted)
    written = write_hidden_rows(state.storage, vectors)
    return [] if written is None else [written], not wanted <= vectors.keys()


def _vectors(state: IndexState, table: Table, wanted: set[str]) -> dict[str, BitMap]:
    """The rows hidden under some identities, as the source has them at the version that is recorded."""
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
    """The index files that go. Ledger and settings are replaced by every commit that is given settings."""
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
    """The ledger as it is, but for the number of live files that are not counted any more.

    Raises:
        CorruptIndexError: it is not there, so nothing is recorded that could be damaged.
    """
    ledger = state.ledger
    if ledger is None:
        raise CorruptIndexError(file="kind=ledger", reason="there is none, though files are recorded")
    fewer = sum(
        (now is not None and now.left is None and now.counted and not record.counted)
        for path, record in records.items()
        for now in [state.recorded.get(path)]
    )
    return replace(ledger, uncounted=ledger.uncounted + fewer)
