"""Why indexes that a question might have expected did not serve it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tailbit.base.errors import ColumnTypeError, PredicateError, UnknownColumnError
from tailbit.index.expression.indexed_term import IndexedTerm, IndexedTuple
from tailbit.index.functions.tree import spelled
from tailbit.index.model import Definition
from tailbit.index.predicate.implied import implied, tuple_prefix
from tailbit.index.predicate.tree import And, Node, columns_of, nodes_of
from tailbit.index.query.selection import Selection
from tailbit.index.sql.terms import column_of, every_column, kept_expressions, terms_anew
from tailbit.tables.schema import Schema


def unserved(selection: Selection, zone: str) -> list[dict[str, str]]:
    """Return the indexes that read a column of a predicate and cannot serve it, each with the reason.

    `zone`: the session time zone of the question. Keys: `index` (its name), `reason`.
    """
    columns = columns_of(selection.node)
    # If a column was dropped and another one has its name now, the question finds it by the name.
    names = {name for column in columns for name in (column.id, column.label)}
    reasons = {
        definition.name: _reason(definition, selection, zone)
        for definition in selection.coverage.definitions
        if any({column.id, column.label} & names for term in definition.terms for column in term.columns)
    }
    return [{"index": name, "reason": reason} for name, reason in reasons.items() if reason]


def _reason(definition: Definition, selection: Selection, zone: str) -> str | None:
    changed = change_of(definition, selection.schema)
    if changed or definition.is_of_column:
        return changed
    here = _asked_terms(definition, selection.schema) or ()
    in_zone = replace(definition, terms=tuple(replace(term, zone=zone) for term in definition.terms))
    elsewhere = _asked_terms(in_zone, selection.schema) or ()
    nodes = list(nodes_of(selection.node))
    for own, theirs in zip(here, elsewhere, strict=False):
        if own != theirs and any(not _says(node, own) and _says(node, theirs) for node in nodes):
            zones = ", ".join(dict.fromkeys(_zones(definition, own, theirs)))
            return f"it keeps values in time zone {zones}, and the question is asked in {zone}"
    return None


def _asked_terms(definition: Definition, schema: Schema) -> Sequence[IndexedTerm] | None:
    """Return the terms that can serve conditions; None if a column is gone or has another type."""
    if definition.has_postings:
        term = column_of(definition, schema)
        return [term] if isinstance(term, IndexedTerm) else None
    terms = kept_expressions(definition, schema)
    return terms if len(terms) == len(definition.expression_ids) else None


def _says(node: Node, term: IndexedTerm) -> bool:
    """Return whether a condition implies one on a term, or on the first parts of a tuple."""
    if isinstance(term, IndexedTuple):
        return tuple_prefix(node.children if isinstance(node, And) else (node,), term.parts) is not None
    return implied(node, term) is not None


def _zones(definition: Definition, own: IndexedTerm, theirs: IndexedTerm) -> Iterator[str]:
    """Yield the time zones of the terms that have other values in another zone."""
    if isinstance(own, IndexedTuple) and isinstance(theirs, IndexedTuple):
        every = zip(definition.terms, own.parts, theirs.parts, strict=True)
        yield from (term.zone for term, own_part, other in every if own_part != other)
    else:
        yield from (term.zone for term in definition.terms if term.text == own.label)


def change_of(definition: Definition, schema: Schema) -> str:
    """Return which column of a definition is gone or has another type than it had, and what to do.

    Empty if the definition serves what it was made for.
    """
    present = {column.id for column in every_column(schema)}
    gone = any(column.id not in present for term in definition.terms for column in term.columns)
    if not gone and (definition.is_of_column or _asked_terms(definition, schema) is not None):
        return ""
    change = _change(definition, schema)
    if _can_be_rebuilt(definition, schema):
        return f"{change}: ALTER INDEX ... REBUILD makes it anew"
    return f"{change}, so that it cannot be rebuilt: DROP INDEX"


def _can_be_rebuilt(definition: Definition, schema: Schema) -> bool:
    """Return whether the terms of a definition can be parsed over the current columns."""
    try:
        terms_anew(definition, schema)
    except (UnknownColumnError, PredicateError, ColumnTypeError):
        return False
    return True


def _change(definition: Definition, schema: Schema) -> str:
    now = {column.id: column for column in every_column(schema)}
    for term in definition.terms:
        # Statistics of a column follow whatever type it has.
        follows = term.is_column and not definition.has_postings
        for was in term.columns:
            if was.id not in now:
                return f"column {was.label} is gone"
            type_ = spelled(now[was.id].type)
            if type_ != was.type and not follows:
                return f"column {now[was.id].label} was of type {was.type}, and is {type_} now"
    return "its expression can no longer be read"
