"""The status of an index relative to its table: columns, covered version, head, lag, segments, sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from typing import Any

from tailbit.base.errors import CommitGapError, CorruptIndexError, NoIndexError, VersionNotFoundError
from tailbit.checkpoints.builds import BuildProgress
from tailbit.checkpoints.lag import Backlog, lag_of_nothing
from tailbit.checkpoints.signs import LastSign, State, last_sign
from tailbit.handle import opened
from tailbit.index.maintenance.create import remembered_settings
from tailbit.index.maintenance.definitions import requirements_of
from tailbit.index.maintenance.rebuild import BuildExtent, build_extent_of, lacking
from tailbit.index.model import REPLACES, Definition, Standing
from tailbit.index.postings.encoding import Encoding, encoding_of
from tailbit.index.postings.segment import Segment
from tailbit.index.store.state import statistics_of
from tailbit.index.store.table import MetadataTable
from tailbit.tables.model import Version
from tailbit.tables.storage import open_storage
from tailbit.tables.table import Table
from tailbit.upkeep.table import MaintainedTable

_FILES = 10_000
"""Most files whose statistics are checked for unreadable ones."""

_COMMITS = 10_000
"""Most commits read to count the files and bytes that are not covered."""


def status_of(
    path: str, index: str | None = None, storage_options: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return a JSON-able account of an index.

    `files_to_post`, `rows_to_post`: per index that was added, live files, and their rows, that are still
    scanned for it. `set_aside`: parts of the source's log that are ignored because they cannot be read; the
    statistics of the first 10,000 files are checked. `indexes`: every index by name. `not_covered`: reason,
    such as a damaged index file, to the number of recorded files that are scanned for it. `state`: `empty`
    (nothing recorded yet), `building` (the first snapshot is being read), `complete`, or `other history` (the
    source log is not the one that was indexed; questions scan until the indexer has caught up).
    `covered_version`: the last version of which everything is recorded. `lag`: versions behind the head,
    their files and bytes as far as their commits are in the log, and seconds since the oldest. `encodings`:
    per column, from the footers of the segments, whether postings are `roaring` bitmaps, `sparse` lists of
    positions or `mixed` (None without postings), keys, sparse keys, bytes and bytes per row;
    `damaged_segments`: left out of `encodings`. `damage`: why the index, or its file records, cannot be read;
    `remedy`: the command that mends the damage; entries that are unknown then are left out. `build`: of an
    index that is not built as a whole, the files, rows and bytes that are and those of all, by its records;
    while an indexer builds it, also what is not committed yet, the rate and the time left.
    """
    table = opened(MaintainedTable, path, index, storage_options)
    index_log = table._index
    account: dict[str, Any] = {"table": table.path, "index": table.index_path}
    storage = open_storage(table.index_path, table._table.storage.options)
    if index_log is None:
        if table.damage is None:
            raise NoIndexError(path=table.index_path)
        unread = _of_older_format(table) if table.older_format else _unreadable(table, table.damage)
        return {**account, **unread, **_indexer(last_sign(storage))}
    names, sign = table.indexed(), last_sign(storage)
    return {
        **account,
        "columns": list(names.values()),
        **_recorded(table, index_log, names),
        "indexes": _indexes(table),
        **_progress(table, index_log, sign),
        **_sizes(index_log, names),
        **_indexer(sign),
    }


def _indexes(table: MaintainedTable) -> list[dict[str, Any]]:
    """Return the fields that `status_of` shows of each index; no index if a needed index file is damaged.

    The fields: name, kind, terms, condition on partition columns, state, and number of files left to build.
    """
    try:
        listed = table.indexes()
    except CorruptIndexError:
        return []
    fields = ("name", "kind", "terms", "only", "state", "files_left")
    return [{field: getattr(index, field) for field in fields} for index in listed]


def _indexer(last: LastSign | None) -> dict[str, Any]:
    """Return the running indexer, and its last sign of life.

    Of the sign: its age in seconds; its `state` (`alive`; `stale`: hung, or killed on another machine;
    `dead`: its process has ended); what the indexer was `doing`; the `meaning` in words; whether it is an
    application of many tables.
    """
    if last is None:
        return {"indexer": None, "last_sign_of_life": None}
    sign = {
        "owner": last.beat.owner,
        "seconds": round(last.seconds, 1),
        "state": last.state.value,
        "batch": last.beat.batch,
        "doing": last.beat.doing,
        "meaning": last.meaning,
        "of_application": last.of_application,
    }
    alive = last.state is State.ALIVE
    return {"indexer": last.beat.owner if alive else None, "last_sign_of_life": sign}


def is_within(account: Mapping[str, Any], max_lag: float) -> bool:
    """Return whether an index is complete, and no commit waits longer than `max_lag` seconds."""
    lag = account.get("lag")
    if account.get("state") != Standing.COMPLETE.value or lag is None:
        return False
    return not lag["versions"] or 0 < max_lag >= lag["seconds"]


def _of_older_format(table: MaintainedTable) -> dict[str, Any]:
    """Return the account of an index that an older release wrote: its columns, and nothing covered."""
    settings = remembered_settings(table.index_path, table._table.storage.options)
    head = table._table.head()
    return {
        "columns": [] if settings is None else [column.label for column in settings.columns],
        "state": table.state,
        "covered_version": None,
        "head": table._table.name_of(head),
        "lag": _lag(table._table, None, head),
        "remedy": "of an older format: run makes it anew, with its columns",
    }


def _unreadable(table: MaintainedTable, damage: CorruptIndexError) -> dict[str, Any]:
    return {"state": table.state, "head": table._table.name_of(table._table.head()), **_damaged(damage)}


def _damaged(damage: CorruptIndexError) -> dict[str, Any]:
    return {"damage": str(damage), "remedy": damage.hint}


def _recorded(table: MaintainedTable, index: MetadataTable, columns: Mapping[str, str]) -> dict[str, Any]:
    """Return the files that are scanned although recorded; or the damage that keeps this from being read."""
    definitions = index.state.settings.definitions
    schema = table._table.snapshot().schema
    try:
        unposted = lacking(index.state, requirements_of(definitions, schema)).unbuilt()
        errors = index.state.recorded.errors()
    except CorruptIndexError as damage:
        return _damaged(damage)
    names = {d.id: _name(d, columns) for d in definitions}
    return {
        "files_to_post": {names[id_]: files for id_, (files, _) in unposted.items()},
        "rows_to_post": {names[id_]: rows for id_, (_, rows) in unposted.items()},
        "not_covered": errors,
    }


def _name(definition: Definition, columns: Mapping[str, str]) -> str:
    """Return the name of a definition: its own name, or else the current name of its column."""
    if REPLACES in definition.options:
        return f"{definition.name} (rebuilt)"
    own = definition.name != definition.label
    return definition.name if own else columns.get(definition.id, definition.name)


def _progress(table: MaintainedTable, index: MetadataTable, sign: LastSign | None) -> dict[str, Any]:
    """Return state, versions, lag, what is not indexed, and what is built of an index that is not yet whole.

    The lag of an index that covers no version is that of all files, without those that are built already.
    """
    ledger, standing, head = index.state.ledger, table._standing(), table._table.head()
    snapshot = table._table.snapshot(head)
    covered = None if ledger is None or standing is Standing.OTHER_HISTORY else ledger.covered
    lag = _lag(table._table, covered, head)

    @cache
    def extent_at(version: Version) -> BuildExtent:
        return build_extent_of(index.state, table._table.snapshot(version))

    if standing is Standing.BUILDING and covered is None:
        with suppress(CorruptIndexError):
            remaining = extent_at(head).unbuilt
            lag |= {"files": remaining.files, "bytes": remaining.bytes}
    return {
        "state": standing.value,
        "covered_version": None if covered is None else table._table.name_of(covered),
        "head": table._table.name_of(head),
        "lag": lag,
        "round": None if ledger is None else ledger.round,
        "uncounted_files": 0 if ledger is None else ledger.uncounted,
        "set_aside": snapshot.set_aside(range(min(_FILES, len(snapshot.files)))),
        **_build(table, index, extent_at, sign, lag["versions"]),
    }


def _build(
    table: MaintainedTable,
    index: MetadataTable,
    extent_at: Callable[[Version], BuildExtent],
    sign: LastSign | None,
    behind: int,
) -> dict[str, Any]:
    """Return what is built of an index that is not yet whole: as its indexer says, else by its records.

    `extent_at`: of a version. `behind`: versions that are not covered. Nothing is returned if the records
    cannot be read, which `damage` says, and if nothing is left, of which the last beat may not know yet.
    """
    try:
        extent = extent_at(_version_built(table, index))
    except CorruptIndexError:
        return {}
    if not extent.unbuilt.files and not behind:
        return {}
    running = sign.beat.builds if sign is not None and sign.state is State.ALIVE else {}
    if index.state.index_id in running:
        return {"build": dict(running[index.state.index_id])}
    return {"build": BuildProgress("", extent).account()} if extent.unbuilt.files else {}


def _version_built(table: MaintainedTable, index: MetadataTable) -> Version:
    """Return the version that an index is built for; the newest if the log no longer has it."""
    ledger = index.state.ledger
    if ledger is not None and table._standing() is not Standing.OTHER_HISTORY:
        with suppress(CommitGapError, VersionNotFoundError):
            return table._table.snapshot(ledger.version).version
    return table._table.head()


def _sizes(index: MetadataTable, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the sizes of the index, and the encoding of each column's postings."""
    sizes = statistics_of(index.version, index.state)
    encodings, damaged = _encodings(index.state.spaces.values(), names)
    return {
        "row_spaces": sizes.spaces,
        "segments": sizes.segments,
        "encodings": {names[column]: encoding.account() for column, encoding in encodings.items()},
        "damaged_segments": damaged,
        "index_version": sizes.version,
        "index_bytes": dict(sizes.bytes),
    }


def _encodings(
    spaces: Iterable[Sequence[Segment]], columns: Iterable[str]
) -> tuple[dict[str, Encoding], list[str]]:
    """Return the encoding of each column, and the segments whose footer cannot be read."""
    sound: list[Segment] = []
    damaged: list[str] = []
    for segment in chain.from_iterable(spaces):
        try:
            for column in segment.columns:
                encoding_of([segment], column)
        except CorruptIndexError:
            damaged.append(segment.path)
        else:
            sound.append(segment)
    return {column: encoding_of(sound, column) for column in columns}, sorted(damaged)


def _lag(table: Table, covered: Version | None, head: Version) -> dict[str, Any]:
    nothing = covered is None
    lag = lag_of_nothing(table, head) if nothing else Backlog(table, budget=_COMMITS).lag(covered or 0, head)
    return {**lag.account(), "seconds": round(lag.seconds, 1)}
