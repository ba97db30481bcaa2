"""Walks over the graph of a bound predicate: its nodes, the shared nodes, and the columns they read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tailbit.index.predicate.tree import And, Compare, Computed, Leaf, Node, Or
from tailbit.tables.model import Column


def columns_of(node: Node) -> tuple[Column, ...]:
    """Return the columns a predicate reads, each once, in order of appearance; cached per node."""
    if not isinstance(node, (And, Or)):
        return _columns(node)
    if node.forms.columns is None:
        node.forms.columns = _columns(node)
    return node.forms.columns


def _columns(node: Node) -> tuple[Column, ...]:
    columns: dict[str, Column] = {}
    for leaf in nodes_of(node):
        if isinstance(leaf, Leaf):
            columns.setdefault(leaf.column.id, leaf.column)
        elif isinstance(leaf, Compare):
            columns.setdefault(leaf.left.id, leaf.left)
            columns.setdefault(leaf.right.id, leaf.right)
        elif isinstance(leaf, Computed):
            columns.update({c.id: c for c in leaf.columns if c.id not in columns})
    return tuple(columns.values())


def shared_in(node: Node) -> frozenset[int]:
    """Return the identities of the ANDs and ORs below a node that have several parents; cached per node."""
    if not isinstance(node, (And, Or)):
        return frozenset()
    if node.forms.shared is None:
        parents = Counter(
            id(child)
            for parent in nodes_of(node)
            if isinstance(parent, (And, Or))
            for child in parent.children
            if isinstance(child, (And, Or))
        )
        node.forms.shared = frozenset(child for child, count in parents.items() if count > 1)
    return node.forms.shared


def depth_of(node: Node, known: dict[int, int] | None = None) -> int:
    """Return the number of levels of AND and OR, which bounds the recursion depth of walks."""
    known = {} if known is None else known
    if isinstance(node, (And, Or)) and id(node) not in known:
        known[id(node)] = 1 + max([depth_of(child, known) for child in node.children])
    return known.get(id(node), 0)


def nodes_of(node: Node) -> Iterable[Node]:
    """Yield all nodes, each object once, in order of appearance."""
    seen: set[int] = set()
    rest = [node]
    while rest:
        at = rest.pop()
        if id(at) in seen:
            continue
        seen.add(id(at))
        yield at
        if isinstance(at, (And, Or)):
            rest.extend(reversed(at.children))
