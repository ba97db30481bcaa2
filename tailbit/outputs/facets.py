"""Facets as an Arrow table: the columns in their own types, and how many rows have each value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tailbit.tables.arrow import arrow_array
from tailbit.tables.date_text import is_date_or_time


def facet_table(columns: Sequence[pa.Field], counts: Mapping[Any, int]) -> pa.Table:
    """Values and counts in the order of `counts`, whose keys are tuples where the columns are several.

    The counts are int64 in the last column, `count`; a column that is named so itself is named in backticks.

    >>> facet_table([pa.field("carrier", pa.string())], {"UA": 4, None: 1}).to_pylist()
    [{'carrier': 'UA', 'count': 4}, {'carrier': None, 'count': 1}]
    """
    keys = list(counts)
    each = list(zip(*keys, strict=True)) if len(columns) > 1 and keys else [keys] * len(columns)
    arrays = [_typed(list(values), c.type) for values, c in zip(each, columns, strict=True)]
    totals = arrow_array(counts.values(), pa.int64())
    return pa.Table.from_arrays([*arrays, totals], names=facet_header([c.name for c in columns]))


def measured_table(
    columns: Sequence[pa.Field],
    counts: Mapping[Any, int],
    measures: Mapping[str, tuple[pa.DataType, Sequence[Any]]],
) -> pa.Table:
    """Return a facet table with a column more for each measure: its name, its type, and its values."""
    table = facet_table(columns, counts)
    for name, (type_, values) in measures.items():
        table = table.append_column(pa.field(name, type_), _typed(list(values), type_))
    return table


def facet_header(names: Sequence[str]) -> list[str]:
    """The names of the columns, and `count`: each once, whatever the case of its letters.

    >>> facet_header(["dest", "Count"])
    ['dest', '`Count`', 'count']
    >>> facet_header(["count", "`Count`", "i", "i"])
    ['``count``', '`Count`', 'i', '`i`', 'count']
    """
    wanted, taken = {name.lower() for name in names}, {"count"}
    out = []
    for name in names:
        if name.lower() in taken:
            while name.lower() in wanted | taken:
                name = f"`{name}`"
        taken.add(name.lower())
        out.append(name)
    return [*out, "count"]


def _typed(values: list[Any], type_: pa.DataType) -> pa.Array:
    """Python values in a type; dates and times outside of Python's calendar come as text."""
    if not is_date_or_time(type_) or not any(isinstance(value, str) for value in values):
        return arrow_array(values, type_)
    days = pa.types.is_date32(type_)
    texts = ["1970-01-01" if value is None else _zoneless(value) for value in values]
    numbers = np.array(texts, dtype=f"datetime64[{'D' if days else 'us'}]").astype(np.int64)
    missing = np.array([value is None for value in values])
    return arrow_array(numbers, mask=missing).cast(pa.int32() if days else pa.int64()).cast(type_)


def _zoneless(value: Any) -> str:
    """A date or time as numpy reads it; instants are in UTC."""
    text = value if isinstance(value, str) else value.isoformat().removesuffix("+00:00")
    return text.removesuffix("Z").replace(" ", "T")
