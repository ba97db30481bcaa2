"""One table with all that an output must carry: every type, a partition column, mapped names, hidden rows.

Its twelve rows are those of EVERY_TYPE twice, in the partitions `part` = 'a b' and NULL, `id` counting on.
The first file has two hidden rows from version 3 on. Columns have other names in the files than in the table.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from support.delta_builder import DeltaBuilder, field_json
from support.tables import EVERY_TYPE, index_of

PROTOCOL: dict[str, Any] = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["columnMapping", "deletionVectors", "timestampNtz"],
    "writerFeatures": ["columnMapping", "deletionVectors", "invariants", "timestampNtz"],
}
CONFIGURATION = {
    "delta.enableDeletionVectors": "true",
    "delta.columnMapping.mode": "name",
    "delta.columnMapping.maxColumnId": "99",
}
HIDDEN = (1, 4)
CASES = {
    "all": (None, None),
    "some": ("name = 'a' OR part IS NULL", None),
    "rows of one file": ("part IS NULL AND id > 7", None),
    "before rows were hidden": ("id < 6", 2),
    "the first rows": ("id < 6", 1),
    "none": ("id > 100", None),
}
"""Questions to the table: predicate and version, by name."""


def every_feature(path: str) -> DeltaBuilder:
    """Write the table and an index of its columns `id` and `name`."""
    builder = DeltaBuilder(path)
    builder.commit(
        [{"protocol": PROTOCOL}, {"metaData": builder.metadata_action(_schema(), ["part"], CONFIGURATION)}]
    )
    rows = EVERY_TYPE.set_column(0, "id", pa.array(range(6, 12), pa.int64()))
    for n, (table, part) in enumerate(((EVERY_TYPE, "a b"), (rows, None))):
        stored = _stored(table)
        builder.commit([builder.data_file(stored, f"f{n}.parquet", {"p_part": part}, row_group_size=4)])
    (vector,) = builder.stored_vectors(HIDDEN)
    builder.commit(builder.hide("f0.parquet", vector))
    index_of(path, ["id", "name"])
    return builder


def _schema() -> dict[str, Any]:
    """The schema as JSON: physical names and ids at every struct field, `id` NOT NULL."""
    counter = iter(range(1, 99))

    def mapped(field: dict[str, Any]) -> dict[str, Any]:
        if isinstance(field["type"], dict) and field["type"]["type"] == "struct":
            field["type"]["fields"] = [mapped(f) for f in field["type"]["fields"]]
        field["metadata"] = {
            "delta.columnMapping.id": next(counter),
            "delta.columnMapping.physicalName": f"p_{field['name']}",
        }
        return field

    fields = [mapped(field_json(f)) for f in [*EVERY_TYPE.schema, pa.field("part", pa.string())]]
    fields[0]["nullable"] = False
    return {"type": "struct", "fields": fields}


def _stored(table: pa.Table) -> pa.Table:
    """The rows under the names that they have in the files."""

    def type_of(type_: pa.DataType) -> pa.DataType:
        if not pa.types.is_struct(type_):
            return type_
        return pa.struct([pa.field(f"p_{f.name}", type_of(f.type)) for f in type_])

    schema = pa.schema([pa.field(f"p_{f.name}", type_of(f.type)) for f in table.schema])
    columns = [_renamed(c.combine_chunks(), f.type) for c, f in zip(table.columns, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def _renamed(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """The same values with other names of fields."""
    if not pa.types.is_struct(type_):
        return values
    inner = [_renamed(values.field(n), f.type) for n, f in enumerate(type_)]
    return pa.StructArray.from_arrays(inner, fields=list(type_), mask=values.is_null())
