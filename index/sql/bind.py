"""Binding of a predicate's text to a schema: Spark 4.2's semantics, ANSI mode on, case-insensitive names.

Input: SQL text, a schema, the session time zone. Output: a tree of `tailbit.index.predicate.tree`, or a
PredicateError that names the unsupported construct. Nothing is approximated: a construct that cannot be
evaluated exactly as in Spark is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from tailbit.index.expression.present import may_ask_for_present, micros_now
from tailbit.index.predicate.tree import Node
from tailbit.index.predicate.walks import depth_of
from tailbit.index.sql.conditions import DEEPEST, ConditionReader
from tailbit.index.sql.operands import OperandReader
from tailbit.index.sql.refusals import refuse
from tailbit.index.sql.syntax.parser import FLATTEN, parse_predicate
from tailbit.tables.schema import SameSchema, Schema
from tailbit.tables.zones.times import check_zone


def bind(
    text: str, schema: Schema, zone: str = "UTC", clock: Callable[[], int] = micros_now, table: str = ""
) -> Node:
    """Bind the text of a predicate to the columns of a schema; cached per text and schema.

    Texts with `now()` and the like are bound anew each time: `clock` gives the microseconds since 1970.
    `table`: the table's own name, which may qualify column names.

    Raises:
        PredicateError: the text does not parse, or holds an unsupported construct; the error says where.
        UnknownColumnError: there is no such column.
        ColumnTypeError: a column whose values cannot be compared.
    """
    if may_ask_for_present(text):
        return _bound(text, schema, zone, clock(), table)
    return _kept(text, SameSchema(schema), zone, table)


@lru_cache(maxsize=512)
def _kept(text: str, key: SameSchema, zone: str, table: str) -> Node:
    return _bound(text, key.schema, zone, 0, table)


def _bound(text: str, schema: Schema, zone: str, now: int, table: str) -> Node:
    try:
        check_zone(zone)
    except ValueError as wrong:
        refuse(text, str(wrong))
    tree = parse_predicate(text)
    try:
        node = ConditionReader(OperandReader(text, schema, zone, table), zone, now).whole(tree)
        if depth_of(node) <= DEEPEST:
            return node
    except RecursionError:
        pass
    refuse(text, "it is nested too deeply", hint=FLATTEN)
