"""Times beside intervals: what an interval moves, and differences of times that are compared with one."""

from __future__ import annotations

from collections.abc import Callable

from tailbit.index.expression.build import Builder
from tailbit.index.expression.folded import NotRead
from tailbit.index.expression.times import difference, later
from tailbit.index.functions.tree import Expression
from tailbit.index.sql.operands import OperandReader, Tree, bare
from tailbit.index.values.coercion import MIRRORED
from tailbit.index.values.literals import LONG, Literal
from tailbit.index.values.refusals import mismatch


class IntervalReader:
    """Reads the operators of which one side is an interval; `arg` reads an operand."""

    def __init__(self, operands: OperandReader, builder: Builder, arg: Callable[[Tree], Expression]) -> None:
        self.operands, self.builder, self.arg = operands, builder, arg

    def moved(self, op: str, e: Tree) -> Expression | None:
        """A date or time plus an interval, or minus it; None where there is no interval."""
        if op not in "+-":
            return None
        if (span := self.operands.interval(e.expression)) is not None:
            span = span if op == "+" else span.negative()
            return later(self.builder, self.arg(e.this), span.unit, span.count)
        if op == "+" and (span := self.operands.interval(e.this)) is not None:
            return later(self.builder, self.arg(e.expression), span.unit, span.count)
        return None

    def compares(self, e: Tree) -> bool:
        """Whether a comparison is one of a difference with an interval."""
        sides = bare(e.this), bare(e.expression)
        return any(
            type(one).__name__ == "Sub" and self.operands.interval(other) is not None
            for one, other in (sides, sides[::-1])
        )

    def compared(self, op: str, e: Tree) -> Expression:
        """A difference of two times compared with an interval."""
        difference_of, span = bare(e.this), self.operands.interval(e.expression)
        if span is None:
            difference_of, span, op = bare(e.expression), self.operands.interval(e.this), MIRRORED.get(op, op)
        assert span is not None
        found = difference(self.builder, self.arg(difference_of.this), self.arg(difference_of.expression))
        if span.micros is None:
            reason = "a difference of times does not compare with an INTERVAL of months"
            raise NotRead(mismatch(reason, "BINARY_OP_DIFF_TYPES"), "Write it in days.")
        wanted = Literal(LONG, span.micros)
        if op == "IS DISTINCT FROM":
            return self.builder.negate(self.builder.compare("<=>", found, wanted))
        return self.builder.compare(op, found, wanted)
