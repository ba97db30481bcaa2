"""Where a predicate is TRUE in a data file, by decoding its columns.

For uncovered files, and for the rows that the index leaves open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.index.predicate.tree import Node
from tailbit.index.predicate.truth import judged, raise_error
from tailbit.index.predicate.walks import columns_of
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.rows import Positions, fetch, row_groups, without
from tailbit.tables.storage import Storage


def scan(
    storage: Storage, slice_: FileSlice, node: Node, hidden: BitMap | None, among: Positions | None = None
) -> Positions:
    """Physical positions of visible rows of a file where `node` is TRUE; only `among` these where given.

    Cost: decodes the predicate's columns, in the pages that hold `among`.

    Raises:
        DataFileError: the file is missing or is not Parquet.
        EvaluationError: the answer for a visible row depends on an expression that raises there.
    """
    columns = [c for c in columns_of(node) if not c.partition]
    found = []
    for at, table in _parts(storage, slice_, columns, among):
        hits, open_ = judged(node, table, slice_.partition)
        found.append(at[hits])
        if open_ is not None:
            raising = without(at[open_], hidden)
            if len(raising):
                row = table.slice(int(np.searchsorted(at, raising[0])), 1)
                raise_error(node, row, slice_.partition, slice_.path, int(raising[0]))
    out = np.concatenate(found) if found else np.zeros(0, np.uint64)
    return without(out, hidden)


def _parts(
    storage: Storage, slice_: FileSlice, columns: Sequence[Column], among: Positions | None
) -> Iterator[tuple[Positions, pa.Table]]:
    """Physical positions and their rows, a row group at a time."""
    if among is None:
        for start, table in row_groups(storage, slice_, columns):
            yield np.arange(start, start + table.num_rows, dtype=np.uint64), table
        return
    done = 0
    for table in fetch(storage, slice_, columns, among):
        yield among[done : done + table.num_rows], table
        done += table.num_rows
