"""The conjuncts that a composite key serves: values of its first parts, and a set of values of the next.

Worked example, for the parts `a`, `lower(s)` and `c`:

    a = 1 AND lower(s) IN ('x', 'y') AND c > 5     a {1}, lower(s) {x, y}, c above 5; all three are served
    a IS NULL AND c > 5                            a {NULL}; `c > 5` is left to others
    a BETWEEN 1 AND 3 AND lower(s) = 'x'           a {1, 2, 3}, lower(s) {x}, since `a` is a whole number
    a > 1 AND lower(s) = 'x'                       a above 1; `lower(s) = 'x'` is left to others
    lower(s) = 'x'                                 nothing is served
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

from tailbit.base.dataclass import dataclass
from tailbit.index.expression.indexed_term import IndexedTerm
from tailbit.index.implication.implied import implied
from tailbit.index.implication.pinned import MOST_VALUES, few_values, is_point
from tailbit.index.ordered import Value
from tailbit.index.predicate.tree import Leaf, Node
from tailbit.index.predicate.value_sets import ValueSet
from tailbit.tables.model import Column


@dataclass(frozen=True, slots=True)
class TuplePrefix:
    """Values that a conjunction admits for the first parts of a composite key.

    `points`: the values of each of the first parts, NULL as None. `last`: the values of the part behind them;
    None if that part is not restricted. `served`: the conjuncts that the values come from. `exact`: whether
    the served conjuncts are TRUE for every row with these values; otherwise some of the rows are rechecked.
    """

    points: tuple[tuple[Value | None, ...], ...]
    last: ValueSet | None
    served: tuple[Node, ...]
    exact: bool


def tuple_prefix(conjuncts: Sequence[Node], terms: Sequence[Column]) -> TuplePrefix | None:
    """Return the values that conjuncts admit for the first parts of a composite key; None if unrestricted.

    Every conjunct that restricts a part of the prefix is served. The listed values have at most `MOST_VALUES`
    combinations; a part with more values is the last.
    """
    parts = [_said(conjuncts, term) for term in terms]
    points: list[tuple[Value | None, ...]] = []
    room, last = MOST_VALUES, None
    used: list[_Said] = []
    for at, (term, part) in enumerate(zip(terms, parts, strict=True)):
        used.append(part)
        followed = at + 1 < len(parts) and parts[at + 1].values is not None
        listed = None if part.values is None else _listed(part.values, term, room, followed)
        if listed is None:
            last = part.values
            break
        points.append(listed)
        room //= max(len(listed), 1)
    served = {id(node): node for part in used for node in part.nodes}
    exact = {id(node) for part in used for node in part.exact}
    if not served:
        return None
    return TuplePrefix(tuple(points), last, tuple(served.values()), exact == served.keys())


class _Said(NamedTuple):
    """Values of a part (None: all), the conjuncts that restrict it, and those that restrict nothing else."""

    values: ValueSet | None
    nodes: list[Node]
    exact: list[Node]


def _said(conjuncts: Sequence[Node], term: Column) -> _Said:
    known = [(node, said) for node in conjuncts if (said := _leaf(node, term)) is not None]
    values = reduce(ValueSet.intersect, [leaf.true for _, (leaf, _) in known]) if known else None
    return _Said(values, [node for node, _ in known], [node for node, (_, exact) in known if exact])


def _leaf(node: Node, term: Column) -> tuple[Leaf, bool] | None:
    """Return the leaf on a part that a conjunct implies, and whether both are equivalent; None if no leaf."""
    if not isinstance(term, IndexedTerm):
        return (node, True) if isinstance(node, Leaf) and node.column.id == term.id else None
    said = implied(node, term)
    if said is None or not isinstance(said.maybe, Leaf):
        return None
    return said.maybe, said.exact


def _listed(values: ValueSet, term: Column, most: int, followed: bool) -> tuple[Value | None, ...] | None:
    """Return the values of a set, NULL last; None if they are many, or a range that needs no list."""
    needed = followed or all(map(is_point, values.spans()))
    listed = few_values(values, term.type, most if needed else 1)
    return None if listed is None else tuple(dict.fromkeys(listed))
