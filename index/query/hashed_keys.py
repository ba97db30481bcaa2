"""Lookup of keys by the postings of their hashes: record keys with the option `keys=hash`.

A row with the hash of a key may hold another key. The caller reads the key columns of these rows, so a
collision of hashes costs a read, and no error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.expression.indexed_term import IndexedTerm, sources_of, values_of
from tailbit.index.keys import encode_array, key_type_of
from tailbit.index.postings.sorted_keys import LookupKeys
from tailbit.index.query.lookup import KeyRows, rows_of_keys
from tailbit.index.query.selection import Selection
from tailbit.tables import compute as pc
from tailbit.tables.model import Column
from tailbit.tables.parquet.rows import fetch_files
from tailbit.tables.schema import arrow_type


def by_hash(space: SpaceView, columns: Sequence[Column], values: Sequence[pa.Array]) -> KeyRows | None:
    """Return the visible rows of a row space that have the hash of a key; None if no index has the hashes.

    `values`: per key column, its value in each key. `KeyRows.keys` of the result number hashes, not keys.
    """
    term = _hashed(space, {column.id for column in columns})
    segments = [] if term is None else space.serving(term)
    if term is None or not segments or space.unposted(term.id) is not None:
        return None
    arrays = {column.id: _as_stored(array, column) for column, array in zip(columns, values, strict=True)}
    hashes, _ = values_of(term, arrays, len(values[0]))
    distinct = pc.unique(encode_array(hashes, key_type_of(term.type)))
    ascending = pc.take(distinct, pc.sort_indices(distinct))
    return rows_of_keys(space, term.id, segments, LookupKeys(ascending), np.arange(len(ascending)))


def rechecked(
    key_rows: KeyRows,
    selection: Selection,
    columns: Sequence[Column],
    owners: Callable[[Sequence[pa.ChunkedArray]], Longs],
) -> KeyRows:
    """Return the rows of `key_rows` that hold a key; their key columns are read from data.

    `owners`: function from the values of the key columns of rows to the number of each row's key, or -1.
    """
    order = np.lexsort((key_rows.positions, key_rows.files))
    files, positions = key_rows.files[order], key_rows.positions[order]
    starts = np.flatnonzero(np.diff(files, prepend=-1)).tolist()
    reads = [
        (selection.snapshot.files[int(files[low])], positions[low:high].astype(np.uint64))
        for low, high in pairwise([*starts, len(files)])
    ]
    tables = fetch_files(selection.storage, reads, columns)
    keys = np.concatenate([np.zeros(0, dtype=np.int64), *(owners(rows.columns) for rows in tables)])
    return KeyRows(keys[keys >= 0], files[keys >= 0], positions[keys >= 0])


def _hashed(space: SpaceView, ids: set[str]) -> IndexedTerm | None:
    """Return the indexed hash of exactly the columns with these ids; None if no definition has it."""
    for access in space.accesses:
        term = access.values
        if access.definition.is_hashed and isinstance(term, IndexedTerm):
            if {column.id for column in sources_of([term])} == ids:
                return term
    return None


def _as_stored(values: pa.Array, column: Column) -> pa.Array:
    """Convert values to the type of their column; NULL for values beyond that type, which no row has."""
    type_ = arrow_type(column.type, column.label)
    if values.type == type_:
        return values
    cast = pc.cast(values, type_, safe=False)
    return pc.if_else(
        pc.equal(pc.cast(cast, values.type, safe=False), values), cast, pa.nulls(len(values), type_)
    )
