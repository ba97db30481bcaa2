"""A table on disk and the same in an object store, whose answers must be equal."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import tailbit
from support.delta_builder import DeltaBuilder
from support.tables import VECTORS
from tailbit.tables.storage import StorageOptions, open_storage

PREDICATES = (None, "v = 'v1'", "k >= 13 AND v <> 'v0'", "NOT (v IN ('v0', 'v2'))", "v IS NULL OR k < 3")
FILES = 9


def on_disk(path: Path) -> DeltaBuilder:
    """A table on disk: files of ten rows, some of which are hidden later."""
    builder = DeltaBuilder(str(path))
    builder.create(pa.schema([("k", pa.int64()), ("v", pa.string())]), **VECTORS)
    for n in range(FILES):
        keys = list(range(10 * n, 10 * n + 10))
        values = [None if k % 7 == 0 else f"v{k % 3}" for k in keys]
        rows = pa.table({"k": pa.array(keys, pa.int64()), "v": values})
        builder.commit([builder.data_file(rows, f"f{n} ä.parquet")])
    [vector] = builder.stored_vectors([0, 4])
    builder.commit(builder.hide(next(p for p in builder.live if p.startswith("f1")), vector))
    return builder


def put_into(root: str, options: StorageOptions, folder: str | Path) -> None:
    """Put all files of a table on disk into a store."""
    store, folder = open_storage(root, options), Path(folder)
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            store.put(file.relative_to(folder).as_posix(), file.read_bytes())


def checked(table: str, disk: str, options: dict[str, str]) -> tailbit.IndexedTable:
    """Every answer is that of the table on disk, which has no index."""
    opened, judge = tailbit.open(table, storage_options=options), tailbit.open(disk)
    for predicate in PREDICATES:
        answer, expected = opened.where(predicate), judge.where(predicate)
        assert answer.count() == expected.count(), predicate
        assert answer.facets("v") == expected.facets("v")
        assert answer.read(order_by=["k"]).equals(expected.read(order_by=["k"]))
        found = {path: list(at) for path, at in answer.positions().items()}
        assert found == {path: list(at) for path, at in expected.positions().items()}
    return opened
