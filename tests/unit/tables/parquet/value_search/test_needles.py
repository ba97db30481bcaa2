"""Row groups without the bytes of a text are left out, whatever the encoding, and no other row group is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.delta_builder import DeltaBuilder
from support.scans import scanned, scans_of
from tailbit.errors import DataFileError
from tailbit.index.scanning.conditions import condition_of
from tailbit.tables.parquet.value_search import needles
from tailbit.tables.parquet.value_search.find import Sought
from tailbit.tables.parquet.value_search.needles import narrowed, needles_of

ROWS = pa.table({"s": [None if n % 9 == 1 else f"text number {n:03}" for n in range(300)]})
PLAIN = {"use_dictionary": False, "row_group_size": 100}
WRITTEN: dict[str, tuple[dict[str, Any], bool]] = {
    "plain": (PLAIN, True),
    "uncompressed": ({**PLAIN, "compression": "none"}, True),
    "dictionary": ({"row_group_size": 100}, True),
    "dictionary given up": (
        {
            "row_group_size": 100,
            "dictionary_pagesize_limit": 60,
            "write_batch_size": 20,
            "data_page_size": 90,
        },
        True,
    ),
    "version 2": ({**PLAIN, "data_page_version": "2.0"}, False),
    "delta": ({**PLAIN, "column_encoding": {"s": "DELTA_BYTE_ARRAY"}}, False),
    "lz4": ({**PLAIN, "compression": "lz4"}, False),
}


def groups_of(path: str, question: str) -> list[int]:
    table, (scan,) = scans_of(path, question)
    condition, _ = condition_of(scan.node, {}, {})
    assert condition is not None
    assert not isinstance(condition, bool)
    (search,) = narrowed(table.where()._selection.storage, [Sought(scan.slice_, condition, [0, 1, 2])])
    return list(search.groups)


@pytest.mark.parametrize("layout", WRITTEN)
@pytest.mark.parametrize(
    ("question", "groups"),
    [
        ("s = 'text number 042'", [0]),
        ("s IN ('text number 042', 'text number 256')", [0, 2]),
        ("s LIKE '%ber 15%'", [1]),
        ("s = 'text number 04'", []),
        ("s LIKE '%number 2%'", [2]),
    ],
)
def test_row_groups_without_the_text_are_left_out(
    table_path: str, layout: str, question: str, groups: list[int]
) -> None:
    options, searchable = WRITTEN[layout]
    builder = DeltaBuilder(table_path).create(ROWS.schema)
    builder.commit([builder.data_file(ROWS, "a.parquet", **options)])
    common = searchable and {0, 2} <= set(groups)
    assert groups_of(table_path, question) == (groups if searchable and not common else [0, 1, 2])
    assert scanned(table_path, question, by_polars=True) == scanned(table_path, question, by_polars=False)


@pytest.mark.parametrize(
    "question", ["s <> 'text number 042'", "s IS NULL", "s LIKE 'tex%'", "s > 'text number 042'"]
)
def test_conditions_that_texts_without_the_bytes_pass_have_no_needles(table_path: str, question: str) -> None:
    builder = DeltaBuilder(table_path).create(ROWS.schema)
    builder.commit([builder.data_file(ROWS, "a.parquet")])
    _, (scan,) = scans_of(table_path, question)
    condition, _ = condition_of(scan.node, {}, {})
    assert condition is None or isinstance(condition, bool) or needles_of(condition) is None


def test_a_file_that_vanishes_while_its_texts_are_searched_is_named(
    table_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = DeltaBuilder(table_path).create(ROWS.schema)
    builder.commit([builder.data_file(ROWS, "a.parquet")])
    table, (scan,) = scans_of(table_path, "s = 'text number 042'")
    condition, _ = condition_of(scan.node, {}, {})
    assert condition is not None
    assert not isinstance(condition, bool)
    storage = table.where()._selection.storage
    layout = needles.open_layout

    def gone(*given: Any) -> Any:
        known = layout(*given)
        Path(table_path, "a.parquet").unlink()
        return known

    monkeypatch.setattr(needles, "open_layout", gone)
    with pytest.raises(DataFileError, match=r"a\.parquet: the file is missing"):
        narrowed(storage, [Sought(scan.slice_, condition, [0])])
