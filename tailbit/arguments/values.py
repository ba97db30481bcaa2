"""Checks of the arguments of the Python front door; a UsageError names the type that an argument must have.

Equivalents are accepted: numpy's integers, numbers and texts, a pathlib path, any iterable of names. A single
text is refused as a list of names, although it is a sequence: of letters. Times become milliseconds
since 1970.
"""

from __future__ import annotations

import datetime
import operator
import os
import re
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from tailbit.base.errors import UsageError
from tailbit.base.wording import with_article
from tailbit.tables.zones import same_zone


def wrong_type(name: str, value: Any, expected: str) -> UsageError:
    """Return the error for an argument of the wrong type; `expected`: the right type in words."""
    shown = repr(value)
    shown = shown if len(shown) <= 80 else f"{shown[:80]}..."
    return UsageError(
        reason=f"{name} is {shown}, of type {type(value).__name__}", hint=f"Give {name} as {expected}."
    )


def path_text(name: str, value: Any) -> str:
    """Return a path as text.

    Raises:
        UsageError: neither text nor a path object, or text with a NUL or a lone surrogate.
    """
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or "\0" in text or not _is_utf8(text):
        raise wrong_type(name, value, "a text or a pathlib.Path without NUL, in UTF-8")
    return text


def _is_utf8(value: str) -> bool:
    """Return whether UTF-8 can encode a text: it cannot encode lone surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def text(name: str, value: Any) -> str:
    """Return a text.

    Raises:
        UsageError: the value is no text.
    """
    if not isinstance(value, str):
        raise wrong_type(name, value, "text")
    return value


def whole(name: str, value: Any, negative: bool = False) -> int:
    """Return an integer; a bool is refused.

    Raises:
        UsageError: the value is no integer, or is negative and `negative` is False.
    """
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise wrong_type(name, value, "a whole number")
    try:
        integer = operator.index(value)
    except TypeError:
        raise wrong_type(name, value, "a whole number") from None
    if integer < 0 and not negative:
        raise UsageError(
            reason=f"{name} {integer} is below zero", hint=f"Give {with_article(name)} of 0 or more."
        )
    return integer


def number(name: str, value: Any) -> float:
    """Return a number; a bool is refused.

    Raises:
        UsageError: the value is no number.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise wrong_type(name, value, "a number")
    return float(value)


def seconds(name: str, value: Any) -> float:
    """Return a number of seconds, 0 or more.

    Raises:
        UsageError: the value is no such number.
    """
    duration = number(name, value)
    if not duration >= 0:
        raise UsageError(reason=f"{name} of {value} s is no time to wait", hint="Give 0 or more seconds.")
    return duration


def flag(name: str, value: Any) -> bool:
    """Return a bool.

    Raises:
        UsageError: the value is no bool.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise wrong_type(name, value, "True or False")
    return bool(value)


def names(name: str, value: Any) -> list[str]:
    """Return a list of column names.

    Raises:
        UsageError: not a list or other iterable of texts, or a text alone.
    """
    expected = "a list of names"
    if isinstance(value, str):
        raise wrong_type(name, value, f"{expected}: [{value!r}]")
    if not isinstance(value, Iterable) or isinstance(value, (bytes, bytearray, Mapping)):
        raise wrong_type(name, value, expected)
    try:
        listed = list(value)
    except TypeError:
        raise wrong_type(name, value, expected) from None
    for item in listed:
        if not isinstance(item, str):
            raise wrong_type(f"a name in {name}", item, "text")
    return listed


def texts_by_name(name: str, value: Any) -> dict[str, str]:
    """Return texts by name, empty if nothing is given. Values are never shown: they may be secrets.

    Raises:
        UsageError: the value is no mapping of texts.
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


_PIECE = r"""`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|."""


def split_names(text: str) -> list[str]:
    """Return the names and expressions in a comma-separated list.

    A comma in backticks, quotes or parentheses splits nothing; where parentheses do not match, each comma
    outside of backticks and quotes splits.

    >>> split_names("carrier, `air,time`, concat(dest, ', ', carrier)")
    ['carrier', '`air,time`', "concat(dest, ', ', carrier)"]
    """
    pieces = re.findall(_PIECE, text, re.DOTALL)
    matched = pieces.count("(") == pieces.count(")")
    names, depth = [""], 0
    for piece in pieces:
        depth += matched * ((piece == "(") - (piece == ")"))
        if piece == "," and depth <= 0:
            names.append("")
        else:
            names[-1] += piece
    return [name.strip() for name in names if name.strip()]


def function(name: str, value: Any) -> None:
    """Check that a value can be called.

    Raises:
        UsageError: the value cannot be called.
    """
    if not callable(value):
        raise wrong_type(name, value, "a function")


def known_zone(name: str, zone: str) -> str:
    """Check that a time zone exists; return its name, the same name for all zones of one fixed offset.

    Raises:
        UsageError: there is no such zone, or it is no text.
    """
    try:
        return same_zone(text(name, zone))
    except ValueError as unknown:
        raise UsageError(
            reason=f"there is no time zone {zone!r}", hint="Name it like UTC, +01:00 or Europe/Paris."
        ) from unknown


def to_millis(when: datetime.date | str, zone: str = "UTC") -> int:
    """Return a time as milliseconds since 1970; text is ISO 8601, a date is its midnight.

    A time without an offset is in `zone`.

    >>> to_millis("1970-01-02"), to_millis("1970-01-01T01:00:00.5+01:00")
    (86400000, 500)

    Raises:
        UsageError: the text is not a time, or there is no such zone.
    """
    from tailbit.tables.partition_values import parse_micros

    known_zone("zone", zone)
    if not isinstance(when, (datetime.date, str)):
        raise wrong_type("as_of", when, "a datetime, a date or text like 2026-01-31T12:00:00")
    try:
        if isinstance(when, datetime.datetime) and when.tzinfo is not None:
            return int(when.timestamp() * 1000)
        when = when if isinstance(when, str) else when.isoformat()
        return parse_micros(when, zone) // 1000
    except ValueError as wrong:
        raise UsageError(
            reason=f"{when!r} is not a time",
            hint="Write it like 2026-01-31T12:00:00 or 2026-01-31; without it, the newest version is asked.",
        ) from wrong
