"""Where the index of a table is, what lies there, and its own log as a table."""

from __future__ import annotations

from tailbit.errors import ForeignIndexError, NoIndexError, NotATableError
from tailbit.tables import open_table
from tailbit.tables.storage import Storage
from tailbit.tables.table import Table

INDEX_FOLDER = "_tailbit"


def index_path(table: str, index: str | None = None) -> str:
    """Where the index of a table is: as given, else `_tailbit` below the table."""
    return index if index is not None else f"{table.rstrip('/')}/{INDEX_FOLDER}"


def is_made(storage: Storage) -> bool:
    """Whether there is an index: its log holds something."""
    return bool(storage.list("_delta_log"))


def log_of(path: str, storage: Storage) -> Table:
    """The log of an index.

    Raises:
        NoIndexError: there is nothing at the path.
        ForeignIndexError: the path holds something else.
    """
    try:
        return open_table(path, storage.options)
    except NotATableError as nothing:
        refuse_foreign(path, storage)
        raise NoIndexError(path=path) from nothing


def refuse_foreign(path: str, storage: Storage) -> None:
    """Refuse a file, or a folder with anything in it that an index would not have put there.

    What a killed creation left (folders `kind=...`), the Spark checkpoint and heartbeats are our own.
    """
    contents = storage.contents()
    if contents is None:
        raise ForeignIndexError(path=path, reason="it is a file")
    for name in contents:
        if not name.startswith(("_", ".", "kind=")):
            raise ForeignIndexError(path=path, reason=f"it holds {name}")
