"""Statistics of expressions: right answers, also for files of equal footers and rows that raise."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

import tailbit
from support.delta_builder import DeltaBuilder
from support.drive import Drive
from support.tables import index_files, index_of, rewrite
from tailbit.errors import EvaluationError
from tailbit.index.kinds.column_stats import COLUMN_STATS
from tailbit.index.maintenance.merge import merge_all
from tailbit.index.store.table import MetadataTable
from tailbit.tables.parquet.data_file import footer_hash
from tailbit.tables.storage import LocalStorage

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("s", pa.string()), ("f", pa.float64())])
TERMS = ["lower(s)", "k % 5", "k * 2 > 60", "CAST(k AS DECIMAL(30, 3)) * 2", "f * -1", "length(s) + k", "s"]
CONDITIONS = [
    "lower(s) = 'b7'",
    "lower(s) > 'b90'",
    "lower(s) IS NULL",
    "s = 'B12'",
    "k % 5 = 9",
    "k % 5 < 2",
    "k = 17",
    "k * 2 > 60",
    "NOT (k * 2 > 60)",
    "(k * 2 > 60) IS NULL",
    "CAST(k AS DECIMAL(30, 3)) * 2 > 150.5",
    "f * -1 < -70",
    "f * -1 = 0",
    "length(s) + k = 33",
    "length(s) + k IS NULL",
    "lower(s) = 'b7' AND k % 5 < 3",
    "k % 5 = 9 OR lower(s) >= 'b95'",
]


def rows(number: int, count: int = 30) -> pa.Table:
    """Rows whose values rise with the number of their file; each seventh has NULL."""
    numbers = [number * 10 + n % 13 for n in range(count)]
    special = [float("nan"), -0.0, 0.0, None]
    columns = {
        "id": [number * 1000 + n for n in range(count)],
        "k": [None if n % 7 == 3 else value for n, value in enumerate(numbers)],
        "s": [None if n % 7 == 5 else f"{'bB'[n % 2]}{value}" for n, value in enumerate(numbers)],
        "f": [special[n % 4] if n % 9 == 0 else float(value) for n, value in enumerate(numbers)],
    }
    return pa.table(columns, schema=SCHEMA)


class Judged:
    """A table of small row groups with statistics of expressions, and DuckDB's count of the same rows."""

    def __init__(self, folder: Path, files: int = 6) -> None:
        self.builder = DeltaBuilder(str(folder / "t")).create(SCHEMA)
        self.path, self.index = self.builder.path, str(folder / "t" / "_tailbit")
        self.parts: list[pa.Table] = []
        for number in range(files):
            self.append(f"f{number}.parquet", rows(number))
        Drive(self.path, self.index, ["id"]).drain()

    def append(self, name: str, table: pa.Table) -> None:
        self.parts.append(table)
        self.builder.commit([self.builder.data_file(table, name, stats=None, row_group_size=7)])

    def follow(self) -> None:
        Drive(self.path, self.index).drain()

    def count(self, condition: str) -> tuple[int, int]:
        every = pa.concat_tables(self.parts)
        ((count,),) = duckdb.execute(f"SELECT count(*) FROM every WHERE {condition}").fetchall()
        assert len(every) >= count
        return tailbit.open(self.path).where(condition).count(), int(count)


@pytest.fixture
def judged(tmp_path: Path) -> Judged:
    judged = Judged(tmp_path)
    tailbit.open(judged.path).create_index("stats", TERMS, kind="column_stats")
    judged.follow()
    return judged


def test_files_and_row_groups_that_cannot_match_are_not_read(judged: Judged) -> None:
    table = tailbit.open(judged.path)
    assert table.where("k % 5 = 9").files_scanned == 0
    account = table.where("lower(s) = 'b1'").explain()
    assert account["conditions"] == [{"condition": "lower(s) = 'b1'", "by": ["stats"], "also": []}]
    assert sum(file["matching"] > 0 for file in account["files"]) <= account["files_scanned"] < 6


def test_answers_stay_after_changes_merges_and_a_rebuild(judged: Judged) -> None:
    for number in range(6, 12):
        judged.append(f"f{number}.parquet", rows(number))
        judged.follow()
    for step in ("merged", "rebuilt"):
        if step == "rebuilt":
            tailbit.sql(f"ALTER INDEX stats ON delta.`{judged.path}` REBUILD")
        else:
            merge_all(MetadataTable.open(judged.index))
        judged.follow()
        for condition in CONDITIONS:
            counted, expected = judged.count(condition)
            assert counted == expected, (step, condition)
        assert tailbit.open(judged.path).where("k % 5 = 9").files_scanned == 0


def test_files_of_equal_footers_do_not_speak_for_each_other(tmp_path: Path) -> None:
    judged = Judged(tmp_path, files=0)
    for name, middle in (("a.parquet", 5), ("b.parquet", 6)):
        table = pa.table(
            {"id": [1, 5, 9], "k": [1, middle, 9], "s": ["a"] * 3, "f": [0.0] * 3}, schema=SCHEMA
        )
        judged.append(name, table)
    storage = LocalStorage(judged.path)
    assert footer_hash(storage, "a.parquet") == footer_hash(storage, "b.parquet")
    judged.follow()
    tailbit.open(judged.path).create_index("parity", "k % 2", kind="column_stats")
    judged.follow()
    assert index_files(judged.path, "column_stats")
    assert judged.count("k % 2 = 0") == (1, 1)
    assert judged.count("k % 2 = 1") == (5, 5)
    judged.append("c.parquet", table.slice(0, 3))
    assert judged.count("k % 2 = 0") == (2, 2)
    judged.follow()
    assert judged.count("k % 2 = 0") == (2, 2)


def test_rows_that_raise_are_never_pruned(judged: Judged) -> None:
    tailbit.open(judged.path).create_index("inverse", "100 div (k - 17)", kind="column_stats")
    judged.follow()
    with pytest.raises(EvaluationError):
        tailbit.open(judged.path).where("100 div (k - 17) = 5000").count()
    assert tailbit.open(judged.path).where("k > 40 AND 100 div (k - 17) = 5000").count() == 0


def test_a_condition_on_values_for_which_an_expression_raises_finds_their_rows(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"s": ["1.005", "5", None], "k": [1, 2, 3]}))
    index_of(path, ["k"])
    table = tailbit.open(path)
    table.create_index("whole", "CAST(s AS BIGINT)", kind="column_stats")
    index_of(path)
    for condition, expected in [("s = '1.005'", 1), ("s <=> '1.005'", 1), ("s <> '5'", 1), ("s IS NULL", 1)]:
        assert table.where(condition).count() == expected


def test_verify_tells_statistics_of_an_expression_that_are_wrong(judged: Judged) -> None:
    assert tailbit.open(judged.path).verify().sound
    assert len(index_files(judged.path, "column_stats")) == 1

    def lower(rows: pa.Table) -> pa.Table:
        of_term = pc.starts_with(rows["column"], pattern="#")
        text = pc.if_else(of_term, pa.scalar(b"a0"), rows["low_text"])
        return rows.set_column(rows.column_names.index("low_text"), "low_text", text)

    rewrite(judged.path, COLUMN_STATS, lower)
    problems = tailbit.open(judged.path).verify().problems
    assert any("column statistics of lower(s)" in str(problem) for problem in problems)


def test_files_of_equal_footers_in_two_partitions_are_sound_and_damage_is_found(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    schema = pa.schema([("k", pa.int64()), ("p", pa.int32())])
    builder = DeltaBuilder(path).create(schema, partition_by=["p"])
    keys = pa.table({"k": pa.array(range(10), pa.int64())})
    for name, part in (("a", "-128"), ("b", "0"), ("c", "7")):
        builder.commit([builder.data_file(keys, f"{name}.parquet", {"p": part})])
    tailbit.open(path).create_index("i", "lower(p)", kind="column_stats")
    opened = tailbit.open(path)
    assert opened.verify().problems == []
    assert [opened.where(f"lower(p) = '{p}'").count() for p in ("-128", "0", "7", "x")] == [10, 10, 10, 0]

    def narrower(table: pa.Table) -> pa.Table:
        lows = [None if low is None else b"0" for low in table["low_text"].to_pylist()]
        return table.set_column(
            table.schema.get_field_index("low_text"), table.schema.field("low_text"), [lows]
        )

    rewrite(path, COLUMN_STATS, narrower)
    assert ["a.parquet" in problem.where for problem in tailbit.open(path).verify().problems] == [True]
