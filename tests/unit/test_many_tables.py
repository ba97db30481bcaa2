"""What a process keeps of each table is bounded in bytes: a ninth table is as quick as the first."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from support.tables import index_of
from tailbit.index.write import counting
from tailbit.index.write.counting import HiddenRowsReader

TABLES = 20


@pytest.fixture
def tables(tmp_path: Path) -> list[str]:
    """Tables with an index, more than a handful."""
    paths = [str(tmp_path / f"t{number}") for number in range(TABLES)]
    for path in paths:
        write_deltalake(path, pa.table({"v": [1, 2]}))
        index_of(path, ["v"])
    return paths


def test_the_indexes_of_many_tables_stay_open_in_turns(tables: list[str]) -> None:
    first = [HiddenRowsReader(f"{path}/_tailbit").index for path in tables]
    again = [HiddenRowsReader(f"{path}/_tailbit").index for path in tables]
    assert all(one is other for one, other in zip(first, again, strict=True))


def test_the_handles_of_sql_functions_stay_open_in_turns(tables: list[str]) -> None:
    functions = pytest.importorskip("tailbit.spark.locating")
    first = [functions.opened(path) for path in tables]
    assert all(functions.opened(path) is handle for path, handle in zip(tables, first, strict=True))


def test_indexes_that_stay_open_are_bounded_in_bytes(
    tables: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    index = HiddenRowsReader(f"{tables[0]}/_tailbit").index
    assert index.bytes_held > 1 << 16
    limit = 3 * index.bytes_held
    monkeypatch.setattr(counting, "_OPENED", counting.Cache(limit))
    for path in tables:
        assert HiddenRowsReader(f"{path}/_tailbit").index.state.ledger is not None
    held = [opened.bytes_held for _, opened in counting._OPENED.items()]
    assert sum(held) <= limit
    assert len(held) >= 2
