"""Facets are the matching rows grouped as Spark groups them, wherever the counts come from."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.tables import (
    DAMAGES,
    EVERY_TYPE,
    LONG,
    index_files,
    index_of,
    with_vectors,
)
from tailbit.errors import ColumnTypeError, UnknownColumnError
from tailbit.index.grouping.grouping import recorded_groups
from tailbit.index.store.table import MetadataTable


def grouped(values: list[Any]) -> dict[Any, int]:
    """Counts per value with one NaN and one zero, comparable by ==."""
    return dict(Counter("NaN" if v != v else v for v in values))


def test_the_most_frequent_value_is_first_and_ties_are_in_order_of_value(table_path: str) -> None:
    write_deltalake(table_path, pa.table({"v": ["b", "c", None, "a", "c", "", "b", "c"]}))
    index_of(table_path, ["v"])
    assert list(tailbit.open(table_path).where().facets("v").items()) == [
        ("c", 3),
        ("b", 2),
        (None, 1),
        ("", 1),
        ("a", 1),
    ]


def test_facets_of_a_partition_column_open_no_data_file_that_is_covered(table_path: str) -> None:
    rows = pa.table({"k": range(9), "p": ["x", "y", None] * 3, "d": [datetime.date(2020, 1, 1)] * 9})
    write_deltalake(table_path, rows, partition_by=["p", "d"])
    write_deltalake(table_path, rows, mode="append")
    index_of(table_path, ["k"])
    for file in Path(table_path).glob("p=*/**/*.parquet"):
        file.write_bytes(b"")
    opened = tailbit.open(table_path)
    assert opened.where().facets("p") == {"x": 6, "y": 6, None: 6}
    assert opened.where("p <> 'x'").facets("d") == {datetime.date(2020, 1, 1): 6}
    assert opened.where("k < 4", version=0).facets("p") == {"x": 2, "y": 1, None: 1}


def test_only_rows_with_long_values_are_read(table_path: str) -> None:
    values = ["a", "b", LONG, LONG + "y", LONG, None]
    write_deltalake(table_path, pa.table({"k": range(6), "v": values}))
    index_of(table_path, ["k", "v"])
    opened = tailbit.open(table_path)
    assert opened.where().facets("v") == dict(Counter(values))
    assert opened.where("k > 2").facets("v") == dict(Counter(values[3:]))
    for file in Path(table_path).glob("*.parquet"):
        file.unlink()
    assert opened.where("k < 2").facets("v") == {"a": 1, "b": 1}


@pytest.mark.parametrize("kind", ["value_counts", "bitmap_index", "hidden_rows", "files"])
@pytest.mark.parametrize("harm", DAMAGES)
def test_facets_are_right_whatever_file_of_the_index_is_damaged(
    tmp_path: Path, kind: str, harm: Callable[[Path], None]
) -> None:
    path = str(tmp_path / "t")
    with_vectors(path)
    for file in index_files(path, kind):
        harm(file)
    for where in (None, "k < 100"):
        answer = tailbit.open(path).where(where)
        assert answer.facets("v") == {"v0": 6, "v1": 6, "v2": 6}
        if kind == "files" or (kind == "value_counts" and where is None):
            assert answer.damaged


def test_an_answer_keeps_its_facets_while_table_and_index_move_on(table_path: str) -> None:
    write_deltalake(table_path, pa.table({"v": ["a", "b"]}))
    drive = index_of(table_path, ["v"])
    opened = tailbit.open(table_path)
    answer = opened.where()
    write_deltalake(table_path, pa.table({"v": ["a", "c"]}), mode="append")
    drive.drain()
    assert opened.where().facets("v") == {"a": 2, "b": 1, "c": 1}
    assert answer.facets("v") == {"a": 1, "b": 1}


def test_stray_bits_of_a_column_that_is_not_posted_are_not_counted(table_path: str) -> None:
    write_deltalake(table_path, pa.table({"k": [1, 2], "v": ["a", "b"]}))
    index_of(table_path, ["k", "v"])
    index = MetadataTable.open(f"{table_path}/_tailbit")
    index.commit([replace(r, built=("k",)) for r in list(index.state.recorded.live())], [], None)
    assert tailbit.open(table_path).where("k > 0").facets("v") == {"a": 1, "b": 1}


def test_a_date_beyond_pythons_calendar_is_text(table_path: str) -> None:
    far = pa.array([4_000_000, 0], pa.int32()).cast(pa.date32())
    write_deltalake(table_path, pa.table({"d": far}))
    assert tailbit.open(table_path).where().facets("d") == {"1970-01-01": 1, "12921-08-18": 1}


def test_a_column_without_keys_has_no_facets(table_path: str) -> None:
    write_deltalake(table_path, EVERY_TYPE)
    with pytest.raises(ColumnTypeError, match="column tags is of type ARRAY"):
        tailbit.open(table_path).where().facets("tags")
    with pytest.raises(UnknownColumnError, match="nearest: amount"):
        tailbit.open(table_path).where().facets("amonut")


def test_a_column_without_keys_has_no_recorded_groups(table_path: str) -> None:
    write_deltalake(table_path, EVERY_TYPE)
    index_of(table_path, ["id"])
    answer = tailbit.open(table_path).where()
    with pytest.raises(ColumnTypeError, match="column place is of type STRUCT"):
        recorded_groups(answer._selection, answer._keys("place"), answer._recorded)


def test_facets_of_a_nested_column_and_of_an_empty_table(table_path: str) -> None:
    write_deltalake(table_path, EVERY_TYPE)
    assert tailbit.open(table_path).where().facets("place.city") == {None: 4, "Oslo": 2}
    assert tailbit.open(table_path).where().facets("PLACE.at.X") == {None: 4, 1: 2}
    DeltaTable(table_path).delete()
    assert tailbit.open(table_path).where().facets("name") == {}
