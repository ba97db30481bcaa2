"""Rows that pass conditions are found in files of every layout, by stored values as by decoding them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.delta_builder import Action, DeltaBuilder
from support.scans import counted, positions, scanned, scans_of
from tailbit.errors import DataFileError, LegacyCalendarError
from tailbit.index.predicate.tree import Constant
from tailbit.index.query import scan as scanning
from tailbit.tables.parquet import value_search as finding

ROWS = pa.table(
    {
        "k": pa.array([None if n % 5 == 3 else n % 40 - 20 for n in range(500)], pa.int64()),
        "s": pa.array([None if n % 7 == 3 else f"a{n % 30}c" for n in range(500)]),
        "d": pa.array([n / 8 - 9 for n in range(500)]),
        "i": pa.array(range(500), pa.int32()),
    }
)
QUESTIONS = ("k = 5", "k < -15 AND s LIKE '%1c'", "s > 'a3' OR d < -8.5D", "NOT (i BETWEEN 3 AND 497)")
DELTA = {"k": "DELTA_BINARY_PACKED", "s": "DELTA_BYTE_ARRAY", "d": "BYTE_STREAM_SPLIT"}
LAYOUTS: dict[str, dict[str, Any]] = {
    "usual": {},
    "no dictionary": {"use_dictionary": False, "row_group_size": 90},
    "dictionary given up": {"dictionary_pagesize_limit": 60, "write_batch_size": 20, "data_page_size": 100},
    "delta encodings": {"use_dictionary": False, "column_encoding": DELTA, "data_page_version": "2.0"},
    "many pages": {"data_page_size": 50, "write_batch_size": 10, "compression": "zstd"},
    "gzip": {"compression": "gzip"},
    "lz4": {"compression": "lz4"},
}


def table_of(path: str, *files: Action, schema: pa.Schema = ROWS.schema) -> str:
    DeltaBuilder(path).create(schema).commit(list(files))
    return path


def file(path: str, name: str, rows: pa.Table = ROWS, **options: Any) -> Action:
    return DeltaBuilder(path).data_file(rows, name, **options)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_rows_found_by_stored_values_are_those_that_decoding_finds(
    table_path: str, layout: str, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table_of(table_path, file(table_path, "a.parquet", **LAYOUTS[layout]), file(table_path, "b.parquet"))
    found = scanned(table_path, question, stored=True)
    assert found == scanned(table_path, question, stored=False)
    assert 0 < len(found[0]) < 500
    monkeypatch.setattr(finding, "quicker_tested", lambda *_: True)
    assert scanned(table_path, question) == found


def test_a_file_of_the_legacy_calendar_is_refused_beside_one_of_the_same_schema(table_path: str) -> None:
    days = pa.schema([("d", pa.date32())])
    builder = DeltaBuilder(table_path).create(days)
    for name, first, spark in (("a", 0, "3.5.0"), ("b", -200_000, "2.4.0")):
        rows = pa.table({"d": pa.array([first, 1, 2, 3] * 50, pa.int32()).cast(pa.date32())})
        with pq.ParquetWriter(f"{table_path}/{name}.parquet", days, store_schema=False) as writer:
            writer.write_table(rows)
            writer.add_key_value_metadata({"org.apache.spark.version": spark})
    builder.commit([added(table_path, name) for name in ("a.parquet", "b.parquet")])
    with pytest.raises(LegacyCalendarError, match=r"b\.parquet"):
        scanned(table_path, "year(d) = 1422", stored=True)


@pytest.mark.parametrize("question", ["k = 5", "k % 7 = 5 AND length(s) = 3"])
def test_a_writer_whose_name_is_not_utf_8_is_like_no_other(table_path: str, question: str) -> None:
    table_of(table_path, *(file(table_path, f"{name}.parquet") for name in "ab"))
    expected = scanned(table_path, question)
    changed = Path(table_path, "b.parquet")
    changed.write_bytes(changed.read_bytes().replace(b"parquet-cpp-arrow", b"parquet-cpp\xe4arrow"))
    assert scanned(table_path, question, stored=True) == expected
    assert scanned(table_path, question, stored=False) == expected


def added(path: str, name: str) -> Action:
    size = Path(path, name).stat().st_size
    return {
        "add": {
            "path": name,
            "partitionValues": {},
            "size": size,
            "modificationTime": 1,
            "dataChange": True,
        }
    }


@pytest.mark.parametrize("dictionary", [True, False])
def test_row_groups_without_rows_have_none_that_pass(table_path: str, dictionary: bool) -> None:
    builder = DeltaBuilder(table_path).create(ROWS.schema)
    with pq.ParquetWriter(
        f"{table_path}/f.parquet", ROWS.schema, use_dictionary=dictionary, store_schema=False
    ) as writer:
        for rows in (ROWS[:0], ROWS[:10], ROWS[:0], ROWS[10:30]):
            writer.write_table(rows)
    builder.commit([added(table_path, "f.parquet")])
    for question in ("i > 8", "length(s) = 4 AND i > 11"):
        assert scanned(table_path, question, stored=True) == scanned(table_path, question, stored=False)


def test_a_file_that_vanishes_while_it_is_sought_in_is_named(
    table_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table_of(table_path, file(table_path, "a.parquet"))
    assembled = finding._assembled

    def gone(*given: Any) -> bytes | None:
        Path(table_path, "a.parquet").unlink()
        return assembled(*given)

    monkeypatch.setattr(finding, "_assembled", gone)
    with pytest.raises(DataFileError, match=r"a\.parquet: the file is missing"):
        scanned(table_path, "k = 5", stored=True)


def test_only_rows_among_those_asked_for_pass(table_path: str) -> None:
    table_of(table_path, file(table_path, "a.parquet", row_group_size=90))
    table, (its,) = scans_of(table_path, "i >= 100")
    among = np.array([5, 100, 101, 400], np.uint64)
    asked = scanning.Scan(its.slice_, its.node, None, among)
    whole = scanning.Scan(its.slice_, Constant(True), None, among)
    assert positions(table, [asked, whole], stored=True) == [[100, 101, 400], [5, 100, 101, 400]]


@pytest.mark.parametrize("question", ["k < 5 AND s LIKE '%2c'", "s > 'a3' AND d < 0D AND k > 3 AND i > 9"])
def test_parts_of_an_and_that_a_file_does_not_let_be_tested_are_judged_at_the_rows_of_the_others(
    table_path: str, question: str
) -> None:
    """Without a dictionary, texts are not tested, as in the first file."""
    table_of(
        table_path,
        *(file(table_path, f"{n}.parquet", use_dictionary=bool(n)) for n in range(3)),
    )
    table, scans = scans_of(table_path, question)
    expected = positions(table, scans, stored=False)
    assert positions(table, scans, stored=True) == expected
    assert 0 < len(expected[0]) < 500
    assert counted(table, scans, stored=True) == sum(map(len, expected))
