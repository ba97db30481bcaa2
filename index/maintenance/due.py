"""What is due for merging: each kind says so for its own files.

Size classes grow by eight, so a record is rewritten a constant number of times however long the history, and
a question meets at most seven files a class.
"""

from __future__ import annotations

from dataclasses import dataclass

from tailbit.index.kinds.merging import MergeGroup
from tailbit.index.store.state import IndexState


@dataclass(frozen=True)
class MergePlan:
    """What one merge commit does; files of source versions from `earliest` on keep their bits."""

    groups: tuple[MergeGroup, ...]
    earliest: int | None


def merge_due(index: IndexState, earliest_version: int | None = None) -> list[MergePlan]:
    """The merge that is due, as one plan or none.

    `earliest_version`: the earliest source version that a reader may still ask for; None keeps every file's
    bits. Cost: one pass over the live index files; where that version has moved, one vectorised pass over the
    records.
    """
    groups = tuple(group for kind in index.kinds for group in kind.due(index, earliest_version))
    return [MergePlan(groups, earliest_version)] if groups else []
