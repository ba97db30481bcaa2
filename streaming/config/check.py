"""A comparison of each table of a configuration with its entry: columns, indexes by name.

A table that is not there, or a store that does not answer, is no error of the configuration: the application
waits for it. Nothing is written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tailbit.errors import (
    CorruptIndexError,
    ForeignIndexError,
    IndexFormatError,
    NoIndexError,
    NotATableError,
    SourceError,
    TailbitError,
    UsageError,
)
from tailbit.imports.dataclass import dataclass
from tailbit.index.maintenance.create import indexed_columns
from tailbit.index.maintenance.definitions import define, find
from tailbit.index.maintenance.start_over import check_columns
from tailbit.index.sql.ddl.statements import CreateIndex, TableReference, WrittenExpression
from tailbit.index.store.place import index_path
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.config.lines import Place
from tailbit.streaming.config.model import IndexEntry, TableEntry
from tailbit.streaming.config.read import ReadConfig
from tailbit.streaming.life.crew import each
from tailbit.tables import open_table
from tailbit.tables.storage import StorageOptions
from tailbit.tables.storage.refusals import may_pass
from tailbit.tables.table import Table

TOGETHER, LOOK_S = 32, 10.0
"""Number of tables that are looked at together, since a look mostly waits; and most seconds of one look."""


@dataclass(frozen=True, slots=True)
class Found:
    """The problems of one table, each with the keys in the table's section that it is about.

    `differs`: how the columns of the entry differ from those of the table or of the index that it has.
    `waits`: why the table cannot be read now. `is_of_table`: the table or its index is at fault and not the
    configuration, as with a feature that tailbit cannot read, or an index of a newer format.
    """

    table: TableEntry
    problems: tuple[tuple[Place, str], ...] = ()
    differs: tuple[tuple[Place, str], ...] = ()
    waits: str = ""
    is_of_table: bool = False


def check_tables(
    read: ReadConfig,
    on_wait: Callable[[], None] = lambda: None,
    stop: threading.Event | None = None,
    reloading: bool = False,
) -> list[Found]:
    """Look at every table with a path; return a result for each of them, in the order of the file.

    The problems of a table that is itself at fault are warnings, as long as another table can be followed.
    Columns that differ from those of an index are refused where an application reads its file again, since
    the one before stays. At a start, perhaps years after `tailbit alter`, they are warned of, and the index
    goes on with its own. `reloading`: an application at work reads the file again. `on_wait`: called again
    and again while tables are looked at. `stop`: once set, no table is waited for.

    Raises:
        ConfigError: names every problem with its line.
    """
    tables = [table for table in read.config.table if table.path is not None]
    results = each(look_at, tables, _late, TOGETHER, LOOK_S, on_wait, stop)
    others_go_on = len(read.config.table) > sum(result.is_of_table for result in results)
    for result in results:
        note = read.problems.warn if result.is_of_table and others_go_on else read.problems.add
        for keys, reason in result.problems:
            note(read.place_of(result.table, *keys), f"{result.table.id}: {reason}")
        note = read.problems.add if reloading else read.problems.warn
        for keys, reason in result.differs:
            note(read.place_of(result.table, *keys), f"{result.table.id}: {reason}")
    read.problems.refuse()
    return results


def _late(table: TableEntry) -> Found:
    return Found(table, waits=f"no answer within {LOOK_S:.0f} s")


def look_at(table: TableEntry) -> Found:
    """Return what is wrong with a table that has a path."""
    assert table.path is not None
    try:
        source = open_table(table.path, StorageOptions.of(table.storage_options))
        source.snapshot()
    except NotATableError as nothing:
        return Found(table, waits=str(nothing))
    except TailbitError as refused:
        if may_pass(refused):
            return Found(table, waits=str(refused))
        return Found(table, ((("path",), _in_a_line(refused)),), is_of_table=isinstance(refused, SourceError))
    problems: list[tuple[Place, str]] = []
    differs: list[tuple[Place, str]] = []
    index = None
    try:
        with _noted(problems, ("columns",)):
            index = _index_of(table, source)
            with _noted(problems if index is None else differs, ("columns",)):
                check_columns_of(table, source, index)
        for number, entry in enumerate(table.indexes):
            if index is None or find(index.state.settings.definitions, entry.name) is None:
                with _noted(problems, ("indexes", number)):
                    define(statement_of(entry, source.root), source.snapshot().schema)
    except _Passing as passing:
        return Found(table, waits=str(passing))
    except IndexFormatError as newer:
        return Found(table, ((("index",), _in_a_line(newer)),), is_of_table=True)
    return Found(table, tuple(problems), tuple(differs))


class _Passing(Exception):
    """A store that does not answer, or refuses, now."""


@contextmanager
def _noted(problems: list[tuple[Place, str]], keys: Place) -> Iterator[None]:
    """Add a named error of the block to `problems` under `keys`; damage and an older format are no problems.

    Raises:
        IndexFormatError: the index has a newer format.
        _Passing: the store does not answer, or refuses, now.
    """
    try:
        yield
    except IndexFormatError as other:
        if not other.is_older:
            raise
    except ForeignIndexError as foreign:
        problems.append((("index",), _in_a_line(foreign)))
    except CorruptIndexError:
        # Damage is mended by the application.
        return
    except TailbitError as refused:
        if may_pass(refused):
            raise _Passing(str(refused)) from refused
        problems.append((keys, _in_a_line(refused)))


def _in_a_line(error: TailbitError) -> str:
    return " ".join(f"{error}. {error.hint}".split())


def _index_of(table: TableEntry, source: Table) -> MetadataTable | None:
    """Return the index of an entry, or None if there is none yet."""
    try:
        return MetadataTable.open(index_path(source.root, table.index), options=source.storage.options)
    except NoIndexError:
        return None


def check_columns_of(table: TableEntry, source: Table, index: MetadataTable | None) -> None:
    """Check the columns of an entry, and compare them with those of its index, if there is one.

    Raises:
        SettingsError: the index has other columns.
        UsageError: there is no index, and the entry names none and no columns; or the table lacks a column.
    """
    wanted = None if table.columns is None else indexed_columns(source, table.columns)
    place = index_path(source.root, table.index)
    if index is None and wanted is None and not table.indexes:
        raise UsageError(
            reason=f"there is no index at {place} yet, and no columns are named",
            hint='Add columns = ["a", "b"].',
        )
    if index is not None and wanted is not None:
        named = {entry.name.lower() for entry in table.indexes}
        known = [d for d in index.state.settings.definitions if d.name.lower() not in named]
        check_columns(place, known, wanted)


def statement_of(entry: IndexEntry, root: str) -> CreateIndex:
    """Return the statement that creates an index by name.

    Raises:
        StatementError, PredicateError: a term, the kind or an option is not valid.
    """
    return CreateIndex(
        entry.name,
        TableReference("path", (root,)),
        tuple(map(WrittenExpression, entry.on)),
        entry.using,
        dict(entry.options),
        None if entry.where is None else WrittenExpression(entry.where),
        if_not_exists=True,
    )
