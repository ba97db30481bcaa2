"""Conditions on an indexed term that a condition on columns implies, or that imply it.

For every row for which the term does not raise: `sure` TRUE implies that the condition is TRUE, which implies
`maybe` TRUE. Rows for which the term raises have no value in the index; evaluation leaves them open.

Worked example:

    term                      condition                            sure              maybe
    lower(s)                  lower(s) = 'x'                       term = 'x'        the same
    date_trunc('HOUR', ts)    ts >= 10:30                          term > 10:00      term >= 10:00
    hash(k)                   k = 7                                -                 term = hash(7)
    hash(k, l)                k = 7 AND l IN (1, 2)               -                 term IN (hash(7, 1), ...)
    lower(s)                  lower(s) = 'x' AND i > 1             -                 term = 'x'
    lower(s)                  s > 'x'                              nothing is implied

The conjuncts that a composite key serves: values of its first parts, and a set of values of the next.

Worked example, for the parts `a`, `lower(s)` and `c`:

    a = 1 AND lower(s) IN ('x', 'y') AND c > 5     a {1}, lower(s) {x, y}, c above 5; all three are served
    a IS NULL AND c > 5                            a {NULL}; `c > 5` is left to others
    a BETWEEN 1 AND 3 AND lower(s) = 'x'           a {1, 2, 3}, lower(s) {x}, since `a` is a whole number
    a > 1 AND lower(s) = 'x'                       a above 1; `lower(s) = 'x'` is left to others
    lower(s) = 'x'                                 nothing is served
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import Generic, NamedTuple, TypeVar

from tailbit.base.dataclass import dataclass
from tailbit.index.expression.indexed_term import IndexedTerm
from tailbit.index.expression.unvarying import is_unvarying
from tailbit.index.functions.tree import Ref, columns_in
from tailbit.index.keys import Value
from tailbit.index.predicate.images import MOST_VALUES, Image, few_values, image, is_point, pinned
from tailbit.index.predicate.monotonic import NotRising
from tailbit.index.predicate.rising import over_term, truth_of
from tailbit.index.predicate.tree import And, Constant, Leaf, Node, Or, all_of, any_of, columns_of
from tailbit.index.predicate.value_sets import EVERYTHING, NOTHING, NULL, ValueSet
from tailbit.index.values.literals import BOOLEAN
from tailbit.tables.model import Column

T = TypeVar("T", bound=IndexedTerm)


@dataclass(frozen=True, slots=True)
class Implied:
    """Conditions on only a term: `sure` implies the original condition, which implies `maybe`.

    `sure` is None if no value of the term makes the condition surely TRUE.
    """

    sure: Node | None
    maybe: Node

    @property
    def exact(self) -> bool:
        """Return whether the condition on the term is TRUE for the same rows as the original condition."""
        return self.sure is self.maybe


def implied(node: Node, term: IndexedTerm, *, stored: bool = False) -> Implied | None:
    """Return the conditions on a term that a predicate implies, cached; None if it implies none.

    `stored`: the term's values were computed by other sessions of Spark. Then a term that they may give other
    values implies nothing; and one that may raise, for whose rows they may have stored any value, implies
    something only of values of its columns that are looked at one by one.

    Cost: for a leaf one evaluation of the term on the ends of its intervals, or on its values if it has few.
    """
    return _cached(TermOfNode(node, term), stored)


def implies(node: Node, term: IndexedTerm) -> bool:
    """Return whether a predicate implies anything for a term.

    An AND counts only for a term over several columns: for one column, the parts of the AND imply as much.
    """
    if isinstance(node, And) and len(columns_in(term.expression)) < 2:
        return False
    return implied(node, term) is not None


class TermOfNode(Generic[T]):
    """A node, compared by identity, and a term, compared by its id and expression: the key of a cache."""

    def __init__(self, node: Node, term: T) -> None:
        self.node, self.term = node, term

    def __hash__(self) -> int:
        return hash((id(self.node), self.term.id))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TermOfNode)
            and other.node is self.node
            and (other.term is self.term or (other.term.id, other.term.key) == (self.term.id, self.term.key))
        )


@lru_cache(maxsize=4096)
def _cached(question: TermOfNode[IndexedTerm], stored: bool) -> Implied | None:
    node, term = question.node, question.term
    zones = {column.id: column.zone for column in columns_in(term.expression)}
    if any(column.zone != zones.get(column.id, column.zone) for column in columns_of(node)):
        # In another zone, the text of a partition value means another moment.
        return None
    if stored and not is_unvarying(term.expression, may_raise=True):
        return None
    return _Implication(term, stored).of(node)


class _Implication:
    """Conditions on a term that the nodes of a predicate imply; a shared node is computed once."""

    def __init__(self, term: IndexedTerm, stored: bool) -> None:
        self.term, self.stored = term, stored
        self.by_ranges = not stored or is_unvarying(term.expression)
        self.columns = {column.id for column in columns_in(term.expression)} | {term.id}
        self.memo: dict[int, Implied | None] = {}

    def of(self, node: Node) -> Implied | None:
        if id(node) not in self.memo:
            self.memo[id(node)] = self._of(node)
        return self.memo[id(node)]

    def _of(self, node: Node) -> Implied | None:
        if isinstance(node, Constant):
            return Implied(node, node)
        read = {column.id for column in columns_of(node)}
        if read == {self.term.id}:
            return Implied(node, node)
        if read.isdisjoint(self.columns):
            return None
        if isinstance(node, And):
            return self._of_all(node)
        if isinstance(node, Or):
            return self._of_any(node)
        if isinstance(node, Leaf):
            return self._of_leaf(node)
        over = over_term(node, self.term) if self.by_ranges else None
        return None if over is None else Implied(over, over)

    def _of_all(self, node: And) -> Implied | None:
        implications = [self.of(child) for child in node.children]
        present = [implication for implication in implications if implication is not None]
        if present and all(implication is not None and implication.exact for implication in implications):
            both = all_of(implication.maybe for implication in present)
            return Implied(both, both)
        leaves = [child for child in node.children if isinstance(child, Leaf)]
        several = self._pinned(leaves) if len(columns_in(self.term.expression)) > 1 else None
        maybes = [implication.maybe for implication in present] + ([] if several is None else [several])
        if not maybes:
            return None
        sures = [
            implication.sure
            for implication in implications
            if implication is not None and implication.sure is not None
        ]
        return Implied(all_of(sures) if len(sures) == len(implications) else None, all_of(maybes))

    def _of_any(self, node: Or) -> Implied | None:
        implications = [self.of(child) for child in node.children]
        present = [implication for implication in implications if implication is not None]
        if len(present) < len(implications):
            return None
        maybe = any_of(implication.maybe for implication in present)
        if all(implication.exact for implication in present):
            return Implied(maybe, maybe)
        sures = [implication.sure for implication in present if implication.sure is not None]
        return Implied(any_of(sures) if sures else None, maybe)

    def _of_leaf(self, leaf: Leaf) -> Implied | None:
        if isinstance(self.term.expression, Ref):
            same = Leaf(self.term, leaf.true, leaf.false, leaf.text)
            return Implied(same, same)
        try:
            sure, maybe = self._image(leaf.true)
        except NotRising:
            few = self._pinned([leaf])
            return None if few is None else Implied(None, few)
        possible = Leaf(self.term, maybe, maybe.inverse(), leaf.text)
        if sure == maybe:
            return Implied(possible, possible)
        certain = None if sure == NOTHING else Leaf(self.term, sure, sure.inverse(), leaf.text)
        return None if certain is None and maybe == EVERYTHING else Implied(certain, possible)

    def _pinned(self, leaves: Sequence[Leaf]) -> Leaf | None:
        return pinned(leaves, self.term, raising_is_any=self.stored)

    def _image(self, arguments: ValueSet) -> Image:
        if not self.by_ranges:
            raise NotRising
        return _of_truth(self.term, arguments) if self.term.type == BOOLEAN else image(self.term, arguments)


def _of_truth(term: IndexedTerm, arguments: ValueSet) -> Image:
    """Return a condition's truth values in two sets: those that only `arguments` give, and all these give.

    `arguments`: values of the column that the condition reads.
    """
    truth = truth_of(term.expression)
    if truth is None:
        raise NotRising
    true, false = truth
    outcomes = (
        (true, ValueSet.points([True])),
        (false, ValueSet.points([False])),
        (true.union(false).inverse(), NULL),
    )
    (column,), others = columns_in(term.expression), arguments.inverse()
    touched = [outcome for values, outcome in outcomes if _has_value(values.intersect(arguments), column)]
    others_too = [outcome for values, outcome in outcomes if _has_value(values.intersect(others), column)]
    return ValueSet.union_of([o for o in touched if o not in others_too]), ValueSet.union_of(touched)


def _has_value(values: ValueSet, column: Column) -> bool:
    """Return whether a column may hold a value of a set."""
    return values != NOTHING if column.type.fields else few_values(values, column.type, 0) != []


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
    restrictions = [_said(conjuncts, term) for term in terms]
    points: list[tuple[Value | None, ...]] = []
    room, last = MOST_VALUES, None
    used: list[_Said] = []
    for number, (term, restriction) in enumerate(zip(terms, restrictions, strict=True)):
        used.append(restriction)
        followed = number + 1 < len(restrictions) and restrictions[number + 1].values is not None
        listed = None if restriction.values is None else _listed(restriction.values, term, room, followed)
        if listed is None:
            last = restriction.values
            break
        points.append(listed)
        room //= max(len(listed), 1)
    served = {id(node): node for restriction in used for node in restriction.nodes}
    exact = {id(node) for restriction in used for node in restriction.exact}
    if not served:
        return None
    return TuplePrefix(tuple(points), last, tuple(served.values()), exact == served.keys())


class _Said(NamedTuple):
    """Values of a part (None: all), the conjuncts that restrict it, and those that restrict nothing else."""

    values: ValueSet | None
    nodes: list[Node]
    exact: list[Node]


def _said(conjuncts: Sequence[Node], term: Column) -> _Said:
    leaves = [(node, said) for node in conjuncts if (said := _leaf(node, term)) is not None]
    values = reduce(ValueSet.intersect, [leaf.true for _, (leaf, _) in leaves]) if leaves else None
    return _Said(values, [node for node, _ in leaves], [node for node, (_, exact) in leaves if exact])


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
