"""Reasons why a file was kept, pruned, rechecked or scanned: the codes in `explain`, and how they are found.

`docs/reasons.md` documents these codes; a test compares the two, and another test provokes each code.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

import numpy as np

from tailbit.index.evaluation.evaluate import evaluate
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.predicate.computed import Computed
from tailbit.index.predicate.tree import And, Constant, Leaf, Node, Or, nodes_of
from tailbit.index.query.selection import Selection
from tailbit.index.query.served import ids_serving


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
