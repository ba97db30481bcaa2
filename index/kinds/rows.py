"""Reading of index files of any kind: rows in the schema of the kind, row groups chosen by statistics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from tailbit.base.errors import ColumnTypeError, CorruptIndexError
from tailbit.index.keys import key_type_of
from tailbit.index.parquet.index_file import open_index_file
from tailbit.tables import compute as pc
from tailbit.tables.model import Column
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    import pyarrow.parquet as pq


def kind_of(path: str) -> str:
    """Return the name of the kind of an index file, by its folder `kind=<kind>`."""
    return path.partition("/")[0].removeprefix("kind=")


def stored_type(column: Column) -> str | None:
    """Return the key type of a column's values; None for partition columns and types without keys."""
    try:
        return None if column.partition else key_type_of(column.type)
    except ColumnTypeError:
        return None


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Convert pyarrow's errors about a damaged or missing index file into CorruptIndexError."""
    try:
        yield
    except FileNotFoundError as gone:
        raise CorruptIndexError(file=path, reason="it is missing") from gone
    except (pa.ArrowException, OSError) as damage:
        raise CorruptIndexError(file=path, reason=str(damage)) from damage


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows with the columns and types of their kind; columns that the file lacks are null."""
    if table.schema == schema:
        return table
    return pa.table([_column(table, field) for field in schema], schema=schema)


def _column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    if field.name in table.column_names:
        stored = table[field.name]
        return stored if stored.type == field.type else pc.cast(stored, field.type)
    return pa.nulls(len(table), field.type)


def row_groups(metadata: pq.FileMetaData, column: str, value: str) -> list[int]:
    """Return the row groups of a sorted file that may hold `value` in a column.

    Statistics exclude the others; row groups without statistics are returned.
    """
    at = metadata.schema.names.index(column)
    groups = []
    for group in range(metadata.num_row_groups):
        stats = metadata.row_group(group).column(at).statistics
        if stats is None or not stats.has_min_max or stats.min <= value <= stats.max:
            groups.append(group)
    return groups


def read_groups(storage: Storage, path: str, column: str, value: str, columns: Sequence[str]) -> pa.Table:
    """Read the rows of one index file in the row groups that may hold `value`.

    Raises:
        CorruptIndexError: the file is missing, truncated or altered.
    """
    with reading(path), open_index_file(storage, path) as file:
        groups = row_groups(file.metadata, column, value)
        known = [name for name in columns if name in file.schema_arrow.names]
        return file.read_row_groups(groups, columns=known)
