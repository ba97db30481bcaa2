"""Facets as an Arrow table: every value in the column's own type."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.tables import EVERY_TYPE, PLAIN_TYPES
from tailbit.outputs.frames import facet_table


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("facets") / "table")
    write_deltalake(path, EVERY_TYPE)
    return path


@pytest.mark.parametrize("column", PLAIN_TYPES)
def test_values_keep_the_type_and_order_of_the_facets(table: str, column: str) -> None:
    answer = tailbit.open(table).where()
    found, facets = answer.facet_table(column), answer.facets(column)
    assert found.schema == pa.schema([(column, EVERY_TYPE.schema.field(column).type), ("count", pa.int64())])
    assert str(found[column].to_pylist()) == str(list(facets))
    assert found["count"].to_pylist() == list(facets.values())


@pytest.mark.parametrize(
    ("type_", "numbers"),
    [
        (pa.date32(), [3_000_000, 0, -3_000_000, None]),
        (pa.timestamp("us", "UTC"), [2**62, 0, -(2**61), None]),
        (pa.timestamp("us"), [2**62, 1, -(2**61), None]),
    ],
)
def test_dates_and_times_outside_of_pythons_calendar_are_dates_and_times(
    tmp_path: Path, type_: Any, numbers: list[int | None]
) -> None:
    stored = pa.int32() if pa.types.is_date32(type_) else pa.int64()
    values = pa.array(numbers, stored).cast(type_)
    write_deltalake(tmp_path, pa.table({"v": values}))
    found = tailbit.open(tmp_path).where().facet_table("v")["v"].cast(stored).to_pylist()
    assert sorted(found, key=str) == sorted(numbers, key=str)


def test_no_facets_are_an_empty_table_of_the_same_columns(table: str) -> None:
    assert tailbit.open(table).where("id > 99").facet_table("price").to_pydict() == {"price": [], "count": []}


def test_several_columns_have_their_values_side_by_side() -> None:
    columns = [pa.field("a", pa.string()), pa.field("d", pa.date32())]
    day = datetime.date(2013, 1, 1)
    found = facet_table(columns, {("x", day): 2, (None, None): 1})
    assert found.to_pydict() == {"a": ["x", None], "d": [day, None], "count": [2, 1]}
    assert facet_table(columns, {}).num_rows == 0


def test_a_column_named_count_is_told_from_the_counts() -> None:
    assert facet_table([pa.field("Count", pa.int64())], {7: 1}).column_names == ["`Count`", "count"]
