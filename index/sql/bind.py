"""Binding of texts to a schema: Spark 4.2's semantics, ANSI mode on, case-insensitive names.

Input: SQL text, a schema, the session time zone. Output: for a predicate a tree of
`tailbit.index.predicate.tree`, for a group key a column or a term; or a PredicateError that names the
unsupported construct. Nothing is approximated: a construct that cannot be
evaluated exactly as in Spark is refused.

A condition becomes a leaf if value sets of one column suffice, since the log's statistics and ranges of keys
serve leaves; other conditions are computed.

A group key is the name of a column or an expression. A name comes first: if a column is named like the text
of an expression, the column is taken. An expression that an index definition holds becomes the term of the
definition, so that its postings, counts and codes serve; any other expression becomes a term that no index
has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tailbit.base.errors import ColumnTypeError, PredicateError, UnknownColumnError
from tailbit.base.lazy import lazy
from tailbit.base.wording import with_article
from tailbit.index.expression.build import is_null as null_of
from tailbit.index.expression.build import may_ask_for_present, micros_now
from tailbit.index.expression.show import show
from tailbit.index.functions.tree import Call, Expression, Ref, columns_in, key_of, raising_constant
from tailbit.index.model import Definition
from tailbit.index.predicate.tree import (
    Constant,
    Node,
    all_of,
    any_of,
    depth_of,
    is_null,
    is_true,
    negate,
)
from tailbit.index.sql.expressions import ExpressionReader, OperandReader, bare, chain
from tailbit.index.sql.refusals import refuse
from tailbit.index.sql.syntax.parser import FLATTEN, MOST_LETTERS, parse_predicate
from tailbit.index.sql.syntax.tree import Tree, first_of
from tailbit.index.values.literals import BOOLEAN, mismatch
from tailbit.tables.model import Column
from tailbit.tables.schema import SameSchema, Schema
from tailbit.tables.zones import check_zone

if TYPE_CHECKING:
    from tailbit.index.expression import evaluate as evaluation
    from tailbit.index.expression import indexed_term
    from tailbit.index.predicate import monotonic, rising
    from tailbit.index.sql import terms
else:
    indexed_term = lazy("tailbit.index.expression.indexed_term")
    terms = lazy("tailbit.index.sql.terms")
    monotonic = lazy("tailbit.index.predicate.monotonic")
    rising = lazy("tailbit.index.predicate.rising")
    evaluation = lazy("tailbit.index.expression.evaluate")


def bind(
    text: str, schema: Schema, zone: str = "UTC", clock: Callable[[], int] = micros_now, table: str = ""
) -> Node:
    """Bind the text of a predicate to the columns of a schema; cached per text and schema.

    Texts with `now()` and the like are bound anew each time: `clock` gives the microseconds since 1970.
    `table`: the table's own name, which may qualify column names.
    """
    node: Node = _cached(_predicate, text, schema, zone, clock, table)
    return node


def group_key(text: str, schema: Schema, zone: str, table: str) -> Column:
    """Return the column that a text names, else the term of the expression that the text is.

    Arguments and cache: as of `bind`.
    """
    column: Column = _cached(_group_key, text, schema, zone, micros_now, table)
    return column


def _cached(
    make: Callable[..., Any], text: str, schema: Schema, zone: str, clock: Callable[[], int], table: str
) -> Any:
    if may_ask_for_present(text):
        return make(text, schema, zone, clock(), table)
    bound = _without_present if len(text) <= MOST_LETTERS else _of_long_text
    return bound(make, text, SameSchema(schema), zone, table)


@lru_cache(maxsize=1024)
def _without_present(make: Callable[..., Any], text: str, key: SameSchema, zone: str, table: str) -> Any:
    return make(text, key.schema, zone, 0, table)


_of_long_text = lru_cache(maxsize=16)(_without_present.__wrapped__)
"""The same for long texts, whose lists take megabytes each."""


def _predicate(text: str, schema: Schema, zone: str, now: int, table: str) -> Node:
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


DEEPEST = 150
"""Limit of the levels of AND and OR in a bound tree, and of calls in an expression: walks of either take less
of Python's stack than parsing did.
"""


class ConditionReader:
    """Converter of the conditions of one parsed predicate into nodes."""

    def __init__(self, operands: OperandReader, zone: str, now: int) -> None:
        self.operands = operands
        self.expressions = ExpressionReader(operands, zone, now)
        self.kinds: dict[str, Callable[[Tree], Node]] = {
            "parenthesis": lambda e: self.node(first_of(e)),
            "and": lambda e: all_of(self.node(operand) for operand in chain(e)),
            "or": lambda e: any_of(self.node(operand) for operand in chain(e)),
            "not": lambda e: negate(self.node(first_of(e))),
            "is": lambda e: _negated(e, self.is_condition(e)),
        }

    def whole(self, e: Tree) -> Node:
        """Convert a whole predicate, whose type must be boolean; NULL alone is refused."""
        inner = bare(e)
        if inner.kind in self.kinds:
            return self.node(inner)
        expression = self.expressions.read(inner)
        if expression.type.name != "boolean":
            reason = mismatch(f"{with_article(expression.type.sql)} is not a condition", "FILTER_NOT_BOOLEAN")
            self.operands.refuse(reason, inner, "Compare it with something.")
        return self.condition(expression, inner)

    def node(self, e: Tree) -> Node:
        """Convert a condition to a node."""
        return self.kinds[e.kind](e) if e.kind in self.kinds else self.condition(self.expressions.read(e), e)

    def condition(self, expression: Expression, e: Tree) -> Node:
        """Convert an expression to a condition."""
        if expression.type.name == "void":
            return Constant(None)
        if expression.type.name != "boolean":
            reason = f"{with_article(expression.type.sql)} is not a condition"
            if expression.type.name == "string":
                self.operands.refuse(reason, e, "Write column = 'a', or column IN ('a', 'b') for a list.")
            self.operands.refuse(mismatch(reason), e, "Compare it with something.")
        _check_depth(self.operands.text, expression, e.start)
        for column in columns_in(expression):
            self.operands.asked_for_parts(column)
        _check_raises_not(self.operands.text, expression, e.start)
        return rising.node_of(expression)

    def is_condition(self, e: Tree) -> Node:
        """Convert IS NULL of any value, or IS TRUE, IS FALSE and IS UNKNOWN of a condition.

        The NOT of IS NOT is left to the caller.
        """
        subject = bare(first_of(e))
        if e.text in ("TRUE", "FALSE"):
            truth = self.node(subject)
            return is_true(truth if e.text == "TRUE" else negate(truth))
        if subject.kind in self.kinds:
            return is_null(self.node(subject))
        value = self.expressions.read(subject)
        if isinstance(value, Call) and value.type == BOOLEAN and not _is_asked_of_cast_days(value):
            return is_null(self.condition(value, subject))
        if e.text == "UNKNOWN":
            self.condition(value, e)
        return self.condition(null_of(value), e)


def _is_asked_of_cast_days(value: Call) -> bool:
    """Return whether Spark casts days to times for IS NULL of an inequality, which raises for far days."""
    compared = value.null_as or value
    return compared.name in ("<", "<=", ">", ">=") and any(map(monotonic.casts_days, compared.args))


def _negated(e: Tree, node: Node) -> Node:
    return negate(node) if e.negated else node


_NAME = re.compile(r"(?:[\w\s.]|`(?:[^`]|``)*`)*")
"""A text that may be meant as a name; any other character means an expression."""


def _group_key(text: str, schema: Schema, zone: str, now: int, table: str) -> Column:
    try:
        return schema.resolve(text)
    except UnknownColumnError as wrong:
        unknown = wrong
    try:
        expression = terms.expression_of(text, schema, zone, table, now)
    except RecursionError:
        refuse(text, "it is nested too deeply", hint=FLATTEN)
    except (PredicateError, UnknownColumnError, ColumnTypeError):
        if _NAME.fullmatch(text):
            raise unknown from None
        raise
    if isinstance(expression, Ref):
        return expression.column
    if not isinstance(expression, Call) or not columns_in(expression):
        hint = "Name a column in it; to count all rows, ask for the count."
        refuse(text, "it reads no column: it is a constant", 0, hint)
    _check_depth(text, expression, 0)
    hint = "Group by an expression of one value, such as a field, an element or size(tags)."
    terms.value_type(text, expression, hint, 0)
    _check_raises_not(text, expression, 0)
    # No definition has this id: the ids of definitions have eight hexadecimal digits.
    return indexed_term.indexed_term(f"#{key_of(expression)}", text, expression)


def _check_depth(text: str, expression: Expression, place: int) -> None:
    if isinstance(expression, Call) and expression.depth > DEEPEST:
        refuse(text, "it is nested too deeply", place, FLATTEN)


def _check_raises_not(text: str, expression: Expression, place: int) -> None:
    if (constant := raising_constant(expression)) is not None:
        raised = (error := evaluation.error_of(constant)) and f" ({error} in Spark)"
        refuse(text, f"{show(constant)} raises for every row{raised}", place)


def with_definition(column: Column, definitions: Iterable[Definition], schema: Schema) -> Column:
    """Return a term with the id of the definition that holds its expression; unchanged if there is none.

    `schema`: the columns of the table as definitions are bound to them, whatever the time zone of a question.
    """
    if not isinstance(column, indexed_term.IndexedTerm):
        return column
    alone = [d for d in definitions if len(d.terms) == 1 and not d.is_of_column]
    terms_of_index = terms.indexed_columns_of(alone, schema)
    matching = rising.term_of(
        column.expression, [term for term in terms_of_index if isinstance(term, indexed_term.IndexedTerm)]
    )
    if matching is None:
        return column
    return indexed_term.indexed_term(matching.id, column.label, column.expression)
