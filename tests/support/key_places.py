"""Where the rows of keys are: by DuckDB's join, and by `locate`."""

from __future__ import annotations

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

import tailbit


def joined(table: str, keys: pa.Table) -> list[tuple[str, ...]]:
    """Keys with the file and row of each row that has them, as DuckDB's join finds them."""
    equal = " AND ".join(f"k.{name} = t.{name}" for name in keys.column_names)
    with duckdb.connect() as engine:
        engine.register("k", keys)
        files = f"read_parquet({DeltaTable(table).file_uris()}, filename = true, file_row_number = true)"
        listed = ", ".join(f"k.{name}" for name in keys.column_names)
        place = "parse_filename(filename), file_row_number"
        rows = engine.sql(f"SELECT {listed}, {place} FROM k LEFT JOIN {files} t ON {equal}").fetchall()
        return sorted(tuple(map(str, row)) for row in rows)


def located(table: str, keys: pa.Table) -> list[tuple[str, ...]]:
    """Keys with the file and row of each row that has them, as `locate` finds them."""
    return located_in(tailbit.open(table), keys)


def located_in(table: tailbit.IndexedTable, keys: pa.Table) -> list[tuple[str, ...]]:
    """What `located` returns, by a table that is open."""
    found = table.locate(keys, keys.column_names)
    return sorted(tuple(map(str, row.values())) for row in found.to_pylist())
