"""The row spaces that a fill and a merge beside the batches are at work on: neither takes those of the other.

A merge moves the claims of files, so a step that is being built for them would be built again; a step adds
segments, so a merge that is being written would be given up. With many small files and changes of the indexes
every few seconds, each would undo the other's work again and again.
"""

from __future__ import annotations

from tailbit.base.dataclass import dataclass


@dataclass
class SpacesAtWork:
    """The row spaces that a fill or a merge is changing: set and read in a turn at the index.

    Cleared at the end of the work. `filling`: of the files of the step that is being built. `merging`: of the
    merge on a worker.
    """

    filling: frozenset[str] = frozenset()
    merging: frozenset[str] = frozenset()
