"""Binding of a predicate's text to a schema: Spark 4.2's semantics, ANSI mode on, case-insensitive names.

Input: SQL text, a schema, the session time zone. Output: a tree of `tailbit.index.predicate.tree`, or a
PredicateError that names the unsupported construct. Nothing is approximated: a construct that cannot be
evaluated exactly as in Spark is refused.

A condition becomes a leaf if value sets of one column suffice, since the log's statistics and ranges of keys
serve leaves; other conditions are computed. The constants of a list are converted together:

    (1, -2, 3000000000, NULL)      INT 1 -2 · BIGINT 3000000000 · VOID NULL
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from tailbit.base.lazy import lazy
from tailbit.base.wording import with_article
from tailbit.index.expression.build import may_ask_for_present, micros_now
from tailbit.index.expression.folded import asked_twice, is_null_alone
from tailbit.index.expression.folded import is_null as null_of
from tailbit.index.expression.show import show
from tailbit.index.functions.tree import Call, Expression, Ref, columns_in, raising_constant
from tailbit.index.predicate.tree import (
    Constant,
    Node,
    all_of,
    any_of,
    depth_of,
    is_null,
    is_true,
    leaf_of,
    leaf_of_null,
    leaf_of_truth,
    negate,
)
from tailbit.index.sql.comparisons import Incomparable, comparison, membership
from tailbit.index.sql.expressions import ExpressionReader, chain
from tailbit.index.sql.operands import OperandReader, bare
from tailbit.index.sql.refusals import refuse
from tailbit.index.sql.syntax.parser import FLATTEN, parse_predicate
from tailbit.index.sql.syntax.tree import Alike, Listed, Tree, first_of, second_of
from tailbit.index.values.casts import cast_all
from tailbit.index.values.coercion import MIRRORED
from tailbit.index.values.literals import (
    NUMERIC,
    STRING,
    Constants,
    Literal,
    NotRead,
    alike,
    mismatch,
    numbers,
)
from tailbit.tables.schema import SameSchema, Schema
from tailbit.tables.zones import check_zone

if TYPE_CHECKING:
    from tailbit.index.expression import evaluate as evaluation
    from tailbit.index.predicate import rising
    from tailbit.index.sql import comparisons
else:
    comparisons = lazy("tailbit.index.sql.comparisons")
    rising = lazy("tailbit.index.predicate.rising")
    evaluation = lazy("tailbit.index.expression.evaluate")


def bind(
    text: str, schema: Schema, zone: str = "UTC", clock: Callable[[], int] = micros_now, table: str = ""
) -> Node:
    """Bind the text of a predicate to the columns of a schema; cached per text and schema.

    Texts with `now()` and the like are bound anew each time: `clock` gives the microseconds since 1970.
    `table`: the table's own name, which may qualify column names.
    """
    if may_ask_for_present(text):
        return _bound(text, schema, zone, clock(), table)
    return _cached(text, SameSchema(schema), zone, table)


@lru_cache(maxsize=512)
def _cached(text: str, key: SameSchema, zone: str, table: str) -> Node:
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


_SHOWN = 8
"""Number of a list's constants shown in a leaf's text."""
DEEPEST = 150
"""Limit of the levels of AND and OR in a bound tree, and of calls in an expression: walks of either take less
of Python's stack than parsing did.
"""


class ConditionReader:
    """Converter of the conditions of one parsed predicate into nodes."""

    def __init__(self, operands: OperandReader, zone: str, now: int) -> None:
        self.operands = operands
        self.zone = zone
        self.expressions = ExpressionReader(operands, zone, now)
        self.lists = ConstantLists(operands, self.expressions.read)
        self.kinds: dict[str, Callable[[Tree], Node]] = {
            "parenthesis": lambda e: self.node(first_of(e)),
            "and": lambda e: all_of(self.node(operand) for operand in chain(e)),
            "or": lambda e: any_of(self.node(operand) for operand in chain(e)),
            "not": lambda e: negate(self.node(first_of(e))),
            "compare": self._comparison,
            "is": lambda e: _negated(e, self.is_condition(e)),
            "in": lambda e: _negated(e, self.membership(e)),
            "between": lambda e: _negated(e, self.between(e)),
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

    def _comparison(self, e: Tree) -> Node:
        if self.expressions.intervals.compares(e):
            return self.condition(self.expressions.read(e), e)
        a, b = self.expressions.read(first_of(e)), self.expressions.read(second_of(e))
        alone = is_null_alone(a, b) if e.text == "<=>" else None
        if alone is None:
            return self.compare(e, a, e.text, b)
        argument = alone.args[0] if isinstance(alone, Call) else alone
        return leaf_of_null(argument.column) if isinstance(argument, Ref) else self.condition(alone, e)

    def condition(self, expression: Expression, e: Tree) -> Node:
        """Convert an expression to a condition."""
        if isinstance(expression, Literal) and expression.type.name in ("boolean", "void"):
            return Constant(None if expression.value is None else bool(expression.value))
        if expression.type.name != "boolean":
            reason = f"{with_article(expression.type.sql)} is not a condition"
            if expression.type.name == "string":
                self.operands.refuse(reason, e, "Write column = 'a', or column IN ('a', 'b') for a list.")
            self.operands.refuse(mismatch(reason), e, "Compare it with something.")
        if isinstance(expression, Ref):
            return leaf_of_truth(expression.column)
        if isinstance(expression, Call) and expression.depth > DEEPEST:
            self.operands.refuse("it is nested too deeply", e, "Split it by parentheses.")
        for column in columns_in(expression):
            self.operands.asked_for_parts(column)
        if (constant := raising_constant(expression)) is not None:
            raised = (error := evaluation.error_of(constant)) and f" ({error} in Spark)"
            self.operands.refuse(f"{show(constant)} raises for every row{raised}", e)
        return rising.node_of(expression)

    def compare(self, e: Tree, a: Expression, op: str, b: Expression, padded: bool = True) -> Node:
        """Convert a comparison of two operands.

        `padded`: whether a CHAR column and a constant are padded to one length.
        """
        why: Incomparable | None = None
        with self.operands.refusing(e):
            if isinstance(a, Literal) and isinstance(b, Ref):
                a, op, b = b, MIRRORED[op], a
            if isinstance(a, Ref) and isinstance(b, Literal):
                try:
                    return self._compare(a, op, b, padded)
                except Incomparable as wrong:
                    why = wrong
            try:
                for side in (a, b):
                    self.expressions.checked(side, e)
                a, b = self.expressions.padded(a, b), self.expressions.padded(b, a)
                return self.condition(self.expressions.builder.compare(op, a, b), e)
            except NotRead as wrong:
                raise why or wrong from wrong

    def _compare(self, a: Ref, op: str, b: Literal, padded: bool) -> Node:
        type_ = self.operands.comparable(a.column).type
        type_ = type_ if padded else replace(type_, char_length=0)
        text = f"{a.column.label} {op} {show(b)}"
        return leaf_of(a.column, comparison(type_, op, b, self.zone), text)

    def between(self, e: Tree) -> Node:
        """Convert BETWEEN into two comparisons, each with its own coercion.

        Spark does not pad CHAR in BETWEEN.
        """
        value, low, high = (self.expressions.read(operand) for operand in (first_of(e), *e.items))
        with self.operands.refusing(e):
            value = asked_twice(value)
        if any(isinstance(bound, Ref) and bound.column.type.char_length for bound in (low, high)):
            self.operands.refuse("a CHAR column as a bound of BETWEEN is not read", e, "Write >= and <=.")
        return all_of(
            self.compare(e, value, op, bound, padded=False) for op, bound in ((">=", low), ("<=", high))
        )

    def membership(self, e: Tree) -> Node:
        """Convert IN: of a column and constants by value sets, else as an expression."""
        subject = self.expressions.read(first_of(e))
        assert isinstance(e.items, Listed)
        listed = None if not isinstance(subject, Ref) else self.lists.constants(e.items)
        if listed is None or not isinstance(subject, Ref):
            return self.condition(self.expressions.read(e._replace(negated=False)), e)
        with self.operands.refusing(e):
            column = self.operands.comparable(subject.column)
            try:
                truth = membership(column.type, listed, self.zone)
            except Incomparable:
                if column.type.char_length:
                    raise
                return self.condition(self.expressions.read(e._replace(negated=False)), e)
        shown = [show(self.expressions.read(item)) for item in e.items[:_SHOWN]]
        shown += ["..."] if len(e.items) > _SHOWN else []
        return leaf_of(column, truth, f"{column.label} IN ({', '.join(shown)})")

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
        if e.text == "UNKNOWN":
            self.condition(value, e)
        if isinstance(value, Literal):
            return Constant(value.value is None)
        if isinstance(value, Ref):
            return leaf_of_null(value.column)
        return self.condition(null_of(value), e)


def _negated(e: Tree, node: Node) -> Node:
    return negate(node) if e.negated else node


class ConstantLists:
    """Converter of the lists of one parsed predicate into constants; `read` converts one item."""

    def __init__(self, operands: OperandReader, read: Callable[[Tree], Expression]) -> None:
        self._operands, self._read = operands, read

    def constants(self, listed: Listed) -> list[Constants] | None:
        """Return the constants of a list by their types; None if an item is no constant."""
        singles = list[Literal]()
        for item in map(listed.__getitem__, listed.others):
            expression = self._read(item)
            if not isinstance(expression, Literal):
                return None
            singles.append(expression)
        constants_by_type = alike(singles)
        for same in listed.alike:
            converted = self._by_form(same) or self._one_by_one(listed, same)
            if converted is None:
                return None
            constants_by_type += converted
        return constants_by_type

    def _one_by_one(self, listed: Listed, same: Alike) -> list[Constants] | None:
        """Return the constants of items of one form, each read by itself; None if they are no constants."""
        listed_at = same.numbers if same.texts else same.numbers[:1]
        read = [self._read(listed[number]) for number in listed_at]
        literals = [item for item in read if isinstance(item, Literal)]
        return alike(literals) if len(literals) == len(read) else None

    def _by_form(self, same: Alike) -> list[Constants] | None:
        """Return the constants of items of one form; None if they must be read by themselves, or refused."""
        try:
            return self._of(same.form.first, same.texts) if same.texts else None
        except ValueError:
            return None

    def _of(self, first: Tree, texts: Sequence[str]) -> list[Constants] | None:
        item = bare(first)
        written = item.constant
        if written is not None and written.kind == "string":
            return [Constants(STRING, [text.encode() for text in texts])]
        if written is not None and written.kind == "number":
            return numbers(texts, written.negative)
        inner = self._of(first_of(item), texts) if item.kind == "cast" else None
        if inner is None:
            return None
        to = self._operands.cast_to(item)
        if any(
            constants.type != STRING and not {constants.type.name, to.name} <= {*NUMERIC}
            for constants in inner
        ):
            return None
        return [Constants(to, cast_all(constants, to, self._operands.zone)) for constants in inner]
