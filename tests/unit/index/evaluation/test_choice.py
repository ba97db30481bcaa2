"""Of several indexes that serve an AND, the cheapest does."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.tables import index_of
from support.tuples import define_tuples
from tailbit.index.evaluation.choice import choose
from tailbit.index.predicate.tree import columns_of


def chosen(path: str, condition: str) -> set[str]:
    """Return the columns and terms whose postings are read."""
    selection = tailbit.open(path).where(condition)._selection
    (space,) = selection.coverage.spaces
    return {column.label for column in columns_of(choose(selection.node, space).node)}


@pytest.fixture
def table(table_path: str) -> str:
    """Two hundred thousand rows, whose columns have 2, 5,000 and 20 values."""
    rows = np.random.default_rng(1).integers(0, 1 << 30, 200_000)
    columns = {"a": rows % 2, "b": rows // 2 % 5000, "c": rows // 10_000 % 20}
    write_deltalake(table_path, pa.table(columns))
    return table_path


@pytest.mark.parametrize(
    ("condition", "read"),
    [
        ("a = 1 AND b = 7", {"a, b"}),
        ("a = 1 AND b BETWEEN 7 AND 90", {"a, b"}),
        ("a = 1 AND b <> 7", {"a", "b"}),
        ("a = 1 AND b <> 7 AND c = 3", {"a", "b", "c"}),
    ],
)
def test_an_and_takes_an_index_of_both_columns_where_its_postings_are_fewer(
    table: str, condition: str, read: set[str]
) -> None:
    index_of(table, ["a", "b", "c"])
    define_tuples(table, "a", "b")
    assert chosen(table, condition) == read


def test_of_two_indexes_of_several_columns_the_cheaper_is_taken_whichever_is_older(table: str) -> None:
    index_of(table, ["b", "c"])
    define_tuples(table, "a", "b")
    define_tuples(table, "a", "c")
    assert chosen(table, "a = 1 AND b <> 5 AND c = 7") == {"a, c", "b"}
    assert chosen(table, "a = 1 AND b = 5 AND c <> 7") == {"a, b", "c"}


def test_an_index_that_leaves_no_condition_open_is_taken_before_a_cheaper_one(table: str) -> None:
    index_of(table, ["b"])
    define_tuples(table, "a", "b")
    define_tuples(table, "a", "c")
    assert chosen(table, "a = 1 AND b <> 5 AND c > 7") == {"a, c", "b"}


def test_an_index_of_both_columns_is_taken_also_while_the_postings_of_each_are_cached(table: str) -> None:
    """What was read before the choice does not count: the index of both would never come into the cache."""
    index_of(table, ["a", "b", "c"])
    define_tuples(table, "c", "b")
    opened = tailbit.open(table)
    for column in ("b", "c"):
        opened.where(f"{column} IS NOT NULL").facets(column)
    condition = "c = 7 AND b = 40"
    assert chosen(table, condition) == {"c, b"}
    assert opened.where(condition).explain()["conditions"][0]["by"] == ["c+b"]


@pytest.mark.parametrize(
    "condition",
    [
        "lower(s) = 's3' AND upper(u) = 'U7'",
        "lower(s) IN ('s3', 's4') AND upper(u) = 'U7'",
        "upper(u) = 'U7' AND lower(s) BETWEEN 's3' AND 's5'",
        "(lower(s) = 's3' AND upper(u) = 'U7') OR (lower(s) = 's1' AND upper(u) = 'U2')",
    ],
)
def test_an_index_of_two_expressions_is_taken_before_indexes_of_each(table_path: str, condition: str) -> None:
    numbers = np.random.default_rng(2).integers(0, 1 << 30, 100_000)
    texts = {"s": [f"S{n % 40}" for n in numbers], "u": [f"u{n // 40 % 50}" for n in numbers]}
    write_deltalake(table_path, pa.table(texts))
    index_of(table_path, ["s", "u"])
    for terms in (["lower(s)"], ["upper(u)"], ["upper(u)", "lower(s)"]):
        define_tuples(table_path, *terms)
    assert chosen(table_path, condition) == {"upper(u), lower(s)"}


def test_indexes_of_several_columns_that_share_one_are_weighed_with_what_each_leaves(table: str) -> None:
    index_of(table, ["a", "b", "c"])
    for terms in (["a", "b"], ["b", "c"]):
        define_tuples(table, *terms)
    assert chosen(table, "a = 1 AND b = 7 AND c = 3") in ({"a, b", "c"}, {"a", "b, c"})
    for terms in (["c", "b", "a"],):
        define_tuples(table, *terms)
    assert chosen(table, "a = 1 AND b = 7 AND c = 3") == {"c, b, a"}
    assert chosen(table, "a = 1 AND b = 7") == {"a, b"}
