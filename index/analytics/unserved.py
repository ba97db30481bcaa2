"""Why indexes that a question might have expected did not serve it."""

from __future__ import annotations

from dataclasses import replace

from tailbit.errors import ColumnTypeError, PredicateError, UnknownColumnError
from tailbit.index.expression.indexed_term import IndexedTerm
from tailbit.index.functions.tree import spelled
from tailbit.index.implication.implied import implied
from tailbit.index.model import Definition
from tailbit.index.predicate.walks import columns_of, nodes_of
from tailbit.index.query.selection import Selection
from tailbit.index.sql.terms import column_of, every_column, kept_expressions, terms_anew
from tailbit.tables.schema import Schema


def unserved(selection: Selection, zone: str) -> list[dict[str, str]]:
    """Return the indexes that read a column of a predicate and cannot serve it, each with the reason.

    `zone`: the session time zone of the question. Keys: `index` (its name), `reason`.
    """
    asked = {column.id for column in columns_of(selection.node)}
    reasons = {
        definition.name: _reason(definition, selection, zone)
        for definition in selection.coverage.definitions
        if any(column.id in asked for term in definition.terms for column in term.columns)
    }
    return [{"index": name, "reason": reason} for name, reason in reasons.items() if reason]


def _reason(definition: Definition, selection: Selection, zone: str) -> str | None:
    schema = selection.schema
    if not definition.has_postings:
        whole = len(kept_expressions(definition, schema)) == len(definition.expression_ids)
        return None if whole else _changed(definition, schema)
    if definition.is_of_column:
        return None
    here = column_of(definition, schema)
    if here is None:
        return _changed(definition, schema)
    in_zone = replace(definition, terms=tuple(replace(term, zone=zone) for term in definition.terms))
    elsewhere = column_of(in_zone, schema)
    if here == elsewhere or not isinstance(here, IndexedTerm) or not isinstance(elsewhere, IndexedTerm):
        return None
    nodes = nodes_of(selection.node)
    if any(implied(node, here) is None and implied(node, elsewhere) is not None for node in nodes):
        zones = ", ".join(sorted({term.zone for term in definition.terms}))
        return f"it keeps values in time zone {zones}, and the question is asked in {zone}"
    return None


def _changed(definition: Definition, schema: Schema) -> str:
    """Return which column of a definition is gone or has another type than it had, and what to do."""
    change = _change(definition, schema)
    if _can_be_rebuilt(definition, schema):
        return f"{change}: ALTER INDEX ... REBUILD makes it anew"
    return f"{change}, so that it cannot be rebuilt: DROP INDEX"


def _can_be_rebuilt(definition: Definition, schema: Schema) -> bool:
    """Return whether the terms of a definition can be read over the columns as they are now."""
    try:
        terms_anew(definition, schema)
    except (UnknownColumnError, PredicateError, ColumnTypeError):
        return False
    return True


def _change(definition: Definition, schema: Schema) -> str:
    now = {column.id: column for column in every_column(schema)}
    for was in (column for term in definition.terms for column in term.columns):
        if was.id not in now:
            return f"column {was.label} is gone"
        if spelled(now[was.id].type) != was.type:
            return (
                f"column {now[was.id].label} was of type {was.type}, and is {spelled(now[was.id].type)} now"
            )
    return "its expression can no longer be read"
