"""Which indexes served each condition of an answer, which could have, and why others did not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tailbit.errors import CorruptIndexError
from tailbit.index.evaluation.choice import choose
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.model import Definition
from tailbit.index.predicate.tree import And, Constant, Node, Or
from tailbit.index.predicate.walks import columns_of, nodes_of
from tailbit.index.query.selection import Selection

Account = dict[str, Any]


def served(selection: Selection) -> list[tuple[Node, Account]]:
    """Return each condition of a predicate with the names of the indexes that served it or could have.

    Keys of an account: `by` (indexes whose postings or bounds were used in some row space), `also` (others
    that bound the condition). A conjunction stands for itself where one index serves it as a whole.
    """
    accounts = ((node, _account(selection, node)) for node in _conditions(selection))
    return [(node, account) for node, account in accounts if not isinstance(node, And) or account["by"]]


def _conditions(selection: Selection) -> Iterator[Node]:
    for node in nodes_of(selection.node):
        if not isinstance(node, (Or, Constant)):
            yield node


def _account(selection: Selection, node: Node) -> Account:
    names = {definition.id: definition.name for definition in selection.coverage.definitions}
    used: dict[str, None] = {}
    able: dict[str, None] = {}
    for space in selection.coverage.spaces:
        try:
            chosen = _chosen(node, space, selection.coverage.definitions)
        except CorruptIndexError:
            continue
        used |= dict.fromkeys(chosen)
        able |= dict.fromkeys(a.definition.id for a in space.accesses if a.serves(node))
    return {
        "by": [names[id_] for id_ in used if id_ in names],
        "also": [names[id_] for id_ in able if id_ in names and id_ not in used],
    }


def _chosen(node: Node, space: SpaceView, definitions: Sequence[Definition]) -> list[str]:
    """Return the ids of the definitions by which a condition is bounded in a row space."""
    choice = choose(node, space)
    bounding = [access.definition.id for access, _ in choice.bounding.get(id(choice.node), ())]
    own = {definition.id for definition in definitions}
    columns = [column for column in columns_of(choice.node) if column.id in own]
    parts = node.children if isinstance(node, And) else ()
    # Of a conjunction, only what serves several of its parts at once: each part has its own account.
    apart = {column.id for part in parts for column in columns_of(choose(part, space).node)}
    ids = [column.id for column in columns if column.id not in apart]
    return [id_ for id_ in ids if space.posts(id_)] + bounding
