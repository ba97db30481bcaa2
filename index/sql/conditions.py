"""Conversion of the conditions of a parsed predicate into nodes: leaves if value sets of one column suffice.

The log's statistics and ranges of keys serve leaves; other conditions are computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tailbit.base.lazy import lazy
from tailbit.base.wording import with_article
from tailbit.index.expression.folded import asked_twice, is_null_alone
from tailbit.index.expression.folded import is_null as null_of
from tailbit.index.expression.show import show
from tailbit.index.functions.tree import Call, Expression, Ref, columns_in
from tailbit.index.predicate.leaves import leaf_of, leaf_of_like, leaf_of_null, leaf_of_truth
from tailbit.index.predicate.tree import (
    Compare,
    Constant,
    Node,
    all_of,
    any_of,
    is_null,
    is_true,
    negate,
)
from tailbit.index.sql.comparing.comparisons import (
    Incomparable,
    comparable_type,
    comparison,
    membership,
)
from tailbit.index.sql.constant_lists import ConstantLists
from tailbit.index.sql.expressions import ExpressionReader, chain, connective_of, patterns_of
from tailbit.index.sql.operands import Operand, OperandReader, bare
from tailbit.index.sql.syntax.lists import Listed
from tailbit.index.sql.syntax.tree import Tree, left, right
from tailbit.index.values.coercion import MIRRORED
from tailbit.index.values.literals import Literal
from tailbit.index.values.refusals import NotRead, mismatch
from tailbit.tables.model import Column

if TYPE_CHECKING:
    from tailbit.index.expression import evaluate as evaluation
    from tailbit.index.implication import rising
    from tailbit.index.sql.comparing import constant_comparisons
else:
    constant_comparisons = lazy("tailbit.index.sql.comparing.constant_comparisons")
    rising = lazy("tailbit.index.implication.rising")
    evaluation = lazy("tailbit.index.expression.evaluate")

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
            "parenthesis": lambda e: self.node(left(e)),
            "and": lambda e: all_of(self.node(part) for part in chain(e)),
            "or": lambda e: any_of(self.node(part) for part in chain(e)),
            "not": lambda e: negate(self.node(left(e))),
            "compare": self._comparison,
            "is": lambda e: _negated(e, self.is_condition(e)),
            "in": lambda e: _negated(e, self.membership(e)),
            "between": lambda e: _negated(e, self.between(e)),
            "like": self.like,
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
        a, b = self.expressions.read(left(e)), self.expressions.read(right(e))
        alone = is_null_alone(a, b) if e.text == "<=>" else None
        if alone is None:
            return self.compare(e, a, e.text, b)
        asked = alone.args[0] if isinstance(alone, Call) else alone
        return leaf_of_null(asked.column) if isinstance(asked, Ref) else self.condition(alone, e)

    def condition(self, expression: Expression, e: Tree) -> Node:
        """Convert an expression to a condition."""
        if isinstance(expression, Literal) and expression.type.name in ("boolean", "void"):
            return Constant(None if expression.value is None else bool(expression.value))
        if expression.type.name != "boolean":
            reason = f"{with_article(expression.type.sql)} is not a condition"
            reason = reason if expression.type.name == "string" else mismatch(reason)
            self.operands.refuse(reason, e, "Compare it with something.")
        if isinstance(expression, Ref):
            return leaf_of_truth(expression.column)
        if isinstance(expression, Call) and expression.depth > DEEPEST:
            self.operands.refuse("it is nested too deeply", e, "Split it by parentheses.")
        for column in columns_in(expression):
            self.operands.asked_for_parts(column)
        if (constant := evaluation.raising_constant(expression)) is not None:
            raised = (error := evaluation.error_of(constant)) and f" ({error} in Spark)"
            self.operands.refuse(f"{show(constant)} raises for every row{raised}", e)
        return rising.node_of(expression)

    def compare(self, e: Tree, a: Expression, op: str, b: Expression, padded: bool = True) -> Node:
        """Convert a comparison of two operands.

        `padded`: whether a CHAR column and a constant are padded to one length.
        """
        why: Incomparable | None = None
        with self.operands.refusing(e):
            if not isinstance(a, Call) and not isinstance(b, Call):
                try:
                    return self._compare(_operand(a), op, _operand(b), padded)
                except Incomparable as wrong:
                    why = wrong
            try:
                for side in (a, b):
                    self.expressions.checked(side, e)
                return self.condition(self.expressions.builder.compare(op, a, b), e)
            except NotRead as wrong:
                raise why or wrong from wrong

    def _compare(self, a: Operand, op: str, b: Operand, padded: bool) -> Node:
        """Convert a comparison of columns and constants."""
        if isinstance(a, Column):
            if isinstance(b, Column):
                common = comparable_type(self.operands.comparable(a), self.operands.comparable(b))
                return Compare(a, op, b, common)
            type_ = self.operands.comparable(a).type
            type_ = type_ if padded else replace(type_, char_length=0)
            return leaf_of(a, comparison(type_, op, b, self.zone), f"{a.label} {op} {show(b)}")
        if isinstance(b, Column):
            truth = comparison(self.operands.comparable(b).type, MIRRORED[op], a, self.zone)
            return leaf_of(b, truth, f"{b.label} {MIRRORED[op]} {show(a)}")
        return Constant(constant_comparisons.compared_constants(a, op, b, self.zone))

    def between(self, e: Tree) -> Node:
        """Convert BETWEEN into two comparisons, each with its own coercion.

        Spark does not pad CHAR in BETWEEN.
        """
        value, low, high = (self.expressions.read(part) for part in (left(e), *e.items))
        with self.operands.refusing(e):
            value = asked_twice(value)
        if any(isinstance(bound, Ref) and bound.column.type.char_length for bound in (low, high)):
            self.operands.refuse("a CHAR column as a bound of BETWEEN is not read", e, "Write >= and <=.")
        return all_of(
            self.compare(e, value, op, bound, padded=False) for op, bound in ((">=", low), ("<=", high))
        )

    def membership(self, e: Tree) -> Node:
        """Convert IN: among constants, or of a column and constants, by value sets; else as an expression."""
        subject = self.expressions.read(left(e))
        assert isinstance(e.items, Listed)
        listed = None if isinstance(subject, Call) else self.lists.constants(e.items)
        if listed is None or isinstance(subject, Call):
            return self.condition(self.expressions.read(e._replace(negated=False)), e)
        with self.operands.refusing(e):
            if isinstance(subject, Literal):
                return Constant(constant_comparisons.constant_in(subject, listed, self.zone))
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
        subject = bare(left(e))
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

    def like(self, e: Tree) -> Node:
        """Convert LIKE, ILIKE or RLIKE: LIKE to a range of texts if the pattern is a text or a prefix."""
        value, patterns = self.expressions.read(left(e)), patterns_of(e)
        if len(patterns) > 1 and isinstance(value, Call):
            return self.condition(self.expressions.read(e), e)
        parts = [_negated(e, self._like(e, value, pattern)) for pattern in patterns]
        return all_of(parts) if connective_of(e) == "and" else any_of(parts)

    def _like(self, e: Tree, value: Expression, pattern: Tree) -> Node:
        wanted, escape = self.expressions.read(pattern), self.expressions.escape_of(e)
        with self.operands.refusing(e):
            self.expressions.checked(value, e)
            expression = self.expressions.one_like(value, wanted, e.text, escape)
        plain = isinstance(value, Ref) and value.column.type.name == "string" and e.text == "LIKE"
        if not plain or not isinstance(wanted, Literal) or not isinstance(wanted.value, bytes):
            return self.condition(expression, e)
        assert isinstance(value, Ref)
        leaf = leaf_of_like(value.column, wanted.value.decode(), escape, show(expression))
        return leaf or self.condition(expression, e)


def _negated(e: Tree, node: Node) -> Node:
    return negate(node) if e.negated else node


def _operand(side: Expression) -> Operand:
    assert not isinstance(side, Call)
    return side.column if isinstance(side, Ref) else side
