"""Open a table in the format that the folder of its log indicates.

A new format is a folder beside `delta` and a line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tailbit.errors import NotATableError
from tailbit.tables.delta.log.listing import LOG
from tailbit.tables.delta.table import DeltaTable
from tailbit.tables.storage import NO_OPTIONS, Storage, StorageOptions, open_storage
from tailbit.tables.table import Table

FORMATS: Mapping[str, Callable[[Storage], Table]] = {LOG: DeltaTable.open}
"""Openers by the name of the log folder that marks the format."""


def open_table(path: str, options: StorageOptions = NO_OPTIONS) -> Table:
    """Open the table at a path or URI, whatever its format; `options` configure its store.

    Raises:
        NotATableError: the folder is missing or holds no table of a known format.
        StorageError: the scheme has no store, or the store refuses.
    """
    storage = open_storage(path, options)
    for folder, opened in FORMATS.items():
        try:
            return opened(storage)
        except NotATableError:
            if storage.exists(folder):
                raise
    if not storage.exists(""):
        raise NotATableError(path=path, reason="there is no such folder")
    raise NotATableError(path=path, reason=f"it has no {' and no '.join(FORMATS)}")
