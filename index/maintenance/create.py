"""Creation of an index, or opening of an existing one with all its records."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

from tailbit.base.errors import CommitConflictError, NoIndexError, UsageError
from tailbit.index.kinds.settings import format_of
from tailbit.index.model import Definition, Settings
from tailbit.index.store.table import MetadataTable
from tailbit.tables.storage import StorageOptions
from tailbit.tables.table import Table


def open_or_create(
    path: str, definitions: Callable[[], Sequence[Definition]], options: StorageOptions
) -> tuple[MetadataTable, bool]:
    """Open the index at `path` and read its records, or create it; return it, and whether it was created.

    `definitions`: returns what a new index has.

    Raises:
        CorruptIndexError: the index's settings, ledger or records cannot be read.
        IndexLogError: the index's own log cannot be read.
        IndexFormatError: another release wrote the index.
    """
    try:
        index = MetadataTable.open(path, options=options)
    except NoIndexError:
        return _create(path, tuple(definitions()), options)
    index.state.recorded.table()
    return index, False


def _create(
    path: str, definitions: tuple[Definition, ...], options: StorageOptions
) -> tuple[MetadataTable, bool]:
    """Create an index, or open it if another process was first; return it, and whether it was created."""
    settings = Settings(1, uuid.uuid4().hex, format_of(definitions), definitions)
    try:
        return MetadataTable.create(path, settings, options=options), True
    except CommitConflictError:
        return MetadataTable.open(path, options=options), False


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
