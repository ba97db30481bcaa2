"""Arguments of the Python front door: of the type that is meant, else a UsageError that says what is.

Accepted is whatever means the same beyond doubt: numpy's integers, numbers and texts, a path of pathlib, any
iterable of names. A text where names are asked for is refused, since it is a sequence too: of letters.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from tailbit.errors import UsageError
from tailbit.wording import with_article


def wrong_type(name: str, value: Any, wanted: str) -> UsageError:
    """The refusal of an argument that is of another type than `wanted`."""
    shown = repr(value)
    shown = shown if len(shown) <= 80 else f"{shown[:80]}..."
    return UsageError(
        reason=f"{name} is {shown}, of type {type(value).__name__}", hint=f"Give {name} as {wanted}."
    )


def path_text(name: str, value: Any) -> str:
    """A path as text.

    Raises:
        UsageError: neither text nor a path object, or it holds a NUL or what UTF-8 lacks.
    """
    found = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(found, str) or "\0" in found or not _is_utf8(found):
        raise wrong_type(name, value, "a text or a pathlib.Path without NUL, in UTF-8")
    return found


def _is_utf8(value: str) -> bool:
    """Whether UTF-8 can hold a text: it lacks halves of surrogate pairs."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def text(name: str, value: Any) -> str:
    """A text.

    Raises:
        UsageError: it is none.
    """
    if not isinstance(value, str):
        raise wrong_type(name, value, "text")
    return value


def whole(name: str, value: Any, negative: bool = False) -> int:
    """A whole number; a truth value is none.

    Raises:
        UsageError: it is none, or is below zero and may not be `negative`.
    """
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise wrong_type(name, value, "a whole number")
    try:
        found = operator.index(value)
    except TypeError:
        raise wrong_type(name, value, "a whole number") from None
    if found < 0 and not negative:
        raise UsageError(
            reason=f"{name} {found} is below zero", hint=f"Give {with_article(name)} of 0 or more."
        )
    return found


def number(name: str, value: Any) -> float:
    """A number that is no truth value.

    Raises:
        UsageError: it is none.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise wrong_type(name, value, "a number")
    return float(value)


def seconds(name: str, value: Any) -> float:
    """A number of seconds, 0 or more.

    Raises:
        UsageError: it is none.
    """
    found = number(name, value)
    if not found >= 0:
        raise UsageError(reason=f"{name} of {value} s is no time to wait", hint="Give 0 or more seconds.")
    return found


def flag(name: str, value: Any) -> bool:
    """A truth value.

    Raises:
        UsageError: it is none.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise wrong_type(name, value, "True or False")
    return bool(value)


def names(name: str, value: Any) -> list[str]:
    """Names of columns.

    Raises:
        UsageError: not a list or other iterable of texts, or a text alone.
    """
    wanted = "a list of names"
    if isinstance(value, str):
        raise wrong_type(name, value, f"{wanted}: [{value!r}]")
    if not isinstance(value, Iterable) or isinstance(value, (bytes, bytearray, Mapping)):
        raise wrong_type(name, value, wanted)
    try:
        found = list(value)
    except TypeError:
        raise wrong_type(name, value, wanted) from None
    for item in found:
        if not isinstance(item, str):
            raise wrong_type(f"a name in {name}", item, "text")
    return found


def texts_by_name(name: str, value: Any) -> dict[str, str]:
    """Texts by name; none where nothing is given. No value is shown: it may be a secret.

    Raises:
        UsageError: it is no mapping of texts.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UsageError(
            reason=f"{name} is of type {type(value).__name__}", hint=f"Give {name} as {{'NAME': 'value'}}."
        )
    for key, text in value.items():
        if not isinstance(key, str) or not isinstance(text, str):
            reason = f"{name} has {key!r}, whose value is of type {type(text).__name__}"
            raise UsageError(reason=reason, hint=f"Give {name} as {{'NAME': 'value'}}.")
    return dict(value)


def split_names(text: str) -> list[str]:
    """The names in a comma-separated list; a name in backticks may hold a comma.

    >>> split_names("carrier, `air,time`")
    ['carrier', '`air,time`']
    """
    names = [n.strip() for n in re.findall(r"(?:`(?:[^`]|``)*`|[^,`])+", text)]
    return [n for n in names if n]


def function(name: str, value: Any) -> None:
    """Pass if a value can be called.

    Raises:
        UsageError: it cannot.
    """
    if not callable(value):
        raise wrong_type(name, value, "a function")
