"""Rows are left to Spark, before any is read, where reading them would gain nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from support.tables import index_of
from tailbit.api import open_indexed
from tailbit.spark.answering.gate import FEW_BYTES, MOST_FOOTERS, Pages, check_pages, check_reading, pages_of
from tailbit.spark.answering.request import Declined

FILES, ROWS = 70, 10


def test_pages_of_many_files_are_estimated_by_the_footers_of_few(tmp_path: Path) -> None:
    for number in range(FILES):
        rows = pa.table({"k": [f"k{row % 5}" for row in range(ROWS)], "v": [number] * ROWS})
        write_deltalake(tmp_path, rows, mode="append")
    index_of(tmp_path, ["k"])
    selection = open_indexed(str(tmp_path)).where("k = 'k2'")._selection
    wanted = [(hit.slice_, hit.positions) for hit in selection.hits()]
    columns = selection.schema.resolve_all(["k", "v"])
    # Only what is looked at is there: every third file.
    for file, _ in wanted:
        if file not in [looked_at for looked_at, _ in wanted[:: FILES // MOST_FOOTERS + 1]]:
            (tmp_path / file.path).unlink()
    pages = pages_of(selection.storage, wanted, columns, time.monotonic() + 60)
    assert (pages.files, pages.rows) == (FILES, FILES * ROWS // 5)
    assert 0 < pages.touched <= pages.whole
    assert pages.whole > FILES * ROWS * 8


@pytest.mark.parametrize(
    ("pages", "seconds", "reason"),
    [
        (Pages(touched=FEW_BYTES * 2, whole=FEW_BYTES * 4, files=1, rows=1000), 60, "many-pages"),
        (Pages(touched=FEW_BYTES, whole=FEW_BYTES, files=1, rows=1000), 60, None),
        (Pages(touched=FEW_BYTES, whole=FEW_BYTES, files=1, rows=60_000), 60, "many-pages"),
        (Pages(touched=FEW_BYTES * 2, whole=FEW_BYTES * 10, files=1, rows=1000), 60, None),
        (Pages(touched=FEW_BYTES, whole=FEW_BYTES * 10, files=1000, rows=1000), 2, "late"),
        (Pages(touched=2 << 30, whole=20 << 30, files=1, rows=1000), 2, "late"),
    ],
)
def test_rows_in_most_pages_or_in_more_than_the_driver_waits_for_are_declined(
    pages: Pages, seconds: float, reason: str | None
) -> None:
    told = None
    try:
        check_pages(pages)
        check_reading(pages, time.monotonic() + seconds)
    except Declined as declined:
        told = declined.reason
    assert told == reason
