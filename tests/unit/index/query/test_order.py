"""Rows in the order of columns, beside what DuckDB orders; offset and limit count in that order."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import tailbit
from support.delta_builder import DeltaBuilder
from tailbit.errors import ColumnTypeError, UnknownColumnError, UsageError

ROWS = 300


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three files of a hundred rows, in row groups of forty."""
    rng = np.random.default_rng(3)
    floats = [None, math.nan, -math.inf, math.inf, 0.0, -0.0, 1.5]
    texts = [None, "", "a", "B", "é", "\U0001f600", "\uffff"]
    rows = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "f": pa.array([floats[n] for n in rng.integers(0, 7, ROWS)], pa.float64()),
            "s": pa.array([texts[n] for n in rng.integers(0, 7, ROWS)], pa.string()),
            "n": pa.array([None if n == 4 else int(n) for n in rng.integers(0, 5, ROWS)], pa.int32()),
            "both ways": pa.array(rng.integers(0, 2, ROWS).tolist(), pa.int64()),
            "list": pa.array([[n] for n in range(ROWS)], pa.list_(pa.int64())),
        }
    )
    table = str(tmp_path_factory.mktemp("ordered"))
    builder = DeltaBuilder(table).create(rows.schema)
    files = [
        builder.data_file(rows.slice(start, 100), f"{start}.parquet", row_group_size=40)
        for start in (0, 100, 200)
    ]
    builder.commit(files)
    return table


def judged(path: str, order: str, tail: str = "") -> list[int]:
    files = str(Path(path) / "*.parquet")
    question = f"SELECT id FROM read_parquet('{files}') WHERE id % 7 <> 0 ORDER BY {order}, id {tail}"
    return [id_ for (id_,) in duckdb.sql(question).fetchall()]


def asked(path: str, order: list[str], limit: int | None = None, offset: int = 0) -> list[int]:
    skipped = ", ".join(str(n) for n in range(0, ROWS, 7))
    answer = tailbit.open(path).where(f"id NOT IN ({skipped})")
    found: list[int] = answer.read(["id"], limit, order_by=order, offset=offset)["id"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("column", "way", "nulls"),
    list(itertools.product(["f", "s", "n"], ["ASC", "DESC"], ["FIRST", "LAST"])),
)
def test_rows_are_ordered_as_duckdb_orders_them(path: str, column: str, way: str, nulls: str) -> None:
    assert asked(path, [f"{column} {way} NULLS {nulls}"]) == judged(path, f"{column} {way} NULLS {nulls}")


def test_later_columns_order_what_the_first_leaves_open(path: str) -> None:
    order = ["`both ways`", "s DESC", "f"]
    assert asked(path, order) == judged(path, '"both ways", s DESC NULLS LAST, f NULLS FIRST')


def test_offset_and_limit_count_in_the_order_asked_for(path: str) -> None:
    assert asked(path, ["s"], 10, 25) == judged(path, "s NULLS FIRST", "LIMIT 10 OFFSET 25")
    assert asked(path, ["s"], 10, 1000) == []


def test_offset_and_limit_count_by_path_and_position_otherwise(path: str) -> None:
    answer = tailbit.open(path).where("id >= 50")
    everything = answer.read(["id"])["id"].to_pylist()
    for offset, limit in ((0, 3), (49, 5), (50, 1), (249, 9), (250, 9), (60, None)):
        found = answer.read(["id"], limit, offset=offset)["id"].to_pylist()
        assert found == everything[offset:][:limit]


def test_a_reader_gives_the_rows_of_read(path: str) -> None:
    answer = tailbit.open(path).where("n = 2")
    reader = answer.reader(["id", "s"], order_by=["f"])
    assert reader.schema == answer.read(["id", "s"]).schema
    assert reader.read_all() == answer.read(["id", "s"], order_by=["f"])


def test_what_cannot_be_ordered_by_is_refused(path: str) -> None:
    answer = tailbit.open(path).where()
    with pytest.raises(ColumnTypeError, match="list"):
        answer.read(order_by=["list"])
    with pytest.raises(UnknownColumnError):
        answer.read(order_by=["nothing DESC"])
    with pytest.raises(UsageError, match="no columns to order by"):
        answer.read(order_by=[])
    with pytest.raises(UsageError, match="order_by"):
        answer.read(order_by="id")
    with pytest.raises(UsageError, match="offset -1"):
        answer.read(offset=-1)


def test_words_behind_a_name_that_are_no_order_are_told_from_those_that_are(path: str) -> None:
    for wrong in ("id desk", "id DESC DESC", "id NULLS"):
        with pytest.raises(UnknownColumnError) as unknown:
            tailbit.open(path).where().read(order_by=[wrong])
        assert unknown.value.hint.startswith("Behind a name may stand ASC or DESC, then NULLS FIRST")
    with pytest.raises(UnknownColumnError) as unknown:
        tailbit.open(path).where().read(order_by=["idd"])
    assert unknown.value.hint.startswith("Columns: ")
