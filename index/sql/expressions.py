"""Conversion of the parsed expressions of a predicate into typed ones: operators, functions and constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tailbit.base.lazy import lazy
from tailbit.index.expression.build import Builder
from tailbit.index.expression.folded import asked_twice, is_null, is_null_alone
from tailbit.index.expression.nested import NESTED, NESTED_FUNCTIONS, OVER_ELEMENTS
from tailbit.index.functions.tree import Expression, Ref
from tailbit.index.sql.interval_reader import IntervalReader
from tailbit.index.sql.nested_reader import NestedReader
from tailbit.index.sql.operands import OperandReader, bare
from tailbit.index.sql.pieces import PieceReader
from tailbit.index.sql.syntax.tree import Tree, left, right
from tailbit.index.sql.syntax.words import TYPED
from tailbit.index.values.literals import BOOLEAN, STRING, VOID, Literal
from tailbit.index.values.refusals import SparkRaises, mismatch

if TYPE_CHECKING:
    from tailbit.index.expression import calls, shapes
else:
    shapes = lazy("tailbit.index.expression.shapes")
    calls = lazy("tailbit.index.expression.calls")

_SHIFTS = ("<<", ">>", ">>>")


class ExpressionReader:
    """Converter of the expressions of one parsed predicate into typed expressions."""

    def __init__(self, operands: OperandReader, zone: str, now: int) -> None:
        self.operands = operands
        self.builder = Builder(zone, now)
        self.intervals = IntervalReader(operands, self.builder, self._arg)
        self.pieces = PieceReader(self.builder, self._arg)
        self.nested = NestedReader(operands, self.builder, self.read)
        self.kinds: dict[str, Callable[[Tree], Expression]] = {
            "parenthesis": lambda e: self.read(left(e)),
            "negative": lambda e: self.builder.negative(self._arg(left(e))),
            "invert": lambda e: self.builder.turned(self._arg(left(e))),
            "arithmetic": self._arithmetic,
            "compare": self._compared,
            "cast": self._cast,
            "call": self._function,
            **dict.fromkeys(("column", "field"), self.nested.named),
            "element": lambda e: self.pieces.element(e) or self.nested.element(e),
            "case": self._case,
            "extract": lambda e: calls.extracted(self.builder, e.text, self._arg(left(e))),
            "trim": self._trim,
            "and": lambda e: self.builder.connect("and", [self.read(part) for part in chain(e)]),
            "or": lambda e: self.builder.connect("or", [self.read(part) for part in chain(e)]),
            "not": lambda e: self.builder.negate(self.read(left(e))),
            "is": lambda e: self._negated(e, self._is(e)),
            "in": lambda e: self._negated(e, self._in(e)),
            "between": lambda e: self._negated(e, self._between(e)),
            "like": self.like,
        }

    def read(self, e: Tree) -> Expression:
        """Convert a parsed node to an expression, with constants folded.

        Raises:
            PredicateError: the construct is unsupported; the error names it and its place.
            UnknownColumnError: no such column.
        """
        reader = self.kinds.get(e.kind)
        if reader is None:
            return self._operand(e)
        with self.operands.refusing(e):
            return reader(e)

    def _negated(self, e: Tree, condition: Expression) -> Expression:
        return self.builder.negate(condition) if e.negated else condition

    def _operand(self, e: Tree) -> Expression:
        """Return a constant, or the reference to a column."""
        operand = self.operands.read(e)
        return operand if isinstance(operand, Literal) else Ref(operand)

    def checked(self, expression: Expression, e: Tree) -> Expression:
        """Return the expression if its values can be computed with.

        Raises:
            ColumnTypeError: the values of the column cannot be computed with.
            PredicateError: the value is an array, a map, a struct or a variant.
        """
        if isinstance(expression, Ref):
            self.operands.comparable(expression.column)
        elif expression.type.name in NESTED:
            reason = f"a value of type {expression.type.sql} is not read here"
            self.operands.refuse(reason, e, "Ask for its elements or fields.")
        return expression

    def _arg(self, e: Tree) -> Expression:
        return self.checked(self.read(e), e)

    def _cast(self, e: Tree) -> Expression:
        try:
            return self.builder.cast(self._arg(left(e)), self.operands.cast_to(e), e.text == "TRY_CAST")
        except SparkRaises as wrong:
            if e.text not in TYPED:
                raise
            raise SparkRaises(wrong.reason, "INVALID_TYPED_LITERAL") from wrong

    def _function(self, e: Tree) -> Expression:
        name = e.text.lower()
        if self.intervals.takes_unit(name, e):
            return self.intervals.by_unit(name, e)
        if (piece := self.pieces.asked(name, e)) is not None:
            return piece
        if name in OVER_ELEMENTS:
            return self.nested.over_elements(name, e)
        calls.check_known(name)
        if name in NESTED_FUNCTIONS or name in ("isnull", "isnotnull"):
            return calls.function(self.builder, name, [self.read(arg) for arg in e.items])
        if name == "equal_null" and len(e.items) == 2 and (alone := self._null_alone(*e.items)) is not None:
            return alone
        # Of the first argument of nvl2, whatever its type, only whether it is NULL is asked.
        asked = e.items[:1] if name == "nvl2" else ()
        args = [*map(self.read, asked), *map(self._arg, e.items[len(asked) :])]
        if name in ("nullif", "equal_null") and len(args) == 2:
            self._check_padding(args[0], args[1], e)
        return calls.function(self.builder, name, args)

    def _arithmetic(self, e: Tree) -> Expression:
        if e.text in _SHIFTS:
            self.operands.unknown(e)
        moved = self.intervals.moved(e.text, e)
        if moved is not None:
            return moved
        sides = [self._arg(left(e)), self._arg(right(e))]
        if e.text == "||":
            return calls.function(self.builder, "concat", sides)
        return self.builder.arithmetic(e.text.lower(), *sides)

    def _trim(self, e: Tree) -> Expression:
        characters = None if e.second is None else self._arg(e.second)
        return shapes.strip(self.builder, e.text.lower(), self._arg(left(e)), characters)

    def _case(self, e: Tree) -> Expression:
        pairs, subject = [], None if e.first is None else self._arg(e.first)
        for when, then in zip(e.items[::2], e.items[1::2], strict=True):
            condition = self._arg(when)
            if subject is None and condition.type == VOID:
                reason = mismatch("NULL is not a condition of CASE", "UNEXPECTED_INPUT_TYPE")
                self.operands.refuse(reason, when, "Write CAST(NULL AS BOOLEAN).")
            if subject is not None:
                condition = self._compare("=", subject, condition, when)
            pairs.append((condition, self._arg(then)))
        return self.builder.case(pairs, Literal(VOID, None) if e.second is None else self._arg(e.second))

    def _is(self, e: Tree) -> Expression:
        if e.text == "NULL":
            return is_null(self.read(left(e)))
        truth = self.builder.truth(self._arg(left(e)))
        if e.text == "UNKNOWN":
            return is_null(truth)
        return self.builder.compare("<=>", truth, Literal(BOOLEAN, e.text == "TRUE", True))

    def _in(self, e: Tree) -> Expression:
        subject = self._arg(left(e))
        items = [self._arg(item) for item in e.items]
        for item in items:
            self._check_padding(subject, item, e)
        return self.builder.one_of(subject, items)

    def _between(self, e: Tree) -> Expression:
        value = asked_twice(self._arg(left(e)))
        bounds = zip((">=", "<="), e.items, strict=True)
        return self.builder.connect("and", [self._compare(op, value, self._arg(b), e) for op, b in bounds])

    def _compared(self, e: Tree) -> Expression:
        if self.intervals.compares(e):
            return self.intervals.compared(e)
        if e.text == "<=>" and (alone := self._null_alone(left(e), right(e))) is not None:
            return alone
        return self._compare(e.text, self._arg(left(e)), self._arg(right(e)), e)

    def _null_alone(self, a: Tree, b: Tree) -> Expression | None:
        """Return a null-safe comparison with NULL as IS NULL; None for another comparison."""
        if "null" not in (bare(a).kind, bare(b).kind):
            return None
        return is_null_alone(self.read(a), self.read(b))

    def _compare(self, op: str, a: Expression, b: Expression, e: Tree) -> Expression:
        self._check_padding(a, b, e)
        return self.builder.compare(op, a, b)

    def _check_padding(self, a: Expression, b: Expression, e: Tree) -> None:
        """Refuse a CHAR column within an expression, since only conditions pad CHAR before comparing."""
        sides = (a, b)
        padded = [s for s in sides if isinstance(s, Ref) and s.column.type.char_length]
        if padded and all(isinstance(s, (Ref, Literal)) and s.type == STRING for s in sides):
            self.operands.refuse(
                f"CHAR column {padded[0].column.label} compared within an expression is not read",
                e,
                "Write rtrim(column).",
            )

    def like(self, e: Tree) -> Expression:
        """Convert LIKE, ILIKE or RLIKE, with ESCAPE, ANY, ALL and NOT."""
        value, escape = self._arg(left(e)), self.escape_of(e)
        matches = [self.one_like(value, self._arg(pattern), e.text, escape) for pattern in patterns_of(e)]
        parts = [self._negated(e, part) for part in matches]
        return parts[0] if len(parts) == 1 else self.builder.connect(connective_of(e), parts)

    def one_like(self, value: Expression, pattern: Expression, name: str, escape: str) -> Expression:
        """Convert the match of a value with a single pattern; `name`: LIKE, ILIKE or RLIKE."""
        if name == "ILIKE":
            value, pattern = (calls.function(self.builder, "lower", [side]) for side in (value, pattern))
        return self.builder.like(value, pattern, escape, "rlike" if name == "RLIKE" else "like")

    def escape_of(self, e: Tree) -> str:
        """Return the escape character of wildcards; a backslash by default."""
        if e.escape is None:
            return "\\"
        constant = e.escape.constant
        if constant is None or len(constant.text) != 1 or constant.text in "%_":
            self.operands.refuse("ESCAPE takes one character, which is no wildcard", e.escape)
        return constant.text


def patterns_of(e: Tree) -> Sequence[Tree]:
    """Return the patterns of a node of kind like."""
    return e.items if e.second is None else (e.second,)


def connective_of(e: Tree) -> str:
    """Return the connective of the patterns of LIKE ANY and LIKE ALL."""
    return "and" if e.quantifier == "ALL" else "or"


def chain(e: Tree) -> Iterator[Tree]:
    """Yield the operands of a chain of AND or OR from left to right, including those in parentheses."""
    rest = list(reversed(e.items))
    while rest:
        whole = rest.pop()
        if (inner := bare(whole)).kind == e.kind:
            rest += reversed(inner.items)
        else:
            yield whole
