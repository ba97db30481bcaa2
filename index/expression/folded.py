"""Construction of calls: constant calls are folded, and unsupported calls are refused."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from tailbit.base.errors import ColumnTypeError
from tailbit.base.lazy import lazy
from tailbit.base.wording import with_article
from tailbit.index.functions.table import OPERATIONS
from tailbit.index.functions.tree import Call, Expression, Ref, columns_in, raising_constant
from tailbit.index.keys import posting_type_of
from tailbit.index.values.literals import BOOLEAN, VOID, Literal, NotRead, Unsupported, mismatch
from tailbit.tables.model import DataType
from tailbit.tables.schema import presence_of

if TYPE_CHECKING:
    from tailbit.index.expression import evaluate as evaluation
    from tailbit.index.functions import vectors
    from tailbit.index.values import datetimes
else:
    evaluation = lazy("tailbit.index.expression.evaluate")
    datetimes = lazy("tailbit.index.values.datetimes")
    vectors = lazy("tailbit.index.functions.vectors")

_CASES = ("lower", "upper")


def call(
    name: str, args: Sequence[Expression], type_: DataType, setting: tuple[str | int, ...] = ()
) -> Expression:
    """Build a call; fold it to a constant if all arguments are constants and it does not raise."""
    built = Call(name, tuple(_before_case(name, args)), type_, setting)
    if name == "<=>":
        for arg, other in (built.args, built.args[::-1]):
            if isinstance(other, Literal) and other.value is None:
                return is_null(arg)
    null = _null_of(built) if OPERATIONS[name].null_by_any else None
    if null is not None:
        return null
    if columns_in(built):
        return built
    vector = evaluation.evaluate(built, {}, 1)
    if vector.failed[0]:
        return built
    value = vectors.canonical(vector.values, type_)[0]
    has_null = any(isinstance(arg, Literal) and arg.value is None and not arg.late for arg in built.args)
    of_columns = any(isinstance(arg, Literal) and arg.of_columns for arg in built.args)
    late = OPERATIONS[name].folds_late or (value is None and not has_null)
    return Literal(type_, value, False, late, of_columns, folded=True)


def _null_of(built: Call) -> Expression | None:
    """Return the result of a call with a constant NULL argument; None if it has no such argument.

    A late NULL does not prevent the other constants from being folded, which may raise; but without any
    column, the call itself is folded, and arguments after the NULL are not evaluated.
    """
    nulls = [(n, arg) for n, arg in enumerate(built.args) if isinstance(arg, Literal) and arg.value is None]
    if not nulls:
        return None
    raising = [n for n, arg in enumerate(built.args) if raising_constant(arg) is not None]
    late = all(arg.late for _, arg in nulls)
    of_columns = (late and bool(built.columns)) or any(arg.of_columns for _, arg in nulls)
    if late and raising and (of_columns or raising[0] < nulls[0][0]):
        return built
    return Literal(built.type, None, late=late or OPERATIONS[built.name].folds_late, of_columns=of_columns)


def _before_case(name: str, args: Sequence[Expression]) -> Sequence[Expression]:
    """Return the arguments of a call; `x` for `upper(lower(x))` and the like.

    Spark drops the inner conversion.

    Source: Spark, SimplifyCaseConversionExpressions, which follows the folding of constants.
    """
    if name not in _CASES:
        return args
    (inner,) = args
    return inner.args if isinstance(inner, Call) and inner.name in _CASES else args


_SUMS, _PRODUCTS = ("+", "try_add"), ("*", "try_multiply")
ASSOCIATED = {**dict.fromkeys(_SUMS, _SUMS), **dict.fromkeys(_PRODUCTS, _PRODUCTS)}
"""Operators whose operands count as parts of one sum or product, by the outermost operator."""


def associated(op: str, args: Sequence[Expression], type_: DataType) -> Expression:
    """Build a sum or product of integers: its constants are combined and come last.

    The order decides what overflows; the outermost operator decides for all parts whether an overflow raises
    or is NULL. Source: Spark, ReorderAssociativeOperator.
    """
    terms_of_all = [term for arg in args for term in _operands(ASSOCIATED[op], arg)]
    constants = [term for term in terms_of_all if not columns_in(term)]
    others = [term for term in terms_of_all if columns_in(term)]
    if not constants or not others:
        return call(op, args, type_)
    varying, constant = (reduce(lambda a, b: call(op, [a, b], type_), terms) for terms in (others, constants))
    return call(op, [varying, constant], type_)


def _operands(ops: Sequence[str], value: Expression) -> list[Expression]:
    if not isinstance(value, Call) or value.name not in ops:
        return [value]
    return [operand for arg in value.args for operand in _operands(ops, arg)]


def referred(value: Expression) -> Expression:
    """Return an expression that Spark takes for a computed one: a constant no longer counts as written."""
    if not isinstance(value, Literal) or not value.written:
        return value
    return Literal(value.type, value.value, False, value.late, value.of_columns, value.folded)


def asked_twice(value: Expression) -> Expression:
    """Return the first operand of BETWEEN or nullif, which Spark compares twice under an internal name.

    A word such as 'epoch' is refused: Spark reads it as a time only in plain constants.
    """
    if isinstance(value, Literal) and isinstance(value.value, bytes) and value.type.name == "string":
        word = datetimes.special_word(value.value.decode())
        if word is not None:
            raise Unsupported(f"{word!r} is not read where it is compared twice")
    return referred(value)


def is_null(value: Expression) -> Expression:
    """Build IS NULL of an expression, which may be a column of any type."""
    source = (value.null_as if isinstance(value, Call) else None) or value
    if isinstance(source, Ref):
        source = Ref(presence_of(source.column, has_key_type(source.type)))
    return call("is null", [source], BOOLEAN)


def is_null_alone(a: Expression, b: Expression) -> Expression | None:
    """Return `a <=> b` as IS NULL if one side is NULL and the values of the other have an order in Spark."""
    for side, other in ((a, b), (b, a)):
        if isinstance(side, Literal) and side.type == VOID and is_orderable(other.type):
            return is_null(other)
    return None


def has_key_type(type_: DataType) -> bool:
    """Return whether values of a type, or those inside, have keys, so that expressions compute with them."""
    try:
        posting_type_of(type_)
    except ColumnTypeError:
        return type_.name in ("array", "map", "struct")
    return True


def is_orderable(type_: DataType) -> bool:
    """Return whether Spark compares values of a type, also where no index does: not maps and variants."""
    return type_.name not in ("map", "variant") and all(is_orderable(field.type) for field in type_.fields)


def wrong_type(
    taker: str, takes: str, value: Expression, hint: str | None = None, error: str = "UNEXPECTED_INPUT_TYPE"
) -> NotRead:
    """Return the refusal of an argument of another type than a function takes."""
    return NotRead(mismatch(f"{taker} takes {takes}, not {with_article(value.type.sql)}", error), hint)


def no_number(taker: str, value: Expression, takes: str = "a number", hint: str = "CAST it.") -> NotRead:
    """Return the refusal of an argument that is no number; Spark accepts strings and NULL."""
    return NotRead(of_no_number(f"{taker} takes {takes}, not {with_article(value.type.sql)}", value), hint)


def of_no_number(reason: str, value: Expression) -> str:
    """Return the reason for refusing a value as a number; Spark accepts strings and NULL."""
    accepted = value.type.name in ("string", "void")
    return reason if accepted else mismatch(reason, "UNEXPECTED_INPUT_TYPE")
