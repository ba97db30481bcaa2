"""Python values for the parameters of a condition: each is bound as a constant, never parsed as SQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tailbit.arguments.constants import constant_text
from tailbit.arguments.values import wrong_type
from tailbit.base.errors import UsageError

_FORMS_OF_PARAMETERS = (
    'a list such as ["DE", 3] for each ?, or a mapping such as {"country": "DE"} for :country'
)


def parameter_texts(params: Any) -> list[str] | dict[str, str]:
    r"""Return the constants of parameters, positional or by name.

    Raises:
        UsageError: neither a list nor a mapping, or a value that is no constant.

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
