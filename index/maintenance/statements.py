"""The definitions of an index as the statements that create them again, elsewhere or after a loss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tailbit.base.wording import quoted
from tailbit.index.maintenance.definitions import BY_PARTITION, WITHIN
from tailbit.index.model import COUNTS_REASON, DEFERRED, REPLACES, Definition, TermColumn
from tailbit.index.sql.ddl.parser import Scripted
from tailbit.index.sql.ddl.statements import (
    EVERY,
    CreateIndex,
    RebuildIndex,
    TableReference,
    WrittenExpression,
)
from tailbit.index.sql.syntax.parser import parse_predicate
from tailbit.index.sql.syntax.tree import Tree
from tailbit.index.sql.terms import every_column
from tailbit.tables.schema import Schema, name_parts

_INTERNAL = frozenset({COUNTS_REASON, DEFERRED, REPLACES, WITHIN})
_PROPERTY, _COMMENT = "property:", "comment"


def statements_of(definitions: Iterable[Definition], schema: Schema, table: TableReference) -> list[Scripted]:
    """Return the statements that create definitions again on `table`; existing ones of a name stay.

    Columns have the names that they have now. An index that is being rebuilt is created once.
    """
    return [
        scripted
        for definition in definitions
        if REPLACES not in definition.options
        for scripted in _statements(definition, schema, table)
    ]


def _statements(definition: Definition, schema: Schema, table: TableReference) -> Iterator[Scripted]:
    options = definition.options
    by_partition = options.get(DEFERRED) == BY_PARTITION
    # Of an index that is built partition by partition, the condition says which are built.
    only = options.get(WITHIN, "") if by_partition else definition.only
    only = _by_present_names(only, definition.only_columns, schema) if only else ""
    zone = next((term.zone for term in definition.terms if term.zone != "UTC"), "UTC")
    notes = {key: text for key, text in options.items() if key.startswith(_PROPERTY)}
    create = CreateIndex(
        definition.name,
        table,
        tuple(map(WrittenExpression, _terms(definition, schema))) or (WrittenExpression(EVERY),),
        definition.kind,
        {
            key: text
            for key, text in options.items()
            if key not in _INTERNAL and key not in notes and key != _COMMENT
        },
        WrittenExpression(only) if only else None,
        deferred=DEFERRED in options,
        if_not_exists=True,
        properties={key.removeprefix(_PROPERTY): text for key, text in notes.items()},
        comment=options.get(_COMMENT, ""),
    )
    yield Scripted(create, zone)
    if by_partition:
        part = _by_present_names(definition.only, definition.only_columns, schema)
        yield Scripted(RebuildIndex(definition.name, table, WrittenExpression(part)), zone)


def _terms(definition: Definition, schema: Schema) -> list[str]:
    """Return the terms as SQL, by the present names of their columns."""
    if definition.is_of_column or definition.is_hashed:
        return _labels((column for term in definition.terms for column in term.columns), schema)
    return [_by_present_names(term.text, term.columns, schema) for term in definition.terms]


def _labels(columns: Iterable[TermColumn], schema: Schema) -> list[str]:
    """Return the present names of columns, each once; the old name of a column that is gone."""
    present = {column.id: column.label for column in every_column(schema)}
    return list(dict.fromkeys(present.get(column.id, column.label) for column in columns))


def _by_present_names(text: str, columns: Sequence[TermColumn], schema: Schema) -> str:
    """Return an expression in which columns have their present names, without the name of a table."""
    present = {
        tuple(name.lower() for name in name_parts(was.label)): (was.label, _labels([was], schema)[0])
        for was in columns
    }
    for tree in sorted(_columns(parse_predicate(text)), key=lambda tree: tree.start, reverse=True):
        names = tuple(name.lower() for name in tree.names)
        # What stands before the name of a column that the term reads is a table's.
        spans = ((first, end) for first in range(len(names)) for end in range(len(names), first, -1))
        first, end = next((span for span in spans if names[slice(*span)] in present), (0, 0))
        before, now = present.get(names[first:end], ("", ""))
        if first or before != now:
            fields = "".join(f".{quoted(name)}" for name in tree.names[end:])
            text = f"{text[: tree.start]}{now}{fields}{text[tree.end :]}"
    return text


def _columns(tree: Tree, arguments: frozenset[str] = frozenset()) -> Iterator[Tree]:
    """Yield the names of columns in an expression; `arguments`: those of the functions around it."""
    if tree.kind == "column" and tree.names[0].lower() not in arguments:
        yield tree
    if tree.kind == "lambda":
        arguments |= {name.lower() for name in tree.names}
    for inner in (tree.first, tree.second, *tree.items):
        if inner is not None:
            yield from _columns(inner, arguments)


def named_as(scripted: Scripted, table: TableReference) -> Scripted:
    """Return a statement for another table than the one that it was written for."""
    return replace(scripted, statement=replace(scripted.statement, table=table))
