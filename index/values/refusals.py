"""Why a cast of a value is refused: the value is malformed, or the cast is not done here."""

from __future__ import annotations

from tailbit.index.values.literals import Literal
from tailbit.tables.model import DataType
from tailbit.wording import with_article

_SHOWN = 80
"""Characters of a text that an error shows."""


class Unsupported(ValueError):
    """What Spark may read and is not read here: it must pass neither for malformed nor, tried, for NULL."""


class SparkRaises(ValueError):
    """What Spark raises, too; carries its error class."""

    def __init__(self, reason: str, error: str) -> None:
        super().__init__(f"{reason} ({error} in Spark)")
        self.reason, self.error = reason, error


def mismatch(reason: str, kind: str = "") -> str:
    """A reason with the error class that Spark has for types that do not fit; `kind`: which of them."""
    return f"{reason} (DATATYPE_MISMATCH{'.' if kind else ''}{kind} in Spark)"


def instead_of_numbers(op: str, kinds: set[str]) -> str:
    """What to write in place of arithmetic with operands that are no numbers; their types by name."""
    if not kinds & {"date", "timestamp", "timestamp_ntz"}:
        return "CAST both to numbers."
    if kinds == {"timestamp"} and op == "-":
        return "Write unix_micros(a) - unix_micros(b), or compare it with an interval."
    if kinds <= {"timestamp", "timestamp_ntz"} and op == "-":
        return "Compare it with an interval: a - b > INTERVAL 1 HOUR."
    return "Write x + INTERVAL 1 DAY; unix_date of a date and unix_micros of a timestamp are numbers."


def cut(text: str) -> str:
    """A text as an error shows it."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def refused(literal: Literal, to: DataType) -> Unsupported:
    """A cast between two types."""
    return Unsupported(f"a cast from {literal.type} to {to} is not supported")


def unread(text: str, to: DataType) -> Unsupported:
    """A text that Spark may read, and that is not read here."""
    return Unsupported(f"{cut(text)!r} as {with_article(to)} is not supported")


def malformed(text: str, to: DataType) -> SparkRaises:
    """A text that Spark does not read."""
    return SparkRaises(f"{cut(text)!r} is not {with_article(to)}", "CAST_INVALID_INPUT")


def out_of_range(shown: object, to: DataType, error: str) -> SparkRaises:
    """A value that a type cannot hold."""
    return SparkRaises(f"{shown} is out of the range of {to}", error)
