"""REBUILD of a definition: a newer one of the same name is built, and replaces the old one in one commit.

Until then, questions use the old definition. A bitmap of one column has the id of the column, so that two of
them cannot exist: the bitmap is removed from the records of all files, and until a file is indexed again, its
rows are scanned. The records tell which files still lack a definition, so that a rebuild continues after a
restart or a kill at any point.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tailbit.base.errors import CommitGapError, VersionNotFoundError
from tailbit.index.keys import posting_type_of
from tailbit.index.kinds.files.lacking import Lacking
from tailbit.index.maintenance.alter import change_definitions, retried
from tailbit.index.maintenance.definitions import found
from tailbit.index.maintenance.wanted import Wanted, wanted_of
from tailbit.index.model import (
    DEFERRED,
    REPLACES,
    Definition,
    LedgerState,
    Settings,
    Term,
    TermColumn,
    new_id,
)
from tailbit.index.sql.terms import every_column, terms_anew
from tailbit.index.store.state import IndexState
from tailbit.index.store.table import MetadataTable
from tailbit.tables import compute as pc
from tailbit.tables.model import DataType
from tailbit.tables.schema import Schema
from tailbit.tables.table import Table


def rebuild(index: MetadataTable, name: str, schema: Schema) -> Definition:
    """Begin to build a definition anew; return the definition to be built.

    Its terms are bound to the schema: a renamed column is the same column, and a column whose type changed is
    indexed with its present type. An unfinished rebuild begins again. A deferred definition is built as it
    stands. Cost: one small commit; for a bitmap of one column, the cost of dropping it.

    Raises:
        UnknownIndexError: the index has no definition of this name.
        UnknownColumnError: the table has no longer a column that the definition reads.
        PredicateError, ColumnTypeError: a column has a type now that the terms do not fit.
        CorruptIndexError: the value counts of a bitmap of one column cannot be read.
        CommitConflictError: other writers were first again and again.
    """

    def attempt() -> Definition:
        old, definitions = found(index, name), index.state.settings.definitions
        if old.is_deferred:
            built = old.without(DEFERRED)
            change_definitions(index, tuple(built if d is old else d for d in definitions), [])
            return built
        if old.is_of_column:
            built = _column_anew(old, schema)
            change_definitions(index, tuple(built if d is old else d for d in definitions), [old.id])
            return built
        newer = replace(
            old, terms=terms_anew(old, schema), id=new_id(), options={**old.options, REPLACES: old.id}
        )
        unfinished = [d.id for d in definitions if d.options.get(REPLACES) == old.id]
        kept = tuple(d for d in definitions if d.id not in unfinished)
        change_definitions(index, (*kept, newer), unfinished)
        return newer

    return retried(index, attempt)


def promoted_since(definitions: Iterable[Definition], schema: Schema) -> list[Definition]:
    """Return the bitmaps of columns whose type, and with it whose values, changed since they were defined.

    Postings and counts of files that the batch does not touch then hold values that nobody reads any more. A
    deferred definition has none.
    """
    present = {column.id: column.type for column in every_column(schema)}
    plain = ((definition, definition.terms[0]) for definition in definitions if definition.is_of_column)
    return [
        definition
        for definition, term in plain
        if definition.id in present
        and not definition.is_deferred
        and _has_other_values(term, present[definition.id])
    ]


def _has_other_values(then: Term, now: DataType) -> bool:
    """Return whether a column was promoted to a type with other values since a term of it was recorded."""
    value = now.fields[0].type if now.name == "array" else now
    return value.promoted and (then.type, then.key_type) != (str(now), posting_type_of(now))


def _column_anew(definition: Definition, schema: Schema) -> Definition:
    """Return the bitmap of one column, made again for the column as it is now; the label stays."""
    by_id = {column.id: column for column in every_column(schema)}
    column = by_id.get(definition.id) or schema.resolve(definition.label)
    now = Definition.of_column(column)
    (term,) = now.terms
    known = TermColumn(definition.label, column.id, term.type)
    return replace(definition, id=now.id, terms=(replace(term, text=definition.label, columns=(known,)),))


def swap_rebuilt(index: MetadataTable, wanted: Wanted) -> list[Definition]:
    """Replace each definition by its rebuilt one if no file lacks the latter; keep the order of definitions.

    One commit drops the old ones, with their records and counts. Return the rebuilt ones as they are now.

    Raises:
        CommitConflictError: other writers were first again and again.
    """

    def attempt() -> list[Definition]:
        state = index.state
        if not _pending(state.settings, wanted) or not _is_settled(state):
            return []
        # Files without postings lack the older definition too.
        left = lacking(state, wanted, claimed=True).left()
        whole = [d for d in _pending(state.settings, wanted) if d.id not in left]
        if not whole:
            return []
        swapped = {d.id: d.without(REPLACES) for d in whole}
        older = {d.id: d.options[REPLACES] for d in whole}
        gone = list(older.values())
        places = {d.id: place for place, d in enumerate(state.settings.definitions)}
        kept = [d for d in state.settings.definitions if d.id not in gone]
        kept.sort(key=lambda d: places.get(older.get(d.id, ""), places[d.id]))
        change_definitions(index, tuple(swapped.get(d.id, d) for d in kept), gone)
        return list(swapped.values())

    return retried(index, attempt)


def lacking(state: IndexState, wanted: Wanted, *, claimed: bool = False) -> Lacking:
    """Return the live files that lack a definition that they want; with `claimed`, only those with postings.

    Cost: one pass over the records.
    """
    records = state.recorded.table()
    records = records.filter(pc.is_valid(records["space"])) if claimed else records
    return Lacking.among(records, wanted.of, by_partition=bool(wanted.parts))


def left_to_fill(table: Table, state: IndexState) -> bool:
    """Return whether a live file lacks a definition, or a rebuilt one waits to take its place.

    Files that cannot be read do not count. Cost: one pass over the records, and the schema of the version
    that the index covers.
    """
    ledger = state.ledger
    if ledger is None or not _is_settled(state):
        return False
    try:
        schema = table.snapshot(ledger.version).schema
    except (CommitGapError, VersionNotFoundError):
        return False
    wanted = wanted_of(state.settings.definitions, schema)
    return bool(_pending(state.settings, wanted)) or len(lacking(state, wanted).fillable(ledger.lineage)) > 0


def _pending(settings: Settings, wanted: Wanted) -> list[Definition]:
    """Return the definitions that will replace others once every file has them."""
    ids = {*wanted.everywhere, *wanted.parts}
    return [d for d in settings.definitions if REPLACES in d.options and d.id in ids]


def _is_settled(state: IndexState) -> bool:
    """Return whether the index has finished its round and no new one is requested.

    An unfinished or requested round checks every file anyway.
    """
    ledger = state.ledger
    settled = ledger is not None and ledger.state is LedgerState.COMPLETE
    return settled and ledger is not None and ledger.settings_version == state.settings.version
