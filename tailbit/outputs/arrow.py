"""Rows as an Arrow stream that any library can read through the PyCapsule interface, without pyarrow.

Source: Arrow PyCapsule Interface, https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from tailbit.tables.arrow import arrow_array

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
