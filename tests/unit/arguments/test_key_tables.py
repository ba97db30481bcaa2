"""Keys and rows in the forms that libraries give them."""

from __future__ import annotations

from typing import Any

import polars
import pyarrow as pa
import pytest

from tailbit.arguments.key_tables import key_table, table_of_library
from tailbit.errors import UsageError


@pytest.mark.parametrize(
    "keys", [pa.chunked_array([[1], [2]]), pa.array([1, 2]), polars.Series("other", [1, 2])], ids=str
)
def test_a_column_of_a_library_is_a_list_of_keys(keys: Any) -> None:
    on, table = key_table(keys, "id")
    assert (on, table.to_pydict()) == (["id"], {"id": [1, 2]})


def test_views_of_texts_are_texts_in_every_column_of_a_table() -> None:
    rows = {"a": ["x", None], "s": [{"y": ["z"], "n": 1}, None], "l": [["x"], []]}
    frame = polars.DataFrame({**rows, "c": polars.Series(["a", "b"], dtype=polars.Categorical)})
    table = table_of_library(frame)
    assert table is not None
    assert "view" not in str(table.schema)
    assert table.to_pydict() == {**rows, "c": ["a", "b"]}


def test_a_number_of_more_than_64_bits_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="too large a number"):
        key_table([2**70], "id")


@pytest.mark.parametrize("key", [(1,), (1, 2, 3)])
def test_a_key_of_too_few_or_too_many_values_is_refused(key: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="a key has not one value for each of a, b"):
        key_table([(1, 2), key], ["a", "b"])
