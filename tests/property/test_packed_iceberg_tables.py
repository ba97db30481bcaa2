"""Every state of Iceberg tables of real writers holds the rows that the writer's engine read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tailbit
from support.drive import Drive
from support.iceberg import Unpacked, counted, packs, unpack
from tailbit.tables.model import Column

SHOWN = {
    "types": ("Schema and types", "all types that Spark writes, nested and not"),
    "partitions": ("Files", "partitions of every transform, specs that change"),
    "deletes": ("Deletes", "DELETE, UPDATE and MERGE of Spark, merge-on-read"),
    "schemas": ("Schema and types", "columns within structs added, renamed and promoted"),
    "lines": ("Histories", "branches, tags, write-audit-publish, cherry-picks, expire_snapshots"),
    "upgraded": ("Histories", "a table upgraded from version 1 to 2 and 3"),
    "replaced": ("Histories", "CREATE OR REPLACE TABLE, INSERT OVERWRITE"),
    "imported": ("Files", "files imported without field ids: name mapping, values in folders"),
    "uuids": ("Schema and types", "uuid, as text; fixed lengths; decimals of 38 digits; partitions of them"),
    "keys": ("Deletes", "equality deletes by keys of every type, NULL, NaN, promoted, renamed and dropped"),
    "specs": ("Deletes", "equality deletes of a NULL partition, of an older spec, of the whole table"),
    "within": ("Deletes", "equality deletes by a field of a struct"),
    "nested": (
        "Schema and types",
        "columns within structs, lists and maps dropped, with all that a file had",
    ),
    "defaults": ("Schema and types", "default values of every type, also within structs and promoted"),
    "variants": ("Schema and types", "variant, whole and shredded into columns"),
    "paths": ("Files", "partitions and columns with spaces, percent signs, slashes, dots"),
    "bare": ("Histories", "format version 1, manifests in the metadata itself, void partitions"),
    "duckdb": ("Tables", "tables that DuckDB writes to a REST catalog, with position deletes and vectors"),
    "pyiceberg": ("Tables", "tables that pyiceberg writes, by their metadata file"),
}


def marked() -> list[Any]:
    """The packed tables with what they show."""
    return [
        pytest.param(name, marks=pytest.mark.supports_iceberg(*SHOWN[kind], outcome))
        for name in packs()
        for kind in (name.partition("_")[0],)
        for outcome in ("scanned" if kind == "variants" else "exact",)
    ]


@pytest.fixture
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Unpacked:
    return unpack(request.param, tmp_path)


def versions(state: str) -> dict[str, str]:
    return {} if state == "head" else {"version": state}


def plain(rows: pa.Table) -> pa.Table:
    """Rows without the metadata of fields, with times in microseconds."""
    return rows.replace_schema_metadata()


@pytest.mark.parametrize("table", marked(), indirect=True)
def test_every_state_of_a_table_of_a_real_writer_has_its_rows(table: Unpacked) -> None:
    opened = tailbit.open(table.table)
    wrong = [
        state
        for state in table.states
        if counted(plain(opened.where(**versions(state)).read())) != counted(plain(table.rows(state)))
    ]
    assert wrong == []


def is_indexable(column: Column) -> bool:
    """Whether an index can have a column: no map, no variant, and no array of structs, arrays or variants."""
    kind, fields = column.type.name, column.type.fields
    if kind == "array" and fields[0].type.name == "variant":
        return False
    return kind not in ("map", "variant") and not (kind == "array" and fields[0].type.fields)


@pytest.mark.parametrize("table", marked(), indirect=True)
def test_an_index_of_a_table_of_a_real_writer_answers_as_a_scan_at_every_state(
    table: Unpacked, tmp_path: Path
) -> None:
    scanned, index = tailbit.open(table.table), str(tmp_path / "index")
    leaves = scanned._snapshot(None).schema.leaves() if scanned.where().count() else ()
    able = [column.label for column in leaves if is_indexable(column)]
    Drive(table.table, index, able).drain()
    indexed = tailbit.open(table.table, index=index)
    assert indexed.verify(samples=50).problems == []
    for state in table.states:
        rows = table.rows(state)
        for name in rows.column_names:
            field = rows.schema.field(name)
            if pa.types.is_nested(field.type):
                continue
            nulls = f"`{name}` IS NULL"
            assert indexed.where(nulls, **versions(state)).count() == rows[name].null_count, (state, name)
            values = [v for v in rows[name].unique().to_pylist() if isinstance(v, (int, str))][:4]
            for value in values:
                text = repr(value) if isinstance(value, str) else str(value).upper()
                expected = sum(v == value for v in rows[name].to_pylist())
                found = indexed.where(f"`{name}` = {text}", **versions(state)).count()
                assert found == expected, (state, name, value)
