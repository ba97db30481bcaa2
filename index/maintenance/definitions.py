"""Named definitions of an index: made from statements, added, extended, dropped and found by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tailbit.errors import IndexNameTakenError, UnknownIndexError
from tailbit.index.functions.tree import Ref
from tailbit.index.maintenance.alter import alter
from tailbit.index.model import BITMAP, Definition, Term, TermColumn, new_id
from tailbit.index.predicate.walks import columns_of
from tailbit.index.sql.bind import bind
from tailbit.index.sql.ddl.statements import CreateIndex, WrittenExpression
from tailbit.index.sql.terms import expression_of, term_of
from tailbit.index.store.table import MetadataTable
from tailbit.tables.model import Column
from tailbit.tables.schema import Schema
from tailbit.wording import did_you_mean

DEFERRED = "deferred"
"""The option of a definition that no file is built for until it is rebuilt."""

_ALL = "*"


def define(statement: CreateIndex, schema: Schema, zone: str = "UTC", table: str = "") -> Definition:
    """Return the definition that a statement makes over the columns of a schema.

    `zone`: the session time zone. `table`: the table's own name, which may qualify column names.

    Raises:
        StatementError, PredicateError: a term is no expression that an index keeps; says which, and where.
        UnknownColumnError: there is no such column.
        ColumnTypeError: the values of a column have no keys.
    """
    options = {**statement.options, **{f"property:{key}": text for key, text in statement.properties.items()}}
    if statement.comment:
        options["comment"] = statement.comment
    if statement.deferred:
        options[DEFERRED] = "true"
    only = "" if statement.only is None else _checked_partitions(statement.only, schema, zone, table)
    if statement.kind != BITMAP:
        terms = _plain_columns(statement, schema, zone, table)
        return Definition(new_id(), statement.name, statement.kind, terms, options, only)
    alone = _column(statement.terms[0], schema, zone, table) if len(statement.terms) == 1 else None
    if alone is not None:
        return replace(Definition.of_column(alone), name=statement.name, options=options, only=only)
    terms = tuple(term_of(term.text, schema, zone, table) for term in statement.terms)
    return Definition(new_id(), statement.name, BITMAP, terms, options, only)


def _column(term: WrittenExpression, schema: Schema, zone: str, table: str) -> Column | None:
    """Return the column that a term names; None if it is another expression."""
    if not term.column:
        return None
    expression = expression_of(term.text, schema, zone, table)
    return expression.column if isinstance(expression, Ref) else None


def _plain_columns(statement: CreateIndex, schema: Schema, zone: str, table: str) -> tuple[Term, ...]:
    """Return the columns of a kind that keeps what a data file says of them; none stands for all of them."""
    terms = []
    for term in statement.terms:
        if term.text == _ALL:
            return ()
        column = _column(term, schema, zone, table)
        if column is None:
            term.refuse(f"an index of kind {statement.kind} is of columns, not of expressions")
        named = TermColumn(column.label, column.id, str(column.type))
        terms.append(Term(column.label, (named,), "", str(column.type)))
    return tuple(terms)


def _checked_partitions(only: WrittenExpression, schema: Schema, zone: str, table: str) -> str:
    """Return the text of a condition on partition columns.

    Raises:
        StatementError: the condition reads a column by which the table is not partitioned.
    """
    partitions = [column.label for column in schema.columns if column.partition]
    others = [c.label for c in columns_of(bind(only.text, schema, zone, table=table)) if not c.partition]
    if others:
        hint = f"Partition columns: {', '.join(partitions)}." if partitions else "The table has none."
        only.refuse(f"{others[0]} is no partition column; an index is made of whole files", hint)
    return only.text


def find(definitions: Iterable[Definition], name: str) -> Definition | None:
    """Return the definition of a name, in any case; of two, as while one is rebuilt, the older."""
    return next((definition for definition in definitions if definition.name.lower() == name.lower()), None)


def found(index: MetadataTable, name: str) -> Definition:
    """Return the definition of a name, in any case.

    Raises:
        UnknownIndexError: there is none; lists those that there are.
    """
    definitions = index.state.settings.definitions
    definition = find(definitions, name)
    if definition is None:
        names = [known.name for known in definitions]
        raise UnknownIndexError(
            name=name, path=index.path, indexes=", ".join(names), nearest=did_you_mean(name, names)
        )
    return definition


def add(index: MetadataTable, definition: Definition) -> None:
    """Add a definition to an index.

    Raises:
        IndexNameTakenError: another definition has the name, or is of the same terms; nothing is changed.
        CommitConflictError: other writers were first again and again.
    """
    check_free(index.state.settings.definitions, definition)
    alter(index, [definition], [])


def check_free(definitions: Iterable[Definition], definition: Definition) -> None:
    """Raise if a name, or what it would be the name of, is taken.

    Raises:
        IndexNameTakenError: another definition has the name, or is of the same terms.
    """
    known = tuple(definitions)
    taken = find(known, definition.name)
    if taken is not None:
        raise IndexNameTakenError(name=definition.name, reason=f"it is an index of {taken.label}")
    for other in known:
        if (other.kind, other.terms) == (definition.kind, definition.terms):
            raise IndexNameTakenError(
                name=definition.name, reason=f"{other.name} is an index of {other.label} already"
            )


def drop(index: MetadataTable, name: str) -> Definition:
    """Drop the definition of a name, and whatever was begun to take its place; return it.

    Raises:
        UnknownIndexError: there is none; lists those that there are.
        CommitConflictError: other writers were first again and again.
    """
    definition = found(index, name)
    same = [d.id for d in index.state.settings.definitions if d.name.lower() == name.lower()]
    alter(index, [], same)
    return definition
