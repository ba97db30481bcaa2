"""Interval arithmetic: times plus intervals, differences compared with an interval, and units as words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailbit.base.lazy import lazy
from tailbit.index.expression.build import Builder
from tailbit.index.functions.tree import Expression
from tailbit.index.sql.operands import OperandReader, bare
from tailbit.index.sql.syntax.tree import Tree, left, right
from tailbit.index.values.coercion import MIRRORED
from tailbit.index.values.literals import LONG, WHOLE, Literal
from tailbit.index.values.refusals import NotRead, mismatch

if TYPE_CHECKING:
    from tailbit.index.expression import times
    from tailbit.index.sql import spans
else:
    times = lazy("tailbit.index.expression.times")
    spans = lazy("tailbit.index.sql.spans")

_MOVED, _BETWEEN = ("dateadd", "date_add", "timestampadd"), ("datediff", "date_diff", "timestampdiff")
_WITH_UNIT = 3
"""Number of arguments of these functions with a leading unit: `dateadd(DAY, 7, dt)`."""


class IntervalReader:
    """Reader of operators with an interval on one side; `arg` reads an operand."""

    def __init__(self, operands: OperandReader, builder: Builder, arg: Callable[[Tree], Expression]) -> None:
        self.operands, self.builder, self.arg = operands, builder, arg

    def moved(self, op: str, e: Tree) -> Expression | None:
        """Return a date or time plus or minus an interval; None if there is no interval."""
        if op not in "+-":
            return None
        if (span := self.operands.interval(right(e))) is not None:
            span = span if op == "+" else span.negative()
            return times.later(self.builder, self.arg(left(e)), span.unit, span.count)
        if op == "+" and (span := self.operands.interval(left(e))) is not None:
            return times.later(self.builder, self.arg(right(e)), span.unit, span.count)
        return None

    def compares(self, e: Tree) -> bool:
        """Return whether a comparison compares a difference with an interval."""
        sides = bare(left(e)), bare(right(e))
        return any(
            side.text == "-" and side.kind == "arithmetic" and self.operands.interval(other) is not None
            for side, other in (sides, sides[::-1])
        )

    def compared(self, e: Tree) -> Expression:
        """Compare a difference of two times with an interval."""
        subtraction, span, op = bare(left(e)), self.operands.interval(right(e)), e.text
        if span is None:
            subtraction, span, op = bare(right(e)), self.operands.interval(left(e)), MIRRORED.get(op, op)
        assert span is not None
        apart = times.difference(self.builder, self.arg(left(subtraction)), self.arg(right(subtraction)))
        if span.micros is None:
            reason = "a difference of times does not compare with an INTERVAL of months"
            raise NotRead(mismatch(reason, "BINARY_OP_DIFF_TYPES"), "Write it in days.")
        wanted = Literal(LONG, span.micros)
        return self.builder.compare(op, apart, wanted)

    def takes_unit(self, name: str, e: Tree) -> bool:
        """Return whether a call starts with a unit of time, as `dateadd(DAY, 7, dt)` does."""
        counted = len(e.items) == _WITH_UNIT or name.startswith("timestamp")
        return counted and name in (*_MOVED, *_BETWEEN)

    def by_unit(self, name: str, e: Tree) -> Expression:
        """Return a time moved by a number of units, or the whole units between two times.

        Source: Spark 4.2, TimestampAdd and TimestampDiff.
        """
        if len(e.items) != _WITH_UNIT:
            raise NotRead(f"{name} takes {_WITH_UNIT} arguments, not {len(e.items)}")
        unit, first, second = e.items
        word = unit.names[0].upper() if unit.kind == "column" and len(unit.names) == 1 else ""
        if spans.length_of(word, 1) is None or (word == "DAYOFYEAR" and name in _BETWEEN):
            hint = "Units: YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND, MILLISECOND, MICROSECOND."
            self.operands.refuse(f"{name} takes a unit of time first", unit, hint)
        if name in _BETWEEN:
            return times.units_between(self.builder, word, self.arg(first), self.arg(second))
        count, value = self.arg(first), self.arg(second)
        if not isinstance(count, Literal) or count.type.name not in WHOLE or not isinstance(count.value, int):
            self.operands.refuse(f"{name} takes a constant number of units", first)
        length = spans.length_of(word, count.value)
        assert length is not None
        return times.later_by_unit(self.builder, value, length.unit, length.count)
