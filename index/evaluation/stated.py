"""Statistics of a column in each file of a row space, without postings: extremes and numbers of NULLs."""

from __future__ import annotations

from tailbit.index.evaluation.bounds import Stated
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.predicate.tree import Leaf, Node
from tailbit.index.predicate.value_sets import VALUES
from tailbit.tables.model import Column


def stated(column: Column, space: SpaceView) -> Stated | None:
    """Return the statistics that some definition has of a column in a row space; None without any."""
    stated_sets = (access.stated(column, space) for access in space.accesses)
    return next((statement for statement in stated_sets if statement is not None), None)


def count_of_nulls(node: Node, space: SpaceView) -> int | None:
    """Count the visible rows where `x IS NULL` or `x IS NOT NULL` is TRUE, by statistics; else None."""
    if not isinstance(node, Leaf) or node.column.partition or node.true.spans() not in ([], VALUES.spans()):
        return None
    if bool(node.true.spans()) == node.true.nulls:
        return None
    statement = stated(node.column, space)
    if statement is None or (statement.nulls < 0).any():
        return None
    nulls = int(statement.nulls.sum())
    return nulls if node.true.nulls else space.extent - nulls
