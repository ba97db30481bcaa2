"""A handle that is kept open for weeks: it answers for every new version, and holds no more than at first."""

from __future__ import annotations

import gc
from collections import Counter
from pathlib import Path

import pyarrow as pa

import tailbit
from support.delta_builder import DeltaBuilder
from support.tables import VECTORS, index_of
from tailbit.index.query.coverage import Coverage
from tailbit.index.query.selection import Selection
from tailbit.index.store.state import IndexState
from tailbit.tables.snapshot import Snapshot

KEPT = (Snapshot, Coverage, Selection, IndexState)


def held() -> Counter[str]:
    """How many objects of the kinds that a question makes are alive."""
    gc.collect()
    return Counter(kind.__name__ for o in gc.get_objects() for kind in KEPT if isinstance(o, kind))


def test_a_handle_that_is_kept_open_holds_no_more_after_many_versions_than_after_a_few(
    tmp_path: Path,
) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    builder = DeltaBuilder(str(tmp_path)).create(schema, **VECTORS)
    opened, before = None, Counter[str]()
    for n in range(32):
        rows = pa.table({"k": pa.array([n] * 3, pa.int64()), "v": [f"v{n % 5}"] * 3})
        builder.commit([builder.data_file(rows, f"f{n}.parquet")])
        if n % 10 == 0:
            index_of(tmp_path, ["v"])
        opened = opened or tailbit.open(tmp_path)
        assert opened.where(f"v = 'v{n % 5}'").count() == 3 * (n // 5 + 1)
        assert opened.where("k >= 0", version=1 + n // 2).count() == 3 * (1 + n // 2)
        if n == 15:
            before = held()
    assert held() <= before
    assert before["Snapshot"] > 0
