"""Settings of a stream, and the settings that an index remembers."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from tailbit.errors import CommitConflictError, NoIndexError, SettingsError, UsageError
from tailbit.index.kinds.records import FORMAT
from tailbit.index.maintenance.alter import indexed_column
from tailbit.index.model import IndexedColumn, Settings
from tailbit.index.store.table import IndexTable
from tailbit.tables.table import Table

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """Limits of a batch and the pace of polling.

    A batch reads at most so many `versions`, `files` and `bytes` of the log, at least one version. The next
    commit is looked for every `poll_ms` (a stat or two), for at most `wait_ms` before Spark hears that
    nothing is new. Tasks that read at most `inline_bytes` together run in the driver, without a Spark job.
    """

    versions: int = 500
    files: int = 2000
    bytes: int = 2 << 30
    poll_ms: int = 50
    wait_ms: int = 500
    inline_bytes: int = 16 << 20

    def options(self) -> dict[str, str]:
        """As options of the streaming data source."""
        return {f.name: str(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> StreamSettings:
        """From options of the data source, which come lower-cased; others keep their default."""
        given = {f.name: int(options[f.name]) for f in fields(cls) if f.name in options}
        return cls(**given)


def milliseconds(text: str) -> int:
    """A length of time as `500ms`, `2s`, `1 minute` or plain seconds, in ms.

    Raises:
        UsageError: it is none of these.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text.lower())
    unit = _unit(found[2]) if found else None
    if found is None or unit is None:
        raise UsageError(reason=f"{text!r} is no length of time", hint="Write 500ms, 2s or 1m.")
    return round(float(found[1]) * unit)


def _unit(word: str) -> int | None:
    if word in ("", "s", "sec", "second", "seconds"):
        return 1000
    if word.startswith(("milli", "ms")):
        return 1
    return _UNITS.get(word) or _UNITS.get(word[:1] if word.startswith(("min", "hour")) else "")


def prepare_index(table: Table, path: str, columns: Sequence[str] | None) -> IndexTable:
    """The index at `path`, made if it is not there, with the columns asked for or those remembered.

    Raises:
        UsageError: no index is there and no columns are given.
        SettingsError: the index remembers other columns.
        UnknownColumnError, ColumnTypeError: a column that is not there or cannot be indexed.
    """
    asked = None if columns is None else _indexed(table, columns)
    index = _open(path)
    if index is None and asked is None:
        raise UsageError(
            reason=f"no index at {path} yet, and no columns are given", hint="Give --columns a,b,c."
        )
    if index is None and asked is not None:
        index = _create(path, asked)
    assert index is not None
    if asked is not None:
        _check_columns(path, index.settings.columns, asked)
    return index


def _open(path: str) -> IndexTable | None:
    try:
        return IndexTable.open(path)
    except NoIndexError:
        return None


def _create(path: str, columns: tuple[IndexedColumn, ...]) -> IndexTable:
    """A new index; the one that another process makes at this moment, if that is first."""
    settings = Settings(version=1, index_id=uuid.uuid4().hex, format=FORMAT, columns=columns)
    try:
        return IndexTable.create(path, settings)
    except CommitConflictError:
        return IndexTable.open(path)


def _indexed(table: Table, columns: Sequence[str]) -> tuple[IndexedColumn, ...]:
    schema = table.snapshot().schema
    found = {column.id: column for column in map(schema.resolve, columns)}
    if not found:
        raise UsageError(reason="no columns are given", hint="Give --columns a,b,c.")
    return tuple(map(indexed_column, found.values()))


def _check_columns(path: str, remembered: Sequence[IndexedColumn], asked: Sequence[IndexedColumn]) -> None:
    if {c.id for c in remembered} != {c.id for c in asked}:
        raise SettingsError(
            path=path, found=", ".join(c.label for c in remembered), asked=", ".join(c.label for c in asked)
        )
