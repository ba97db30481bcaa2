"""Binds the text of a predicate to a schema: Spark 4.2's semantics, ANSI mode on, names in any case.

Input: SQL text, a schema, the session time zone. Output: a tree of `tailbit.index.predicate.tree`, or a
PredicateError that names what is not read. Nothing is approximated: a construct that cannot be had exactly is
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

from tailbit.index.predicate.tree import (
    Compare,
    Constant,
    Leaf,
    Node,
    ValueSet,
    all_of,
    any_of,
    depth_of,
    is_null,
    is_true,
    negate,
)
from tailbit.index.predicate.value_sets import NULL
from tailbit.index.sql.comparisons import (
    MIRRORED,
    Incomparable,
    Truth,
    comparable_type,
    comparison,
    membership,
)
from tailbit.index.sql.constant_comparisons import compared_constants, constant_in
from tailbit.index.sql.literals import Literal
from tailbit.index.sql.operands import Operand, OperandReader, Tree
from tailbit.index.sql.text import FLATTEN, parse_predicate, refuse
from tailbit.tables.model import Column
from tailbit.tables.schema import Schema
from tailbit.tables.time_zones import check_zone

__all__ = ["bind", "parse_predicate"]

_OPERATORS = {
    "EQ": "=",
    "NEQ": "<>",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
    "NullSafeEQ": "<=>",
}
_SHOWN = 8
"""Constants of a list that a leaf's text shows."""
_DEEPEST = 150
"""Most levels of AND and OR in a bound tree: walking needs less of Python's stack than parsing did."""


def bind(text: str, schema: Schema, zone: str = "UTC") -> Node:
    """The predicate of a text over the columns of a schema; the same objects for the same text and schema.

    Raises:
        PredicateError: it does not parse, or holds something that is not read exactly; says what and where.
        UnknownColumnError: no such column.
        ColumnTypeError: a column whose values cannot be compared.
    """
    return _bound(text, _Same(schema), zone)


class _Same:
    """A schema as a cache key: itself, not its contents, which would be hashed at every call."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.schema is self.schema


@lru_cache(maxsize=512)
def _bound(text: str, key: _Same, zone: str) -> Node:
    try:
        check_zone(zone)
    except ValueError as wrong:
        refuse(text, str(wrong))
    parsed = parse_predicate(text)
    try:
        node = _Binder(OperandReader(parsed, key.schema, zone), zone).node(parsed.tree)
        if depth_of(node) <= _DEEPEST:
            return node
    except RecursionError:
        pass
    refuse(text, "it is nested too deeply", hint=FLATTEN)


class _Binder:
    """Turns the conditions of one parsed predicate into nodes."""

    def __init__(self, operands: OperandReader, zone: str) -> None:
        self.operands = operands
        self.zone = zone
        self.kinds: dict[str, Callable[[Any], Node]] = {
            "Paren": lambda e: self.node(e.this),
            "And": lambda e: all_of(self.node(part) for part in _chain(e)),
            "Or": lambda e: any_of(self.node(part) for part in _chain(e)),
            "Not": lambda e: negate(self.node(e.this)),
            "Is": self.is_condition,
            "In": self.membership,
            "Between": self.between,
            "NullSafeNEQ": lambda e: negate(self.compare(e, e.this, "<=>", e.expression)),
            "Column": self.truth_of_operand,
            "Dot": self.truth_of_operand,
            "Boolean": self.truth_of_operand,
            "Null": self.truth_of_operand,
            "Cast": self.truth_of_operand,
            "TryCast": self.truth_of_operand,
        }

    def node(self, e: Tree) -> Node:
        """The node of a condition."""
        name = type(e).__name__
        if name in _OPERATORS:
            return self.compare(e, e.this, _OPERATORS[name], e.expression)
        if name not in self.kinds:
            shown = e.name if name == "Anonymous" else e.key.upper()
            self.operands.refuse(f"{shown} is not read as a condition", e)
        return self.kinds[name](e)

    def compare(self, e: Tree, left: Tree, op: str, right: Tree, padded: bool = True) -> Node:
        """A comparison of two operands; `padded`: a CHAR column and a constant are made equally long."""
        a, b = self.operands.read(left), self.operands.read(right)
        try:
            if isinstance(a, Column):
                if isinstance(b, Column):
                    common = comparable_type(self.operands.comparable(a), self.operands.comparable(b))
                    return Compare(a, op, b, common)
                text = f"{a.label} {op} {self.operands.show(right)}"
                type_ = self.operands.comparable(a).type
                type_ = type_ if padded else replace(type_, char_length=0)
                return _leaf(a, comparison(type_, op, b, self.zone), text)
            if isinstance(b, Column):
                text = f"{b.label} {MIRRORED[op]} {self.operands.show(left)}"
                truth = comparison(self.operands.comparable(b).type, MIRRORED[op], a, self.zone)
                return _leaf(b, truth, text)
            return Constant(compared_constants(a, op, b, self.zone))
        except Incomparable as wrong:
            self.operands.refuse(str(wrong), e, wrong.hint)
        except (ValueError, OverflowError) as wrong:
            self.operands.refuse(str(wrong), e)

    def between(self, e: Tree) -> Node:
        """BETWEEN is two comparisons, each with its own coercion; Spark fills up nothing for CHAR in it."""
        if e.args.get("symmetric"):
            self.operands.refuse("SYMMETRIC is not Spark's", e)
        low, high = e.args["low"], e.args["high"]
        if any(self._is_char(bound) for bound in (low, high)):
            self.operands.refuse("a CHAR column as a bound of BETWEEN is not read", e, "Write >= and <=.")
        parts = ((">=", low), ("<=", high))
        return all_of([self.compare(e, e.this, op, bound, padded=False) for op, bound in parts])

    def _is_char(self, e: Tree) -> bool:
        operand = self.operands.read(e)
        return isinstance(operand, Column) and operand.type.char_length > 0

    def membership(self, e: Tree) -> Node:
        """IN a list of constants, all of one type."""
        if not e.expressions:
            self.operands.refuse("IN takes a list of constants, not a query", e)
        found = [self.operands.read(item) for item in e.expressions]
        listed = [item for item in found if isinstance(item, Literal)]
        if len(listed) != len(found):
            self.operands.refuse("IN takes constants", e, "Write x = a OR x = b for columns.")
        subject = self.operands.read(e.this)
        try:
            if isinstance(subject, Literal):
                return Constant(constant_in(subject, listed, self.zone))
            truth = membership(self.operands.comparable(subject).type, listed, self.zone)
        except Incomparable as wrong:
            self.operands.refuse(str(wrong), e, wrong.hint)
        except (ValueError, OverflowError) as wrong:
            self.operands.refuse(str(wrong), e)
        shown = [self.operands.show(item) for item in e.expressions[:_SHOWN]]
        shown += ["..."] if len(found) > _SHOWN else []
        return _leaf(subject, truth, f"{subject.label} IN ({', '.join(shown)})")

    def is_condition(self, e: Tree) -> Node:
        """IS NULL of anything; IS TRUE and IS FALSE of a condition."""
        subject, kind = _bare(e.this), type(e.expression).__name__
        if kind == "Boolean":
            found = self.node(subject)
            return is_true(found if e.expression.this else negate(found))
        if kind != "Null":
            self.operands.refuse(f"IS {e.expression.key.upper()} is not read", e)
        if type(subject).__name__ not in _OPERANDS:
            return is_null(self.node(subject))
        operand = self.operands.read(subject)
        if isinstance(operand, Literal):
            return Constant(operand.value is None)
        return Leaf(operand, NULL, NULL.inverse(), f"{operand.label} IS NULL")

    def truth_of_operand(self, e: Tree) -> Node:
        """A boolean column or constant as a condition."""
        operand: Operand = self.operands.read(e)
        if isinstance(operand, Literal) and operand.type.name in ("boolean", "void"):
            return Constant(None if operand.value is None else bool(operand.value))
        if isinstance(operand, Literal) or operand.type.name != "boolean":
            self.operands.refuse(f"a {operand.type} is not a condition", e, "Compare it with something.")
        assert isinstance(operand, Column)
        return Leaf(operand, ValueSet.points([True]), ValueSet.points([False]), operand.label)


_OPERANDS = ("Column", "Dot", "Literal", "Null", "Boolean", "Neg", "Cast", "TryCast")


def _leaf(column: Column, truth: Truth, text: str) -> Node:
    true, false = truth
    empty = ValueSet()
    return Constant(None) if true == empty == false else Leaf(column, true, false, text)


def _bare(e: Tree) -> Tree:
    while type(e).__name__ == "Paren":
        e = e.this
    return e


def _chain(e: Tree) -> Iterator[Tree]:
    """The operands of a chain of one connective, left to right; the parser nests them to the left."""
    kind, rest = type(e), []
    at = e
    while type(at) is kind:
        rest.append(at.expression)
        at = at.this
    yield at
    yield from reversed(rest)
