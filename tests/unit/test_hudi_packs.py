"""The packed Hudi tables are whole, and what Spark read last is what hudi-rs reads from them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hudi import HudiTableBuilder

from support.hudi import PACKED, packed_names, unpack

ALL_TOGETHER = 2_000_000
"""Bytes."""

META = ["_hoodie_record_key", "_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name"]

NOT_READ_BY_HUDI_RS = {
    *("mor_v9_columns", "mor_v9_duplicates", "mor_v9_ordering_nested"),
    *("mor_v9_two_orderings", "mor_v9_two_orderings_deleted", "cow_v9_null_folders"),
    "cow_v6_units",
}
"""It refuses columns that were widened in logs, and more than one column to order by.

It merges by key alone, and so misses a second row of one key, which Spark merges by its position.
It does not find a column to order by within a struct, and takes the later row.
It reads a partition column from the files, where an empty text is none.
It reads times in the unit that a file says.
"""


def counted(rows: pa.Table) -> Counter[str]:
    """Count equal rows, by the columns in order of their names."""
    names = sorted(rows.column_names)
    return Counter(
        tuple(map(repr, row)) for row in zip(*(rows[name].to_pylist() for name in names), strict=True)
    )


def test_all_packs_are_small_together() -> None:
    assert sum(pack.stat().st_size for pack in PACKED.glob("*.tar.gz")) < ALL_TOGETHER


@pytest.mark.parametrize("name", packed_names())
def test_completions_rise_and_a_file_keeps_its_time(name: str, tmp_path: Path) -> None:
    table = unpack(name, tmp_path)
    hoodie = Path(table.path) / ".hoodie"
    active = hoodie / "timeline" if table.version >= 8 else hoodie
    at = []
    for instant in table.instants:
        file = f"{instant.requested}_{instant.completed}.{instant.action}"
        if table.version < 8:
            assert instant.completed is None
            file = f"{instant.requested}.{instant.action}"
        if (active / file).exists():
            at.append((instant.completed or "", (active / file).stat().st_mtime_ns))
    assert at
    assert at == sorted(at)


@pytest.mark.parametrize("name", sorted({*packed_names()} - NOT_READ_BY_HUDI_RS))
def test_hudi_rs_reads_at_the_head_what_spark_read(name: str, tmp_path: Path) -> None:
    table = unpack(name, tmp_path)
    head = table.rows(table.instants[-1])
    batches = HudiTableBuilder.from_base_uri(table.path).build().read()
    assert counted(pa.Table.from_batches(batches)) == counted(head)


@pytest.mark.parametrize("name", sorted({*packed_names("cow")} - {"cow_v9_bare"}))
def test_the_files_of_every_readable_instant_hold_the_rows_of_spark(name: str, tmp_path: Path) -> None:
    table = unpack(name, tmp_path)
    files = {file.name: file for file in Path(table.path).rglob("*.parquet")}
    assert table.readable
    for instant in table.readable:
        rows = table.rows(instant)
        named = rows["_hoodie_file_name"].unique().to_pylist()
        held = pa.concat_tables([pq.ParquetFile(files[file]).read(META) for file in named])
        assert counted(held) == counted(rows.select(META))
