"""The present moment of a query: `now()`, `current_date` and the like become constants before evaluation.

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
"""Functions of the present moment, and their types."""

BARE = ("current_date", "current_timestamp")
"""Functions that may be called without parentheses, unless a column has the name."""

_ASKED = re.compile(rf"\b(?:{'|'.join((*PRESENT, 'unix_timestamp'))})\b", re.IGNORECASE)


def micros_now() -> int:
    """Return the microseconds since 1970 in UTC."""
    return time.time_ns() // 1000


def may_ask_for_present(text: str) -> bool:
    """Return whether a predicate may read the present moment; false positives are possible."""
    return _ASKED.search(text) is not None


def present(type_: DataType) -> Callable[[Builder, Sequence[Expression]], Expression]:
    """Return the builder of the present moment as a constant of a type."""
    return lambda b, _: b.cast(Literal(TIMESTAMP, b.now), type_)
