"""Extremes and sums that are read value by value are those that counts by key give."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.function_cells import rows
from support.tables import index_of
from tailbit.errors import ColumnTypeError, UnknownColumnError
from tailbit.index.grouping.facets import is_counted

NUMBERS = ["b", "sh", "i", "l", "f", "d", "p", "q"]
OTHERS = ["s", "n", "t", "x", "dt", "ts", "nt", "bo"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Every type in two files, an index of `row` alone."""
    table = rows()
    path = str(tmp_path_factory.mktemp("streamed") / "t")
    write_deltalake(path, table.slice(0, 7))
    write_deltalake(path, table.slice(7), mode="append")
    index_of(path, ["row"])
    return path


def same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)


@pytest.mark.parametrize("where", [None, "row < 9", "row % 3 = 0", "row = -1"])
@pytest.mark.parametrize("column", [*NUMBERS, *OTHERS])
def test_values_and_counts_by_key_give_the_same(path: str, column: str, where: str | None) -> None:
    answer = tailbit.open(path).where(where)
    assert not is_counted(answer._selection.coverage.spaces, answer._selection.schema.resolve(column))
    found = answer.summary(column)
    assert same((answer.min(column), answer.max(column)), (found.min, found.max))
    if column in NUMBERS:
        assert same((answer.sum(column), answer.avg(column)), (found.sum, found.avg))


def test_a_column_that_is_served_is_not_read(path: str) -> None:
    answer = tailbit.open(path).where("row < 9")
    assert is_counted(answer._selection.coverage.spaces, answer._selection.schema.resolve("row"))
    assert (answer.min("row"), answer.max("row"), answer.sum("row")) == (0, 8, 36)


def test_sums_of_many_batches_are_exact(tmp_path: Path) -> None:
    most = Decimal("99999999999999999999999999.99")
    table = pa.table(
        {
            "l": pa.array([2**62, -(2**62), 7] * 1000, pa.int64()),
            "p": pa.array([most, -most, None] * 1000, pa.decimal128(28, 2)),
            "d": pa.array([1e300, -1e300, 0.1] * 1000),
        }
    )
    path = str(tmp_path / "t")
    for _ in range(3):
        write_deltalake(path, table, mode="append")
    answer = tailbit.open(path).where()
    assert (answer.sum("l"), answer.sum("p")) == (21_000, Decimal("0.00"))
    assert answer.sum("d") == pytest.approx(300)


def test_sums_of_texts_and_of_unknown_columns_are_refused(path: str) -> None:
    answer = tailbit.open(path).where()
    with pytest.raises(ColumnTypeError, match="avg takes integers"):
        answer.avg("s")
    with pytest.raises(UnknownColumnError):
        answer.max("nothing")
