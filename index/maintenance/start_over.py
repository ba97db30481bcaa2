"""An index whose records cannot be read is emptied in place, in one commit, and built again by the indexer.

It becomes another index at the same place: a new identity, of which nothing is recorded. Whoever has the old
one open sees the identity change and forgets what was recorded.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from tailbit.errors import CorruptIndexError
from tailbit.index.kinds.rows import kind_of
from tailbit.index.kinds.schemas import KINDS, Kinds
from tailbit.index.kinds.settings import FORMAT, SETTINGS, settings_from_arrow, settings_to_arrow
from tailbit.index.model import IndexedColumn, IndexFile, Settings
from tailbit.index.store.commit_log import commit_log
from tailbit.tables import open_table
from tailbit.tables.storage import Storage, StorageOptions, open_storage


def start_over(
    path: str, columns: Sequence[IndexedColumn] | None, options: StorageOptions, kinds: Kinds = KINDS
) -> Settings:
    """Empty the index at `path`; it keeps its settings, or gets `columns` where these cannot be read.

    Its files stay on disk until they are swept.

    Raises:
        CorruptIndexError: the settings cannot be read, and no columns are given.
        CommitConflictError: another process committed at this moment.
        StorageError: the store refused; the index is as it was.
    """
    log, storage = open_table(path, options), open_storage(path, options)
    snapshot = log.snapshot()
    files = [IndexFile(slice_.path, slice_.size, slice_.rows or 0) for slice_ in snapshot.files]
    settings = _settings(path, storage, files, columns)
    written = SETTINGS.write(storage, settings_to_arrow(settings, 1))
    writer = commit_log(storage, path, kinds.table_schema())
    writer.commit(snapshot.version, settings.index_id, 1, [written], files, data_change=True)
    return settings


def _settings(
    path: str, storage: Storage, files: Sequence[IndexFile], columns: Sequence[IndexedColumn] | None
) -> Settings:
    """The settings that the index had, or fresh ones for some columns; with a new identity."""
    identity = uuid.uuid4().hex
    mine = [file.path for file in files if kind_of(file.path) == SETTINGS.name]
    try:
        (rows,) = (SETTINGS.read(storage, name) for name in mine)
        return replace(settings_from_arrow(rows, path)[0], index_id=identity, dropped=())
    except (CorruptIndexError, ValueError) as damage:
        if columns is None:
            file = mine[0] if mine else f"kind={SETTINGS.name}"
            raise CorruptIndexError(
                file=file,
                reason="the settings cannot be read, so the columns to index are not known",
                hint="Give --columns a,b,c: the index is built again. Questions scan the data meanwhile.",
            ) from damage
        return Settings(version=1, index_id=identity, format=FORMAT, columns=tuple(columns))
