"""Pieces of split(...), which is an array: one element or its size can be read, but not the array."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailbit.base.lazy import lazy
from tailbit.index.expression.build import Builder
from tailbit.index.functions.tree import Expression
from tailbit.index.sql.syntax.tree import Tree, left, right
from tailbit.index.values.refusals import NotRead

if TYPE_CHECKING:
    from tailbit.index.expression import text_functions
else:
    text_functions = lazy("tailbit.index.expression.text_functions")

_ASKED = {"size": 0, "cardinality": 0, "array_size": 0, "element_at": 1}
"""Functions that may be applied to split(...), with the number of further arguments."""


class PieceReader:
    """Reader of functions of split(...); `arg` reads an operand."""

    def __init__(self, builder: Builder, arg: Callable[[Tree], Expression]) -> None:
        self.builder, self.arg = builder, arg

    def asked(self, name: str, e: Tree) -> Expression | None:
        """Convert a function of split(...) to an expression; None for other functions."""
        split = self._split(e.items[0]) if name in _ASKED and e.items else None
        if split is None:
            return None
        more = [self.arg(arg) for arg in e.items[1:]]
        if len(more) != _ASKED[name]:
            raise NotRead(f"{name} takes {1 + _ASKED[name]} arguments, not {1 + len(more)}")
        if not more:
            return text_functions.pieces(self.builder, split)
        return text_functions.piece(self.builder, split, more[0], "INVALID_ARRAY_INDEX_IN_ELEMENT_AT")

    def element(self, e: Tree) -> Expression | None:
        """Return the expression of split(...)[n]; None for other nodes."""
        split = self._split(left(e))
        return None if split is None else text_functions.piece(self.builder, split, self.arg(right(e)))

    def _split(self, e: Tree) -> list[Expression] | None:
        """Return the arguments of split; None for other nodes."""
        if e.kind != "call" or e.text.lower() != "split":
            return None
        return [self.arg(arg) for arg in e.items]
