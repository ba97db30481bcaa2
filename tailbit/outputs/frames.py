"""Rows and facets for other libraries: as a stream, as an Arrow table, as DataFrames of pandas and polars.

Any library can read a stream through the PyCapsule interface, without pyarrow.
Source: Arrow PyCapsule Interface, https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tailbit.base.errors import UsageError
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.date_text import is_date_or_time

if TYPE_CHECKING:
    import pandas
    import polars

BATCH_ROWS = 131_072
"""Most rows of a batch. A consumer holds one or two batches at a time, so this bounds its memory."""


def batch_reader(schema: pa.Schema, tables: Iterable[pa.Table]) -> pa.RecordBatchReader:
    """Return the rows of tables as a stream; each table is computed only when its rows are requested.

    An error that a table raises ends the stream: a Python reader gets the error, a reader behind the C
    interface gets its text.
    """
    return pa.RecordBatchReader.from_batches(schema, _batches(tables))


def _batches(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    for table in tables:
        for batch in table.to_batches(max_chunksize=BATCH_ROWS):
            yield _for_duckdb(batch)


def _for_duckdb(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Copy the columns of nested structs of a batch.

    DuckDB 2.0 refuses such a column if it has an offset.
    """
    copied = [_nests_structs(column) for column in batch.schema.types]
    if not any(copied):
        return batch
    every = arrow_array(range(batch.num_rows), pa.int64())
    columns = [
        column.take(every) if copy else column for column, copy in zip(batch.columns, copied, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _nests_structs(of: pa.DataType) -> bool:
    """Return whether a type contains a struct; the entries of a map are structs."""
    inner = [of.field(i).type for i in range(of.num_fields)]
    return pa.types.is_map(of) or any(pa.types.is_struct(t) or _nests_structs(t) for t in inner)


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


def to_pandas(rows: pa.Table) -> pandas.DataFrame:
    """Return rows as a DataFrame of pandas."""
    _library("pandas")
    return rows.to_pandas()


def to_polars(rows: pa.Table) -> polars.DataFrame:
    """Return rows as a DataFrame of polars."""
    frame: polars.DataFrame = _library("polars").DataFrame(rows)
    return frame


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise UsageError(reason=f"{name} is not installed", hint=f"Install it: pip install {name}.") from None
