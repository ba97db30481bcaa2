"""Conditions built in Python: each is the text of a Spark SQL expression, so that one parser serves both.

`col("dest").isin("SFO", "LAX") & (col("dep_delay") > 60)` builds the text that one would write by hand;
`where` accepts a condition and such a text alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tailbit.arguments.constants import constant_text, each_text
from tailbit.arguments.values import names, text, wrong_type
from tailbit.base.errors import UsageError
from tailbit.base.wording import quoted
from tailbit.tables.schema import name_parts


def _operator(sign: str) -> Callable[[Condition, Any], Condition]:
    """Return the method of an operator of Python's, which joins a condition and what stands behind it."""
    return lambda condition, other: _joined(condition, sign, other)


def _reflected(sign: str) -> Callable[[Condition, Any], Condition]:
    """Return the method of an operator in front of which no condition stands."""
    return lambda condition, other: _joined(other, sign, condition)


class Condition:
    """An expression or condition; `sql` is its text. Operators return new conditions; nothing is evaluated.

    `==` and the other comparisons return conditions, so conditions cannot be compared or used as a bool.

    >>> str((col("dest").isin("SFO", "LAX") & ~(col("dep_delay") > 60)))
    "((`dest` IN ('SFO', 'LAX')) AND (NOT (`dep_delay` > 60)))"
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, sql: str) -> None:
        self.sql = text("sql", sql)
        self._operand = f"({sql})"
        self._chain: tuple[str, str] | None = None

    def __str__(self) -> str:
        return self.sql

    def __repr__(self) -> str:
        return f"Condition({self.sql!r})"

    def __bool__(self) -> bool:
        raise UsageError(reason="a condition is no truth of Python's", hint="Join conditions with & | and ~.")

    __eq__ = _operator("=")  # type: ignore[assignment]
    __ne__ = _operator("<>")  # type: ignore[assignment]
    __lt__, __le__ = _operator("<"), _operator("<=")
    __gt__, __ge__ = _operator(">"), _operator(">=")
    __and__, __rand__ = _operator("AND"), _reflected("AND")
    __or__, __ror__ = _operator("OR"), _reflected("OR")
    __add__, __radd__ = _operator("+"), _reflected("+")
    __sub__, __rsub__ = _operator("-"), _reflected("-")
    __mul__, __rmul__ = _operator("*"), _reflected("*")
    __truediv__, __rtruediv__ = _operator("/"), _reflected("/")
    __mod__, __rmod__ = _operator("%"), _reflected("%")

    def __invert__(self) -> Condition:
        return _as_operand(f"(NOT {self._operand})")

    def __neg__(self) -> Condition:
        return _as_operand(f"(- {self._operand})")

    def same_as(self, other: Any) -> Condition:
        """Compare with `<=>`: TRUE if both are equal or both are NULL.

        >>> flights.where(col("carrier").same_as(None)).count()
        1
        """
        return _joined(self, "<=>", other)

    def isin(self, *values: Any) -> Condition:
        """Test membership with IN; the values are arguments or one iterable. An empty list has no members.

        >>> flights.where(col("dest").isin("SFO", "ORD")).count(), flights.where(col("dest").isin([])).count()
        (5, 0)
        """
        if len(values) == 1 and isinstance(values[0], Iterable) and not isinstance(values[0], (str, bytes)):
            given: Any = values[0]
            values = (given[()],) if getattr(given, "ndim", 1) == 0 else tuple(given)
        listed = ", ".join(each_text(values, sql_of))
        return _as_operand(f"({self._operand} IN ({listed}))" if listed else "FALSE")

    def between(self, low: Any, high: Any) -> Condition:
        """Test with BETWEEN whether the value lies between two bounds, both included.

        >>> flights.where(col("dep_delay").between(0, 60)).count()
        3
        """
        return _as_operand(f"({self._operand} BETWEEN {sql_of(low)} AND {sql_of(high)})")

    def like(self, pattern: str, escape: str | None = None) -> Condition:
        """Match with LIKE against a pattern of `%` and `_`.

        >>> dest = col("dest")
        >>> [flights.where(c).count() for c in (dest.like("%O"), dest.ilike("sf_"), dest.rlike("^[LO]"))]
        [3, 3, 5]
        """
        return self._like("LIKE", pattern, escape)

    def ilike(self, pattern: str, escape: str | None = None) -> Condition:
        """Match with ILIKE: as LIKE, regardless of case."""
        return self._like("ILIKE", pattern, escape)

    def _like(self, word: str, pattern: str, escape: str | None) -> Condition:
        end = "" if escape is None else f" ESCAPE {sql_of(text('escape', escape))}"
        return _as_operand(f"({self._operand} {word} {sql_of(text('pattern', pattern))}{end})")

    def rlike(self, pattern: str) -> Condition:
        """Match with RLIKE: TRUE if the regular expression matches a part of the text."""
        return _as_operand(f"({self._operand} RLIKE {sql_of(text('pattern', pattern))})")

    def startswith(self, part: Any) -> Condition:
        """Test whether the text starts with another.

        >>> dest = col("dest")
        >>> [flights.where(c).count() for c in (dest.startswith("S"), dest.endswith("X"), dest.contains("R"))]
        [3, 3, 2]
        """
        return call("startswith", self, part)

    def endswith(self, part: Any) -> Condition:
        """Test whether the text ends with another."""
        return call("endswith", self, part)

    def contains(self, part: Any) -> Condition:
        """Test whether the text contains another."""
        return call("contains", self, part)

    def is_null(self) -> Condition:
        """Test with IS NULL.

        >>> carrier = col("carrier")
        >>> flights.where(carrier.is_null()).count(), flights.where(carrier.is_not_null()).count()
        (1, 7)
        """
        return _as_operand(f"({self._operand} IS NULL)")

    def is_not_null(self) -> Condition:
        """Test with IS NOT NULL."""
        return _as_operand(f"({self._operand} IS NOT NULL)")

    def is_true(self) -> Condition:
        """Test with IS TRUE: FALSE if the condition is NULL.

        >>> late = col("dep_delay") > 0
        >>> [flights.where(c).count() for c in (late.is_true(), late.is_false(), ~late.is_true())]
        [4, 3, 4]
        """
        return _as_operand(f"({self._operand} IS TRUE)")

    def is_false(self) -> Condition:
        """Test with IS FALSE: FALSE if the condition is NULL."""
        return _as_operand(f"({self._operand} IS FALSE)")

    def cast(self, to: str) -> Condition:
        """Convert the value to another type, such as "int"; raises for a value that does not fit.

        >>> flights.where(col("flight").cast("string") == "7").count()
        1
        >>> flights.where(col("dest").try_cast("int").is_null()).count()
        8
        """
        return _as_operand(f"CAST({self._operand} AS {text('to', to)})")

    def try_cast(self, to: str) -> Condition:
        """Convert the value to another type; NULL if the value does not fit."""
        return _as_operand(f"TRY_CAST({self._operand} AS {text('to', to)})")


def _as_operand(sql: str) -> Condition:
    """Return a condition whose text is already one operand, so no parentheses are added."""
    condition = Condition(sql)
    condition._operand = sql
    return condition


def col(name: str) -> Condition:
    """Return a column by name: a nested one as "address.city", a name with a dot in backticks.

    >>> str(col("address.city") == "Oslo")
    "(`address`.`city` = 'Oslo')"
    """
    path = name_parts(text("name", name))
    return _as_operand(quoted(*path))


def call(function: str, *args: Any) -> Condition:
    """Call a function of `docs/functions.md` by its Spark name.

    >>> str(call("year", col("day")) == 2013)
    '(year(`day`) = 2013)'
    """
    if not text("function", function).isidentifier():
        raise UsageError(
            reason=f"{function!r} is not the name of a function", hint="Give a name such as upper."
        )
    return _as_operand(f"{function}({', '.join(sql_of(arg) for arg in args)})")


def _joined(operand: Any, sign: str, other: Any) -> Condition:
    """Join two operands by an operator; chains of AND and of OR stay flat, however long they become."""
    chain = f"{_linked(operand, sign)} {sign} {_linked(other, sign)}"
    condition = _as_operand(f"({chain})")
    condition._chain = (sign, chain) if sign in ("AND", "OR") else None
    return condition


def _linked(value: Any, sign: str) -> str:
    """Return an operand of a chain; an operand that is a chain of the same operator loses its parentheses."""
    chain = value._chain if isinstance(value, Condition) else None
    return chain[1] if chain is not None and chain[0] == sign else sql_of(value)


def sql_of(value: Any) -> str:
    """Return the text of a condition, or of a Python value as a Spark SQL constant.

    Raises:
        UsageError: a value that is no constant.
    """
    return value._operand if isinstance(value, Condition) else constant_text(value)


def expression_texts(name: str, values: Any) -> list[str]:
    """Return the texts of a list of names and expressions; each is given as `condition_text` takes it.

    Raises:
        UsageError: not a list of these, or a text alone.
    """
    if isinstance(values, (list, tuple)):
        values = [value.sql if isinstance(value, Condition) else value for value in values]
    return names(name, values)


def condition_text(name: str, value: Any) -> str:
    """Return the text of a condition given as text or as a `Condition`.

    Raises:
        UsageError: the value is neither.
    """
    if isinstance(value, Condition):
        return value.sql
    if not isinstance(value, str):
        raise wrong_type(name, value, 'text, such as "a > 1 AND b IS NULL", or build it with tailbit.col')
    return value
