"""Open a table in the format that the folder of its log indicates, or in the one that the options name."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress

from tailbit.base.errors import NotATableError, StorageError, TwoFormatsError, UsageError
from tailbit.base.wording import did_you_mean
from tailbit.tables.delta.table import DeltaTable
from tailbit.tables.delta.words import LOG as DELTA_LOG
from tailbit.tables.formats import FORMATS, NAMES
from tailbit.tables.schema import name_parts
from tailbit.tables.storage import NO_OPTIONS, LocalStorage, Storage, StorageOptions, open_storage
from tailbit.tables.table import Format, FormatWords, Table


def open_table(path: str, options: StorageOptions = NO_OPTIONS, alone: bool = True) -> Table:
    """Open the table at a path or URI, whatever its format; `options` configure its store.

    `alone`: check that the folder holds no table of another format, unless the options name one. Cost of the
    check: a probe for each other format.

    Raises:
        NotATableError: the folder is missing or holds no table of a known format.
        TwoFormatsError: the folder holds two tables, and the options name the format of neither.
        UsageError: the options name a format that is not known.
        StorageError: the scheme has no store, or the store refuses.
    """
    path, options = located(path, options)
    storage, formats = open_storage(path, options), _wanted(options)
    possible = [*formats]
    for table_format in formats:
        try:
            table = table_format.open(open_source(path, table_format.words.log, options))
        except NotATableError as reason:
            if reason.fields.get("is_there") or storage.exists(table_format.words.shown_by):
                _check_alone(storage, table_format, possible)
                raise
            possible.remove(table_format)
        else:
            if alone:
                _check_alone(storage, table_format, possible)
            return table

    words = [table_format.words for table_format in formats]
    raise no_table(path, storage, words)


def located(path: str, options: StorageOptions = NO_OPTIONS) -> tuple[str, StorageOptions]:
    """Return the root of a table and the options to open it with.

    The path may be that of a metadata file, or the URI of a table of a catalog, which is then asked.

    >>> located("/t/metadata/v3.metadata.json")[0]
    '/t'

    Raises:
        CatalogError, NotATableError, RequirementError: a catalog cannot be asked, or has no such table.
        UsageError: a URI that names no table of a catalog.
    """
    for table_format in FORMATS:
        if (place := table_format.located(path, options)) is not None:
            return place
    return path, options


def named_in_catalog(names: Sequence[str], class_in_spark: str = "") -> str | None:
    """Return the URI of a table by its names, the first of them that of a catalog; None for other names.

    `class_in_spark`: that of Spark's catalog of that name; if it is of another format, Spark finds the table.
    """
    uris = (table_format.named(names, class_in_spark) for table_format in FORMATS)
    return next((uri for uri in uris if uri is not None), None)


def folder_of(table: str) -> str | None:
    """Return the folder of a text like ``delta.`folder` `` or ``hudi.`folder` ``; None for any other text.

    >>> folder_of("hudi.`/data/a``b`")
    '/data/a`b'
    """
    parts = name_parts(table)
    is_quoted = len(parts) == 2 and table.endswith("`")
    return parts[1] if is_quoted and parts[0].lower() in NAMES else None


def names_folder(table: str) -> bool:
    """Return whether a text is the plain path of a table's folder, not the name of a table in a catalog.

    A text without a slash is a path if the folder of that name holds the log of a known format.
    """
    if folder_of(table) is not None:
        return False
    return "/" in table or any(os.path.exists(os.path.join(table, each.words.shown_by)) for each in FORMATS)


def check_alone(table: Table) -> None:
    """Check that the folder of an open table holds no table of another format, unless its options name one.

    Raises:
        TwoFormatsError: the folder holds a table of another format too.
    """
    for table_format in FORMATS:
        if table_format.words is table.words:
            _check_alone(
                open_storage(table.root, table.storage.options), table_format, _wanted(table.storage.options)
            )


def open_index_log(path: str, options: StorageOptions) -> Table:
    """Open the log of an index, which is a Delta table whatever the source is.

    Raises:
        NotATableError: there is no log.
    """
    return DeltaTable.open(open_source(path, DELTA_LOG, options))


def _wanted(options: StorageOptions) -> Sequence[Format]:
    """Return the formats to look for."""
    wanted = options.table_format
    formats = [table_format for table_format in FORMATS if wanted in ("", table_format.name)]
    if not formats:
        raise UsageError(reason=f"{wanted!r} is no table format", hint=f"Write {' or '.join(NAMES)}.")
    return formats


def _check_alone(storage: Storage, present: Format, formats: Sequence[Format]) -> None:
    """Check that a folder with a table of the format `present` holds the log of none of the other `formats`.

    Cost: a probe for each other format.
    """
    for other in formats:
        if other is not present and not other.yields and storage.exists(other.words.shown_by):
            both = [table_format for table_format in FORMATS if table_format in (present, other)]
            raise TwoFormatsError(
                path=storage.root,
                logs=" and ".join(table_format.words.log for table_format in both),
                kinds=" or ".join(f"a {table_format.words.kind}" for table_format in both),
                example=both[-1].name,
            )


def open_source(root: str, log: str, options: StorageOptions = NO_OPTIONS) -> Storage:
    """Return the store of a table's files, equal to `Table.storage`; workers call this function too.

    `log`: the folder of the log, which identifies the format. Cost: no access to the store.

    Raises:
        StorageError: the scheme has no store.
    """
    storage = open_storage(root, options).of_table(log)
    matching = [table_format for table_format in FORMATS if table_format.words.log == log]
    return matching[0].files(storage) if matching else storage


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


_CONDITION = re.compile(r"\s(?:=|<>|!=|[<>]=?|in|is|like|between)\s", re.IGNORECASE)
"""What stands in a condition and hardly ever in the name of a folder."""


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
    if _CONDITION.search(path):
        return reason, 'This is a condition: the table stands first, as in tailbit count TABLE "condition".'
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
