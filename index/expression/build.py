"""Typed construction of expressions: arguments are cast as Spark casts them, and constants are folded.

Source: Spark 4.2, AnsiTypeCoercion, DecimalPrecision; asked of Spark itself by the tests.

The present moment of a query: `now()`, `current_date` and the like become constants before evaluation.

Source: Spark 4.2, ComputeCurrentTime, LiteralFunctionResolution.

Construction of calls: constant calls are folded, and unsupported calls are refused.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from tailbit.base.errors import ColumnTypeError
from tailbit.base.lazy import lazy
from tailbit.base.wording import with_article
from tailbit.index.functions.tree import Call, Expression, Ref, columns_in, key_of, raising_constant
from tailbit.index.keys import posting_type_of
from tailbit.index.values import casts
from tailbit.index.values.casts import CAST_TO_INSTANTS, as_given, by_day
from tailbit.index.values.coercion import (
    MIRRORED,
    as_decimal,
    common_type,
    compared_type,
    is_rounded,
    membership_type,
    not_of_one_type,
    rounded,
)
from tailbit.index.values.literals import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOATING,
    LONG,
    MAX_DIGITS,
    NUMERIC,
    STRING,
    TIMES,
    TIMESTAMP,
    VOID,
    WHOLE,
    Constants,
    Literal,
    NotRead,
    Unsupported,
    array_of_type,
    decimal_type,
    instead_of_numbers,
    mismatch,
)
from tailbit.tables.model import DataType
from tailbit.tables.schema import presence_of

if TYPE_CHECKING:
    from tailbit.index.expression import evaluate as evaluation
    from tailbit.index.functions import casting, table, texts, vectors
    from tailbit.index.values import datetimes
else:
    casting = lazy("tailbit.index.functions.casting")
    table = lazy("tailbit.index.functions.table")
    texts = lazy("tailbit.index.functions.texts")
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
    if (null := _null_of(built)) is not None:
        return null
    if columns_in(built):
        return built
    vector = evaluation.evaluate(built, {}, 1)
    if vector.failed[0]:
        return built
    value = vectors.canonical(vector.values, type_)[0]
    has_null = any(isinstance(arg, Literal) and arg.value is None and not arg.late for arg in built.args)
    of_columns = any(isinstance(arg, Literal) and arg.of_columns for arg in built.args)
    late = table.OPERATIONS[name].folds_late or (value is None and not has_null)
    return Literal(type_, value, False, late, of_columns, folded=True)


def _null_of(built: Call) -> Expression | None:
    """Return the result of a call that a constant NULL argument makes NULL; None for other calls.

    A late NULL does not prevent the other constants from being folded, which may raise; but without any
    column, the call itself is folded, and arguments after the NULL are not evaluated.
    """
    nulls = [(n, arg) for n, arg in enumerate(built.args) if isinstance(arg, Literal) and arg.value is None]
    if not nulls or not table.OPERATIONS[built.name].null_by_any:
        return None
    raising = [n for n, arg in enumerate(built.args) if raising_constant(arg) is not None]
    late = all(arg.late for _, arg in nulls)
    of_columns = (late and bool(built.columns)) or any(arg.of_columns for _, arg in nulls)
    if late and raising and (of_columns or raising[0] < nulls[0][0]):
        return built
    return Literal(
        built.type, None, late=late or table.OPERATIONS[built.name].folds_late, of_columns=of_columns
    )


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


BITWISE = ("&", "^", "|")
"""Operators on the bits of integers, by falling precedence."""


class Builder:
    """Builder of expressions for one time zone and one present moment (microseconds since 1970 in UTC)."""

    def __init__(self, zone: str, now: int) -> None:
        self.zone = zone
        self.now = now

    def cast(self, value: Expression, to: DataType, tried: bool = False) -> Expression:
        """Build a CAST, or a TRY_CAST if `tried`; the result of a constant no longer counts as written."""
        if value.type == to:
            return referred(value)
        if isinstance(value, Literal) and not casts.is_since_1970(value.type, to):
            return self._cast_constant(value, to, tried)
        if not casting.is_castable(value.type, to):
            raise NotRead(*casting.why_not_cast(value.type, to))
        zone = self.zone if _depends_on_zone(value.type, to) else "UTC"
        return call("try_cast" if tried else "cast", [value], to, (zone,))

    def _cast_constant(self, value: Literal, to: DataType, tried: bool) -> Literal:
        try:
            (result,) = casts.cast_all(Constants(value.type, [value.value]), to, self.zone)
            return Literal(to, result, False, value.late, value.of_columns, value.folded or to == STRING)
        except Unsupported:
            raise
        except (ValueError, OverflowError):
            if tried:
                return Literal(to, None, late=True)
            raise

    def implicit(self, value: Expression, to: DataType, taker: str) -> Expression:
        """Cast an argument to the type that function `taker` takes, if Spark casts implicitly."""
        from_, name = value.type, to.name
        numeric = from_.name in NUMERIC and name in NUMERIC
        times = from_.name in TIMES and name in TIMES
        if from_.name in ("void", name, "string") or numeric or times or name == "string":
            return self.cast(value, to)
        raise wrong_type(taker, with_article(to.sql), value, "CAST it.")

    def compare(self, op: str, lhs: Expression, rhs: Expression) -> Expression:
        """Build a comparison of two expressions, cast to the type in which Spark compares them."""
        if op == "<>":
            return self.negate(self.compare("=", lhs, rhs))
        if isinstance(lhs, Literal) and lhs.value is not None:
            lhs, op, rhs = rhs, MIRRORED[op], lhs
        if isinstance(rhs, Literal) and is_rounded(lhs.type, op, rhs):
            whole = rounded(op, rhs)
            if isinstance(whole, bool):
                return Literal(BOOLEAN, whole)
            rhs = whole
        sides = [s if isinstance(s, Literal) else s.type for s in (lhs, rhs)]
        common = compared_type(sides[0], sides[1])
        if common is None:
            reason = f"{lhs.type.sql} does not compare with {rhs.type.sql}"
            raise NotRead(mismatch(reason, "BINARY_OP_DIFF_TYPES"))
        if common.name == "void":
            return Literal(BOOLEAN, True if op == "<=>" else None)
        if common.name not in (*NUMERIC, *TIMES, "boolean", "string", "binary"):
            raise NotRead(f"{lhs.type.sql} does not compare with {rhs.type.sql}")
        _check_common(common)
        return self._compared(op, self.cast(lhs, common), self.cast(rhs, common))

    def _compared(self, op: str, lhs: Expression, rhs: Expression) -> Expression:
        """Build a comparison of two expressions of one type; a cast time is compared uncast."""
        uncast_terms = uncast(op, lhs, rhs, self.zone)
        if uncast_terms is None:
            return call(op, [lhs, rhs], BOOLEAN)
        comparisons = [self._compared(*term) for term in uncast_terms]
        if len(comparisons) > 1:
            return self.connect("and", comparisons)
        return null_as_cast(op, comparisons[0], call(op, [lhs, rhs], BOOLEAN))

    def one_of(self, value: Expression, listed: Sequence[Constants]) -> Expression:
        """Build IN of a list of constants, all values cast to one type."""
        common = _type_of_list(value.type, [constants.type for constants in listed])
        if common.name == "void":
            return Literal(BOOLEAN, None)
        value = self.cast(value, common)
        values = [value for constants in listed for value in casts.cast_all(constants, common, self.zone)]
        present = tuple(value for value in values if value is not None)
        if common.name in TIMES and len(present) == len(values) and len(set(present)) == 1:
            return self._compared("=", value, Literal(common, present[0]))
        if not present:
            # Spark turns the list into a comparison after folding the constants around it.
            return call("=", [value, Literal(common, None, late=True)], BOOLEAN)
        folded, of_columns = any(same.folded for same in listed), any(same.of_columns for same in listed)
        constants = Literal(array_of_type(common), present, of_columns=of_columns, folded=folded)  # type: ignore[arg-type]
        return call("in", [value, constants], BOOLEAN, (len(present) < len(values),))

    def equals_any(self, value: Expression, listed: Sequence[Expression]) -> Expression:
        """Build IN of a list that has other items than constants."""
        common = _type_of_list(value.type, [item.type for item in listed])
        value, items = self.cast(value, common), [self.cast(item, common) for item in listed]
        return call("or", [call("=", [value, item], BOOLEAN) for item in items], BOOLEAN)

    def negate(self, value: Expression) -> Expression:
        """Build NOT."""
        return call("not", [self.truth(value)], BOOLEAN)

    def truth(self, value: Expression) -> Expression:
        """Check that an expression is a condition; NULL becomes a boolean."""
        if value.type.name == "void":
            return self.cast(value, BOOLEAN)
        if value.type != BOOLEAN:
            reason = f"{with_article(value.type.sql)} is not a condition"
            reason = reason if value.type.name == "string" else mismatch(reason)
            raise NotRead(reason, "Compare it with something.")
        return value

    def connect(self, word: str, conditions: Sequence[Expression]) -> Expression:
        """Build `and` or `or` of conditions."""
        return call(word, [self.truth(condition) for condition in conditions], BOOLEAN)

    def arithmetic(self, op: str, lhs: Expression, rhs: Expression) -> Expression:
        """Build `+ - * / % div & | ^`."""
        if lhs.type.name == "date" and op in ("+", "-"):
            return self._moved(op, lhs, rhs)
        if rhs.type.name == "date" and op == "+":
            return self._moved(op, rhs, lhs)
        args, type_ = self.operands(op, lhs, rhs)
        if op in ("+", "*") and type_.name in WHOLE:
            return associated(op, args, type_)
        return call(op, args, type_)

    def operands(self, op: str, lhs: Expression, rhs: Expression) -> tuple[Sequence[Expression], DataType]:
        """Cast the operands of a numeric operator, and return them with the result type."""
        lhs, rhs = self._number(lhs, rhs, op), self._number(rhs, lhs, op)
        kinds = (lhs.type.name, rhs.type.name)
        if op in BITWISE and not set(kinds) <= set(WHOLE):
            reason = f"{op} of {lhs.type.sql} and {rhs.type.sql} is not read"
            raise NotRead(mismatch(reason), "CAST both AS BIGINT.")
        if "decimal" in kinds and not set(kinds) & set(FLOATING):
            return self._decimal(op, lhs, rhs)
        common = common_type(lhs.type, rhs.type)
        assert common is not None
        if op == "/":
            common = DOUBLE
        elif op == "div":
            if common.name not in WHOLE:
                raise NotRead(f"div of {lhs.type.sql} and {rhs.type.sql} is not read", "CAST both AS BIGINT.")
            common = LONG
        return [self.cast(lhs, common), self.cast(rhs, common)], common

    def _number(self, value: Expression, other: Expression, op: str) -> Expression:
        """Cast an operand to a number; a string becomes the type that Spark chooses for the other operand."""
        kind = value.type.name
        if kind == "void" and other.type.name in NUMERIC:
            return self.cast(value, other.type)
        if kind == "string" and other.type.name in NUMERIC:
            return self.cast(value, LONG if other.type.name in WHOLE else DOUBLE)
        if kind not in NUMERIC:
            reason = f"{op} of {value.type.sql} and {other.type.sql} is not read"
            kinds = {kind, other.type.name}
            refused = kinds != {"void"} and not kinds & set(TIMES)
            raise NotRead(mismatch(reason) if refused else reason, instead_of_numbers(op, kinds))
        return value

    def _decimal(self, op: str, lhs: Expression, rhs: Expression) -> tuple[list[Expression], DataType]:
        sides = [self.cast(s, as_decimal(s if isinstance(s, Literal) else s.type)) for s in (lhs, rhs)]
        type_ = decimal_result(op, sides[0].type, sides[1].type)
        if type_ is None:
            raise NotRead(f"{op} of {lhs.type.sql} and {rhs.type.sql} is not read", "CAST both AS BIGINT.")
        return sides, type_

    def _moved(self, op: str, day: Expression, more: Expression) -> Expression:
        if more.type.name not in ("byte", "short", "integer"):
            hint = "Write datediff(a, b) for the days between two dates."
            reason = f"DATE {op} {more.type.sql} is not read"
            if more.type.name != "void" and (op == "+" or more.type.name not in (*TIMES, "string")):
                reason = mismatch(reason, "UNEXPECTED_INPUT_TYPE")
            raise NotRead(reason, hint if more.type.name == "date" else None)
        return call("date_add" if op == "+" else "date_sub", [day, more], DATE)

    def negative(self, value: Expression) -> Expression:
        """Build the negative of a number."""
        if value.type.name == "string":
            value = self.cast(value, DOUBLE)
        if value.type.name not in NUMERIC:
            raise NotRead(
                of_no_number(f"a sign in front of {with_article(value.type.sql)} is not read", value)
            )
        return call("negative", [value], value.type)

    def turned(self, value: Expression) -> Expression:
        """Build `~`: an integer with all bits inverted."""
        if value.type.name not in WHOLE:
            reason = f"~ in front of {with_article(value.type.sql)} is not read"
            pattern = "For a pattern write RLIKE and a regular expression in quotes."
            hint = pattern if value.type.name == "string" else "CAST it AS BIGINT."
            raise NotRead(of_no_number(reason, value), hint)
        return call("~", [value], value.type)

    def case(self, pairs: Sequence[tuple[Expression, Expression]], other: Expression) -> Expression:
        """Build CASE WHEN from conditions, values and the ELSE value.

        If all values are equal, the result is that value: the conditions are then not evaluated, so none
        raises. Source: Spark, SimplifyConditionals, which treats more values as equal, such as `a + b` and `b
        + a`.
        """
        values = self.to_common_type([value for _, value in pairs] + [other], "CASE")
        args = [
            branch
            for (c, _), value in zip(pairs, values[:-1], strict=True)
            for branch in (self.truth(c), value)
        ]
        if len({key_of(value) for value in values}) == 1 and any(columns_in(c) for c, _ in pairs):
            only = referred(values[-1])
            return replace(only, late=True, of_columns=True) if isinstance(only, Literal) else only
        return call("case", [*args, values[-1]], values[-1].type)

    def coalesce(self, values: Sequence[Expression]) -> Expression:
        """Build coalesce: the first value that is not NULL."""
        same = self.to_common_type(values, "coalesce")
        if all(isinstance(value, Literal) and value.value is None and not value.late for value in same):
            return Literal(same[0].type, None)
        return same[0] if len(same) == 1 else call("coalesce", same, same[0].type)

    def to_common_type(self, values: Sequence[Expression], taker: str) -> list[Expression]:
        """Cast expressions to their common type in Spark; `taker`: the function, for the error."""
        common: DataType | None = values[0].type
        for value in values[1:]:
            common = None if common is None else common_type(common, value.type)
        if common is None:
            kinds = ", ".join(dict.fromkeys(value.type.sql for value in values))
            reason = f"{taker} has values of {kinds}, which have no common type"
            raise NotRead(mismatch(reason, "DATA_DIFF_TYPES"))
        _check_common(common)
        return [self.cast(value, common) for value in values]

    def like(
        self, value: Expression, pattern: Expression, escape: str = "\\", name: str = "like"
    ) -> Expression:
        """Build LIKE or RLIKE with a constant pattern."""
        taker = name.upper()
        value, pattern = self.implicit(value, STRING, taker), self.implicit(pattern, STRING, taker)
        if not isinstance(pattern, Literal):
            hint = "startswith, endswith and contains take columns."
            raise NotRead(f"{taker} takes a pattern that is a constant", hint)
        if isinstance(pattern.value, bytes):
            texts.check_pattern(name, pattern.value.decode(), escape)
        return call(name, [value, pattern], BOOLEAN, (escape,))


def _depends_on_zone(from_: DataType, to: DataType) -> bool:
    kinds = {from_.name, to.name}
    return "timestamp" in kinds and bool(kinds & {"date", "timestamp_ntz", "string"})


def _type_of_list(type_: DataType, listed: Sequence[DataType]) -> DataType:
    """Return the type in which a value and the items of a list are compared."""
    common = membership_type([type_, *listed])
    if common is None:
        raise NotRead(not_of_one_type(type_.sql, listed))
    _check_common(common)
    return common


def _check_common(type_: DataType) -> None:
    if type_.fields:
        raise NotRead(
            f"values of type {type_.sql} are not compared or chosen between", "Ask for their elements."
        )
    if type_.name == "decimal" and type_.precision > 38:
        raise NotRead("decimals of more than 38 digits are not read")


def decimal_result(op: str, lhs: DataType, rhs: DataType) -> DataType | None:
    """Return the type of `left op right` for `+ - * / %`; None for other operators.

    Beyond 38 digits the scale is cut, down to six. Source: Spark, DecimalType.
    """
    whole = max(lhs.precision - lhs.scale, rhs.precision - rhs.scale)
    scale = max(lhs.scale, rhs.scale)
    if op in ("+", "-"):
        precision = whole + scale + 1
    elif op == "*":
        precision, scale = lhs.precision + rhs.precision + 1, lhs.scale + rhs.scale
    elif op == "/":
        scale = max(6, lhs.scale + rhs.precision + 1)
        precision = lhs.precision - lhs.scale + rhs.scale + scale
    elif op == "%":
        precision = min(lhs.precision - lhs.scale, rhs.precision - rhs.scale) + scale
    else:
        return None
    if precision > MAX_DIGITS:
        scale = max(MAX_DIGITS - (precision - scale), min(scale, _LEAST_SCALE))
    return decimal_type(min(precision, MAX_DIGITS), scale)


_LEAST_SCALE = 6
"""Digits after the point that are never cut."""


def uncast(
    op: str, value: Expression, constant: Expression, zone: str
) -> list[tuple[str, Expression, Literal]] | None:
    """Return comparisons without a cast, all of which must be TRUE, in place of `value op constant`.

    None if Spark keeps the cast, or if there is none.
    """
    if not isinstance(constant, Literal) or not isinstance(value, Call):
        return None
    if value.name not in ("cast", "try_cast"):
        return None
    (inner,) = value.args
    kinds = (inner.type.name, value.type.name)
    if kinds[0] in CAST_TO_INSTANTS and kinds[1] == "timestamp":
        given = as_given(constant, inner.type, zone)
        return None if given is None else [(op, inner, given)]
    days = by_day(op, constant, zone) if kinds == ("timestamp", "date") else None
    return None if days is None else [(sign, inner, first) for sign, first in days]


def null_as_cast(op: str, comparison: Expression, cast: Expression) -> Expression:
    """Return an uncast comparison; for IS NULL, an inequality refers to the cast comparison instead.

    The cast of a far date raises, and Spark evaluates IS NULL before it removes the cast.
    """
    if op != "=" and isinstance(comparison, Call) and isinstance(cast, Call):
        return replace(comparison, null_as=cast)
    return comparison


PRESENT = {
    **dict.fromkeys(("now", "current_timestamp"), TIMESTAMP),
    **dict.fromkeys(("curdate", "current_date"), DATE),
    "localtimestamp": DataType("timestamp_ntz"),
}
"""Functions of the present moment, and their types."""

BARE = ("current_date", "current_timestamp")
"""Functions that may be called without parentheses, unless a column has the name."""

_NAMES = (*PRESENT, "unix_timestamp")
_NAMED = re.compile(rf"\b(?:{'|'.join(_NAMES)})\b", re.IGNORECASE)


def micros_now() -> int:
    """Return the microseconds since 1970 in UTC."""
    return time.time_ns() // 1000


def may_ask_for_present(text: str) -> bool:
    """Return whether a predicate may read the present moment; false positives are possible."""
    lowered = text.lower()  # A search for plain texts is quicker by far, and mostly finds none.
    return any(name in lowered for name in _NAMES) and _NAMED.search(text) is not None


def present(type_: DataType) -> Callable[[Builder, Sequence[Expression]], Expression]:
    """Return the builder of the present moment as a constant of a type."""
    return lambda b, _: b.cast(Literal(TIMESTAMP, b.now), type_)
