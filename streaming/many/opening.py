"""The index of a table of the configuration: opened or made, compared with its entry, and completed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from tailbit.base.errors import IndexNameTakenError, NoIndexError, SourceError, TailbitError
from tailbit.index.advice.counts import decided
from tailbit.index.maintenance.create import indexed_columns
from tailbit.index.maintenance.definitions import add, define, find
from tailbit.index.model import Definition
from tailbit.index.store.place import index_path, is_made
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.config.check import NEEDS_COLUMNS, checks_of, statement_of
from tailbit.streaming.config.model import TableEntry
from tailbit.streaming.opening import SURE_S, open_index
from tailbit.streaming.upkeep.mending import Tell
from tailbit.tables.storage import open_storage
from tailbit.tables.storage.refusals import may_pass
from tailbit.tables.table import Table


def opened_index(entry: TableEntry, table: Table, tell: Tell, sure_s: float = SURE_S) -> MetadataTable:
    """Return the index of a table, with whatever it has; one that is made has what the entry says.

    Raises:
        NoIndexError: there is no index, and the entry does not say what it has.
        TailbitError: the index cannot be opened or made, as of `open_index`.
    """
    place = index_path(table.root, entry.index)
    says_nothing = entry.columns is None and not entry.indexes
    if says_nothing and not is_made(open_storage(place, table.storage.options)):
        raise NoIndexError(path=place, hint=NEEDS_COLUMNS)
    first = partial(_first_definitions, entry, table)
    index = open_index(table, place, first, must_match=False, tell=tell, sure_s=sure_s)
    # Without an event to set, the wait for a log does not end early.
    assert index is not None
    return index


def _first_definitions(entry: TableEntry, table: Table) -> Sequence[Definition] | None:
    """Return what a new index of an entry has at first; None if the entry does not say."""
    if entry.columns is not None:
        return indexed_columns(table, entry.columns)
    return (_first_index(entry, table),) if entry.indexes else None


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
    return define(statement_of(first, table.root), table.snapshot().schema, first.zone)


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
