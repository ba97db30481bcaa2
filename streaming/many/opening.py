"""The index of a table of the configuration: opened, made if there is none, made anew if it is unreadable."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from tailbit.errors import CorruptIndexError, IndexNameTakenError, NoIndexError, SourceError, TailbitError
from tailbit.index.advice.counts import decided
from tailbit.index.maintenance.create import indexed_columns, open_or_create
from tailbit.index.maintenance.definitions import add, define, find
from tailbit.index.maintenance.start_over import has_lost_settings, start_over_with
from tailbit.index.model import Definition
from tailbit.index.store.place import index_path, is_made
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.config.check import NEEDS_COLUMNS, checks_of, statement_of
from tailbit.streaming.config.model import TableEntry
from tailbit.streaming.upkeep.mending import Tell
from tailbit.streaming.upkeep.own_log import SURE_S, alone, in_time
from tailbit.streaming.upkeep.own_records import prepare_index
from tailbit.tables.storage import open_storage
from tailbit.tables.storage.refusals import may_pass
from tailbit.tables.table import Table


def opened_index(entry: TableEntry, table: Table, tell: Tell, sure_s: float = SURE_S) -> MetadataTable:
    """Return the index of a table; made anew if its own log stays unreadable, or an older release wrote it.

    Waits `sure_s` seconds for a log that cannot be read, since a writer may be in the middle of a commit.

    Raises:
        IndexerRunningError: the log or the records cannot be read, and another indexer is at work.
        TailbitError: the index cannot be opened or made.
    """
    make = partial(_prepared, entry, table)
    index = in_time(make, entry.storage_options, threading.Event(), tell, sure_s)
    # Only a signal would make `in_time` return None, and no signal sets this event.
    assert index is not None
    return index


def _prepared(entry: TableEntry, table: Table, anew: bool) -> MetadataTable:
    """Open the index of a table, or create it with the columns or the first index of the entry.

    `anew`: rebuild an index whose own log cannot be read, or which an older release wrote.
    """
    place = index_path(table.root, entry.index)
    if anew:
        return _made_anew(entry, table, place)
    if is_made(open_storage(place, table.storage.options)):
        return _as_it_is(entry, table, place)
    if entry.columns is None and entry.indexes:
        return open_or_create(table, place, _first_index(entry, table))[0]
    if entry.columns is None:
        raise NoIndexError(path=place, hint=NEEDS_COLUMNS)
    return prepare_index(table, place, entry.columns)


def _as_it_is(entry: TableEntry, table: Table, place: str) -> MetadataTable:
    """Open an index that is there, with whatever it has; one whose settings are lost is made anew."""
    try:
        return prepare_index(table, place, None)
    except CorruptIndexError as damage:
        if not has_lost_settings(place, damage):
            raise
        with alone(open_storage(place, table.storage.options)):
            return _made_anew(entry, table, place)


def differences(entry: TableEntry, table: Table, index: MetadataTable) -> list[str]:
    """Return a line for each difference between an entry and its index, which goes on with what it has.

    Raises:
        StorageError: the store does not answer, or refuses, now.
    """
    lines = []
    for check in checks_of(entry, table, index):
        try:
            check.run()
        except TailbitError as differs:
            if may_pass(differs) or isinstance(differs, SourceError):
                raise
            if check.goes_on:
                lines.append(f"{differs}; the index goes on with what it has. {differs.hint}")
    return lines


def _first_index(entry: TableEntry, table: Table) -> Definition:
    """Return the definition of the first named index in a table's entry of the configuration."""
    first = entry.indexes[0]
    definition = define(statement_of(first, table.root), table.snapshot().schema, first.zone)
    return decided(table, [definition])[0]


def _made_anew(entry: TableEntry, table: Table, place: str) -> MetadataTable:
    """Return an empty index with the settings of the old one, or those of the entry if the old are lost."""
    options = table.storage.options
    start_over_with(place, partial(_definitions, entry, table), options)
    return MetadataTable.open(place, options=options)


def _definitions(entry: TableEntry, table: Table) -> Sequence[Definition] | None:
    """Return what a new index of an entry has at first; None if the entry does not say."""
    if entry.columns is not None:
        return decided(table, indexed_columns(table, entry.columns))
    return (_first_index(entry, table),) if entry.indexes else None


def define_missing(entry: TableEntry, table: Table, index: MetadataTable) -> None:
    """Create the indexes by name that the entry has and the index lacks.

    One whose terms the index has under another name is left out: `differences` names it.
    """
    for written in entry.indexes:
        if find(index.state.settings.definitions, written.name) is None:
            schema = table.snapshot().schema
            definition = define(statement_of(written, table.root), schema, written.zone)
            with suppress(IndexNameTakenError):
                add(index, decided(table, [definition])[0], schema)
