"""Pruning of units of rows, files or row groups alike, by bounds of columns and partition values.

For each unit: may one of its rows make a predicate TRUE, and do surely all of them? Each node of the tree
costs one vector operation over all units; subclasses judge the leaves, by the bounds that they have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from tailbit.base.arrays import Mask
from tailbit.index.predicate.computed import Computed
from tailbit.index.predicate.tree import And, Constant, Leaf, Node, Or


class Pruning(ABC):
    """A predicate judged for `units` units without reading them; a node is judged once."""

    def __init__(self, units: int) -> None:
        self.units = units
        self._may: dict[int, Mask] = {}
        self._all: dict[int, Mask] = {}

    @abstractmethod
    def leaf_may(self, leaf: Leaf) -> Mask:
        """Return, per unit, whether a row may make a leaf TRUE; the column is no partition column."""

    def leaf_all(self, leaf: Leaf) -> Mask:
        """Return, per unit, whether all rows surely make a leaf TRUE; by default, for no unit."""
        return self.every(False)

    @abstractmethod
    def partition(self, node: Leaf | Computed) -> tuple[Mask, Mask]:
        """Return, per unit, whether a condition on a partition column is TRUE, and whether it raises."""

    def every(self, value: bool) -> Mask:
        """Return a mask with one value for all units."""
        return np.full(self.units, value)

    def may(self, node: Node) -> Mask:
        """Return, per unit, whether one of its rows may make a node TRUE; True when in doubt."""
        if id(node) not in self._may:
            self._may[id(node)] = self._may_be(node)
        return self._may[id(node)]

    def all(self, node: Node) -> Mask:
        """Return, per unit, whether all of its rows surely make a node TRUE; False when in doubt."""
        if id(node) not in self._all:
            self._all[id(node)] = self._surely(node)
        return self._all[id(node)]

    def _may_be(self, node: Node) -> Mask:
        if isinstance(node, (And, Or)):
            join = np.logical_and if isinstance(node, And) else np.logical_or
            return np.asarray(join.reduce([self.may(child) for child in node.children]), dtype=bool)
        if isinstance(node, Constant):
            return self.every(node.value is True)
        if isinstance(node, (Leaf, Computed)) and node.column is not None and node.column.partition:
            true, raises = self.partition(node)
            return true | raises
        return self.leaf_may(node) if isinstance(node, Leaf) else self.every(True)

    def _surely(self, node: Node) -> Mask:
        if isinstance(node, (And, Or)):
            join = np.logical_and if isinstance(node, And) else np.logical_or
            return np.asarray(join.reduce([self.all(child) for child in node.children]), dtype=bool)
        if isinstance(node, Constant):
            return self.every(node.value is True)
        if isinstance(node, (Leaf, Computed)) and node.column is not None and node.column.partition:
            return self.partition(node)[0]
        return self.leaf_all(node) if isinstance(node, Leaf) else self.every(False)
