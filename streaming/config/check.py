"""A read configuration is compared with what is there: its jars, and each table with its entry.

A table that is not there, or a store that does not answer, is no error of the configuration: the application
waits for it. Nothing is written.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import NamedTuple

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import (
    CorruptIndexError,
    ForeignIndexError,
    IndexFormatError,
    NoIndexError,
    NotATableError,
    SourceError,
    TailbitError,
    UsageError,
)
from tailbit.index.maintenance.create import check_columns, indexed_columns
from tailbit.index.maintenance.definitions import check_free, define, find
from tailbit.index.model import Definition, Term
from tailbit.index.sql.ddl.statements import CreateIndex, TableReference, WrittenExpression
from tailbit.index.sql.terms import meanings_of
from tailbit.index.store.place import index_path
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.config.model import IndexEntry, TableEntry
from tailbit.streaming.config.read import Place, ReadConfig
from tailbit.streaming.java.session import installed, release
from tailbit.streaming.watch.thread_pool import run_each
from tailbit.tables import open_table
from tailbit.tables.schema import Schema
from tailbit.tables.storage import StorageOptions
from tailbit.tables.storage.refusals import may_pass
from tailbit.tables.table import Table

NEEDS_COLUMNS = 'Add columns = ["a", "b"].'
"""What to do where there is no index, and the entry names neither columns nor indexes."""

TOGETHER, LOOK_S = 32, 10.0
"""Number of tables that are looked at together, since a look mostly waits; and most seconds of one look."""


@dataclass(frozen=True, slots=True)
class TableCheck:
    """The problems of one table, each with the keys in the table's section that it is about.

    `differs`: how columns and indexes by name differ from those that the index has. `dropped`: what the index
    has of columns that the table no longer has. `waits`: why the table
    cannot be read now. `is_of_table`: the table or its index is at fault and not the configuration, as with
    a feature that tailbit cannot read, an index of a newer format, or if there is no index, and the entry
    names neither columns nor indexes.
    """

    table: TableEntry
    problems: tuple[tuple[Place, str], ...] = ()
    differs: tuple[tuple[Place, str], ...] = ()
    dropped: tuple[tuple[Place, str], ...] = ()
    waits: str = ""
    is_of_table: bool = False


def check_tables(
    read: ReadConfig,
    on_wait: Callable[[], None] = lambda: None,
    stop: threading.Event | None = None,
    before: Sequence[TableEntry] | None = None,
) -> list[TableCheck]:
    """Look at every table with a path; return a result for each of them, in the order of the file.

    The problems of a table that is itself at fault are warnings, as long as another table can be followed.
    Columns and indexes by name that differ from those of the index are refused where an application reads its
    file again, since the one before stays. At a start, perhaps years after `tailbit alter`, they are warned
    of, and the index goes on with its own. An entry that an application at work has as it is stops no reload,
    nor does a column that was dropped or renamed: the table changed, and not the file. `before`: the entries
    that such an application has; None at a start.
    `on_wait`: called again and again while tables are looked at. `stop`: once set, no table is waited for.
    """
    tables = [table for table in read.config.table if table.path is not None]
    results = run_each(look_at, tables, _late, TOGETHER, LOOK_S, on_wait, stop)
    others_go_on = len(read.config.table) > sum(result.is_of_table for result in results)
    for result in results:
        is_known = before is not None and result.table in before
        is_passed = is_known or (result.is_of_table and others_go_on)
        note = read.problems.warn if is_passed else read.problems.add
        for keys, reason in result.problems:
            note(read.place_of(result.table, *keys), f"{result.table.id}: {reason}")
        for keys, reason in result.dropped:
            read.problems.warn(read.place_of(result.table, *keys), f"{result.table.id}: {reason}")
        note_difference = read.problems.warn if before is None or is_known else read.problems.add
        for keys, reason in result.differs:
            note_difference(read.place_of(result.table, *keys), f"{result.table.id}: {reason}")
    read.problems.refuse()
    return results


def _late(table: TableEntry) -> TableCheck:
    return TableCheck(table, waits=f"no answer within {LOOK_S:.0f} s")


def look_at(table: TableEntry) -> TableCheck:
    """Return what is wrong with a table that has a path."""
    assert table.path is not None
    try:
        source = open_table(table.path, StorageOptions.of(table.storage_options))
        source.snapshot()
    except NotATableError as nothing:
        return TableCheck(table, waits=str(nothing))
    except TailbitError as refused:
        if may_pass(refused):
            return TableCheck(table, waits=str(refused))
        return TableCheck(
            table, ((("path",), _in_a_line(refused)),), is_of_table=isinstance(refused, SourceError)
        )
    problems: list[tuple[Place, str]] = []
    differs: list[tuple[Place, str]] = []
    dropped: list[tuple[Place, str]] = []
    try:
        with _noted(problems, ("columns",)):
            for check in checks_of(table, source, *_index_of(table, source)):
                to = dropped if check.is_of_dropped else differs if check.goes_on else problems
                with _noted(to, check.keys):
                    check.run()
    except _Passing as passing:
        return TableCheck(table, tuple(problems), tuple(differs), tuple(dropped), waits=str(passing))
    except NoIndexError as unmade:
        return TableCheck(table, ((("columns",), _in_a_line(unmade)),), is_of_table=True)
    except IndexFormatError as newer:
        return TableCheck(table, ((("index",), _in_a_line(newer)),), is_of_table=True)
    return TableCheck(table, tuple(problems), tuple(differs), tuple(dropped))


class _Passing(Exception):
    """A store that does not answer, or refuses, now."""


@contextmanager
def _noted(problems: list[tuple[Place, str]], keys: Place) -> Iterator[None]:
    """Add a named error of the block to `problems` under `keys`."""
    try:
        yield
    except (NoIndexError, IndexFormatError):
        raise
    except ForeignIndexError as foreign:
        problems.append((("index",), _in_a_line(foreign)))
    except TailbitError as refused:
        if may_pass(refused):
            raise _Passing(str(refused)) from refused
        problems.append((keys, _in_a_line(refused)))


def _in_a_line(error: TailbitError) -> str:
    return " ".join(f"{error}. {error.hint}".split())


def _index_of(table: TableEntry, source: Table) -> tuple[MetadataTable | None, bool]:
    """Return the index of an entry, or None, and whether there is one that cannot be read.

    The application mends what is damaged, and makes an index of an older format anew.
    """
    try:
        return MetadataTable.open(index_path(source.root, table.index), options=source.storage.options), False
    except NoIndexError:
        return None, False
    except IndexFormatError as other:
        if not other.is_older:
            raise
    except CorruptIndexError:
        pass
    return None, True


class Check(NamedTuple):
    """A comparison of a part of an entry with the table, and with its index if that is there.

    `keys`: the part of the entry. `run`: raises a TailbitError that says what is wrong. `goes_on`: the index
    can go on as it is, so that no start need end for it. `is_of_dropped`: the part is about columns that the
    index has and the table no longer has.
    """

    keys: Place
    run: Callable[[], None]
    goes_on: bool
    is_of_dropped: bool = False


def checks_of(
    entry: TableEntry, source: Table, index: MetadataTable | None, is_unread: bool = False
) -> Iterator[Check]:
    """Yield the checks of the columns and of each index by name; each is to be run before the next is taken.

    `index`: None if there is none, or if it cannot be read, which is `is_unread`.
    """
    is_there = index is not None or is_unread
    dropped = _dropped(index, source)
    gone = {definition.label.lower() for definition in dropped if definition.is_of_column}
    lacking = [name for name in entry.columns or () if name.lower() in gone]
    yield Check(("columns",), partial(_check_there, source, lacking), is_there, is_of_dropped=True)
    yield Check(("columns",), partial(_check_columns, entry, source, index, is_unread, dropped), is_there)
    definitions = _planned_columns(entry, source) if index is None else list(index.state.settings.definitions)
    for number, named in enumerate(entry.indexes):
        keys, old = ("indexes", number), find(definitions, named.name)
        if old is not None:
            yield Check(keys, partial(_check_same, named, source, old), is_there, old in dropped)
            continue
        new_definitions: list[Definition] = []
        yield Check(keys, partial(_check_new, named, source, new_definitions), is_unread)
        yield Check(keys, partial(_check_free, tuple(definitions), source, new_definitions), is_there)
        definitions += new_definitions


def _planned_columns(entry: TableEntry, source: Table) -> list[Definition]:
    """Return the definitions of the columns of an entry; none if one is wrong, which is checked apart."""
    with suppress(TailbitError):
        return list(indexed_columns(source, entry.columns or ()))
    return []


def _check_there(source: Table, names: Sequence[str]) -> None:
    source.snapshot().schema.resolve_all(names)


def _dropped(index: MetadataTable | None, source: Table) -> list[Definition]:
    """Return the definitions of an index that read a column which the table no longer has by that name."""
    there = {(column.label.lower(), column.id) for column in source.snapshot().schema.leaves()}
    definitions = () if index is None else index.state.settings.definitions
    return [
        definition
        for definition in definitions
        if any((c.label.lower(), c.id) not in there for term in definition.terms for c in term.columns)
    ]


def _check_columns(
    entry: TableEntry,
    source: Table,
    index: MetadataTable | None,
    is_unread: bool,
    dropped: Sequence[Definition],
) -> None:
    """Check the columns of an entry, and compare them with those of its index, if there is one.

    `dropped`: definitions of columns that the table no longer has by their names; the entry may leave them
    out.
    """
    gone = {definition.label.lower() for definition in dropped}
    names = [name for name in entry.columns or () if name.lower() not in gone]
    required = None if entry.columns is None else indexed_columns(source, names) if names else ()
    place = index_path(source.root, entry.index)
    if index is None and not is_unread and required is None and not entry.indexes:
        raise NoIndexError(path=place, hint=NEEDS_COLUMNS)
    if index is not None and required is not None:
        named = {index_entry.name.lower() for index_entry in entry.indexes}
        definitions = index.state.settings.definitions
        comparable = [d for d in definitions if d.is_plain or d.name.lower() not in named]
        ids = {definition.id for definition in required}
        comparable = [d for d in comparable if d.id in ids or d not in dropped]
        check_columns(place, comparable, required)


def _check_new(entry: IndexEntry, source: Table, new_definitions: list[Definition]) -> None:
    new_definitions.append(define(statement_of(entry, source.root), source.snapshot().schema, entry.zone))


def _check_free(
    definitions: Sequence[Definition], source: Table, new_definitions: Sequence[Definition]
) -> None:
    """Check that no other index has the terms of one that is not there."""
    for definition in new_definitions:
        check_free(definitions, definition, source.snapshot().schema)


def _check_same(entry: IndexEntry, source: Table, indexed: Definition) -> None:
    """Compare kind and terms of an index by name with those of the index that has the name."""
    schema = source.snapshot().schema
    zone = indexed.terms[0].zone if indexed.terms else "UTC"
    written = define(statement_of(entry, source.root), schema, zone)
    if indexed.kind != written.kind or not _mean_the_same(indexed.terms, written.terms, schema):
        raise UsageError(
            reason=f"index {indexed.name} is a {indexed.kind} of {indexed.label},"
            f" not a {written.kind} of {written.label}",
            hint=f"Change the file, or drop it by `tailbit index drop TABLE {indexed.name}`.",
        )


def _mean_the_same(indexed: Sequence[Term], written: Sequence[Term], schema: Schema) -> bool:
    """Return whether terms mean the same; those of a column with another type since then by their texts."""
    texts = [
        [(term.text, [column.id for column in term.columns]) for term in terms]
        for terms in (indexed, written)
    ]
    return texts[0] == texts[1] or meanings_of(indexed, schema) == meanings_of(written, schema)


def statement_of(entry: IndexEntry, root: str) -> CreateIndex:
    """Return the statement that creates an index by name."""
    return CreateIndex(
        entry.name,
        TableReference("path", (root,)),
        tuple(map(WrittenExpression, entry.on)),
        entry.using,
        dict(entry.options),
        None if entry.where is None else WrittenExpression(entry.where),
        deferred=entry.deferred,
        if_not_exists=True,
        properties=dict(entry.properties),
        comment=entry.comment,
    )


FILES, PACKAGES = "spark.jars", "spark.jars.packages"

_RELEASES = re.compile(r"(?:_(?P<spark>\d+\.\d+))?_(?P<scala>2\.\d\d)[-:]\d")
"""The end of a name such as `delta-spark_4.2_2.13-4.4.0`: the releases of Spark and Scala, and the jar's."""

_DELTA = re.compile(r"delta-(?:spark|core)_2\.\d\d[-:](?P<major>\d+)\.(?P<minor>\d+)")
"""The name of a jar of Delta without a release of Spark: up to Delta 4.0, each was of one release."""

_SCALA = "2.13"
"""The release of Scala that every supported Spark is built with."""


def check_jars(read: ReadConfig) -> None:
    """Note each jar of the settings of Spark that is not there, or of another release, with its line.

    Such a jar keeps Spark from finding any data source, also those that need no jar.
    """
    for key in (FILES, PACKAGES):
        for jar in filter(None, map(str.strip, read.config.application.spark.get(key, "").split(","))):
            for misfit in _misfits(jar, is_file=key == FILES):
                read.problems.add(("application", "spark", key), f"{jar}: {misfit}")


def _misfits(jar: str, is_file: bool) -> Iterator[str]:
    """Yield each problem of a jar, as text. `is_file`: `jar` is a path or URI, no Maven coordinate."""
    path = jar.removeprefix("file://").removeprefix("file:")
    is_elsewhere = re.match(r"[a-z][\w+.-]*:", path, re.IGNORECASE) is not None
    if is_file and not is_elsewhere and "*" not in path and not os.path.isfile(path):
        yield "there is no such file"
    name, spark = os.path.basename(jar), installed("pyspark")
    named = _RELEASES.search(name)
    if named is None or spark is None:
        return
    of_spark = named["spark"] or _spark_of_delta(name)
    if of_spark is not None and release(of_spark) != release(spark):
        yield f"it is of Spark {of_spark}, and pyspark {spark} is installed"
    elif named["scala"] != _SCALA:
        yield f"it is of Scala {named['scala']}, and Spark {spark} has {_SCALA}"


def _spark_of_delta(jar: str) -> str | None:
    """Return the release of Spark that a jar of Delta 4.0 or older is of; None of any other jar.

    Source: the table of releases in Delta's documentation; Delta 3 is of Spark 3.5, all before it of older.
    """
    delta = _DELTA.search(jar)
    if delta is None or (int(delta["major"]), int(delta["minor"])) > (4, 0):
        return None
    return "4.0" if int(delta["major"]) == 4 else "3.5"
