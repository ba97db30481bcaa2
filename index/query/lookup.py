"""Lookup of keys in the postings of a row space.

Each row found is given by its file and its position there; hidden rows are left out.

Lookup of keys by the postings of their hashes: record keys with the option `keys=hash`.

A row with the hash of a key may hold another key. The caller reads the key columns of these rows, so a
collision of hashes costs a read, and no error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.index.evaluation import costs
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.expression.indexed_term import IndexedTerm, sources_of, values_of
from tailbit.index.keys import encode_array, key_type_of
from tailbit.index.postings.paged_lookup import Placed, decoding, holds_tables, placed
from tailbit.index.postings.segment import Segment
from tailbit.index.postings.sorted_keys import LookupKeys
from tailbit.index.query.selection import Selection
from tailbit.tables import compute as pc
from tailbit.tables.ahead import in_order
from tailbit.tables.model import Column
from tailbit.tables.parquet.rows import fetch_files
from tailbit.tables.schema import arrow_type

_MANY = 64
"""Keys that are worth a thread for each segment, unless their tables are cached."""


class KeyRows(NamedTuple):
    """Rows that have keys: the key's number, the row number of the file in the snapshot, and the position.

    All int64, an entry per row.
    """

    keys: Longs
    files: Longs
    positions: Longs


def rows_of_keys(
    space: SpaceView, id_: str, segments: Sequence[Segment], keys: LookupKeys, numbers: Longs
) -> KeyRows:
    """Return the visible rows of a row space that have keys, by the postings of a column or tuple.

    `segments`: the segments with these postings. `numbers`: the caller's number (int64) of each wanted key.
    """
    lookups = [partial(_placed, segment, id_, keys) for segment in segments]
    light = len(keys.codes) <= _MANY or all(holds_tables(segment, id_, keys) for segment in segments)
    hits = [lookup(True) for lookup in lookups] if light else list(in_order(lookups))
    owners = np.concatenate([np.zeros(0, dtype=np.int64), *(owners for owners, _ in hits)])
    positions = np.concatenate([np.zeros(0, dtype=np.int64), *(positions for _, positions in hits)])
    return visible_rows(space, numbers[owners], positions)


def is_scanned(
    space: SpaceView, id_: str, segments: Sequence[Segment], keys: LookupKeys, columns: int
) -> bool:
    """Return whether to scan the key columns of a row space rather than decode postings for a lookup.

    Postings of many keys take several times as long to decode as `columns` key columns take to scan. Decoded
    once, they serve every later lookup: so the first lookup of many keys scans, and a later one decodes.
    """
    if segments[0].storage.remote:
        return False
    scanning = _A_ROW * columns * int(space.rows.sum())
    postings = sum(decoding(segment, id_, keys) for segment in segments)
    if postings < max(2 * scanning, _SHORT):
        return False
    return not costs.is_due(segments[0].name, f"{id_}#keys", scanning, postings)


def are_most(space: SpaceView, id_: str, segments: Sequence[Segment], sample: LookupKeys, count: int) -> bool:
    """Return whether a row space may have enough of `count` keys to be scanned, even if it is cached.

    `sample`: some of the keys.
    """
    if segments[0].storage.remote:
        return False
    among = sum(high - low for segment in segments for _, low, high in segment.spans(id_, sample.codes))
    return among * count * _ROWS_A_KEY >= len(sample.codes) * int(space.rows.sum())


_ROWS_A_KEY = 8
"""Rows that are scanned and joined with keys in the time that a key takes to be looked up."""

_A_ROW = 3e-5
"""Milliseconds of CPU to read a value of a row and to look for it among keys."""

_SHORT = 25.0
"""Milliseconds of decoding that are not worth a scan."""


def _placed(segment: Segment, id_: str, keys: LookupKeys, _: bool) -> Placed:
    return placed(segment, id_, keys)


def visible_rows(space: SpaceView, keys: Longs, in_space: Longs) -> KeyRows:
    """Return the visible rows among positions of a row space; `keys`: the key's number per position."""
    if not len(space.bases):
        keys, in_space = keys[:0], in_space[:0]
    files = np.searchsorted(space.bases, in_space, side="right") - 1
    positions = in_space - space.bases[files]
    shown = (files >= 0) & (positions < space.rows[files])
    if len(space.hidden):
        shown &= ~_are_hidden(space, in_space)
    if not shown.all():
        keys, files, positions = keys[shown], files[shown], positions[shown]
    return KeyRows(keys, space.files[files], positions)


def _are_hidden(space: SpaceView, positions: Longs) -> Mask:
    """Return which of some positions are hidden: by a search of each or, of many, by a mask of all rows."""
    hidden = space.hidden
    if len(positions) * _ROWS_A_SEARCH < int(hidden[-1]):
        among: Mask = hidden[np.minimum(np.searchsorted(hidden, positions), len(hidden) - 1)] == positions
        return among
    mask = np.zeros(max(int(hidden[-1]), int(positions.max(initial=0))) + 1, dtype=np.bool_)
    mask[hidden] = True
    return mask[positions]


_ROWS_A_SEARCH = 32
"""Rows of a mask that cost as much as the search of one position."""


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
