"""Evaluation of an expression over the rows of some columns: a value or an error per row.

AND, OR, CASE, IN and coalesce evaluate an operand only where earlier operands leave the row open, arithmetic
and comparisons only where the earlier operand is not NULL: the error of an unevaluated operand does not
count. Here, all operands are evaluated over all rows, and masked afterwards. A call that occurs several times
is evaluated once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Mask
from tailbit.base.lazy import lazy
from tailbit.index.functions.table import OPERATIONS, kernel
from tailbit.index.functions.tree import LAMBDAS, Call, Expression, Ref, columns_in, shared_calls
from tailbit.index.functions.vectors import (
    ERRORS,
    NOT_READ,
    Codes,
    Vector,
    code,
    first_of,
    is_set,
    nulls_of,
    repeated,
)
from tailbit.index.values.literals import Literal
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar
from tailbit.tables.schema import arrow_type

if TYPE_CHECKING:
    from tailbit.index.functions import nested, texts
else:
    nested = lazy("tailbit.index.functions.nested")
    texts = lazy("tailbit.index.functions.texts")

CallCache = Callable[[Call, Callable[[], Vector]], Vector]
"""Function that returns the values of a call over the same rows, from a cache or computed by the callable."""


def evaluate(
    expression: Expression, columns: Mapping[str, pa.Array], rows: int, cache: CallCache | None = None
) -> Vector:
    """Evaluate an expression over rows.

    Args:
        expression: a bound expression.
        columns: by `Column.id`, the values of the columns that it reads, in their logical Arrow types.
        rows: how many there are.
        cache: a cache, asked for the values of each call.
    """
    return _Rows(columns, rows, shared_calls(expression), cache).of(expression)


def error_of(constant: Expression) -> str:
    """Return the error class that an expression without columns raises in Spark; empty if unknown."""
    raised = evaluate(constant, {}, 1).raised
    error = "" if raised is None else ERRORS[raised[0]]
    return "" if error == NOT_READ else error


class _Rows:
    """The rows of some columns, with the cached values of calls that have several parents."""

    def __init__(
        self, columns: Mapping[str, pa.Array], rows: int, shared: frozenset[int], cache: CallCache | None
    ) -> None:
        self.columns, self.rows, self.shared, self.cache = columns, rows, shared, cache
        self.memo: dict[int, Vector] = {}

    def of(self, expression: Expression) -> Vector:
        if isinstance(expression, Literal):
            return Vector(repeated(expression, self.rows))
        if isinstance(expression, Ref):
            return Vector(self.columns[expression.column.id])
        vector = self.memo.get(id(expression))
        if vector is None:
            compute = partial(_called, expression, self)
            vector = compute() if self.cache is None else self.cache(expression, compute)
            if id(expression) in self.shared:
                self.memo[id(expression)] = vector
        return vector

    def once(self, expression: Expression) -> Vector:
        """Evaluate an expression; a constant has one row, which stands for all rows."""
        return evaluate(expression, {}, 1) if isinstance(expression, Literal) else self.of(expression)


def _called(call: Call, rows: _Rows) -> Vector:
    if call.name in _WITH_CONSTANTS:
        first, *constants = call.args
        return _applied(call, [rows.of(first), *(evaluate(c, {}, 1) for c in constants)])
    if call.name in LAMBDAS:
        return _over_elements(call, rows)
    if call.name == "arrays_overlap":
        return _applied(call, [rows.once(arg) for arg in call.args])
    args = [rows.of(arg) for arg in call.args]
    if call.name in ("and", "or"):
        return _connected(args, whole=call.name == "or")
    if call.name == "case":
        return _case(args, call)
    if call.name == "coalesce":
        return _coalesce(args, call)
    if call.name == "try_cast":
        return _tried(args, call)
    return _applied(call, args)


_WITH_CONSTANTS = ("in", "like", "rlike")
"""Calls whose arguments after the first are constants and evaluated as one row: a list may be long."""


def _over_elements(call: Call, rows: _Rows) -> Vector:
    """Evaluate a function of an array and a lambda body, once over all elements of all rows."""
    array, variable, body = rows.of(call.args[0]), str(call.setting[0]), call.args[1]
    elements = nested.spread(array.values)
    owners = arrow_array(elements.rows)
    columns = {c.id: pc.take(rows.columns[c.id], owners) for c in columns_in(body) if c.id != variable}
    values = {**columns, variable: elements.flat}
    outcomes = _Rows(values, len(elements.flat), rows.shared, None).of(body)
    gathered = nested.gathered(call.name, elements, outcomes)
    return _blanked(gathered.values, first_of([array.raised, gathered.raised]))


_NULL_BY_ZERO = ("try_divide", "try_mod")
"""Functions that are NULL for a zero divisor, whatever the dividend raises. Source: `eval` of DivModLike."""


def _applied(call: Call, args: list[Vector]) -> Vector:
    args = [texts.readable(arg) for arg in args] if texts.takes_characters(call) else args
    if call.name in _NULL_BY_ZERO:
        args = [args[0], _null_at_zero(args[1])]
    if first := OPERATIONS[call.name].first:
        _look(args, range(len(args)) if first == "left" else range(len(args) - 1, -1, -1))
    vector = kernel(call.name)(call, [arg.values for arg in args])
    return _blanked(vector.values, first_of([*(arg.raised for arg in args), vector.raised]))


def _null_at_zero(divisor: Vector) -> Vector:
    zero = pc.equal(divisor.values, arrow_scalar(0, divisor.values.type))
    values = pc.if_else(zero, arrow_scalar(None, divisor.values.type), divisor.values)
    return divisor._replace(values=values)


def _look(args: list[Vector], order: Sequence[int]) -> None:
    """Drop the errors of operands that follow a NULL operand in evaluation order."""
    open_: Mask | np.bool_ = np.True_
    for number in order:
        if args[number].raised is not None:
            args[number] = args[number]._replace(raised=_reached(args[number].raised, open_))
        if args[number].values.null_count:
            open_ = open_ & ~nulls_of(args[number].values)


def _blanked(values: pa.Array, raised: Codes | None) -> Vector:
    """Set values to NULL where the row raises."""
    if raised is None or not raised.any():
        return Vector(values)
    return Vector(pc.if_else(arrow_array(raised == 0), values, arrow_scalar(None, values.type)), raised)


def _tried(args: list[Vector], call: Call) -> Vector:
    """Evaluate TRY_CAST: NULL where the cast itself raises.

    A text that is unsupported here keeps the error NOT_READ.
    """
    args = [texts.readable(args[0])] if texts.takes_characters(call) else args
    vector = kernel("cast")(call, [args[0].values])
    values = _blanked(vector.values, vector.raised).values
    unread = None if vector.raised is None else code(NOT_READ, vector.raised == ERRORS.index(NOT_READ))
    return _blanked(values, first_of([args[0].raised, unread]))


def _reached(raised: Codes | None, open_: Mask | np.bool_) -> Codes | None:
    """Keep the errors of an operand only where the operand is evaluated."""
    return None if raised is None else np.where(open_, raised, 0).astype(np.uint8)


def _connected(args: list[Vector], whole: bool) -> Vector:
    """Evaluate AND, or OR if `whole`: an operand counts where no earlier operand decides."""
    connective = pc.or_kleene if whole else pc.and_kleene
    values, raised = args[0]
    for arg in args[1:]:
        decided = is_set(values) if whole else is_set(pc.invert(values))
        raised = first_of([raised, _reached(arg.raised, ~decided)])
        values = connective(values, arg.values)
    return _blanked(values, raised)


def _case(args: list[Vector], call: Call) -> Vector:
    rows = len(args[0].values)
    open_ = np.ones(rows, dtype=np.bool_)
    raised: Codes | None = None
    values = pa.nulls(rows, arrow_type(call.type, str(call.type)))
    for condition, value in zip(args[:-1:2], args[1:-1:2], strict=True):
        raised = first_of([raised, _reached(condition.raised, open_)])
        met = open_ & is_set(condition.values) & ~condition.failed
        raised = first_of([raised, _reached(value.raised, met)])
        values = pc.if_else(arrow_array(met), value.values, values)
        open_ = open_ & ~met
    raised = first_of([raised, _reached(args[-1].raised, open_)])
    return _blanked(pc.if_else(arrow_array(open_), args[-1].values, values), raised)


def _coalesce(args: list[Vector], call: Call) -> Vector:
    values, raised = args[0]
    for arg in args[1:]:
        open_ = nulls_of(values)
        raised = first_of([raised, _reached(arg.raised, open_)])
        values = pc.if_else(arrow_array(open_), arg.values, values)
    return _blanked(values, raised)
