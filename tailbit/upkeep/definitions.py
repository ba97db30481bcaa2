"""Indexes are created, dropped, rebuilt and described by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tailbit.arguments.values import flag, function, known_zone, names, text, texts_by_name
from tailbit.base.errors import (
    CorruptIndexError,
    IndexFormatError,
    IndexNameTakenError,
    NoIndexError,
    UnknownIndexError,
)
from tailbit.base.lazy import lazy
from tailbit.handle import Handle, table_name
from tailbit.index.store.table import MetadataTable

if TYPE_CHECKING:
    from tailbit.checkpoints.builds import Builds
    from tailbit.index.model import Definition
    from tailbit.index.sql.ddl.parser import Scripted
    from tailbit.index.sql.ddl.statements import CreateIndex, RebuildIndex
    from tailbit.tables.schema import Schema
    from tailbit.upkeep import description
    from tailbit.upkeep.description import IndexDescription
else:
    description = lazy("tailbit.upkeep.description")


class DefinedTable(Handle):
    """A source table and the indexes that are defined on it; a base of `IndexedTable`."""

    def create_index(
        self,
        name: str,
        on: str | Sequence[str],
        kind: str = "bitmap",
        only: str | None = None,
        options: Mapping[str, str] | None = None,
        deferred: bool = False,
        if_not_exists: bool = False,
        zone: str = "UTC",
        progress: Callable[[int, int], None] | None = None,
    ) -> IndexDescription:
        """Create an index of columns or expressions, and build it unless an indexer runs, which then does.

        `on`: one to four terms in SQL. `kind`: "bitmap", "record_key", "bloom_filter", "column_stats".
        `only`: a condition on partition columns. `deferred`: awaits `rebuild_index`. `zone`: time zone of
        terms. `options`: {"counts": "auto"}, off above 0.5 values a row. `progress`: gets files, rows left.

        Raises:
            StatementError, PredicateError, ColumnTypeError: a term, the kind or an option is not possible.
            UnknownColumnError, IndexNameTakenError: no such column; the name or the terms are taken.

        >>> flights.create_index("by_place", "lower(dest)").state
        'complete'
        >>> flights.where("lower(dest) = 'sfo'").files_scanned
        0
        """
        from tailbit.index.sql.ddl.statements import CreateIndex, TableReference, WrittenExpression

        statement = CreateIndex(
            text("name", name),
            TableReference("path", (self.path,)),
            tuple(map(WrittenExpression.term, names("on", [on] if isinstance(on, str) else on))),
            text("kind", kind),
            texts_by_name("options", options),
            None if only is None else WrittenExpression(text("only", only)),
            deferred=flag("deferred", deferred),
            if_not_exists=flag("if_not_exists", if_not_exists),
        )
        return self._created(statement, known_zone("zone", zone), _told_to(progress))

    def _created(self, statement: CreateIndex, zone: str, builds: Builds | None) -> IndexDescription:
        index, name = self._defined(statement, zone)
        # One that was there already is described, and built no further.
        return self.describe_index(statement.name) if index is None else self._built(index, name, builds)

    def _defined(self, statement: CreateIndex, zone: str) -> tuple[MetadataTable | None, str]:
        """Define an index; return the index table, None if the name is taken and may be, and the name."""
        from tailbit.index.advice.estimate import decided
        from tailbit.index.maintenance.create import open_or_create
        from tailbit.index.maintenance.definitions import add, check_free, define, find

        schema = self._table.snapshot().schema
        definition = define(statement, schema, zone, table_name(self.path))
        try:
            check_free(self._definitions(), definition, schema)
            (definition,) = decided(self._table, [definition])
            index, is_new = open_or_create(self.index_path, lambda: [definition], self._table.storage.options)
            if not is_new:
                add(index, definition, schema)
        except IndexNameTakenError:
            # Another process may have been first between the look and the commit.
            if statement.if_not_exists and find(self._definitions(), statement.name) is not None:
                return None, statement.name
            raise
        return index, definition.name

    def _script(self) -> str:
        """Return the statements that create the indexes of the table again."""
        from tailbit.index.maintenance.definitions import statements_of
        from tailbit.index.sql.ddl.parser import script_of
        from tailbit.index.sql.ddl.statements import TableReference

        definitions = self._needed().state.settings.definitions
        table = TableReference("path", (self._table.address,), format=self._table.words.sql_name)
        return script_of(statements_of(definitions, self._table.snapshot().schema, table))

    def _created_by(
        self, script: Sequence[Scripted], builds: Builds | None, tell: Callable[[str], None] | None = None
    ) -> list[IndexDescription]:
        """Create the indexes of a script that the table lacks, and build all of them together.

        Return those that the script names. `tell` learns of each that is there by another name. A statement
        that fails ends the rest, and is raised once the indexes of those before it are built.
        """
        from tailbit.index.maintenance.definitions import begin
        from tailbit.index.sql.ddl.statements import CreateIndex

        schema = self._table.snapshot().schema
        there = self._there(script, schema)
        names, defined, indexer = dict[str, None](), False, None
        try:
            for scripted in script:
                statement = scripted.statement
                name = there.get(statement.name.lower(), statement.name)
                if tell is not None and name != statement.name and name not in names:
                    tell(f"{statement.name} is there already: {name} is an index of the same terms")
                names[name] = None
                if isinstance(statement, CreateIndex):
                    if statement.name.lower() in there:
                        continue
                    defined |= self._defined(statement, scripted.zone)[0] is not None
                elif name.lower() == statement.name.lower():
                    begin(self._apart()._needed(), statement, schema)
                    defined = True
        finally:
            if defined:
                indexer = self._build(self._apart()._needed(), builds)
        self._refresh()
        return [replace(self.describe_index(name), indexer=indexer) for name in names]

    def _there(self, script: Sequence[Scripted], schema: Schema) -> dict[str, str]:
        """Return the names of a script, in lower case, that the table has by other names, with those."""
        from tailbit.index.maintenance.definitions import alike, define, find
        from tailbit.index.sql.ddl.statements import CreateIndex

        definitions, there = list(self._definitions()), dict[str, str]()
        for scripted in script:
            if not isinstance(scripted.statement, CreateIndex):
                continue
            definition = define(scripted.statement, schema, scripted.zone, table_name(self.path))
            named, same = find(definitions, definition.name), list(alike(definitions, definition, schema))
            if named is not None and named not in same:
                raise IndexNameTakenError(name=definition.name, reason=f"it is an index of {named.label}")
            if same:
                there[definition.name.lower()] = (named or same[0]).name
            definitions.append(definition)
        return there

    def rebuild_index(
        self, name: str, only: str | None = None, progress: Callable[[int, int], None] | None = None
    ) -> IndexDescription:
        """Build an index anew, unless an indexer runs, which then does; a deferred one is built from now on.

        Meanwhile questions use the old index; if it is of one column, files are scanned until rebuilt.

        `only`: a condition on partition columns: a partial or deferred index covers these partitions from now
        on, besides what it covers already. `progress`: as of `create_index`.

        Raises:
            NoIndexError, UnknownIndexError: the table has no index, or none of that name.
            StatementError: `only` is given, and the index covers every partition already.

        >>> flights.rebuild_index("carrier").state
        'complete'
        """
        from tailbit.index.sql.ddl.statements import RebuildIndex, TableReference, WrittenExpression

        table = TableReference("path", (self.path,))
        condition = None if only is None else WrittenExpression(text("only", only))
        return self._rebuilt(RebuildIndex(text("name", name), table, condition), _told_to(progress))

    def _rebuilt(self, statement: RebuildIndex, builds: Builds | None) -> IndexDescription:
        from tailbit.index.maintenance.definitions import begin, definition_named
        from tailbit.index.maintenance.rebuild import rebuild

        index, schema = self._apart()._needed(), self._table.snapshot().schema
        before = definition_named(index, statement.name)
        begun = begin(index, statement, schema)
        if begun == before and statement.only is None:
            rebuild(index, statement.name, schema)
        return self._built(index, begun.name, builds)

    def drop_index(self, name: str, if_exists: bool = False) -> bool:
        """Drop an index; return whether there was one. Its bytes go with the next merges and `vacuum`.

        After the last one the stream goes on, and questions scan the data files.

        Raises:
            UnknownIndexError: there is none of that name, and `if_exists` is not given.

        >>> flights.drop_index("nothing", if_exists=True)
        False
        """
        from tailbit.index.maintenance.definitions import drop

        name, may_be_absent = text("name", name), flag("if_exists", if_exists)
        try:
            drop(self._apart()._needed(), name)
        except (NoIndexError, UnknownIndexError):
            if may_be_absent:
                return False
            raise
        return True

    def indexes(self) -> list[IndexDescription]:
        """Return the indexes of the table; none if there is none yet.

        >>> [(index.name, index.kind, index.terms) for index in flights.indexes()]
        [('carrier', 'bitmap', ('carrier',))]
        """
        if not self._definitions():
            return []
        index = self._needed()
        return description.described(index, index.state.settings.definitions, self._table.snapshot())

    def describe_index(self, name: str) -> IndexDescription:
        """Return what an index holds, and how far it is built.

        Raises:
            NoIndexError: the table has no index.
            UnknownIndexError: there is none of that name.

        >>> flights.describe_index("carrier").terms
        ('carrier',)
        """
        from tailbit.index.maintenance.definitions import definition_named

        index = self._needed()
        definition = definition_named(index, text("name", name))
        (described,) = description.described(index, [definition], self._table.snapshot())
        return replace(described, bytes=description.bytes_of(index, definition))

    def _definitions(self) -> Sequence[Definition]:
        """Return the definitions of the index; none if there is no index."""
        try:
            return self._needed().state.settings.definitions
        except NoIndexError:
            return ()

    def _readable_definitions(self) -> Sequence[Definition]:
        """Return the definitions of the index; none if there is no index, or if it cannot be read."""
        try:
            return self._definitions()
        except (CorruptIndexError, IndexFormatError):
            return ()

    def _built(self, index: MetadataTable, name: str, builds: Builds | None) -> IndexDescription:
        """Build what an index lacks in this process, unless an indexer does; return its description then."""
        from tailbit.index.maintenance.definitions import definition_named

        indexer = self._build(index, builds)
        (described,) = description.described(index, [definition_named(index, name)], self._table.snapshot())
        return replace(described, indexer=indexer)

    def _build(self, index: MetadataTable, builds: Builds | None) -> str | None:
        """Build what an index lacks, unless an indexer runs; return that indexer, else None."""
        from tailbit.upkeep.repairs import build_again

        indexer = build_again(self._table, index, builds)
        index.refresh()
        return indexer

    def _apart(self) -> DefinedTable:
        """Return the same table with an index handle of its own, for work that takes long or commits."""
        return DefinedTable(self._table, self.index_path)


def _told_to(progress: Callable[[int, int], None] | None) -> Builds | None:
    """Return the builds that tell a callback of a caller what is left; None without one."""
    from tailbit.upkeep.repairs import builds_told_to

    if progress is None:
        return None
    function("progress", progress)
    return builds_told_to(progress)
