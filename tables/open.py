"""Open a table in the format that the folder of its log indicates.

A new format is a folder beside `delta` and a line here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tailbit.errors import NotATableError
from tailbit.tables.delta.table import DeltaTable
from tailbit.tables.delta.words import WORDS
from tailbit.tables.storage import NO_OPTIONS, Storage, StorageOptions, open_storage
from tailbit.tables.table import FormatWords, Table

FORMATS: Sequence[tuple[FormatWords, Callable[[Storage], Table]]] = ((WORDS, DeltaTable.open),)
"""The formats: words, of which the log's folder marks the format, and the opener."""


def open_table(path: str, options: StorageOptions = NO_OPTIONS) -> Table:
    """Open the table at a path or URI, whatever its format; `options` configure its store.

    Raises:
        NotATableError: the folder is missing or holds no table of a known format.
        StorageError: the scheme has no store, or the store refuses.
    """
    storage = open_storage(path, options)
    for words, opened in FORMATS:
        try:
            return opened(open_source(path, words.log, options))
        except NotATableError:
            if storage.exists(words.log):
                raise
    logs = [words.log for words, _ in FORMATS]
    reason = f"it has no {' and no '.join(logs)}" if storage.exists("") else "there is no such folder"
    kinds = " and no ".join(words.kind for words, _ in FORMATS)
    raise NotATableError(path=path, reason=reason, kind=kinds, log=" or ".join(logs))


def open_source(root: str, log: str, options: StorageOptions = NO_OPTIONS) -> Storage:
    """Return the store of a table's files, as `Table.storage` is; workers open it too.

    `log`: the folder of the log, by which a format is known. Cost: no access to the store.

    Raises:
        StorageError: the scheme has no store.
    """
    return open_storage(root, options).of_table(log)
