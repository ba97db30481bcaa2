"""Rows as an Arrow stream that any library takes by the PyCapsule interface, without pyarrow in between.

Source: Arrow PyCapsule Interface, https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from tailbit.tables.arrow import arrow_array

BATCH_ROWS = 131_072
"""Most rows of a batch: consumers hold a batch or two at a time, so that memory is theirs to bound."""


def batch_reader(schema: pa.Schema, tables: Iterable[pa.Table]) -> pa.RecordBatchReader:
    """A stream of the rows of tables; a table is asked for when its rows are.

    What a table raises on its way ends the stream: a reader in Python gets the error itself, one behind the
    C interface gets its text.
    """
    return pa.RecordBatchReader.from_batches(schema, _batches(tables))


def _batches(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    for table in tables:
        for batch in table.to_batches(max_chunksize=BATCH_ROWS):
            yield _for_duckdb(batch)


def _for_duckdb(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, its columns of nested structs copied: DuckDB 2.0 refuses one that begins at an offset."""
    copied = [_nests_structs(column) for column in batch.schema.types]
    if not any(copied):
        return batch
    every = arrow_array(range(batch.num_rows), pa.int64())
    columns = [
        column.take(every) if copy else column for column, copy in zip(batch.columns, copied, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _nests_structs(of: pa.DataType) -> bool:
    """Whether a struct lies within a type; the entries of a map are one."""
    inner = [of.field(i).type for i in range(of.num_fields)]
    return pa.types.is_map(of) or any(pa.types.is_struct(t) or _nests_structs(t) for t in inner)
