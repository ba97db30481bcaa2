"""What left and what came between two versions whose columns are not the same."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.delta_builder import DeltaBuilder
from support.tables import index_of
from tailbit.errors import ColumnTypeError

PARTED = pa.schema([("k", pa.int64()), ("p", pa.string())])


def indexed_and_not(path: str, column: str, before: int, after: int) -> list[dict[Any, tuple[int, int]]]:
    """Transitions without an index and with one, as plain tuples."""
    found = [tailbit.open(path).transitions(column, before, after)]
    index_of(path, ["k"])
    found.append(tailbit.open(path).transitions(column, before, after))
    return [{value: tuple(moved) for value, moved in one.items()} for one in found]


def test_rows_whose_file_gets_another_partition_value_leave_one_and_come_to_the_other(
    table_path: str,
) -> None:
    builder = DeltaBuilder(table_path).create(PARTED, partition_by=["p"])
    builder.commit([builder.data_file(pa.table({"k": [1, 2, 3]}), "a.parquet", {"p": "x"})])
    (path,) = builder.live
    builder.commit([{"add": {**builder.live[path], "partitionValues": {"p": "y"}}}])
    assert indexed_and_not(table_path, "p", 1, 2) == [{"x": (3, 0), "y": (0, 3)}] * 2
    assert indexed_and_not(table_path, "k", 1, 2) == [{}] * 2


@pytest.mark.parametrize("parted_first", [True, False])
def test_values_that_are_partition_values_in_one_version_alone_are_told_of_both(
    table_path: str, parted_first: bool
) -> None:
    rows = pa.table({"k": pa.array([1, 2], pa.int64()), "p": ["x", "y"]})
    parts = [["p"], None] if parted_first else [None, ["p"]]
    for partition_by in parts:
        write_deltalake(
            table_path, rows, mode="overwrite", schema_mode="overwrite", partition_by=partition_by
        )
    assert indexed_and_not(table_path, "p", 0, 1) == [{"x": (1, 1), "y": (1, 1)}] * 2


def test_a_column_of_two_types_of_which_neither_is_wider_has_no_transitions(table_path: str) -> None:
    write_deltalake(table_path, pa.table({"k": ["a"]}))
    write_deltalake(table_path, pa.table({"k": [1]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(ColumnTypeError, match="string at version 0 and long at version 1"):
        tailbit.open(table_path).transitions("k", 0, 1)
