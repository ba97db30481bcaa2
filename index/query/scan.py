"""Where a predicate is TRUE in a data file, by decoding its columns.

For uncovered files, and for the rows that the index leaves open.
"""

from __future__ import annotations

import numpy as np
from pyroaring import BitMap

from tailbit.index.predicate.tree import Node, columns_of
from tailbit.index.predicate.truth import matches
from tailbit.tables.model import FileSlice
from tailbit.tables.parquet.rows import Positions, fetch, row_groups, without
from tailbit.tables.storage import Storage


def scan(
    storage: Storage, slice_: FileSlice, node: Node, hidden: BitMap | None, among: Positions | None = None
) -> Positions:
    """Physical positions of visible rows of a file where `node` is TRUE; only `among` these where given.

    Cost: decodes the predicate's columns, in the pages that hold `among`.

    Raises:
        DataFileError: the file is missing or is not Parquet.
    """
    columns = [c for c in columns_of(node) if not c.partition]
    found, start = [], 0
    if among is None:
        for start, table in row_groups(storage, slice_, columns):
            hits = matches(node, table, slice_.partition)
            found.append(np.flatnonzero(hits).astype(np.uint64) + np.uint64(start))
    else:
        for table in fetch(storage, slice_, columns, among):
            hits = matches(node, table, slice_.partition)
            found.append(among[start : start + len(hits)][hits])
            start += len(hits)
    out = np.concatenate(found) if found else np.zeros(0, np.uint64)
    return without(out, hidden)
