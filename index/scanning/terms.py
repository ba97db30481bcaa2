"""Expressions of numbers, dates and times as terms of formulas.

Decimals are unscaled integers: before an addition or comparison, the one with the smaller scale is
multiplied. A quotient compared with a constant becomes a product on the other side. Expressions that round
below 0, that may raise other than by overflow, or of other types have no formula.
"""

from __future__ import annotations

from collections.abc import Callable

from tailbit.index.functions.dates import OF_TIME
from tailbit.index.functions.tree import Call, Expression, Ref
from tailbit.index.ordered import WORD_DIGITS
from tailbit.index.values.literals import TIMES, WHOLE, Literal, range_of
from tailbit.tables.date_text import DAY_US
from tailbit.tables.model import Column, DataType
from tailbit.tables.parquet.value_search.formula import LEAST, MOST, PARTS, Op, Span, Term
from tailbit.tables.zones.times import fixed_offset

_MOST_TERMS = 100
"""Limit of operations in one formula; a shared term counts in each place."""
_MOST_LISTED = 16
"""Limit of list values that are compared one by one."""


class NoFormula(Exception):
    """The condition has no formula."""


def span_of(type_: DataType) -> Span:
    """Return the least and greatest stored number of a type."""
    span = range_of(type_)
    assert span is not None
    return span


class Terms:
    """Builder of terms from expressions; a shared expression is built once."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Term, int]] = {}
        self.count = 0

    def truth(self, e: Expression) -> Term:
        """Build the term of a boolean expression."""
        if isinstance(e, Literal) and e.type.name in ("boolean", "void"):
            return None if e.value is None else bool(e.value)
        if not isinstance(e, Call) or e.type.name != "boolean":
            raise NoFormula
        return self._once(e, self._truth)

    def number(self, e: Expression) -> tuple[Term, int]:
        """Build the term of a number, date or time; also return its scale."""
        if isinstance(e, Literal):
            return _constant(e)
        if isinstance(e, Ref):
            return _column(e.column), e.type.scale
        return self._once(e, self._number), e.type.scale

    def scaled(self, e: Expression, scale: int) -> Term:
        """Build the term of a number at an equal or larger scale."""
        term, digits = self.number(e)
        if scale < digits:
            raise NoFormula
        return _times(term, 10 ** (scale - digits))

    def _once(self, e: Call, make: Callable[[Call], Term]) -> Term:
        before = self.count
        if id(e) not in self.known:
            self.count += 1
            term = make(e)
            self.known[id(e)] = term, self.count - before
        else:
            self.count += self.known[id(e)][1]
        if self.count > _MOST_TERMS:
            raise NoFormula
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
            comparisons = [self.compared("=", e.args[0], item) for item in e.args[1:]]
            return Op("or", (*comparisons, *([None] if e.setting[0] else [])))
        raise NoFormula

    def compared(self, op: str, left: Expression, right: Expression) -> Term:
        """Build the comparison of two numbers of one kind; days and microseconds are different kinds."""
        if op not in _COMPARED or _kind(left.type) != _kind(right.type):
            raise NoFormula
        if _is_quotient(left) and isinstance(right, Literal):
            return self._quotient(op, left, right)
        a, b = self.number(left)[1], self.number(right)[1]
        return Op(op, (self.scaled(left, max(a, b)), self.scaled(right, max(a, b))))

    def _quotient(self, op: str, e: Expression, bound: Literal) -> Term:
        """Rewrite the comparison of a quotient a / b with c as that of a with c * b, for b above 0.

        The quotient is rounded by at most half of its last digit. If it differs from c, the difference is at
        least 1 / (b * 10 ** d), where d is the sum of the scales of a and c: if that is more than the
        rounding, the comparison has the same outcome.
        """
        assert isinstance(e, Call)
        (dividend, of), (divisor, by) = (self.number(arg) for arg in e.args)
        constant, behind = _constant(bound)
        a, b = (arg.type for arg in e.args)
        overflows = e.type.precision - e.type.scale < a.precision - a.scale + b.scale
        if op == "<=>" or constant is None or behind > e.type.scale or overflows:
            raise NoFormula
        most = (2 * 10**e.type.scale - 1) // 10 ** (of + behind)
        above_zero = Op("is", (divisor,), 1, most)
        return Op(op, (_times(dividend, 10 ** (by + behind)), _times(above_zero, constant * 10**of)))

    def _number(self, e: Call) -> Term:
        if e.type.name not in _KINDS:
            raise NoFormula
        low, high = span_of(e.type)
        name, args = self._operation(e)
        return Op(name, args, max(low, LEAST), min(high, MOST))

    def _operation(self, e: Call) -> tuple[str, tuple[Term, ...]]:
        """Return name and operands of the formula operation that computes a call with a numeric result.

        Raises:
            NoFormula: no operation computes the call.
        """
        scale = e.type.scale
        if e.name in ("+", "-", "coalesce", "%"):
            return e.name, tuple(self.scaled(arg, scale) for arg in e.args)
        if e.name in _NAMES:
            return _NAMES[e.name], tuple(self.number(arg)[0] for arg in e.args)
        if e.name == "*":
            (a, of_a), (b, of_b) = (self.number(arg) for arg in e.args)
            if of_a + of_b <= scale:
                return "is", (_times(Op("*", (a, b)), 10 ** (scale - of_a - of_b)),)
        if e.name == "negative":
            return "-", (0, self.number(e.args[0])[0])
        if e.name in ("cast", *_ROUNDED) and {e.type.name, e.args[0].type.name} <= {*WHOLE, "decimal"}:
            return self._rounded(e)
        if e.name == "div":
            a, b = (self.number(arg)[0] for arg in e.args)
            return "//", (Op("is", (a,), 0), b)
        if e.name in _PARTS or e.name == "cast":
            return self._part(e)
        if e.name in ("length", "octet_length"):
            octets = e.name == "octet_length" or e.args[0].type.name == "binary"
            return "octets" if octets else "characters", (_text(e.args[0]),)
        if e.name == "case":
            pairs = zip(e.args[:-1:2], e.args[1:-1:2], strict=True)
            terms = [term for c, value in pairs for term in (self.truth(c), self.scaled(value, scale))]
            return "case", (*terms, self.scaled(e.args[-1], scale))
        raise NoFormula

    def _rounded(self, e: Call) -> tuple[str, tuple[Term, ...]]:
        """Build a cast, round, floor or ceil of a number."""
        (term, behind), scale = self.number(e.args[0]), e.type.scale
        if e.name in _ROUNDED and int(e.setting[0]) < 0:
            raise NoFormula
        if behind <= scale:
            return "is", (self.scaled(e.args[0], scale),)
        unit = 10 ** (behind - scale)
        half = "round" if e.name in ("round", "cast") and e.type.name == "decimal" else e.name
        more = {"round": unit // 2, "ceil": unit - 1}.get(half, 0)
        # Numbers below 0 would round the other way; only floor is the same there.
        positive = term if e.name == "floor" else Op("is", (term,), 0)
        return "//", (Op("+", (positive, more)), unit)

    def _part(self, e: Call) -> tuple[str, tuple[Term, ...]]:
        """Build the day, or another part, of a date or time."""
        (arg,) = e.args
        term = self.number(arg)[0]
        if e.name in PARTS:
            return e.name, (term,)
        if arg.type.name == "timestamp":
            offset = fixed_offset(str(e.setting[0]))
            if offset is None:
                raise NoFormula
            term = Op("+", (term, offset))
        elif arg.type.name != "timestamp_ntz":
            raise NoFormula
        if e.name == "cast" and e.type.name == "date":
            return "//", (term, DAY_US)
        if e.name not in OF_TIME:
            raise NoFormula
        unit, count = OF_TIME[e.name]
        whole = Op("*", (Op("//", (term, unit * count)), count))
        return "-", (Op("//", (term, unit)), whole)


_ROUNDED = ("round", "floor", "ceil")
_PARTS = (*PARTS, *OF_TIME)
_NAMES = {"abs": "abs", "date_add": "+", "date_sub": "-", "datediff": "-"}
"""Operations of numbers without decimals."""
_COMPARED = ("=", "<>", "<", "<=", ">", ">=", "<=>")


def _kind(type_: DataType) -> str:
    """Return a name that is equal for types with comparable numbers."""
    return "number" if type_.name in (*WHOLE, "decimal", "void") else type_.name


_KINDS = (*WHOLE, *TIMES, "decimal")


def _is_quotient(e: Expression) -> bool:
    return isinstance(e, Call) and e.name == "/" and e.type.name == "decimal"


def _constant(e: Literal) -> tuple[int | None, int]:
    """Return the unscaled integer and scale of a constant, trailing zeros removed."""
    if e.value is None:
        return None, 0
    if e.type.name not in _KINDS or not isinstance(e.value, int):
        raise NoFormula
    number, scale = e.value, e.type.scale
    while scale > 0 and number % 10 == 0:
        number, scale = number // 10, scale - 1
    return number, scale


def _column(column: Column) -> Term:
    type_ = column.type
    if column.partition or type_.name not in _KINDS or type_.precision > WORD_DIGITS:
        raise NoFormula
    return column


def _text(e: Expression) -> Term:
    """Return a column of texts or bytes."""
    if not isinstance(e, Ref) or e.column.partition or e.column.type.char_length:
        raise NoFormula
    return e.column


def _times(term: Term, power: int) -> Term:
    if term is None or power == 1:
        return term
    return term * power if isinstance(term, int) else Op("*", (term, power))
