"""Names, fields, elements and lambda expressions over elements, read from the parsed tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tailbit.base.errors import UnknownColumnError
from tailbit.base.lazy import lazy
from tailbit.index.expression.build import Builder
from tailbit.index.expression.present import BARE
from tailbit.index.functions.tree import Expression, Ref
from tailbit.index.sql.operands import OperandReader
from tailbit.index.sql.syntax.tree import Tree, left, right
from tailbit.index.values.literals import STRING, Literal
from tailbit.index.values.refusals import NotRead

if TYPE_CHECKING:
    from tailbit.index.expression import calls, nested
else:
    calls = lazy("tailbit.index.expression.calls")
    nested = lazy("tailbit.index.expression.nested")


class NestedReader:
    """Reader of names and of parts of arrays, maps and structs; `read` reads any expression.

    `elements`: the element variables of the lambdas around an expression, the innermost last.
    """

    def __init__(self, operands: OperandReader, builder: Builder, read: Callable[[Tree], Expression]) -> None:
        self.operands, self.builder, self.read = operands, builder, read
        self.elements: list[Ref] = []

    def named(self, e: Tree) -> Expression:
        """Return the lambda element or column that a name means, or the part of it that the name leads to.

        A name such as `current_date` that no column has is the present moment.
        """
        if e.first is not None:
            return self._inside(self.read(e.first), e.names)
        for element in reversed(self.elements):
            if element.column.name[0].lower() == e.names[0].lower():
                return self._inside(element, e.names[1:])
        try:
            column, rest = self.operands.column(e)
        except UnknownColumnError:
            if len(e.names) > 1 or e.names[0].lower() not in BARE:
                raise
            return calls.function(self.builder, e.names[0].lower(), [])
        return self._inside(Ref(column), rest)

    def _inside(self, value: Expression, names: Sequence[str]) -> Expression:
        for name in names:
            value = nested.extracted(self.builder, value, Literal(STRING, name.encode(), True))
        return value

    def element(self, e: Tree) -> Expression:
        """Return `value[key]`."""
        return nested.extracted(self.builder, self.read(left(e)), self.read(right(e)))

    def over_elements(self, name: str, e: Tree) -> Expression:
        """Return `exists(array, x -> condition)` or `forall`."""
        if len(e.items) != 2 or e.items[1].kind != "lambda":
            hint = f"Write {name}(a, x -> x > 1)."
            raise NotRead(f"{name} takes an array and a condition on its elements", hint)
        condition = e.items[1]
        if len(condition.names) != 1:
            reason = f"{name} takes a condition on one element (INVALID_LAMBDA_FUNCTION_CALL in Spark)"
            raise NotRead(reason, f"Write {name}(a, x -> x > 1).")
        array = self.read(e.items[0])
        element = nested.variable(condition.names[0], len(self.elements), nested.element_of(name, array))
        self.elements.append(element)
        try:
            body = self.read(left(condition))
        finally:
            self.elements.pop()
        return nested.over_elements(self.builder, name, array, element, body)
