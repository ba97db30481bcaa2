"""Location of the index of a table, what exists at that location, and the index's own log as a table."""

from __future__ import annotations

import re

from tailbit.base.errors import ForeignIndexError, NoIndexError, NotATableError
from tailbit.tables.open import open_index_log
from tailbit.tables.storage import Storage
from tailbit.tables.table import Table

INDEX_FOLDER = "_tailbit"

OF_A_VERSION = re.compile(r"\d{20}\.")
"""How the names of commits and log checkpoints of an index begin."""


def index_path(table: str, index: str | None = None) -> str:
    """Return the location of a table's index: `index` if given, else folder `_tailbit` below the table."""
    return index if index is not None else f"{table.rstrip('/')}/{INDEX_FOLDER}"


def is_made(storage: Storage) -> bool:
    """Return whether an index exists: whether its log folder holds a commit or a log checkpoint.

    What a writer that was killed before its first commit left there is no index.
    """
    return any(OF_A_VERSION.match(entry.name) for entry in storage.list("_delta_log"))


def log_of(path: str, storage: Storage) -> Table:
    """Return the log of an index.

    Raises:
        NoIndexError: the path is empty.
        ForeignIndexError: the path holds something else.
    """
    try:
        return open_index_log(path, storage.options)
    except NotATableError as nothing:
        refuse_foreign(path, storage)
        raise NoIndexError(path=path) from nothing


def refuse_index_as_table(table: Table) -> None:
    """Refuse an index that is given as a table, since it is a Delta table too. Cost: a probe.

    Raises:
        NotATableError: the table is the metadata table of an index.
    """
    if not table.storage.exists(_SETTINGS) or "settings_version" not in table.snapshot().schema.arrow().names:
        return
    parent, _, name = table.root.rpartition("/")
    hint = f"Give the table itself: {parent}" if name == INDEX_FOLDER else "Give the table that it is of."
    raise NotATableError(
        path=table.root, reason="it is an index of tailbit", kind="table", log=table.words.log, hint=hint
    )


_SETTINGS = "kind=settings"
"""The folder of the settings, which every index has."""


def refuse_foreign(path: str, storage: Storage) -> None:
    """Refuse an index path that is a file, or a folder with files that do not belong to an index.

    The remains of an interrupted creation (folders `kind=...`), the Spark checkpoint and heartbeat files
    belong to the index.
    """
    contents = storage.contents()
    if contents is None:
        raise ForeignIndexError(path=path, reason="it is a file")
    for name in contents:
        if not name.startswith(("_", ".", "kind=")):
            raise ForeignIndexError(path=path, reason=f"it holds {name}")
