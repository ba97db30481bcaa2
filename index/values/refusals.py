"""Reasons for refusing a cast of a value: the value is malformed, or the cast is unsupported."""

from __future__ import annotations

from tailbit.base.wording import with_article
from tailbit.index.values.literals import Literal
from tailbit.tables.model import DataType

_SHOWN = 80
"""Limit of characters of a text in an error."""


class NotRead(Exception):
    """An expression that Spark refuses, or that is unsupported here.

    Carries the reason and what to write instead.
    """

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.hint = hint


class Unsupported(ValueError):
    """A value that Spark may read but is unsupported here: it is neither malformed nor NULL in TRY_CAST."""


class SparkRaises(ValueError):
    """An error that Spark raises, too, with its error class."""

    def __init__(self, reason: str, error: str) -> None:
        super().__init__(f"{reason} ({error} in Spark)")
        self.reason, self.error = reason, error


def mismatch(reason: str, kind: str = "") -> str:
    """Return a reason with Spark's error class for mismatched types; `kind`: its subclass."""
    return f"{reason} (DATATYPE_MISMATCH{'.' if kind else ''}{kind} in Spark)"


def instead_of_numbers(op: str, kinds: set[str]) -> str:
    """Return the hint for arithmetic with operands that are no numbers, given the names of their types."""
    if not kinds & {"date", "timestamp", "timestamp_ntz"}:
        return "CAST both to numbers."
    if kinds == {"timestamp"} and op == "-":
        return "Write unix_micros(a) - unix_micros(b), or compare it with an interval."
    if kinds <= {"timestamp", "timestamp_ntz"} and op == "-":
        return "Compare it with an interval: a - b > INTERVAL 1 HOUR."
    return "Write x + INTERVAL 1 DAY; unix_date of a date and unix_micros of a timestamp are numbers."


def cut(text: str) -> str:
    """Shorten a text for an error."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def refused(literal: Literal, to: DataType) -> Unsupported:
    """Return the error of an unsupported cast between two types."""
    return Unsupported(f"a cast from {literal.type.sql} to {to.sql} is not supported")


def unread(text: str, to: DataType) -> Unsupported:
    """Return the error for a text that Spark may read but is unsupported here."""
    return Unsupported(f"{cut(text)!r} as {with_article(to.sql)} is not supported")


def malformed(text: str, to: DataType) -> SparkRaises:
    """Return the error for a text that Spark cannot parse either."""
    return SparkRaises(f"{cut(text)!r} is not {with_article(to.sql)}", "CAST_INVALID_INPUT")


def out_of_range(shown: object, to: DataType, error: str) -> SparkRaises:
    """Return the error for a value that a type cannot hold."""
    return SparkRaises(f"{shown} is out of the range of {to.sql}", error)
