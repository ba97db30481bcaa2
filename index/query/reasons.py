"""Why a file was kept, pruned, rechecked or scanned: the codes in `explain`, and the indexes that served.

`docs/reasons.md` documents these codes; a test compares the two, and another test provokes each code.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tailbit.base.errors import CorruptIndexError
from tailbit.index.evaluation.choice import choose
from tailbit.index.evaluation.evaluate import evaluate
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.predicate.computed import Computed
from tailbit.index.predicate.tree import And, Constant, Leaf, Node, Or, columns_of, nodes_of
from tailbit.index.query.selection import Selection


class Reason(enum.Enum):
    """Why a file was treated as it was."""

    KEPT_BY_INDEX = "kept_by_index"
    """The bitmaps tell its matching rows; nothing of it is read."""

    KEPT_BY_LOG = "kept_by_log"
    """The index does not cover it, but by its partition values and statistics all of its rows match."""

    PRUNED_BY_INDEX = "pruned_by_index"
    """By the bitmaps none of its rows match."""

    PRUNED_BY_PARTITION = "pruned_by_partition"
    """By its partition values none of its rows match."""

    PRUNED_BY_STATISTICS = "pruned_by_statistics"
    """By the statistics in the log none of its rows match."""

    COLUMN_NOT_INDEXED = "column_not_indexed"
    """A condition is on a column that the index does not have: rows that it decides are read."""

    BOUNDED = "bounded"
    """An index tells which rows may match, not whether they do: these rows are read."""

    COLUMN_NOT_POSTED = "column_not_posted"
    """The index has the column, but not yet for this file: rows that it decides are read."""

    LONG_VALUES = "long_values"
    """Keys hold only the beginning of long values: rows that have such values are read."""

    COMPUTED = "computed"
    """A condition is on several columns, or has no answer for some key: such rows are read."""

    NO_INDEX = "no_index"
    """There is no index, or none that vouches for this history of the table: the file is read."""

    NOT_COVERED = "not_covered"
    """The index has not got to this file yet, or knows another file by its path: the file is read."""

    INDEX_DAMAGED = "index_damaged"
    """A file of the index cannot be read, so the data is."""


def reason_of_scan(selection: Selection) -> Callable[[int], Reason]:
    """Return a function from the number of an uncovered file in the snapshot to the reason for reading it."""
    coverage = selection.coverage
    uncovered = set(coverage.uncovered.tolist())
    whole = Reason.NOT_COVERED if coverage.trusted else Reason.NO_INDEX
    if list(coverage.damages) or (not coverage.trusted and list(selection.damages)):
        whole = Reason.INDEX_DAMAGED

    def reason(number: int) -> Reason:
        return whole if number in uncovered else Reason.INDEX_DAMAGED

    return reason


def reasons_of_recheck(selection: Selection, space: SpaceView) -> dict[int, tuple[Reason, Node]]:
    """Return, per file with rows left open (by its order in the row space), the reason and the condition.

    Cost: each condition is evaluated once more.
    """
    reasons: dict[int, tuple[Reason, Node]] = {}
    explained = np.zeros(len(space.files), dtype=bool)
    for node in nodes_of(selection.node):
        if isinstance(node, (And, Or, Constant)):
            continue
        bounds = evaluate(node, space)
        if bounds.exact:
            continue
        open_ = (space.counts_by_file(bounds.maybe - bounds.sure) > 0) & ~explained
        for order in np.flatnonzero(open_).tolist():
            reasons[order] = (_reason(node, space, order), node)
        explained |= open_
    return reasons


def _reason(node: Leaf | Computed, space: SpaceView, order: int) -> Reason:
    posted = space.column_sets[int(space.posted[order])]
    if (serving := set(ids_serving(node, space))) and (node.column is None or node.column.id not in serving):
        return Reason.BOUNDED if serving & posted else Reason.COLUMN_NOT_POSTED
    if node.column is None:
        return Reason.COMPUTED
    if not space.serving(node.column):
        return Reason.COLUMN_NOT_INDEXED
    if node.column.id not in posted:
        return Reason.COLUMN_NOT_POSTED
    return Reason.LONG_VALUES if isinstance(node, Leaf) else Reason.COMPUTED


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
