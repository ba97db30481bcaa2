"""Rows as an Arrow stream that any library takes by the PyCapsule interface, without pyarrow in between.

Source: Arrow PyCapsule Interface, https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

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
        yield from table.to_batches(max_chunksize=BATCH_ROWS)
