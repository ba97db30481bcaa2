"""Which files may hold a matching row: found by the index and the log alone, without reading data."""

from __future__ import annotations

import numpy as np

from tailbit.index.predicate.file_truth import FileTruths
from tailbit.index.query.selection import Selection
from tailbit.tables.model import FileSlice


def candidates(selection: Selection) -> list[FileSlice]:
    """The files that neither the index nor the log rules out, in path order.

    Every file with a matching row is among them. Cost: the postings of the keys touched, and the statistics
    of the files that the index does not cover.
    """
    files, numbers = selection.snapshot.files, list(selection.to_scan)
    uncovered = [files[number] for number in numbers]
    truths = FileTruths(selection.node, uncovered)
    candidate_numbers = [number for number, can in zip(numbers, truths.can_match, strict=True) if can]
    for space, bounds in selection.bounds:
        candidate_numbers += space.files[np.flatnonzero(space.counts_by_file(bounds.maybe))].tolist()
    return [files[number] for number in sorted(set(candidate_numbers))]
