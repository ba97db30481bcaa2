"""A question over 10,000 files by column statistics, in an object store: its requests are counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tailbit
from support.column_stats import wide_table
from support.forked import command
from tailbit.tables.storage import StorageOptions, open_storage

FILES, COLUMNS = 10_000, 200


@pytest.fixture
def table(tmp_path: Path, s3_root: str, s3_options: dict[str, str]) -> str:
    """Ten thousand data files that do not exist, the log that names them, and statistics of 200 columns."""
    wide_table(str(tmp_path / "t"), FILES, COLUMNS)
    store = open_storage(s3_root, StorageOptions.of(s3_options))
    for file in (tmp_path / "t").rglob("*"):
        if file.is_file():
            store.put(str(file.relative_to(tmp_path / "t")), file.read_bytes())
    return s3_root


def test_a_question_over_ten_thousand_files_and_two_hundred_columns_takes_at_most_twelve_requests(
    table: str, s3: Any, s3_options: dict[str, str]
) -> None:
    mark = len(s3.seen)
    opened = tailbit.open(table, storage_options=s3_options)
    assert len(s3.since(mark)) <= 6, s3.since(mark)
    mark = len(s3.seen)
    assert opened.where("c007 > 99999999 AND c150 < 0").count() == 0
    assert len(s3.since(mark)) <= 12, s3.since(mark)
    for more, question in ((1, "c007 = 5 AND c151 = 12"), (0, "c007 > 3 AND c007 < 1 OR c151 < 0")):
        mark = len(s3.seen)
        assert opened.where(question).count() == 0
        read = [request for request in s3.since(mark) if request.startswith("GET")]
        assert len(read) <= more, read
    mark = len(s3.seen)
    assert opened.where("c007 >= 0 AND c151 >= 0").count() == 10 * FILES
    assert opened.where("c007 IS NULL").count() == 0
    assert (opened.where().min("c007"), opened.where().max("c007")) == (0, 10 * FILES - 1)
    assert not [request for request in s3.since(mark) if request.startswith("GET")]


def test_a_question_of_a_fresh_process_over_ten_thousand_files_takes_at_most_twelve_requests(
    table: str, s3: Any, s3_options: dict[str, str]
) -> None:
    options = [text for name, value in s3_options.items() for text in ("--storage-option", f"{name}={value}")]
    mark = len(s3.seen)
    assert command("count", table, "c007 > 99999999 AND c150 < 0", *options, check=True).stdout == "0\n"
    assert len(s3.since(mark)) <= 12, s3.since(mark)
