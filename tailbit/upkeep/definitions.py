"""Indexes are created, dropped, rebuilt and described by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tailbit.arguments.keywords import checks_keywords_of_methods
from tailbit.arguments.moments import known_zone
from tailbit.arguments.values import flag, names, text, texts_by_name
from tailbit.errors import CorruptIndexError, IndexFormatError, NoIndexError
from tailbit.handle import Handle
from tailbit.index.store.table import MetadataTable

if TYPE_CHECKING:
    from tailbit.index.model import Definition
    from tailbit.index.sql.ddl.statements import CreateIndex


@dataclass(frozen=True, slots=True)
class IndexDescription:
    """One index of a table, and how far it is built.

    `terms`: columns or expressions, as SQL. `only`: the condition on partition columns of the files that it
    covers; empty for all. `state`: "complete", "building", or "deferred" until the first rebuild.
    `files_left`: live files that it is still to be built for. `indexer`: the running indexer that builds it.
    `counts_reason`: why the values are not counted, if that was decided from a sample of the data.
    """

    name: str
    kind: str
    terms: tuple[str, ...]
    state: str
    files_left: int = 0
    only: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    indexer: str | None = None
    counts_reason: str = ""


@checks_keywords_of_methods()
@dataclass(eq=False, repr=False)
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
    ) -> IndexDescription:
        """Create an index of columns or expressions, and build it, unless an indexer runs that does.

        `on`: one to four terms in SQL. `kind`: "bitmap" or "column_stats". `only`: a condition on partition
        columns; files elsewhere are not indexed. `deferred`: its first `rebuild_index` builds it. `zone`: of
        terms that depend on it. `options`: {"counts": "auto"}, which is off above 0.5 values a row, or "on".

        Raises:
            StatementError, PredicateError: a term is no expression of one row; no such kind or option.
            UnknownColumnError, ColumnTypeError: there is no such column, or its values cannot be indexed.
            IndexNameTakenError: there is an index of the name, or of the same terms.

        >>> flights.create_index("by_place", "lower(dest)").state
        'complete'
        >>> flights.where("lower(dest) = 'sfo'").files_scanned
        0
        """
        from tailbit.index.sql.ddl.statements import CreateIndex, TableReference, WrittenExpression

        statement = CreateIndex(
            name=text("name", name),
            table=TableReference("path", (self.path,)),
            terms=tuple(map(WrittenExpression, names("on", [on] if isinstance(on, str) else on))),
            kind=text("kind", kind),
            options=texts_by_name("options", options),
            only=None if only is None else WrittenExpression(text("only", only)),
            deferred=flag("deferred", deferred),
            if_not_exists=flag("if_not_exists", if_not_exists),
        )
        return self.created(statement, known_zone("zone", zone))

    def created(self, statement: CreateIndex, zone: str) -> IndexDescription:
        """Create the index of a statement; see `create_index`."""
        from tailbit.index.advice.counts import decided
        from tailbit.index.maintenance.create import open_or_create
        from tailbit.index.maintenance.definitions import add, check_free, define, find

        definition = define(statement, self._table.snapshot().schema, zone, self.table_name)
        known = self._definitions()
        if statement.if_not_exists and find(known, statement.name) is not None:
            return self.describe_index(statement.name)
        check_free(known, definition)
        (definition,) = decided(self._table, [definition])
        index, is_new = open_or_create(self._table, self.index_path, definition)
        if not is_new:
            add(index, definition)
        return self._built(index, definition.name)

    def drop_index(self, name: str, if_exists: bool = False) -> bool:
        """Drop an index; return whether there was one. Its bytes go with the next merges and `vacuum`.

        Raises:
            UnknownIndexError: there is none of that name, and `if_exists` is not given.
            SettingsError: it is the only one.

        >>> flights.drop_index("nothing", if_exists=True)
        False
        """
        from tailbit.index.maintenance.definitions import drop, find

        if flag("if_exists", if_exists) and find(self._definitions(), name) is None:
            return False
        drop(self._apart()._needed(), text("name", name))
        return True

    def indexes(self) -> list[IndexDescription]:
        """Return the indexes of the table; none if there is none yet.

        >>> [(index.name, index.kind, index.terms) for index in flights.indexes()]
        [('carrier', 'bitmap', ('carrier',))]
        """
        if not self._definitions():
            return []
        index = self._needed()
        return [_described(index, definition) for definition in index.state.settings.definitions]

    def describe_index(self, name: str) -> IndexDescription:
        """Return what an index holds, and how far it is built.

        Raises:
            NoIndexError: the table has no index.
            UnknownIndexError: there is none of that name.

        >>> flights.describe_index("carrier").terms
        ('carrier',)
        """
        from tailbit.index.maintenance.definitions import found

        index = self._needed()
        return _described(index, found(index, text("name", name)))

    @property
    def table_name(self) -> str:
        """Return the table's name, the last part of its path, by which a condition may qualify columns."""
        return self.path.rstrip("/").rpartition("/")[2]

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

    def _built(self, index: MetadataTable, name: str) -> IndexDescription:
        """Build what an index lacks in this process, unless an indexer does; return what is built then."""
        from dataclasses import replace

        from tailbit.index.maintenance.definitions import found
        from tailbit.upkeep.repairs import build_again

        indexer = build_again(self._table, index)
        index.refresh()
        return replace(_described(index, found(index, name)), indexer=indexer)

    def _apart(self) -> DefinedTable:
        """Return the same table with an index handle of its own, for work that takes long or commits."""
        return DefinedTable(self._table, self.index_path)


def _described(index: MetadataTable, definition: Definition) -> IndexDescription:
    from tailbit.index.maintenance.definitions import DEFERRED
    from tailbit.index.model import COUNTS_REASON

    internal = (DEFERRED, COUNTS_REASON)
    left = index.state.recorded.unposted([definition.id])[definition.id]
    deferred = definition.options.get(DEFERRED) == "true"
    state = "deferred" if deferred else "building" if left else "complete"
    return IndexDescription(
        name=definition.name,
        kind=definition.kind,
        terms=tuple(term.text for term in definition.terms) or ("*",),
        state=state,
        files_left=left,
        only=definition.only,
        options={key: text for key, text in definition.options.items() if key not in internal},
        counts_reason=definition.options.get(COUNTS_REASON, ""),
    )
