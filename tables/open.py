"""Open a table in the format that the folder of its log indicates, or in the one that the options name.

A new format needs a folder next to `delta` and a line in `FORMATS`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tailbit.base.errors import NotATableError, TwoFormatsError, UsageError
from tailbit.tables.delta.table import DeltaTable
from tailbit.tables.delta.words import WORDS as DELTA
from tailbit.tables.hudi.words import WORDS as HUDI
from tailbit.tables.iceberg.words import WORDS as ICEBERG
from tailbit.tables.schema import name_parts
from tailbit.tables.storage import NO_OPTIONS, Storage, StorageOptions, open_storage
from tailbit.tables.storage.options import METADATA_FILE, TABLE_FORMAT
from tailbit.tables.table import FormatWords, Table


class Format(NamedTuple):
    """A table format: its name in options, its words, its opener; `words.shown_by` marks a table.

    `yields`: other formats may keep metadata of this format beside their own log, so that a table is one of
    this format only if there is no other log, or if it is named.
    """

    name: str
    words: FormatWords
    open: Callable[[Storage], Table]
    yields: bool = False


def _open_hudi(storage: Storage) -> Table:
    """Open a Hudi table; its modules are loaded only for one."""
    from tailbit.tables.hudi.table import HudiTable

    return HudiTable.open(storage)


def _open_iceberg(storage: Storage) -> Table:
    """Open an Iceberg table; its modules are loaded only for one."""
    from tailbit.tables.iceberg.table import IcebergTable

    return IcebergTable.open(storage)


FORMATS: Sequence[Format] = (
    Format("delta", DELTA, DeltaTable.open),
    Format("hudi", HUDI, _open_hudi),
    Format("iceberg", ICEBERG, _open_iceberg, yields=True),
)


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
    from tailbit.tables.places import no_table

    words = [table_format.words for table_format in formats]
    raise no_table(path, storage, words)


def located(path: str, options: StorageOptions = NO_OPTIONS) -> tuple[str, StorageOptions]:
    """Return the root of a table and the options to open it with, of a path that may be its metadata file.

    >>> located("/t/metadata/v3.metadata.json")[0]
    '/t'
    """
    if not path.endswith((".metadata.json", ".metadata.json.gz")):
        return path, options
    above, _, name = path.replace("\\", "/").rpartition("/")
    root, _, folder = above.rpartition("/")
    given = [item for item in options if item[0] not in (METADATA_FILE, TABLE_FORMAT)]
    named = ((METADATA_FILE, f"{folder}/{name}"), (TABLE_FORMAT, "iceberg"))
    return root or ("/" if path.startswith("/") else "."), StorageOptions.of(dict([*given, *named]))


def folder_of(table: str) -> str | None:
    """Return the folder of a text like ``delta.`folder` `` or ``hudi.`folder` ``; None for any other text.

    >>> folder_of("hudi.`/data/a``b`")
    '/data/a`b'
    """
    parts = name_parts(table)
    is_quoted = len(parts) == 2 and table.endswith("`")
    return parts[1] if is_quoted and parts[0].lower() in {each.name for each in FORMATS} else None


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
    return DeltaTable.open(open_source(path, DELTA.log, options))


def _wanted(options: StorageOptions) -> Sequence[Format]:
    """Return the formats to look for."""
    wanted = options.table_format
    formats = [table_format for table_format in FORMATS if wanted in ("", table_format.name)]
    if not formats:
        known = " or ".join(table_format.name for table_format in FORMATS)
        raise UsageError(reason=f"{wanted!r} is no table format", hint=f"Write {known}.")
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
    if log != HUDI.log:
        return storage
    from tailbit.tables.hudi.log_files.storage import HudiStorage

    return HudiStorage(storage)
