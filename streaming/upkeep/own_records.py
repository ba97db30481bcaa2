"""The index's own records: if they stay unreadable while no other indexer is at work, the index is rebuilt.

A passing error of a store looks like damage when a file is read, and a second indexer that starts by mistake
meets the same damage as the one at work, which mends it by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from tailbit.errors import CorruptIndexError, IndexLogError, StorageError
from tailbit.index.maintenance import create
from tailbit.index.repair.damage import why_damaged
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.upkeep.own_log import alone
from tailbit.tables.storage import open_storage
from tailbit.tables.table import Table

_ATTEMPTS = 3
"""How often an index is opened whose records could be read after an error."""


def prepare_index(
    table: Table, path: str, columns: Sequence[str] | None, *, anew: bool = False
) -> MetadataTable:
    """Open or create an index as `create.prepare_index` does, and never empty one that is sound or in use.

    With `anew`, the caller holds the heartbeat of the index.

    Raises:
        IndexerRunningError: the records cannot be read, and another indexer is at work.
        StorageError: the records cannot be read for a reason that says nothing about them.
        CorruptIndexError: records and settings cannot be read, and no columns are given.
        TailbitError: the index cannot be opened or created.
    """
    if anew:
        return create.prepare_index(table, path, columns, anew=True)
    opened = _opened(table, path, columns)
    if isinstance(opened, MetadataTable):
        return opened
    storage = open_storage(path, table.storage.options)
    with alone(storage):
        for _ in range(_ATTEMPTS):
            if why_damaged(storage, opened) is not None:
                return create.prepare_index(table, path, columns)
            opened = _opened(table, path, columns)
            if isinstance(opened, MetadataTable):
                return opened
    raise StorageError(path=f"{path}/{opened}", reason="it was read now and then, and then again not")


def _opened(table: Table, path: str, columns: Sequence[str] | None) -> MetadataTable | str:
    """Open or create an index; return the file of its records that could not be read, if one could not."""
    try:
        return create.prepare_index(table, path, columns, keep=True)
    except IndexLogError:
        raise
    except CorruptIndexError as damage:
        return str(damage.fields["file"])
