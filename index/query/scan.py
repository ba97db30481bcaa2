"""Where a predicate is TRUE in a data file, by decoding its columns.

For uncovered files, and for the rows that the index leaves open.
"""

from __future__ import annotations

import numpy as np
from pyroaring import BitMap

from tailbit.index.predicate.tree import Node, columns_of
from tailbit.index.predicate.truth import Mask, judged, raise_error
from tailbit.tables.model import FileSlice
from tailbit.tables.parquet.rows import Positions, row_groups, without
from tailbit.tables.storage import Storage


def scan(
    storage: Storage, slice_: FileSlice, node: Node, hidden: BitMap | None, among: Positions | None = None
) -> Positions:
    """Physical positions of visible rows of a file where `node` is TRUE; only `among` these where given.

    Cost: decodes the predicate's columns, in the row groups that hold `among`.

    Raises:
        DataFileError: the file is missing or is not Parquet.
        EvaluationError: the answer for a visible row depends on an expression that raises there.
    """
    columns = [c for c in columns_of(node) if not c.partition]
    found = []
    for start, local, table in row_groups(storage, slice_, columns, among):
        hits, open_ = judged(node, table, slice_.partition)
        found.append(_at(hits, local) + np.uint64(start))
        if open_ is not None:
            raising = without(_at(open_, local) + np.uint64(start), hidden)
            if len(raising):
                row, position = table.slice(int(raising[0]) - start, 1), int(raising[0])
                raise_error(node, row, slice_.partition, slice_.path, position)
    out = np.concatenate(found) if found else np.zeros(0, np.uint64)
    return without(out, hidden)


def _at(hits: Mask, local: Positions | None) -> Positions:
    """Where rows of a row group match, among the wanted ones."""
    return np.flatnonzero(hits).astype(np.uint64) if local is None else local[hits[local]]
