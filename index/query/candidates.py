"""Candidate files: files that may hold a matching row, by index and log alone, without reading data."""

from __future__ import annotations

import numpy as np

from tailbit.index.predicate.pruning import FileTruths
from tailbit.index.query.selection import Selection


def candidate_numbers(selection: Selection) -> list[int]:
    """Return the numbers of the files that neither the index nor the log prunes, ascending.

    Every file with a matching row is a candidate. Cost: the postings of the keys touched, and the statistics
    of the files that the index does not cover, or leaves open.
    """
    files, numbers = selection.snapshot.files, list(selection.to_scan)
    uncovered = files.at(numbers)
    truths = FileTruths(selection.pruning, uncovered)
    candidates = {number for number, can in zip(numbers, truths.can_match, strict=True) if can}
    for space, bounds in selection.bounds:
        open_files = space.files[np.flatnonzero(space.counts_by_file(bounds.maybe))]
        if not bounds.exact:
            # The log may rule out more files: for example, footers may lack the statistics of timestamps.
            slices = files.at(open_files.tolist())
            open_files = open_files[FileTruths(selection.pruning, slices).can_match]
        candidates.update(open_files.tolist())
    return sorted(candidates)
