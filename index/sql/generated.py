"""Conditions that a predicate implies for generated columns, whose values follow from other columns.

Example: `day` is generated as `CAST(ts AS DATE)`; the table is partitioned by it, or has statistics of it.

    ts >= TIMESTAMP_NTZ'2024-01-02 10:30'    implies    day >= DATE'2024-01-02'

The implied conditions only prune files; Spark itself derives only conditions on partition columns. A
generation expression whose values depend on a time zone implies nothing: the writer's zone is not recorded.
Source: Delta protocol, Generated Columns.
"""

from __future__ import annotations

from tailbit.errors import PredicateError, UnknownColumnError
from tailbit.index.expression.indexed_term import IndexedTerm, indexed_term
from tailbit.index.implication.implied import implied
from tailbit.index.predicate.tree import And, Constant, Leaf, Node, Or, all_of
from tailbit.index.sql.terms import depends_on_zone, expression_of
from tailbit.tables.model import Column
from tailbit.tables.schema import Schema

_NO_TERM = "#generated"


def with_generated(node: Node, schema: Schema) -> Node:
    """Return the AND of a predicate and of the conditions that it implies for generated columns."""
    conditions = (_condition(node, column, schema) for column in schema.generated)
    implied_conditions = [condition for condition in conditions if condition is not None]
    return all_of([node, *implied_conditions]) if implied_conditions else node


def _condition(node: Node, column: Column, schema: Schema) -> Node | None:
    term = _term(column, schema)
    implication = None if term is None else implied(node, term)
    return None if implication is None else _asked_of(implication.maybe, column)


def _term(column: Column, schema: Schema) -> IndexedTerm | None:
    """Return the values of a generated column as a term; None if they depend on a zone, or cannot be read."""
    try:
        expression = expression_of(column.generated, schema)
        zoned = depends_on_zone(expression, column.generated, schema)
    except (PredicateError, UnknownColumnError):
        return None
    same = not zoned and expression.type == column.type
    return indexed_term(_NO_TERM, column.generated, expression) if same else None


def _asked_of(node: Node, column: Column) -> Node | None:
    """Return a condition on a term as one on the column that holds the term's values; None if computed."""
    if isinstance(node, Constant):
        return node
    if isinstance(node, Leaf):
        return Leaf(column, node.true, node.false, f"{column.label}, as it is generated: {node.text}")
    if not isinstance(node, (And, Or)):
        return None
    parts = [_asked_of(child, column) for child in node.children]
    known = tuple(part for part in parts if part is not None)
    if isinstance(node, Or):
        return Or(known) if len(known) == len(parts) else None
    return And(known) if known else None
