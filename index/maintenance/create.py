"""An index is created or opened, started over when it cannot be read, or given a new round.

Replacement of an unreadable index by an empty one with its columns, which the indexer then builds. The
records or the index's own log are damaged, or an older release wrote the index. The new index in the same
place has a new identity and no records. A process that has the old index open sees the identity change and
drops what it has cached.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tailbit.base.errors import (
    CommitConflictError,
    CommitGapError,
    CorruptIndexError,
    ForeignIndexError,
    MalformedLogError,
    NoIndexError,
    SettingsError,
    UsageError,
    VersionNotFoundError,
)
from tailbit.index.kinds.kind import kind_of
from tailbit.index.kinds.schemas import KINDS, Kinds
from tailbit.index.kinds.settings import (
    OLDEST_FORMAT,
    SETTINGS,
    settings_from_arrow,
    settings_to_arrow,
)
from tailbit.index.model import BITMAP, Definition, IndexFile, Settings
from tailbit.index.store.stored_log import StoredLog
from tailbit.index.store.table import MetadataTable
from tailbit.tables.open import open_index_log
from tailbit.tables.storage import Storage, StorageOptions, open_storage
from tailbit.tables.table import Table


def open_or_create(
    path: str, definitions: Callable[[], Sequence[Definition]], options: StorageOptions
) -> tuple[MetadataTable, bool]:
    """Open the index at `path` and read its records, or create it; return it, and whether it was created.

    `definitions`: returns what a new index has.
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
    settings = Settings(1, uuid.uuid4().hex, KINDS.format_of(definitions), definitions)
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


def ask_for_round(index: MetadataTable) -> None:
    """Request a round, in which the indexer looks at every file, by a commit of unchanged settings.

    The settings get the next version, as after an added column.
    """
    settings = index.state.settings
    index.commit([], [], None, settings=replace(settings, version=settings.version + 1))


_FOLDER = f"kind={SETTINGS.name}"


def start_over(
    path: str,
    required: Callable[[], Sequence[Definition] | None],
    options: StorageOptions,
    kinds: Kinds = KINDS,
) -> Settings:
    """Create the index at `path` again with its old settings, or with what is required if these are lost.

    The old files stay on disk until they are swept; the old log is deleted. Cost: lists the folders of the
    index.

    Raises:
        CorruptIndexError: the settings cannot be read, and nothing is required.
        IndexFormatError: a newer release wrote the index.
        ForeignIndexError: nothing at the path shows that it is an index.
        CommitConflictError: another process committed at this moment.
        StorageError: the store refused.
    """
    storage = open_storage(path, options)
    live = _live(path, options)
    settings_before = _settings_of(path, storage, live)
    if live is None and settings_before is None:
        _refuse_foreign(path, storage, kinds)
    definitions = required() if settings_before is None else settings_before.definitions
    if definitions is None:
        raise CorruptIndexError(
            file=f"{path}/{_FOLDER}",
            reason="the settings cannot be read, so the columns to index are not known",
            hint="Name them: tailbit repair TABLE --columns a,b,c. Questions scan the data meanwhile.",
        )
    settings = _renewed(settings_before, definitions)
    gone = list({file.path: file for file in [*_files(storage), *(live or ())]}.values())
    written = SETTINGS.write(storage, settings_to_arrow(settings, 1))
    StoredLog(storage, path, kinds.table_schema()).make_anew(settings.index_id, [written], gone)
    return settings


def remembered_settings(path: str, options: StorageOptions) -> Settings | None:
    """Return the settings of an index of any format so far, or None if they cannot be read."""
    storage = open_storage(path, options)
    return _settings_of(path, storage, _live(path, options))


def check_remembered(path: str, required: Sequence[Definition] | None, options: StorageOptions) -> None:
    """Raise SettingsError if columns are required, and the settings of an index show that it has others."""
    remembered = None if required is None else remembered_settings(path, options)
    if remembered is not None and required is not None:
        check_columns(path, remembered.definitions, required)


def check_columns(path: str, remembered: Sequence[Definition], required: Sequence[Definition]) -> None:
    """Raise SettingsError if the wanted columns are not those that the index records.

    Columns whose index has a name of its own, covers some partitions only or is a record key may be left out
    of `required`.

    Raises:
        SettingsError: the columns differ.
    """
    remembered_columns, wanted_columns = (
        [c for c in columns if c.is_of_column] for columns in (remembered, required)
    )
    plain = {c.id for c in remembered_columns if c.kind == BITMAP and c.name == c.label and not c.only}
    if not plain <= {c.id for c in wanted_columns} <= {c.id for c in remembered_columns}:
        labels = [", ".join(c.label for c in columns) for columns in (remembered_columns, wanted_columns)]
        raise SettingsError(path=path, found=labels[0], asked=labels[1])


def _renewed(settings_before: Settings | None, definitions: Sequence[Definition]) -> Settings:
    """Return the settings of a new index: the old ones with a new identity if known, else new ones."""
    identity, index_format = uuid.uuid4().hex, KINDS.format_of(definitions)
    if settings_before is None:
        return Settings(1, identity, index_format, tuple(definitions))
    return replace(settings_before, index_id=identity, format=index_format, dropped=())


def _live(path: str, options: StorageOptions) -> list[IndexFile] | None:
    """Return the files that the index's log names, or None if the log cannot be read."""
    try:
        files = open_index_log(path, options).snapshot().files
        return [IndexFile(slice_.path, slice_.size, slice_.rows or 0) for slice_ in files]
    except (MalformedLogError, CommitGapError, VersionNotFoundError):
        return None


def _refuse_foreign(path: str, storage: Storage, kinds: Kinds) -> None:
    """Refuse a folder without readable log and settings, unless it holds nothing but records of an index."""
    kind_folders = {f"kind={kind.name}" for kind in kinds}
    folders = {name for name in storage.contents() or () if not name.startswith(("_", "."))}
    if not folders or folders - kind_folders:
        stranger = min(folders - kind_folders, default="no record of an index")
        raise ForeignIndexError(path=path, reason=f"its log cannot be read, and it holds {stranger}")


def _settings_of(path: str, storage: Storage, live: Sequence[IndexFile] | None) -> Settings | None:
    """Return the old settings of the index: the file that its log names, else the newest file of settings."""
    if live is None:
        newest = sorted(storage.list(_FOLDER), key=lambda entry: entry.mtime_ms, reverse=True)
        names = [f"{_FOLDER}/{entry.name}" for entry in newest]
    else:
        names = [file.path for file in live if kind_of(file.path) == SETTINGS.name]
    for name in names:
        try:
            return settings_from_arrow(SETTINGS.read(storage, name), path, OLDEST_FORMAT)[0]
        except (CorruptIndexError, ValueError):
            continue
    return None


def _files(storage: Storage) -> Iterator[IndexFile]:
    """Yield all files in the folders of the kinds, whether or not a log names them."""
    for folder in storage.contents() or ():
        if folder.startswith("kind="):
            for entry in storage.list(folder):
                if entry.name.endswith(".parquet") and not entry.name.startswith(("_", ".")):
                    yield IndexFile(f"{folder}/{entry.name}", entry.size, 0)
