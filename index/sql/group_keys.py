"""Group keys: the text of a column's name or of an expression becomes a column or a term.

A name comes first: if a column is named like the text of an expression, the column is taken. An expression
that an index definition holds becomes the term of the definition, so that its postings, counts and codes
serve; any other expression becomes a term that no index has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from tailbit.base.errors import ColumnTypeError, PredicateError, UnknownColumnError
from tailbit.base.lazy import lazy
from tailbit.index.expression.build import may_ask_for_present, micros_now
from tailbit.index.expression.indexed_term import IndexedTerm, indexed_term
from tailbit.index.expression.show import show
from tailbit.index.functions.tree import Call, Expression, Ref, columns_in, key_of, raising_constant
from tailbit.index.model import Definition
from tailbit.index.sql.bind import DEEPEST
from tailbit.index.sql.refusals import refuse
from tailbit.index.sql.syntax.parser import FLATTEN
from tailbit.index.sql.terms import expression_of, indexed_columns_of, value_type
from tailbit.tables.model import Column
from tailbit.tables.schema import SameSchema, Schema

if TYPE_CHECKING:
    from tailbit.index.expression import evaluate as evaluation
    from tailbit.index.predicate import rising
else:
    rising = lazy("tailbit.index.predicate.rising")
    evaluation = lazy("tailbit.index.expression.evaluate")

_NAME = re.compile(r"(?:[\w\s.]|`(?:[^`]|``)*`)*")
"""A text that may be meant as a name; any other character means an expression."""


def group_key(text: str, schema: Schema, zone: str, table: str) -> Column:
    """Return the column that a text names, else the term of the expression that the text is.

    `zone`: the session time zone. `table`: the table's own name, which may qualify column names. Cached per
    text and schema; `now()` and the like are bound anew each time.
    """
    if may_ask_for_present(text):
        return _bound(text, schema, zone, table, micros_now())
    return _cached(text, SameSchema(schema), zone, table)


@lru_cache(maxsize=512)
def _cached(text: str, key: SameSchema, zone: str, table: str) -> Column:
    return _bound(text, key.schema, zone, table, 0)


def _bound(text: str, schema: Schema, zone: str, table: str, now: int) -> Column:
    try:
        return schema.resolve(text)
    except UnknownColumnError as wrong:
        unknown = wrong
    try:
        expression = expression_of(text, schema, zone, table, now)
    except RecursionError:
        refuse(text, "it is nested too deeply", hint=FLATTEN)
    except (PredicateError, UnknownColumnError, ColumnTypeError):
        if _NAME.fullmatch(text):
            raise unknown from None
        raise
    if isinstance(expression, Ref):
        return expression.column
    _check(text, expression)
    # No definition has this id: the ids of definitions have eight hexadecimal digits.
    return indexed_term(f"#{key_of(expression)}", text, expression)


def _check(text: str, expression: Expression) -> None:
    """Raise unless an expression has a plain value for each row."""
    if not isinstance(expression, Call) or not columns_in(expression):
        hint = "Name a column in it; to count all rows, ask for the count."
        refuse(text, "it reads no column: it is a constant", 0, hint)
    if expression.depth > DEEPEST:
        refuse(text, "it is nested too deeply", 0, FLATTEN)
    value_type(
        text, expression, "Group by an expression of one value, such as a field, an element or size(tags).", 0
    )
    if (constant := raising_constant(expression)) is not None:
        error = evaluation.error_of(constant)
        raised = f" ({error} in Spark)" if error else ""
        refuse(text, f"{show(constant)} raises for every row{raised}", 0)


def with_definition(column: Column, definitions: Iterable[Definition], schema: Schema) -> Column:
    """Return a term with the id of the definition that holds its expression; unchanged if there is none.

    `schema`: the columns of the table as definitions are bound to them, whatever the time zone of a question.
    """
    if not isinstance(column, IndexedTerm):
        return column
    alone = [d for d in definitions if len(d.terms) == 1 and not d.is_of_column]
    terms = [term for term in indexed_columns_of(alone, schema) if isinstance(term, IndexedTerm)]
    matching = rising.term_of(column.expression, terms)
    return column if matching is None else indexed_term(matching.id, column.label, column.expression)
