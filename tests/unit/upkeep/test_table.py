"""Upkeep by hand: merges and vacuum, and what they need."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.tables import index_of, rows, three_commits
from tailbit.errors import NoIndexError
from tailbit.index.store.table import MetadataTable
from tailbit.upkeep.table import MaintainedTable


@pytest.fixture
def path(table_path: str) -> str:
    return three_commits(table_path)


def test_compacting_with_an_index_of_another_table_drops_nothing(path: str) -> None:
    write_deltalake(path, rows(0), mode="overwrite")
    index_of(path, ["v"])
    elsewhere = f"{path}_2"
    for _ in range(20):
        write_deltalake(elsewhere, rows(0), mode="append")
    DeltaTable(elsewhere).create_checkpoint()
    for commit in sorted(Path(elsewhere, "_delta_log").glob("*.json"))[:-1]:
        commit.unlink()
    before = sorted(
        r.path for r in MetadataTable.open(f"{path}/_tailbit").state.recorded.records() if r.space
    )
    tailbit.open(elsewhere, index=f"{path}/_tailbit").compact()
    after = sorted(r.path for r in MetadataTable.open(f"{path}/_tailbit").state.recorded.records() if r.space)
    assert before == after


def test_vacuum_and_compact_need_an_index(path: str) -> None:
    for call in (MaintainedTable.compact, MaintainedTable.vacuum, MaintainedTable.verify):
        with pytest.raises(NoIndexError):
            call(tailbit.open(path))
