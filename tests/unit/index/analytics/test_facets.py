"""Facets are the matching rows grouped as Spark groups them, wherever the counts come from."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.delta_builder import DeltaBuilder
from support.tables import (
    DAMAGES,
    EVERY_TYPE,
    LONG,
    PLAIN_TYPES,
    half_built,
    index_files,
    index_of,
    with_vectors,
)
from tailbit.errors import ColumnTypeError, UnknownColumnError
from tailbit.index.store.table import MetadataTable


@pytest.fixture(params=["absent", "half built", "behind", "complete"])
def every_type(request: pytest.FixtureRequest, table_path: str) -> str:
    """EVERY_TYPE in two files, indexed in some state."""
    write_deltalake(table_path, EVERY_TYPE.take([0, 1, 2]))
    if request.param == "behind":
        index_of(table_path, PLAIN_TYPES)
    write_deltalake(table_path, EVERY_TYPE.take([3, 4, 5]), mode="append")
    if request.param == "half built":
        half_built(table_path, PLAIN_TYPES)
    if request.param == "complete":
        index_of(table_path, PLAIN_TYPES)
    return table_path


def grouped(values: list[Any]) -> dict[Any, int]:
    """Counts per value with one NaN and one zero, comparable by ==."""
    return dict(Counter("NaN" if v != v else v for v in values))


def by_name(facets: dict[Any, int]) -> dict[Any, int]:
    assert sum(1 for v in facets if v != v) <= 1
    return {"NaN" if v != v else v: n for v, n in facets.items()}


@pytest.mark.parametrize("where", [None, "id <> 1"])
def test_facets_of_every_type_are_those_of_the_rows(every_type: str, where: str | None) -> None:
    answer = tailbit.open(every_type).where(where)
    rows = [r for r in EVERY_TYPE.to_pylist() if where is None or r["id"] != 1]
    for column in PLAIN_TYPES:
        assert by_name(answer.facets(column)) == grouped([row[column] for row in rows]), column


def test_nan_counts_once_and_zero_has_no_sign(table_path: str) -> None:
    write_deltalake(table_path, EVERY_TYPE)
    for _ in range(2):
        found = tailbit.open(table_path).where().facets("score")
        assert [n for v, n in found.items() if v is not None and math.isnan(v)] == [2]
        assert found[0.0] == 2
        index_of(table_path, ["score"])


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


def test_an_indexed_partition_column_has_the_same_facets(table_path: str) -> None:
    rows = pa.table({"k": range(6), "p": pa.array([1, 2, None] * 2, pa.int32())})
    write_deltalake(table_path, rows, partition_by=["p"])
    index_of(table_path, ["p"])
    assert tailbit.open(table_path).where().facets("p") == {None: 2, 1: 2, 2: 2}
    assert tailbit.open(table_path).where("p = 1").files_scanned == 0


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


def test_hidden_rows_are_in_no_facet(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    with_vectors(path)
    opened = tailbit.open(path)
    assert opened.where().facets("v") == {"v0": 6, "v1": 6, "v2": 6}
    assert opened.where("k < 10").facets("v") == {"v0": 3, "v2": 3, "v1": 2}
    assert opened.where(version=2).facets("v") == {"v0": 7, "v1": 7, "v2": 6}


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


def test_a_column_that_was_gone_for_a_while_counts_as_null_where_it_lacks(table_path: str) -> None:
    write_deltalake(table_path, pa.table({"k": [1, 2], "v": ["a", "b"]}))
    drive = index_of(table_path, ["k", "v"])
    write_deltalake(table_path, pa.table({"k": [3, 4, 5]}), mode="overwrite", schema_mode="overwrite")
    drive.drain()
    write_deltalake(table_path, pa.table({"k": [6], "v": ["c"]}), mode="append", schema_mode="merge")
    drive.drain()
    assert tailbit.open(table_path).where().facets("v") == {None: 3, "c": 1}
    assert tailbit.open(table_path).where(version=0).facets("v") == {"a": 1, "b": 1}
    assert tailbit.open(table_path).where("v IS NULL").count() == 3
    assert tailbit.open(table_path).verify().problems == []


@pytest.mark.parametrize(
    ("narrow", "wide", "old", "new"),
    [
        (pa.int32(), pa.float64(), [1, 2, None], [1.5, 2.0]),
        (pa.int32(), pa.int64(), [1, 2, None], [1, 2**40]),
        (
            pa.decimal128(5, 1),
            pa.decimal128(10, 2),
            [Decimal("1.5"), None],
            [Decimal("1.50"), Decimal("1.25")],
        ),
        (pa.date32(), pa.timestamp("us"), [datetime.date(2020, 1, 1)], [None]),
    ],
)
def test_facets_after_a_type_widening_are_of_the_wider_type(
    table_path: str, narrow: pa.DataType, wide: pa.DataType, old: list[Any], new: list[Any]
) -> None:
    builder = DeltaBuilder(table_path).create(
        pa.schema([("v", narrow)]), features=["typeWidening", "timestampNtz"]
    )
    builder.commit([builder.data_file(pa.table({"v": pa.array(old, narrow)}), "a.parquet")])
    drive = index_of(table_path, ["v"])
    wider = builder.metadata_action(pa.schema([("v", wide)]), table_id=builder.metadata["id"])
    builder.commit([{"metaData": wider}])
    builder.commit([builder.data_file(pa.table({"v": pa.array(new, wide)}), "b.parquet")])
    expected = pa.chunked_array([pa.array(old, narrow).cast(wide), pa.array(new, wide)]).to_pylist()
    for _ in range(2):
        for where in (None, "v IS NULL OR v IS NOT NULL"):
            assert tailbit.open(table_path).where(where).facets("v") == dict(Counter(expected))
        drive.drain()
    assert tailbit.open(table_path).verify().problems == []


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


def test_facets_of_a_nested_column_and_of_an_empty_table(table_path: str) -> None:
    write_deltalake(table_path, EVERY_TYPE)
    assert tailbit.open(table_path).where().facets("place.city") == {None: 4, "Oslo": 2}
    assert tailbit.open(table_path).where().facets("PLACE.at.X") == {None: 4, 1: 2}
    DeltaTable(table_path).delete()
    assert tailbit.open(table_path).where().facets("name") == {}
