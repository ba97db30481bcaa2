"""Candidate files: files that may hold a matching row, by index and log alone, without reading data."""

from __future__ import annotations

import numpy as np

from tailbit.base.arrays import Longs
from tailbit.index.predicate.pruning import FileTruths
from tailbit.index.query.selection import Selection


def candidate_numbers(selection: Selection) -> list[int]:
    """Return the numbers of the files that neither the index nor the log prunes, ascending.

    Every file with a matching row is a candidate. Cost: the postings of the keys touched, and the statistics
    of the files that the index does not cover, or leaves open.
    """
    candidates = [open_to_the_log(selection, np.array(selection.to_scan, dtype=np.int64))]
    for space, bounds in selection.bounds:
        open_files = space.files[np.flatnonzero(space.counts_by_file(bounds.maybe))]
        # The log may rule out more files: for example, footers may lack the statistics of timestamps.
        candidates.append(open_files if bounds.exact else open_to_the_log(selection, open_files))
    numbers: list[int] = np.unique(np.concatenate(candidates)).tolist()
    return numbers


def open_to_the_log(selection: Selection, numbers: Longs) -> Longs:
    """Return the numbers of the files that the log does not prune, among `numbers` (int64).

    Memory: the statistics of some thousand files, whatever the length of `numbers`.
    """
    files = [np.zeros(0, dtype=np.int64)]
    for start in range(0, len(numbers), _AT_ONCE):
        some = numbers[start : start + _AT_ONCE]
        truths = FileTruths(selection.pruning, selection.snapshot.files.at(some.tolist()))
        files.append(some[truths.can_match])
    return np.concatenate(files)


_AT_ONCE = 1 << 12
"""Files whose statistics are looked at together."""
