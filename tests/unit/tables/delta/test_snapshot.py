"""A snapshot is made of the log as it is, whatever of it was known before."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tailbit.errors import CommitGapError
from tailbit.tables import open_table


def appended(path: str, times: int) -> None:
    for _ in range(times):
        write_deltalake(path, pa.table({"k": [1]}), mode="append")


def remove_commits(path: str, *versions: int) -> None:
    for version in versions:
        os.remove(f"{path}/_delta_log/{version:020}.json")


def test_a_log_that_was_cleaned_up_since_it_was_listed_is_listed_anew(table_path: str) -> None:
    appended(table_path, 4)
    table = open_table(table_path)
    assert table.head() == 3
    appended(table_path, 3)
    assert table.head() == 6
    DeltaTable(table_path).create_checkpoint()
    remove_commits(table_path, *range(6))
    appended(table_path, 1)
    assert len(table.snapshot(table.head()).files) == 8


def test_a_log_with_a_hole_stays_refused(table_path: str) -> None:
    appended(table_path, 4)
    table = open_table(table_path)
    assert table.head() == 3
    remove_commits(table_path, 1)
    with pytest.raises(CommitGapError, match="commit 1 is missing"):
        table.snapshot(3)
