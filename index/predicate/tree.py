"""The tree of a bound predicate, NOT pushed to its leaves, so that only "where TRUE" is ever asked.

A leaf is a condition on one column as two sets of values, where it is TRUE and where it is FALSE; for every
other value it is NULL. A condition that value sets do not express is computed
(`tailbit.index.predicate.computed`). Conditions on one column under one AND or OR are one leaf. Spark's
three-valued logic is whole in these rules: AND, OR and NOT by De Morgan, and IS TRUE / FALSE / NULL of any
condition by making its leaves two-valued.

IS NULL asks where its condition is TRUE and where it is FALSE, so it holds the condition twice. The tree is
therefore a graph: each node is negated and made two-valued once, and a part that occurs twice is one object.
Whoever walks a graph visits each object once (`tailbit.index.predicate.tree`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import TYPE_CHECKING

from tailbit.base.dataclass import dataclass
from tailbit.base.lazy import lazy
from tailbit.index.keys import Value
from tailbit.index.predicate.computed import Computed
from tailbit.index.predicate.value_sets import VALUES, Interval, ValueSet, beyond_prefix
from tailbit.tables.model import Column

if TYPE_CHECKING:
    from tailbit.index.functions import patterns
else:
    patterns = lazy("tailbit.index.functions.patterns")


@dataclass(slots=True)
class Forms:
    """Nodes derived from a node, cached. `true` of a two-valued node is the node itself."""

    negated: Node | None = None
    true: Node | None = None
    null: Node | None = None
    shared: frozenset[int] | None = None
    columns: tuple[Column, ...] | None = None
    guards: object = None


@dataclass(frozen=True, slots=True)
class And:
    """TRUE where every child is TRUE."""

    children: tuple[Node, ...]
    forms: Forms = field(default_factory=Forms, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Or:
    """TRUE where any child is TRUE."""

    children: tuple[Node, ...]
    forms: Forms = field(default_factory=Forms, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A condition on one column: TRUE for the values of `true`, FALSE for those of `false`, else NULL."""

    column: Column
    true: ValueSet
    false: ValueSet
    text: str


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE or NULL (None) for every row."""

    value: bool | None


Node = And | Or | Leaf | Constant | Computed


def negate(node: Node) -> Node:
    """Return NOT of a predicate: TRUE and FALSE are swapped, NULL stays NULL."""
    if isinstance(node, Constant):
        return Constant(None if node.value is None else not node.value)
    if isinstance(node, Leaf):
        return Leaf(node.column, node.false, node.true, _cut(f"NOT ({node.text})"))
    if isinstance(node, Computed):
        return node.negated()
    if node.forms.negated is None:
        negated = node.forms.negated = _negated(node)
        if isinstance(negated, (And, Or)):
            negated.forms.negated = negated.forms.negated or node
        if node.forms.true is node:
            _never_null(negated)
    return node.forms.negated


def _negated(node: And | Or) -> Node:
    inverted = any_of if isinstance(node, And) else all_of
    return inverted(negate(child) for child in node.children)


def is_true(node: Node) -> Node:
    """Return IS TRUE of a predicate, which is never NULL."""
    if isinstance(node, Constant):
        return Constant(node.value is True)
    if isinstance(node, Leaf):
        return Leaf(node.column, node.true, node.true.inverse(), _cut(f"({node.text}) IS TRUE"))
    if isinstance(node, Computed):
        return node.is_true()
    if node.forms.true is None:
        node.forms.true = _never_null(_made_true(node))
    return node.forms.true


def _made_true(node: And | Or) -> Node:
    same = all_of if isinstance(node, And) else any_of
    return same(is_true(child) for child in node.children)


def is_null(node: Node) -> Node:
    """Return IS NULL of a predicate, which is never NULL."""
    if isinstance(node, Constant):
        return Constant(node.value is None)
    if isinstance(node, Leaf):
        true = node.true.union(node.false).inverse()
        return Leaf(node.column, true, true.inverse(), _cut(f"({node.text}) IS NULL"))
    if isinstance(node, Computed):
        return node.is_null()
    if is_true(node) is node:
        return Constant(False)
    if node.forms.null is None:
        node.forms.null = _never_null(all_of([negate(is_true(node)), negate(is_true(negate(node)))]))
    return node.forms.null


def _never_null(node: Node) -> Node:
    """Mark a node as two-valued, and return it."""
    if isinstance(node, (And, Or)):
        node.forms.true = node
    return node


def all_of(children: Iterable[Node]) -> Node:
    """Return the AND of predicates, flattened, with leaves of one column merged."""
    nodes = _merged(_flat(children, And), And)
    if Constant(False) in nodes:
        return Constant(False)
    needed = [p for p in nodes if p != Constant(True)]
    return (needed[0] if len(needed) == 1 else And(tuple(needed))) if needed else Constant(True)


def any_of(children: Iterable[Node]) -> Node:
    """Return the OR of predicates, flattened, with leaves of one column merged."""
    nodes = _merged(_flat(children, Or), Or)
    if Constant(True) in nodes:
        return Constant(True)
    needed = [p for p in nodes if p != Constant(False)]
    return (needed[0] if len(needed) == 1 else Or(tuple(needed))) if needed else Constant(False)


def _flat(children: Iterable[Node], kind: type[And] | type[Or]) -> Iterable[Node]:
    for child in children:
        if isinstance(child, kind):
            yield from child.children
        else:
            yield child


def _merged(children: Iterable[Node], kind: type[And] | type[Or]) -> list[Node]:
    """Merge leaves of one column at the place of the first leaf, and drop equal nodes."""
    out: dict[object, list[Node]] = {}
    for child in children:
        out.setdefault(_same(child), []).append(child)
    return [
        _merged_leaf([p for p in nodes if isinstance(p, Leaf)], kind) or nodes[0] for nodes in out.values()
    ]


def _same(node: Node) -> object:
    """Return a key shared by nodes that may be merged; comparing ANDs and ORs would be too expensive."""
    if isinstance(node, Leaf):
        return node.column.id
    return id(node) if isinstance(node, (And, Or)) else node


def _merged_leaf(leaves: list[Leaf], kind: type[And] | type[Or]) -> Leaf | None:
    if len(leaves) < 2:
        return leaves[0] if leaves else None
    all_, any_ = ValueSet.intersection_of, ValueSet.union_of
    for_true, for_false = (all_, any_) if kind is And else (any_, all_)
    true, false = for_true([n.true for n in leaves]), for_false([n.false for n in leaves])
    texts = [_nested(text) for text in dict.fromkeys(leaf.text for leaf in leaves)]
    shown = texts[:_SHOWN] + ["..."] * (len(texts) > _SHOWN)
    return Leaf(leaves[0].column, true, false, _cut((" AND " if kind is And else " OR ").join(shown)))


_SHOWN = 8
"""Number of conditions shown in the text of a merged leaf."""

_LONGEST = 400
"""Limit of characters of a leaf's text, which would double where a condition is used twice."""


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _nested(text: str) -> str:
    return f"({text})" if " AND " in text or " OR " in text else text


def is_never_true(node: Node) -> bool:
    """Return whether a condition is FALSE or NULL, whatever the values of its columns are.

    >>> is_never_true(all_of([Constant(None), Constant(True)]))
    True
    """
    if isinstance(node, (And, Or)):
        return (any if isinstance(node, And) else all)(map(is_never_true, node.children))
    if isinstance(node, Leaf):
        return node.true == ValueSet()
    return isinstance(node, Constant) and node.value is not True


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


def depth_of(node: Node, depths: dict[int, int] | None = None) -> int:
    """Return the number of levels of AND and OR, which bounds the recursion depth of walks."""
    depths = {} if depths is None else depths
    if isinstance(node, (And, Or)) and id(node) not in depths:
        depths[id(node)] = 1 + max([depth_of(child, depths) for child in node.children])
    return depths.get(id(node), 0)


def nodes_of(node: Node) -> Iterable[Node]:
    """Yield all nodes, each object once, in order of appearance."""
    seen: set[int] = set()
    rest = [node]
    while rest:
        current = rest.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        if isinstance(current, (And, Or)):
            rest.extend(reversed(current.children))


def relaxed(node: Node, leaves: Iterable[Leaf]) -> Node:
    """Return a predicate with its leaves taken as TRUE, but for some: TRUE for at least the same rows."""
    nodes: dict[int, Node] = {id(leaf): leaf for leaf in leaves}

    def relax(node: Node) -> Node:
        if id(node) not in nodes:
            if isinstance(node, (And, Or)):
                combined = all_of if isinstance(node, And) else any_of
                nodes[id(node)] = combined([relax(child) for child in node.children])
            else:
                nodes[id(node)] = Constant(True) if isinstance(node, Leaf) else node
        return nodes[id(node)]

    return relax(node)


Truth = tuple[ValueSet, ValueSet]
"""Values where a condition is TRUE, and values where it is FALSE."""

COMPARED: dict[str, Callable[[Value, Value, bool], Interval]] = {
    "=": lambda a, b, c: Interval(a, c, b, c),
    "<>": lambda a, b, c: Interval(a, c, b, c),
    "<=>": lambda a, b, c: Interval(a, c, b, c),
    "<": lambda a, _, __: Interval(None, False, a, False),
    "<=": lambda a, _, __: Interval(None, False, a, True),
    ">": lambda a, _, __: Interval(a, False, None, False),
    ">=": lambda a, _, __: Interval(a, True, None, False),
}
"""By operator, the interval of the values for which the comparison is TRUE; for `<>`, of the equal values."""


def leaf_of(column: Column, truth: Truth, text: str) -> Leaf | Constant:
    """Return a comparison with constants as a leaf; the constant NULL if both of its sets are empty."""
    true, false = truth
    empty = ValueSet()
    return Constant(None) if true == empty == false else Leaf(column, true, false, text)


def texts_like(pattern: str, escape: str) -> ValueSet | None:
    """Return the texts that a pattern matches; None if it has other wildcards than a trailing %."""
    prefix = patterns.like_prefix(pattern, escape)
    if prefix is None:
        return None
    start, wildcard = prefix[0].encode(), prefix[1]
    return texts_from(start) if wildcard else ValueSet.points([start])


def texts_from(start: bytes) -> ValueSet:
    """Return the texts that begin with `start`; all texts if `start` is empty."""
    if not start:
        return VALUES
    return ValueSet.of([Interval(start, True, beyond_prefix(start), False)])
