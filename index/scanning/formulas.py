"""Computed conditions of numbers, days, times and lengths of texts as formulas over what data files store.

Decimals are integers without their point: before they are added or compared, those with fewer digits behind
it are multiplied. A quotient beside a constant becomes a product on the other side of the comparison. What
rounds, what may raise other than by overflow, and what is of other types has no formula.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from tailbit.index.functions.tree import Call, Expression, Ref
from tailbit.index.ordered import WORD_DIGITS
from tailbit.index.predicate.computed import Computed, TruthValue
from tailbit.index.predicate.tree import Compare, Node
from tailbit.index.predicate.walks import nodes_of
from tailbit.index.values.literals import WHOLE, Literal
from tailbit.tables.model import Column, DataType
from tailbit.tables.parquet.bounds import row_group_bounds
from tailbit.tables.parquet.data_file import flat_column
from tailbit.tables.parquet.layout import Layout
from tailbit.tables.parquet.sought.formula import LEAST, MOST, TEXTUAL, Formula, Op, Span, Term, fits

_TIMES = {"date": WHOLE["integer"], "timestamp": WHOLE["long"], "timestamp_ntz": WHOLE["long"]}
_MOST_TERMS = 100
"""Operations of one formula; one that stands in several places is done in each."""
_MOST_LISTED = 16
"""Values of a list that are compared one by one."""

_PASSING: Mapping[TruthValue, bool | None] = {
    TruthValue.TRUE: True,
    TruthValue.FALSE: False,
    TruthValue.NULL: None,
}


class _NoFormula(Exception):
    """The condition has none."""


def formula_of(node: Computed | Compare) -> Formula | None:
    """The formula of a condition; None where it has none."""
    terms = _Terms()
    try:
        if isinstance(node, Compare):
            return Formula(terms.compared(node.op, Ref(node.left), Ref(node.right)), frozenset({True}))
        return Formula(terms.truth(node.expression), frozenset(_PASSING[its] for its in node.true))
    except _NoFormula:
        return None


def formulas_in(node: Node) -> dict[int, Formula]:
    """By identity the parts of a predicate that have a formula."""
    parts = (part for part in nodes_of(node) if isinstance(part, (Computed, Compare)))
    return {id(part): made for part in parts if (made := formula_of(part)) is not None}


def fitting_in(
    formulas: Mapping[int, Formula], layout: Layout, path: str, groups: Sequence[int]
) -> dict[int, Formula]:
    """Those of some formulas of which no number can be out of its range in row groups of a file.

    Raises:
        DataFileError: the name of a column is ambiguous in the file.
    """
    columns = {column.id: column for formula in formulas.values() for column in formula.columns}
    found = {its.id: _span_in(layout, path, its, groups) for its in columns.values()}
    spans = {id_: span for id_, span in found.items() if span is not None}
    return {
        node: formula
        for node, formula in formulas.items()
        if all(column.id in spans for column in formula.columns) and fits(formula, spans)
    }


def span_of(type_: DataType) -> Span:
    """The numbers that a column of a type may hold, as they are stored."""
    if type_.name == "decimal":
        return 1 - 10**type_.precision, 10**type_.precision - 1
    return WHOLE.get(type_.name) or _TIMES[type_.name]


def _span_in(layout: Layout, path: str, column: Column, groups: Sequence[int]) -> Span | None:
    """What the numbers of a column are between in a file; None where it stores none that a formula takes.

    Of a text it is the length: no encoding makes one longer than its chunk is, decompressed.
    """
    node = flat_column(layout.tree, column, path)
    if node is None:
        return None
    physical = str(layout.metadata.schema.column(node.first).physical_type)
    if column.type.name in TEXTUAL:
        longest = max((layout.chunk(group, node.first).unpacked for group in groups), default=0)
        return (0, longest) if physical == "BYTE_ARRAY" else None
    if physical not in ("INT32", "INT64"):
        return None
    least, most = span_of(column.type)
    found = row_group_bounds(layout, path, column)
    known = [its for group in groups if (its := found[group]) is not None]
    if len(known) < len(groups) or not known:
        return least, most
    low = min(_stored(its.min, column) for its in known)
    high = max(_stored(its.max, column) for its in known)
    return max(least, low), min(most, high)


def _stored(value: Any, column: Column) -> int:
    return int(value.scaleb(column.type.scale)) if isinstance(value, Decimal) else int(value)


class _Terms:
    """Makes terms of expressions; of those that stand in several places once."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Term, int]] = {}
        self.count = 0

    def truth(self, e: Expression) -> Term:
        """A boolean expression."""
        if isinstance(e, Literal) and e.type.name in ("boolean", "void"):
            return None if e.value is None else bool(e.value)
        if not isinstance(e, Call) or e.type.name != "boolean":
            raise _NoFormula
        return self._once(e, self._truth)

    def number(self, e: Expression) -> tuple[Term, int]:
        """A number, a date or a time, and the digits behind its point."""
        if isinstance(e, Literal):
            return _constant(e)
        if isinstance(e, Ref):
            return _column(e.column), e.type.scale
        return self._once(e, self._number), e.type.scale

    def scaled(self, e: Expression, scale: int) -> Term:
        """A number with more digits behind its point, or as many."""
        term, its = self.number(e)
        if scale < its:
            raise _NoFormula
        return _times(term, 10 ** (scale - its))

    def _once(self, e: Call, make: Callable[[Call], Term]) -> Term:
        before = self.count
        if id(e) not in self.known:
            self.count += 1
            made = make(e)
            self.known[id(e)] = made, self.count - before
        else:
            self.count += self.known[id(e)][1]
        if self.count > _MOST_TERMS:
            raise _NoFormula
        return self.known[id(e)][0]

    def _truth(self, e: Call) -> Term:
        if e.name in _COMPARED:
            return self.compared(e.name, *e.args)
        if e.name in ("and", "or", "not", "coalesce"):
            return Op(e.name, tuple(self.truth(arg) for arg in e.args))
        if e.name == "is null":
            (inner,) = e.args
            if inner.type.name == "boolean":
                return Op("null truth", (self.truth(inner),))
            return Op("null number", (self.number(inner)[0],))
        if e.name == "case":
            return Op("case", tuple(self.truth(arg) for arg in e.args))
        if e.name == "in" and len(e.args) <= _MOST_LISTED:
            found = [self.compared("=", e.args[0], item) for item in e.args[1:]]
            return Op("or", (*found, *([None] if e.setting[0] else [])))
        raise _NoFormula

    def compared(self, op: str, left: Expression, right: Expression) -> Term:
        """A comparison of two numbers of one kind: days are no microseconds."""
        if op not in _COMPARED or _kind(left.type) != _kind(right.type):
            raise _NoFormula
        if _is_quotient(left) and isinstance(right, Literal):
            return self._quotient(op, left, right)
        a, b = self.number(left)[1], self.number(right)[1]
        return Op(op, (self.scaled(left, max(a, b)), self.scaled(right, max(a, b))))

    def _quotient(self, op: str, e: Expression, bound: Literal) -> Term:
        """A quotient a / b beside c as a beside c * b, for b above 0.

        The quotient is rounded, by half of its last digit at most. If it is not c, it is off by at least
        1 / (b * 10 ** d), d the digits behind the points of a and c: where that is more, it keeps sides.
        """
        assert isinstance(e, Call)
        (dividend, of), (divisor, by) = (self.number(arg) for arg in e.args)
        constant, behind = _constant(bound)
        a, b = (arg.type for arg in e.args)
        overflows = e.type.precision - e.type.scale < a.precision - a.scale + b.scale
        if op == "<=>" or constant is None or behind > e.type.scale or overflows:
            raise _NoFormula
        most = (2 * 10**e.type.scale - 1) // 10 ** (of + behind)
        above_zero = Op("is", (divisor,), 1, most)
        return Op(op, (_times(dividend, 10 ** (by + behind)), _times(above_zero, constant * 10**of)))

    def _number(self, e: Call) -> Term:
        if e.type.name not in _KINDS:
            raise _NoFormula
        low, high = span_of(e.type)
        name, args = self._made(e)
        return Op(name, args, max(low, LEAST), min(high, MOST))

    def _made(self, e: Call) -> tuple[str, tuple[Term, ...]]:
        """The operation that a call of a number is."""
        scale = e.type.scale
        if e.name in ("+", "-", "coalesce"):
            return e.name, tuple(self.scaled(arg, scale) for arg in e.args)
        if e.name in _NAMES:
            return _NAMES[e.name], tuple(self.number(arg)[0] for arg in e.args)
        if e.name == "*":
            (a, of_a), (b, of_b) = (self.number(arg) for arg in e.args)
            if of_a + of_b <= scale:
                return "is", (_times(Op("*", (a, b)), 10 ** (scale - of_a - of_b)),)
        if e.name == "negative":
            return "-", (0, self.number(e.args[0])[0])
        if e.name == "cast" and {e.type.name, e.args[0].type.name} <= {*WHOLE, "decimal"}:
            return "is", (self.scaled(e.args[0], scale),)
        if e.name in ("length", "octet_length"):
            octets = e.name == "octet_length" or e.args[0].type.name == "binary"
            return "octets" if octets else "characters", (_text(e.args[0]),)
        if e.name == "case":
            pairs = zip(e.args[:-1:2], e.args[1:-1:2], strict=True)
            terms = [term for c, value in pairs for term in (self.truth(c), self.scaled(value, scale))]
            return "case", (*terms, self.scaled(e.args[-1], scale))
        raise _NoFormula


_NAMES = {"abs": "abs", "date_add": "+", "date_sub": "-", "datediff": "-"}
"""Operations of numbers without a point."""
_COMPARED = ("=", "<>", "<", "<=", ">", ">=", "<=>")


def _kind(type_: DataType) -> str:
    """What is equal for types whose numbers may be compared."""
    return "number" if type_.name in (*WHOLE, "decimal", "void") else type_.name


_KINDS = (*WHOLE, *_TIMES, "decimal")


def _is_quotient(e: Expression) -> bool:
    return isinstance(e, Call) and e.name == "/" and e.type.name == "decimal"


def _constant(e: Literal) -> tuple[int | None, int]:
    """A constant with as few digits behind its point as it needs."""
    if e.value is None:
        return None, 0
    if e.type.name not in _KINDS or not isinstance(e.value, int):
        raise _NoFormula
    number, scale = e.value, e.type.scale
    while scale > 0 and number % 10 == 0:
        number, scale = number // 10, scale - 1
    return number, scale


def _column(column: Column) -> Term:
    type_ = column.type
    if column.partition or type_.name not in _KINDS or type_.precision > WORD_DIGITS:
        raise _NoFormula
    return column


def _text(e: Expression) -> Term:
    """A column of texts or bytes."""
    if not isinstance(e, Ref) or e.column.partition or e.column.type.char_length:
        raise _NoFormula
    return e.column


def _times(term: Term, power: int) -> Term:
    if term is None or power == 1:
        return term
    return term * power if isinstance(term, int) else Op("*", (term, power))
