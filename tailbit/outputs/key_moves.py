"""Changes of the rows of located keys since an older version: the column `change` beside their places.

A row of a key is `same` if the key had a row at this place, `moved` if the key had rows, but none at this
place, and `new` if the key had no row. A key without a row is `gone` if it had one, else its change is NULL.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, filled, numpy_of

CHANGE = "change"
"""Name of the column that says how a row of a key has changed."""

SAME, MOVED, NEW, GONE = "same", "moved", "new", "gone"


def change_column(names: list[str]) -> str:
    """Return the name of the column of changes, with underscores where a key column has its name."""
    used, name = {key.lower() for key in names}, CHANGE
    while name in used:
        name = f"_{name}"
    return name


def with_changes(now: pa.Table, before: pa.Table) -> pa.Table:
    """Return located keys with `change`; `before`: where the same keys lay, in the same order."""
    keys, old_keys = _numbers(now), _numbers(before)
    is_there, was_there = (numpy_of(pc.is_valid(_column(table, -2))) for table in (now, before))
    key_was_there = np.isin(keys, old_keys[was_there])
    paths = pc.dictionary_encode(_column(now, -2)).dictionary
    positions = np.concatenate([_row_numbers(now, paths), _row_numbers(before, paths)])
    place = np.unique(positions, axis=0, return_inverse=True)[1].reshape(-1)
    rows = np.concatenate([keys, old_keys]) * (len(positions) + 1) + place
    stays = np.isin(rows[: len(keys)], rows[len(keys) :])
    cases = [~is_there & key_was_there, ~is_there, stays, key_was_there]
    words = arrow_array([GONE, None, SAME, MOVED, NEW], pa.string())
    kinds = pc.take(words, arrow_array(np.select(cases, range(4), default=4).astype(np.int64)))
    return now.append_column(change_column(now.column_names[:-2]), kinds)


def _column(located: pa.Table, number: int) -> pa.Array:
    return located.column(located.num_columns + number).combine_chunks()


def _row_numbers(located: pa.Table, paths: pa.Array) -> Longs:
    """Return, per row, the number of its path (-1 if not in `paths`) and its position: int64, (rows, 2)."""
    numbers = filled(pc.index_in(_column(located, -2), paths), -1)
    positions = filled(_column(located, -1), -1)
    return np.stack([numpy_of(numbers).astype(np.int64), numpy_of(positions).astype(np.int64)], axis=1)


def _numbers(located: pa.Table) -> Longs:
    """Return the number (int64) of the key of each row, from 0; the rows of a key follow each other."""
    begins = np.zeros(len(located), dtype=np.bool_)
    for column in located.columns[:-2]:
        codes = numpy_of(pc.dictionary_encode(column.combine_chunks()).indices)
        begins[1:] |= codes[1:] != codes[:-1]
    return np.cumsum(begins, dtype=np.int64)
