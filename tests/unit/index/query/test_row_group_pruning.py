"""Row groups are left out where footer and partition leave no row that can make a predicate TRUE."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tailbit
from support.delta_builder import DeltaBuilder
from tailbit.index.query.scan import can_match
from tailbit.tables.parquet.data_file import open_layout


@pytest.fixture
def path(table_path: str) -> str:
    """Row groups of k 0-9, 10-19 and NULL, s a..., b... and NULL, in the partition p = x.

    Nothing is known of the last one: pyarrow writes no bounds where all is NULL.
    """
    schema = pa.schema([("k", pa.int64()), ("s", pa.string()), ("p", pa.string())])
    builder = DeltaBuilder(table_path).create(schema, ["p"])
    numbers = [*range(20), *[None] * 10]
    texts = [None if n is None else f"{'ab'[n // 10]}{n}" for n in numbers]
    rows = pa.table({"k": pa.array(numbers, pa.int64()), "s": texts})
    builder.commit([builder.data_file(rows, "f.parquet", row_group_size=10, partition={"p": "x"})])
    return table_path


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("k = 5", "x.x"),
        ("k > 9", ".xx"),
        ("k > 19", "..x"),
        ("k IS NULL", "..x"),
        ("k IS NOT NULL", "xxx"),
        ("s >= 'b'", ".xx"),
        ("s LIKE 'a%' AND k > 15", "..x"),
        ("s LIKE 'a%' OR k > 15", "xxx"),
        ("k < 0 OR s > 'c'", "..x"),
        ("k = 5 AND p = 'x'", "x.x"),
        ("k = 5 AND p = 'y'", "..."),
        ("k = 5 OR p = 'x'", "xxx"),
        ("k + 1 = 5", "xxx"),
        ("k + 1 = 5 AND k = 15", ".xx"),
        ("NOT (k = 5)", "xxx"),
    ],
)
def test_a_row_group_is_left_out_only_where_no_row_can_match(path: str, text: str, left: str) -> None:
    selection = tailbit.open(path).where(text)._selection
    slice_ = selection.snapshot.files[0]
    may = can_match(
        selection.node, open_layout(selection.storage, slice_.path, slice_.size), slice_, selection.storage
    )
    assert "".join("x" if its else "." for its in may) == left


def test_a_predicate_that_holds_itself_many_times_is_asked_of_each_part_once(path: str) -> None:
    text = "k = 1 AND s = 'a1'"
    for number in range(40):
        text = f"(({text}) IS NULL OR k < {-number} AND s <> 'v{number}')"
    selection = tailbit.open(path).where(text)._selection
    slice_ = selection.snapshot.files[0]
    may = can_match(
        selection.node, open_layout(selection.storage, slice_.path, slice_.size), slice_, selection.storage
    )
    assert len(may) == 3
