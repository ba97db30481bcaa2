"""Ordering values of rows and of deletions: their types, and the order in which Java compares them."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.hudi_logs import Written, delete_block
from tailbit.errors import UnsupportedFeatureError
from tailbit.tables.hudi.log_files.blocks import list_blocks
from tailbit.tables.hudi.log_files.keys import FloatOrder, is_less, orderings, read_deletions
from tailbit.tables.storage import open_storage


@pytest.mark.supports_hudi("MERGE_ON_READ", "an ordering column of binary, where Hudi fails too", "refused")
@pytest.mark.parametrize("type_", [pa.binary(), pa.list_(pa.int32())], ids=str)
def test_a_table_ordered_by_values_whose_order_is_not_proven_is_refused_where_rows_are_merged(
    type_: pa.DataType, tmp_path: Path
) -> None:
    found = pa.table({"ts": pa.array([b"a" if pa.types.is_binary(type_) else [1]], type_)})
    with pytest.raises(UnsupportedFeatureError, match=re.escape(f"the ordering column ts of type {type_}")):
        orderings(open_storage(str(tmp_path)), found, ["ts"], "1")


@pytest.mark.supports_hudi(
    "MERGE_ON_READ", "an ordering column of date (with which Hudi writes no deletions)", "exact"
)
@pytest.mark.parametrize(
    ("type_", "ascending"),
    [
        (pa.float64(), [float("-inf"), -1.5, -0.0, 0.0, 5e-324, float("inf"), float("nan")]),
        (pa.float32(), [-1.5, -0.0, 0.0, 0.5, float("nan")]),
        (pa.bool_(), [False, True]),
        (pa.string(), ["", "a", "a\ue000", "a\U0001f600", "b"]),
        (pa.decimal128(20, 3), [Decimal("-1.5"), Decimal("0"), Decimal("10")]),
        (pa.date32(), [date(1960, 1, 1), date(1970, 1, 1), date(2020, 1, 1)]),
        (pa.timestamp("us"), [-1, 0, 1]),
    ],
    ids=str,
)
def test_ordering_values_sort_as_java_compares_them(
    type_: pa.DataType, ascending: list[Any], tmp_path: Path
) -> None:
    found = pa.table({"ts": pa.array(ascending, type_)})
    values = orderings(open_storage(str(tmp_path)), found, ["ts"], "1")
    assert all(is_less(one, other) and not is_less(other, one) for one, other in pairwise(values))


def test_a_delete_block_gives_ordering_values_of_every_type_that_rows_have(tmp_path: Path) -> None:
    values: list[Written] = [7, -0.5, "b", Decimal("-1.500"), (7, "b")]
    block = delete_block("20260101000000000", [("k", value) for value in values])
    (tmp_path / ".f_1.log.1_0-1-1").write_bytes(block)
    storage = open_storage(str(tmp_path))
    (listed,) = list_blocks(storage, ".f_1.log.1_0-1-1")
    read = [deletion.ordering for deletion in read_deletions(storage, ".f_1.log.1_0-1-1", listed)]
    assert read == [7, FloatOrder.of(-0.5), "b", Decimal("-1.5"), (7, "b")]
