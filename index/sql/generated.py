"""Conditions that a predicate implies for generated columns, whose values follow from other columns.

Example: `day` is generated as `CAST(ts AS DATE)`; the table is partitioned by it, or has statistics of it.

    ts >= TIMESTAMP_NTZ'2024-01-02 10:30'    implies    day >= DATE'2024-01-02'

The implied conditions only prune files; Spark itself derives only conditions on partition columns. The values
were computed by their writers, whose sessions are not recorded: an expression that another session may give
another value, or NULL in place of an error, implies nothing (`tailbit.index.expression.unvarying`).

Partition values are text: an empty one, and Hive's word for NULL, are read as NULL, which is asked for beside
them. Source: Delta protocol, Generated Columns and Partition Value Serialization.
"""

from __future__ import annotations

from tailbit.base.errors import PredicateError, UnknownColumnError
from tailbit.index.expression.indexed_term import indexed_term
from tailbit.index.functions.tree import Expression
from tailbit.index.predicate.implied import implied
from tailbit.index.predicate.tree import And, Constant, Leaf, Node, Or, all_of
from tailbit.index.predicate.value_sets import NULL
from tailbit.index.sql.terms import depends_on_zone, expression_of
from tailbit.tables.model import NULL_FOLDER, Column
from tailbit.tables.schema import Schema

_NO_TERM = "#generated"
_READ_AS_NULL = (b"", NULL_FOLDER.encode())


def with_generated(node: Node, schema: Schema) -> Node:
    """Return the AND of a predicate and of the conditions that it implies for generated columns."""
    conditions = (_condition(node, column, schema) for column in schema.generated)
    implied_conditions = [condition for condition in conditions if condition is not None]
    return all_of([node, *implied_conditions]) if implied_conditions else node


def _condition(node: Node, column: Column, schema: Schema) -> Node | None:
    expression = _expression(column, schema)
    if expression is None:
        return None
    implication = implied(node, indexed_term(_NO_TERM, column.generated, expression), stored=True)
    return None if implication is None else _asked_of(implication.maybe, column)


def _expression(column: Column, schema: Schema) -> Expression | None:
    """Return the generation expression of a column; None if it is not read, or if writers may read another.

    Which marks quote a text, and what a backslash in it means, are settings of a session.
    """
    if '"' in column.generated or "\\" in column.generated:
        return None
    try:
        expression = expression_of(column.generated, schema)
        zoned = depends_on_zone(expression, column.generated, schema)
    except (PredicateError, UnknownColumnError):
        return None
    read_otherwise = column.partition and column.type.name in ("binary", "timestamp")
    return None if zoned or read_otherwise or expression.type != column.type else expression


def _asked_of(node: Node, column: Column) -> Node | None:
    """Return a condition on a term as one on the column that holds the term's values; None if computed."""
    if isinstance(node, Constant):
        return node
    if isinstance(node, Leaf):
        true = node.true
        if column.partition and column.type.name == "string" and any(map(true.contains, _READ_AS_NULL)):
            true = true.union(NULL)
        return Leaf(column, true, true.inverse(), f"{column.label}, as it is generated: {node.text}")
    if not isinstance(node, (And, Or)):
        return None
    conditions = [_asked_of(child, column) for child in node.children]
    on_column = tuple(condition for condition in conditions if condition is not None)
    if isinstance(node, Or):
        return Or(on_column) if len(on_column) == len(conditions) else None
    return And(on_column) if on_column else None
