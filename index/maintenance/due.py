"""The merges that are due: each kind decides for its own files.

Size classes grow by a factor of eight, so a record is rewritten a constant number of times however long the
history, and a query meets at most seven files per class.
"""

from __future__ import annotations

from dataclasses import dataclass

from tailbit.index.kinds.merging import MergeGroup
from tailbit.index.store.state import IndexState


@dataclass(frozen=True)
class MergePlan:
    """The work of one merge commit; files of source versions from `earliest` on keep their postings."""

    groups: tuple[MergeGroup, ...]
    earliest: int | None


def merge_due(index: IndexState, earliest_version: int | None = None) -> list[MergePlan]:
    """Return the merge that is due, as one plan or none.

    `earliest_version`: the earliest source version that a reader may still query; None keeps the postings of
    every file. Cost: one pass over the live index files; if that version has moved, one vectorised pass over
    the records.
    """
    groups = tuple(group for kind in index.kinds for group in kind.due(index, earliest_version))
    return [MergePlan(groups, earliest_version)] if groups else []
