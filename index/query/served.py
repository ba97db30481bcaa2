"""Which indexes served each condition of an answer, and which could have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tailbit.base.errors import CorruptIndexError
from tailbit.index.evaluation.choice import choose
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.predicate.tree import And, Constant, Node, Or, columns_of, nodes_of
from tailbit.index.query.selection import Selection


def served(selection: Selection) -> Iterator[tuple[Node, dict[str, Any]]]:
    """Yield each condition of a predicate with the names of the indexes that served it or could have.

    Keys of the second element: `by` (indexes whose postings or bounds were used in some row space), `also`
    (others that could bound the condition). Conditions that one index serves together are yielded as one AND.
    """
    names = {definition.id: definition.name for definition in selection.coverage.definitions}
    spaces = [space for space in selection.coverage.spaces if _is_sound(space)]
    replaced: set[int] = set()
    for node in nodes_of(selection.node):
        if isinstance(node, And):
            replaced_here = _replaced_at_once(node, spaces)
            replaced |= set(map(id, replaced_here))
            node = And(tuple(replaced_here))
        if isinstance(node, (Or, Constant)) or id(node) in replaced or node == And(()):
            continue
        used, able = dict[str, None](), dict[str, None]()
        for space in spaces:
            used |= dict.fromkeys(ids_serving(node, space))
            able |= dict.fromkeys(a.definition.id for a in space.accesses if a.serves(node))
        by = [names[id_] for id_ in used if id_ in names]
        yield node, {"by": by, "also": [n for id_ in able if (n := names.get(id_)) and n not in by]}


def _is_sound(space: SpaceView) -> bool:
    """Return whether the footers of a row space's segments can be read."""
    try:
        return all(segment.columns is not None for segment in space.segments)
    except CorruptIndexError:
        return False


def _replaced_at_once(node: And, spaces: Sequence[SpaceView]) -> list[Node]:
    """Return the parts of an AND that one condition on an index replaces in some row space."""
    replaced: dict[int, Node] = {}
    for space in spaces:
        best = choose(node, space).node
        remaining = set(map(id, best.children if isinstance(best, And) else (best,)))
        lost = [child for child in node.children if id(choose(child, space).node) not in remaining]
        replaced |= {id(child): child for child in lost if len(lost) > 1}
    return list(replaced.values())


def all_serving(node: Node, space: SpaceView) -> set[str]:
    """Return the ids of the definitions that bound a condition or parts of it in a row space."""
    choice = choose(node, space)
    bounding = (access.definition.id for accesses in choice.bounding.values() for access, _ in accesses)
    return {column.id for column in columns_of(choice.node)}.union(bounding)


def ids_serving(node: Node, space: SpaceView) -> list[str]:
    """Return the ids of the definitions by which a condition is bounded in a row space."""
    choice = choose(node, space)
    bounding = [access.definition.id for access, _ in choice.bounding.get(id(choice.node), ())]
    return [column.id for column in columns_of(choice.node) if space.posts(column.id)] + bounding
