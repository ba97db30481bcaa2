"""Facets as an Arrow table: the columns in their own types, and how many rows have each value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.date_text import is_date_or_time


def facet_table(columns: Sequence[pa.Field], counts: Mapping[Any, int]) -> pa.Table:
    """Return values and counts in the order of `counts`; its keys are tuples if there are several columns.

    The counts are int64 in the last column, `count`; a facet column named `count` is put in backticks.

    >>> facet_table([pa.field("carrier", pa.string())], {"UA": 4, None: 1}).to_pylist()
    [{'carrier': 'UA', 'count': 4}, {'carrier': None, 'count': 1}]
    """
    keys = list(counts)
    key_columns = list(zip(*keys, strict=True)) if len(columns) > 1 and keys else [keys] * len(columns)
    arrays = [_typed(list(values), c.type) for values, c in zip(key_columns, columns, strict=True)]
    totals = arrow_array(counts.values(), pa.int64())
    return pa.Table.from_arrays([*arrays, totals], names=facet_header([c.name for c in columns]))


def measured_table(
    columns: Sequence[pa.Field],
    counts: Mapping[Any, int],
    measures: Mapping[str, tuple[pa.DataType, Sequence[Any]]],
) -> pa.Table:
    """Return a facet table with one more column per measure: its name, type and values."""
    table = facet_table(columns, counts)
    for name, (type_, values) in measures.items():
        table = table.append_column(pa.field(name, type_), _typed(list(values), type_))
    return table


def facet_header(names: Sequence[str]) -> list[str]:
    """Return the column names and `count`, made unique regardless of case.

    >>> facet_header(["dest", "Count"])
    ['dest', '`Count`', 'count']
    >>> facet_header(["count", "`Count`", "i", "i"])
    ['``count``', '`Count`', 'i', '`i`', 'count']
    """
    lower_names, used = {name.lower() for name in names}, {"count"}
    out = []
    for name in names:
        if name.lower() in used:
            while name.lower() in lower_names | used:
                name = f"`{name}`"
        used.add(name.lower())
        out.append(name)
    return [*out, "count"]


def _typed(values: list[Any], type_: pa.DataType) -> pa.Array:
    """Convert Python values to an Arrow type; dates and times beyond Python's calendar are given as text."""
    if not is_date_or_time(type_) or not any(isinstance(value, str) for value in values):
        return arrow_array(values, type_)
    days = pa.types.is_date32(type_)
    texts = ["1970-01-01" if value is None else _zoneless(value) for value in values]
    numbers = np.array(texts, dtype=f"datetime64[{'D' if days else 'us'}]").astype(np.int64)
    missing = np.array([value is None for value in values])
    return pc.cast(arrow_array(numbers, pa.int32() if days else pa.int64(), mask=missing), type_)


def _zoneless(value: Any) -> str:
    """Return a date or time in the form that numpy parses; instants are in UTC."""
    text = value if isinstance(value, str) else value.isoformat().removesuffix("+00:00")
    return text.removesuffix("Z").replace(" ", "T")
