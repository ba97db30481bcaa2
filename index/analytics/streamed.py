"""Extremes and sums of a column without postings, from its data, batch by batch.

No values are counted: counting each value of a column with many values takes twenty times as long as adding
them up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from tailbit.base.errors import CorruptIndexError
from tailbit.index.analytics.aggregates import Totals
from tailbit.index.analytics.terms import is_counted
from tailbit.index.evaluation.stated import stated
from tailbit.index.grouping.dictionary import full_keys, python_values
from tailbit.index.grouping.rows import Rows, fetch_values
from tailbit.index.keys import decode_keys, encode_value, integer_keys
from tailbit.index.model import key_type_of_column
from tailbit.index.ordered import ordered_ints
from tailbit.index.predicate.tree import Constant
from tailbit.index.query.selection import Selection
from tailbit.index.values.literals import FLOATING
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.model import Column
from tailbit.tables.schema import arrow_type


def reads_data(selection: Selection, column: Column) -> bool:
    """Return whether neither postings nor partition values tell the values of a column, so data is read."""
    return not is_counted(selection.coverage.spaces, column)


def totals_of_data(selection: Selection, column: Column) -> Totals:
    """Return the totals of a numeric column over a selection. Cost: the column is read at the rows."""
    column_totals = Totals(column, 0, 0)
    for values in _present(selection, column):
        column_totals += Totals.of(column, values)
    return column_totals


def extremes_of_data(selection: Selection, column: Column) -> tuple[Any, Any]:
    """Return the least and the greatest value; (None, None) without values.

    Cost: the column is read at the rows; if a selection has all rows of the table, only in files whose
    statistics leave open whether they hold an extreme.

    Raises:
        ColumnTypeError: the column's type has no keys.
    """
    key_type = key_type_of_column(column)
    whole = selection.node == Constant(True)
    keys, left = _stated_ends(selection, column, key_type) if whole else ([], None)
    values_of_files = _present(selection, column, left)
    ends = [_ends(values, column) for values in values_of_files if len(values)]
    if ends:
        keys += full_keys(_ends(pa.concat_arrays(ends), column), key_type).to_pylist()
    if not keys:
        return None, None
    least, most = python_values(arrow_array([min(keys), max(keys)], pa.binary()), key_type, column)
    return least, most


def _stated_ends(selection: Selection, column: Column, key_type: str) -> tuple[list[bytes], set[int] | None]:
    """Return the keys of the extremes that statistics state, and the numbers of files to read (None: all)."""
    try:
        stated_by_space = [(space, stated(column, space)) for space, _ in selection.bounds]
    except CorruptIndexError as damage:
        selection.damages.note(damage)
        return [], None
    known = [(space, of_space) for space, of_space in stated_by_space if of_space is not None]
    sure = [of_space for _, of_space in known if (of_space.tight & of_space.bounded).any()]
    if not known:
        return [], None
    low = min((int(s.low[s.tight & s.bounded].min()) for s in sure), default=None)
    high = max((int(s.high[s.tight & s.bounded].max()) for s in sure), default=None)
    left = {int(n) for n in selection.to_scan}
    left |= {int(n) for space, of_space in stated_by_space if of_space is None for n in space.files.tolist()}
    for space, s in known:
        done = s.tight
        if low is not None and high is not None:
            done = done | (s.bounded & (s.low >= low) & (s.high <= high))
        left |= set(space.files[~done].tolist())
    return [] if low is None or high is None else [encode_value(n, key_type) for n in (low, high)], left


def _present(selection: Selection, column: Column, left: set[int] | None = None) -> Iterator[pa.Array]:
    """Yield the values that are not NULL, batch by batch; with `left`, only of files of these numbers."""
    if left is not None and not left:
        return
    rows = Rows.of(selection)
    reads = list(rows.reads())
    if left is not None:
        paths = {selection.snapshot.files[number].path for number in left}
        reads = [read for read in reads if read[0].path in paths]
    for table in fetch_values(rows.storage, reads, [column]):
        for chunk in table[column.id].chunks:
            yield pc.drop_null(chunk)


def _ends(values: pa.Array, column: Column) -> pa.Array:
    """Return the least and the greatest of at least one value, in Spark's order."""
    if column.type.name in FLOATING:
        numbers = ordered_ints(values, "double")
        ends = np.array([numbers.min(), numbers.max()])
        return decode_keys(integer_keys(ends), "double", column.type)
    bounds = pc.min_max(values)
    ends = pa.concat_arrays([pa.repeat(bounds["min"], 1), pa.repeat(bounds["max"], 1)])
    return pc.cast(ends, arrow_type(column.type, column.label))
