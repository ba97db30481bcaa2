"""Calls, folded where they are constant, and what is refused where they are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from tailbit.index.expression.evaluate import CONDITIONAL, evaluate, raising_constant
from tailbit.index.functions.tree import Call, Expression, columns_in
from tailbit.index.functions.vectors import canonical
from tailbit.index.values.datetimes import special_word
from tailbit.index.values.literals import BOOLEAN, Literal
from tailbit.index.values.refusals import Unsupported, mismatch
from tailbit.tables.model import DataType

_CASES = ("lower", "upper")
_OF_ALL = (
    *("+", "-", "*", "/", "%", "div", "&", "|", "^", "=", "<>", "<", "<=", ">", ">="),
    *("date_add", "date_sub", "datediff", "difference"),
    *("startswith", "endswith", "contains", "substring", "replace", "left"),
    *("substring_index", "pmod", "instr", "translate", "add_months", "make_date", "lpad", "rpad", "right"),
    *("try_add", "try_subtract", "try_multiply", "try_divide", "try_mod"),
    *("array_contains", "arrays_overlap", "element_at", "map value", "array_position"),
)
"""What is NULL where an argument is the constant NULL, whatever the others raise.
Source: Spark, NullPropagation, which precedes the folding of constants."""


_FOLDED_LATE = frozenset(
    (*CONDITIONAL, "locate", "greatest", "least", "concat", "concat_ws", "trim", "ltrim", "rtrim", "strip")
) | {"right", "round", "trunc", "date_trunc"}
"""What becomes NULL by an argument that is the constant NULL only when constants are folded, not before.
Source: Spark; these are not `nullIntolerant`, or are made of `if`."""


class NotRead(Exception):
    """An expression that Spark refuses, or that is not done here; carries why and what to write instead."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.hint = hint


def call(
    name: str, args: Sequence[Expression], type_: DataType, setting: tuple[str | int, ...] = ()
) -> Expression:
    """A call; the constant that it is where all arguments are constants and it does not raise."""
    made = Call(name, tuple(_before_case(name, args)), type_, setting)
    if name == "<=>":
        for arg, other in (made.args, made.args[::-1]):
            if isinstance(other, Literal) and other.value is None:
                return is_null(arg)
    null = _null_of(made) if name in _OF_ALL else None
    if null is not None:
        return null
    if columns_in(made):
        return made
    found = evaluate(made, {}, 1)
    if found.failed[0]:
        return made
    value = canonical(found.values, type_)[0]
    asked = any(isinstance(arg, Literal) and arg.value is None and not arg.late for arg in made.args)
    of_columns = any(isinstance(arg, Literal) and arg.of_columns for arg in made.args)
    return Literal(type_, value, False, name in _FOLDED_LATE or (value is None and not asked), of_columns)


def _null_of(made: Call) -> Expression | None:
    """What a call is that has the constant NULL as an argument; None where it has none.

    A NULL that is known late does not keep constants beside it from being folded, which may raise; but where
    there is no column, the call itself is folded, and what stands behind NULL is not asked.
    """
    found = [(n, arg) for n, arg in enumerate(made.args) if isinstance(arg, Literal) and arg.value is None]
    if not found:
        return None
    raising = [n for n, arg in enumerate(made.args) if raising_constant(arg) is not None]
    late = all(arg.late for _, arg in found)
    of_columns = (late and bool(made.columns)) or any(arg.of_columns for _, arg in found)
    if late and raising and (of_columns or raising[0] < found[0][0]):
        return made
    return Literal(made.type, None, late=late or made.name in _FOLDED_LATE, of_columns=of_columns)


def _before_case(name: str, args: Sequence[Expression]) -> Sequence[Expression]:
    """The arguments; of `upper(lower(x))` and its like x, since Spark leaves the inner conversion out.

    Source: Spark, SimplifyCaseConversionExpressions, which follows the folding of constants.
    """
    if name not in _CASES:
        return args
    (inner,) = args
    return inner.args if isinstance(inner, Call) and inner.name in _CASES else args


_SUMS, _PRODUCTS = ("+", "try_add"), ("*", "try_multiply")
ASSOCIATED = {**dict.fromkeys(_SUMS, _SUMS), **dict.fromkeys(_PRODUCTS, _PRODUCTS)}
"""What is taken for parts of one sum or product, by the outermost operator."""


def associated(op: str, args: Sequence[Expression], type_: DataType) -> Expression:
    """A sum, or a product, of whole numbers: its constants are combined and come last.

    This decides what overflows; and whether that raises or is NULL is decided for all parts by the outermost
    operator. Source: Spark, ReorderAssociativeOperator.
    """
    parts = [part for arg in args for part in _operands(ASSOCIATED[op], arg)]
    constants = [part for part in parts if not columns_in(part)]
    others = [part for part in parts if columns_in(part)]
    if not constants or not others:
        return call(op, args, type_)
    left, right = (reduce(lambda a, b: call(op, [a, b], type_), each) for each in (others, constants))
    return call(op, [left, right], type_)


def _operands(ops: Sequence[str], value: Expression) -> list[Expression]:
    if not isinstance(value, Call) or value.name not in ops:
        return [value]
    return [part for arg in value.args for part in _operands(ops, arg)]


def referred(value: Expression) -> Expression:
    """An expression that Spark does not see as written: a constant has lost what it was as a literal."""
    return replace(value, written=False) if isinstance(value, Literal) else value


def asked_twice(value: Expression) -> Expression:
    """The subject of BETWEEN and of nullif, which Spark refers to by a name.

    Raises:
        Unsupported: a word such as 'epoch', which Spark reads as a time in plain constants alone.
    """
    if isinstance(value, Literal) and isinstance(value.value, bytes) and value.type.name == "string":
        word = special_word(value.value.decode())
        if word is not None:
            raise Unsupported(f"{word!r} is not read where it is compared twice")
    return referred(value)


def is_null(value: Expression) -> Expression:
    """IS NULL of an expression."""
    asked = value.null_as if isinstance(value, Call) else None
    return call("is null", [asked or value], BOOLEAN)


def of_no_number(reason: str, value: Expression) -> str:
    """Why a value is not taken where a number is: Spark takes a text and NULL."""
    taken = value.type.name in ("string", "void")
    return reason if taken else mismatch(reason, "UNEXPECTED_INPUT_TYPE")
