"""What lies where a table was looked for and is none, and what to give instead."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from tailbit.base.errors import NotATableError, StorageError
from tailbit.base.wording import did_you_mean
from tailbit.tables.storage import LocalStorage, Storage, StorageOptions, open_storage
from tailbit.tables.table import FormatWords

_LEVELS = 8
"""Folders above a path that are looked at for the log of a table."""
_SUBFOLDERS = 50
"""Folders in a folder that are looked at for the log of a table."""
_SHOWN = 3
"""Tables of a folder that are named."""


def no_table(path: str, storage: Storage, formats: Sequence[FormatWords]) -> NotATableError:
    """Return the error for a place without a table: it says what is there, and what to give instead.

    `formats`: the words of the formats that were looked for. Cost: a listing, and some probes of the folders
    above and below.
    """
    logs = [words.log for words in formats]
    reason, hint = _described(path, storage, [words.shown_by for words in formats], logs)
    hint = hint or f"Give the folder that holds {' or '.join(logs)}."
    kind = " and no ".join(words.kind for words in formats)
    return NotATableError(path=path or "''", reason=reason, kind=kind, log=" or ".join(logs), hint=hint)


def _described(path: str, storage: Storage, marks: Sequence[str], logs: Sequence[str]) -> tuple[str, str]:
    """Return what is at a path, and what to give instead; empty for the folder of a log.

    `marks`: the files and folders that show a table of a format; `logs`: the folders of the logs.
    """
    if not path.strip():
        return "the path is empty", ""
    contents = storage.contents()
    around = _table_around(storage.root, storage.options, marks)
    if contents is None:
        parquet = storage.root.endswith(".parquet")
        reason = "it is a Parquet file and no folder" if parquet else "it is a file and no folder"
        return reason, f"Give the folder of its table: {around}" if around else _CONVERT if parquet else ""
    if not contents:
        return _nothing(path, storage)
    if around is not None:
        return f"it lies within the table {around}", f"Give the folder of the table: {around}"
    tables = [
        name for name in contents[:_SUBFOLDERS] if any(storage.exists(f"{name}/{mark}") for mark in marks)
    ]
    if tables:
        shown = ", ".join(tables[:_SHOWN]) + (", ..." if len(tables) > _SHOWN else "")
        return f"it holds tables: {shown}", f"Give one of them: {path.rstrip('/')}/{tables[0]}"
    if any(name.endswith(".parquet") or "=" in name for name in contents):
        return "it holds Parquet files without a log", _CONVERT
    return f"it has no {' and no '.join(logs)}", ""


_CONVERT = (
    "Make its folder a table first: CONVERT TO DELTA parquet.`/folder` in Spark with Delta, or"
    " deltalake.convert_to_deltalake('/folder') in Python."
)


def _nothing(path: str, storage: Storage) -> tuple[str, str]:
    """Return what to say of a path without any contents."""
    if not isinstance(storage, LocalStorage):
        return "there is nothing", ""
    root = storage.root
    if os.path.islink(root) and not os.path.exists(root):
        target = os.path.join(os.path.dirname(root), os.readlink(root))
        return f"it is a link to {target}, which does not exist", ""
    if os.path.isdir(root):
        return "the folder is empty", ""
    reason = "there is no such folder"
    if path.startswith("~"):
        return reason, f"A ~ within quotes is not expanded: give {os.path.expanduser(path)}"
    if path.endswith("`"):
        return reason, f"Give the plain path of the folder: {path.strip('`').rpartition('`')[2]}"
    above, name = os.path.split(root)
    meant = ""
    with suppress(OSError):
        meant = did_you_mean(name, os.listdir(above)).strip()
    if not os.path.isabs(path) and "/" not in path and "`" not in path:
        meant = f"It was looked for in {above}; a name in a catalog is known to Spark alone. {meant}"
    return reason, f"Give the folder that holds the table's log. {meant}".strip() if meant else ""


def _table_around(root: str, options: StorageOptions, marks: Sequence[str]) -> str | None:
    """Return the nearest folder above a root that holds a table; None if there is none."""
    for _ in range(_LEVELS):
        root = root.rpartition("/")[0]
        if not root or root.endswith((":", ":/", "/")):
            return None
        with suppress(StorageError):
            above = open_storage(root, options)
            if any(above.exists(mark) for mark in marks):
                return root
    return None
