"""Creation of an index, or opening of an existing one after checking its columns."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from tailbit.errors import (
    CommitConflictError,
    CorruptIndexError,
    IndexFormatError,
    IndexLogError,
    NoIndexError,
    UsageError,
)
from tailbit.index.advice.counts import decided
from tailbit.index.kinds.settings import format_of
from tailbit.index.maintenance.start_over import check_columns, start_over
from tailbit.index.model import Definition, Settings
from tailbit.index.store.place import refuse_index_as_table
from tailbit.index.store.table import MetadataTable
from tailbit.tables.storage import StorageOptions
from tailbit.tables.table import Table


def prepare_index(
    table: Table, path: str, columns: Sequence[str] | None, *, anew: bool = False, keep: bool = False
) -> MetadataTable:
    """Open the index at `path`, or create it; check its columns against `columns`, if given.

    The index's store is opened with the options of the table's store. An index whose records cannot be read
    is created again, to be rebuilt, but not with `keep`; with `anew` also an index whose own log cannot be
    read, or which has an older format.

    Raises:
        CorruptIndexError: the index's settings cannot be read, and no columns are given; with `keep`: its
            records cannot be read.
        IndexLogError: the index's own log cannot be read.
        IndexFormatError: another release wrote the index.
        UsageError: no index exists and no columns are given.
        SettingsError: the settings of the index have other columns.
        UnknownColumnError, ColumnTypeError: a column does not exist or cannot be indexed.
    """
    wanted_columns = None if columns is None else indexed_columns(table, columns)
    options = table.storage.options
    try:
        index = _open(path, options)
    except (CorruptIndexError, IndexFormatError) as damage:
        if keep or not _may_start_over(damage, anew):
            raise
        start_over(path, wanted_columns, options)
        index = _open(path, options)
    if index is None:
        refuse_index_as_table(table)
    if index is None and wanted_columns is None:
        raise UsageError(
            reason=f"no index at {path} yet, and no columns are given", hint="Give --columns a,b,c."
        )
    if index is None and wanted_columns is not None:
        index, _ = _create(path, decided(table, wanted_columns), options)
    assert index is not None
    if wanted_columns is not None:
        check_columns(path, index.state.settings.columns, wanted_columns)
    return index


def _may_start_over(damage: CorruptIndexError | IndexFormatError, anew: bool) -> bool:
    """Return whether an unreadable index may be replaced by an empty one.

    Without `anew`, a writer may be in the middle of its newest commit, or an indexer of an older release may
    be running.
    """
    if isinstance(damage, IndexFormatError):
        return anew and damage.is_older
    return anew or not isinstance(damage, IndexLogError)


def _open(path: str, options: StorageOptions) -> MetadataTable | None:
    """Open the index at a path and read its records; return None if there is none.

    Raises:
        CorruptIndexError: the index's settings, ledger or records cannot be read.
    """
    try:
        index = MetadataTable.open(path, options=options)
    except NoIndexError:
        return None
    index.state.recorded.table()
    return index


def _create(
    path: str, definitions: tuple[Definition, ...], options: StorageOptions
) -> tuple[MetadataTable, bool]:
    """Create an index, or open it if another process was first; return it, and whether it was created."""
    settings = Settings(1, uuid.uuid4().hex, format_of(definitions), definitions)
    try:
        return MetadataTable.create(path, settings, options=options), True
    except CommitConflictError:
        return MetadataTable.open(path, options=options), False


def open_or_create(table: Table, path: str, definition: Definition) -> tuple[MetadataTable, bool]:
    """Open the index at `path`, or create it with one definition; return it, and whether it was created here.

    Raises:
        CorruptIndexError: the index cannot be read.
        IndexFormatError: another release wrote the index.
    """
    options = table.storage.options
    index = _open(path, options)
    return (index, False) if index is not None else _create(path, (definition,), options)


def indexed_columns(table: Table, columns: Sequence[str]) -> tuple[Definition, ...]:
    """Return the named columns in the form in which an index records them.

    Raises:
        UsageError: no columns are given.
        UnknownColumnError, ColumnTypeError: a column does not exist or cannot be indexed.
    """
    resolved = table.snapshot().schema.resolve_all(columns)
    if not resolved:
        raise UsageError(reason="no columns are given", hint="Give --columns a,b,c.")
    return tuple(map(Definition.of_column, resolved))
