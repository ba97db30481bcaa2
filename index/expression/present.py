"""The moment of a question: `now()`, `current_date` and their like become constants before all else.

Source: Spark 4.2, ComputeCurrentTime, LiteralFunctionResolution.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

from tailbit.index.expression.build import Builder
from tailbit.index.functions.tree import Expression
from tailbit.index.values.literals import DATE, TIMESTAMP, Literal
from tailbit.tables.model import DataType

PRESENT = {
    **dict.fromkeys(("now", "current_timestamp"), TIMESTAMP),
    **dict.fromkeys(("curdate", "current_date"), DATE),
    "localtimestamp": DataType("timestamp_ntz"),
}
"""The functions of the moment of a question, and their types."""

BARE = ("current_date", "current_timestamp")
"""Those that may be called without parentheses, where no column has the name."""

_ASKED = re.compile(rf"\b(?:{'|'.join((*PRESENT, 'unix_timestamp'))})\b", re.IGNORECASE)


def micros_now() -> int:
    """Microseconds since 1970 in UTC."""
    return time.time_ns() // 1000


def may_ask_for_present(text: str) -> bool:
    """Whether a predicate may ask for its moment; one that holds such a name elsewhere may, too."""
    return _ASKED.search(text) is not None


def present(type_: DataType) -> Callable[[Builder, Sequence[Expression]], Expression]:
    """What makes the constant of a type that the moment is."""
    return lambda b, _: b.cast(Literal(TIMESTAMP, b.now), type_)
