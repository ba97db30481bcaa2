"""Deletion vectors in every place that the protocol allows, as Spark reads them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from support.delta_builder import DeltaBuilder
from support.judged import JudgedTable


@pytest.fixture
def spark(replayed_spark: Any) -> Any:
    """A session for what is not recorded."""
    return replayed_spark


@pytest.mark.supports("Table features", "deletionVectors, inline", "exact")
@pytest.mark.supports("Table features", "deletionVectors, in files below the table", "exact")
@pytest.mark.supports("Table features", "deletionVectors, at absolute paths", "exact")
@pytest.mark.supports("Table features", "deletionVectors, several in one file", "exact")
@pytest.mark.usefixtures("outside_allowed")
def test_hidden_rows_are_found_in_every_place(spark: Any, table_path: str) -> None:
    schema = pa.schema([("a", pa.int32()), ("b", pa.string())])
    made = DeltaBuilder(table_path).create(schema, features=["deletionVectors"])
    data = pa.table({"a": list(range(9)), "b": ["x", None, "y"] * 3}, schema)
    made.commit([made.data_file(data, f"{n} %.parquet") for n in range(4)])
    table = JudgedTable(spark, table_path, ["a", "b"])
    table.follow()
    one, two, three, four = sorted(made.live)
    inline, stored = made.inline_vector([0, 3]), made.stored_vectors([1], [2, 8], prefix="ab")
    (absolute,) = made.stored_vectors([7], absolute=f"{table_path} else where%")
    made.commit([*made.hide(one, inline), *made.hide(two, stored[0]), *made.hide(three, stored[1])])
    table.follow()
    made.commit([*made.hide(four, absolute), *made.hide(two, None), *made.hide(three, stored[0])])
    table.follow()
    made.commit([*made.hide(one, made.inline_vector(range(9))), *made.hide(four, made.inline_vector([7, 8]))])
    table.judge("a = 3", "b = 'x'", "b IS NULL AND a > 1", "NOT b = 'y'")
    table.judge_facets("a", "b")
