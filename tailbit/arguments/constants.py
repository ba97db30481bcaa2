"""Python values as Spark SQL constants, alone and for the parameters of a condition; others are refused.

A parameter is bound as a constant, never parsed as SQL.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from decimal import Decimal
from typing import Any

from tailbit.arguments.values import text, wrong_type
from tailbit.base.errors import UsageError


def constant_text(value: Any, which: str = "value") -> str:
    r"""Return a value as the text of a Spark SQL constant; `which`: the name of the value in errors.

    >>> constant_text("it's"), constant_text(1.5), constant_text(b"a"), constant_text(None)
    ("'it\\'s'", '1.5D', "X'61'", 'NULL')
    """
    make = _BY_TYPE.get(type(value))
    if make is not None:
        return str(make(value))
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = item_of(value, which)
    if value is None:
        return "NULL"
    for kind, make in _CONSTANTS:
        if isinstance(value, kind):
            return str(make(value))
    raise wrong_type(which, value, "a condition, a number, a text, bytes, a date, a datetime, a bool or None")


def each_text(values: Collection[Any], text_of: Callable[[Any], str] = constant_text) -> Iterable[str]:
    """Return what `text_of` returns for each value; the constants of values of one type are quicker made.

    >>> list(each_text([1, 2])), list(each_text([1, None]))
    (['1', '2'], ['1', 'NULL'])
    """
    types = set(map(type, values))
    make = _BY_TYPE.get(types.pop()) if len(types) == 1 else None
    return map(make or text_of, values)


def item_of(value: Any, which: str) -> Any:
    """Return the Python value of a numpy scalar.

    A time in nanoseconds is accepted if it is a whole number of microseconds. For a time that Python cannot
    represent, numpy's `item` returns a plain number.
    """
    if value.dtype.kind not in "mM":
        return value.item()
    micros = value.astype("datetime64[us]") if isinstance(value.item(), int) else value
    item = micros.item()
    if value.dtype.kind == "m" or isinstance(item, int) or (item is not None and micros != value):
        raise wrong_type(which, value, "a time of the years 1 to 9999 in whole microseconds")
    return item


def _text(value: str) -> str:
    inner = text("value", value).replace("\\", "\\\\").replace("'", "\\'")
    # Spark replaces ${x} by a setting, in quotes too, but not across the seam of two adjacent strings.
    return "'" + inner.replace("${", "$' '{") + "'"


def _float(value: float) -> str:
    return f"{value!r}D" if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)"


def _time(value: datetime.datetime) -> str:
    if getattr(value, "nanosecond", 0):  # of pandas
        raise wrong_type("value", value, "a time in whole microseconds")
    if value.tzinfo is None:
        return f"TIMESTAMP_NTZ'{value.isoformat(sep=' ')}'"
    written = value.isoformat(sep=" ")
    if written.endswith("+00:00"):
        return f"TIMESTAMP'{written[:-6]}Z'"
    try:
        instant = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    except OverflowError as wrong:
        raise wrong_type("value", value, "a datetime in the years 1 to 9999 of UTC") from wrong
    return f"TIMESTAMP'{instant.isoformat(sep=' ')}Z'"


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise wrong_type("value", value, "a finite decimal")
    return f"{value:f}BD"


_CONSTANTS: tuple[tuple[type, Any], ...] = (
    (bool, lambda value: str(value).upper()),
    (int, lambda value: str(int(value))),
    (float, _float),
    (Decimal, _decimal),
    (str, _text),
    *((kind, lambda value: f"X'{value.hex()}'") for kind in (bytes, bytearray, memoryview)),
    (datetime.datetime, _time),
    (datetime.date, lambda value: f"DATE'{value.isoformat()}'"),
)

_BY_TYPE: dict[type, Any] = {**dict(_CONSTANTS), int: str}
"""The same for values of just these types, which are most: a list may have thousands."""


_FORMS_OF_PARAMETERS = (
    'a list such as ["DE", 3] for each ?, or a mapping such as {"country": "DE"} for :country'
)


def parameter_texts(params: Any) -> list[str] | dict[str, str]:
    r"""Return the constants of parameters, positional or by name.

    >>> parameter_texts(["it's", -3]), parameter_texts({"n": None})
    (["'it\\'s'", '(-3)'], {'n': 'NULL'})
    """
    if isinstance(params, Mapping):
        for name in params:
            if not isinstance(name, str):
                raise wrong_type("a name in params", name, "text")
        return {name: _constant(f"the value of :{name}", value) for name, value in params.items()}
    if not isinstance(params, (list, tuple)):
        raise wrong_type("params", params, _FORMS_OF_PARAMETERS)
    return [_constant(f"value {number + 1} of params", value) for number, value in enumerate(params)]


def _constant(which: str, value: Any) -> str:
    """Return the text of a constant; a negative number in parentheses, so that no two signs touch."""
    if isinstance(value, (list, tuple, set, frozenset, range)):
        reason = f"{which} is a list: a parameter takes one value"
        raise UsageError(reason=reason, hint="Write a parameter for each value: IN (?, ?).")
    constant = constant_text(value, which)
    return f"({constant})" if constant.startswith("-") else constant
