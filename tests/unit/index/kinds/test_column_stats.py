"""Statistics of columns are written from footers, merged, and read column by column."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tailbit
from support.column_stats import StatsOfFiles, column, definition, wide_table
from support.forked import command
from tailbit.index.kinds.column_stats import COLUMN_STATS
from tailbit.index.kinds.kind import MergeGroup
from tailbit.index.kinds.stats_access import ColumnStats
from tailbit.index.predicate.tree import Leaf
from tailbit.index.sql.bind import bind
from tailbit.tables.delta.schema import parse_schema
from tailbit.tables.model import DataType
from tailbit.tables.storage import StorageOptions, open_storage


@pytest.fixture
def index(tmp_path: Path) -> StatsOfFiles:
    return StatsOfFiles(tmp_path)


def leaf(text: str, type_: str = "long") -> Leaf:
    fields = [{"name": "k", "type": type_, "nullable": True, "metadata": {}}]
    node = bind(text, parse_schema(json.dumps({"type": "struct", "fields": fields}), (), {}, "test"))
    assert isinstance(node, Leaf)
    return node


def judged(stats: ColumnStats, text: str, type_: str = "long") -> tuple[str, str]:
    """Return which units may match, and which surely do, as text."""
    condition = leaf(text, type_)
    bounds = stats.bounds(condition.column)
    assert bounds is not None
    may, surely = bounds.can_match(condition), bounds.all_match(condition)
    return "".join(".x"[int(m)] for m in may), "".join(".x"[int(m)] for m in surely)


def test_the_units_of_files_in_several_index_files_are_numbered_together(index: StatsOfFiles) -> None:
    one = index.data("a", {"k": [1, 2, 3, None]}, row_group_size=2)
    two = index.data("b", {"k": [7, 9]})
    index.add([one], [column("k")])
    index.add([two, one], [column("k")])
    stats = index.stats
    assert sorted(stats.row_groups.footers.to_pylist()) == sorted([one.hash, two.hash])
    start = stats.row_groups.starts[stats.row_groups.footers.to_pylist().index(one.hash)]
    assert (len(stats.row_groups.rows), stats.row_groups.rows[start : start + 2].tolist()) == (3, [2, 2])
    may, surely = judged(stats, "k <= 2")
    assert (may[start : start + 2], may.count("x"), surely[start]) == ("x.", 1, "x")


def test_columns_of_many_types_are_judged_by_their_bounds(index: StatsOfFiles) -> None:
    columns = {
        "long": pa.array([3, 5]),
        "string": pa.array(["bat", "cat"]),
        "date": pa.array([3, 5], pa.int32()).cast(pa.date32()),
        "timestamp_ntz": pa.array([3, 5]).cast(pa.timestamp("us")),
        "double": pa.array([3.0, None]),
        "boolean": pa.array([True, None]),
        "decimal(9,2)": pa.array([Decimal("3.25"), Decimal("5.50")]),
    }
    files = {t: index.data(t, {"k": v}, store_decimal_as_integer=True) for t, v in columns.items()}
    for type_, file in files.items():
        name, _, scale = type_.partition("(")
        found = DataType(name, 9, 2) if scale else DataType(name)
        of_type = column("k")
        index.live.clear()
        index.add([file], [type(of_type)(("k",), ("k",), found)])
        if type_ in ("double", "boolean"):
            assert judged(index.stats, "k IS NULL", type_) == ("x", ".")
            assert judged(index.stats, "k IS NOT NULL", type_) == ("x", ".")
            continue
        out, within = {
            "long": ("k > 5", "k >= 3"),
            "string": ("k > 'cat'", "k LIKE '%a%' OR k >= 'b'"),
            "date": ("k > DATE'1970-01-06'", "k >= DATE'1970-01-04'"),
            "timestamp_ntz": (
                "k < TIMESTAMP_NTZ'1970-01-01 00:00:00.000003'",
                "k > TIMESTAMP_NTZ'1970-01-01 00:00:00.000002'",
            ),
            "decimal(9,2)": ("k > 5.50", "k >= 3.25"),
        }[type_]
        assert judged(index.stats, out, type_)[0] == ".", type_
        if "LIKE" not in within:
            assert judged(index.stats, within, type_) == ("x", "x"), type_


def test_statistics_of_a_narrower_type_serve_the_column_once_it_is_widened(index: StatsOfFiles) -> None:
    file = index.data("a", {"k": pa.array([3, 5], pa.int32())})
    index.add([file], [column("k", "integer")])
    later = index.data("b", {"k": pa.array([4.5, None])})
    index.add([later], [column("k", "double")])
    place = index.stats.row_groups.starts[index.stats.row_groups.footers.to_pylist().index(file.hash)]
    may, surely = judged(index.stats, "k < 2.5", "double")
    assert (may[place], may.count("x"), surely) == (".", 1, "..")
    assert judged(index.stats, "k >= 3", "double")[1][place] == "x"
    assert index.stats.bounds(column("k", "date")) is None


def test_long_texts_are_bounded_by_shorter_ones(index: StatsOfFiles) -> None:
    text = "é" * 100
    file = index.data("a", {"k": [text, text + "z"]})
    index.add([file], [column("k", "string")])
    assert judged(index.stats, f"k = '{text}'", "string") == ("x", ".")
    assert judged(index.stats, f"k = '{'é' * 20}'", "string")[0] == "."
    assert judged(index.stats, "k > 'f'", "string") == ("x", "x")
    assert judged(index.stats, "k > 'ê'", "string")[0] == "."


def test_a_row_group_of_nulls_alone_and_a_column_that_a_file_lacks_are_known(index: StatsOfFiles) -> None:
    file = index.data("a", {"k": pa.array([1, 2, None, None], pa.int64())}, row_group_size=2)
    index.add([file], [column("k"), column("late")])
    assert judged(index.stats, "k = 1") == ("x.", "..")
    assert judged(index.stats, "k IS NULL") == (".x", ".x")
    (cells,) = index.stats.cells("late")
    assert (cells.nulls.tolist(), cells.exact.all()) == ([2, 2], True)


def test_partition_columns_arrays_and_columns_without_statistics_have_no_rows(index: StatsOfFiles) -> None:
    file = index.data("a", {"k": [[1]], "n": [1]}, write_statistics=False)
    index.add([file], [column("k", "array"), column("n")])
    assert index.stats.cells("k") == index.stats.cells("n") == []
    assert index.stats.bounds(column("n")) is None


def test_a_merge_keeps_one_row_per_column_and_unit_and_all_answers(index: StatsOfFiles) -> None:
    files = [index.data(f"f{n}", {"k": [n, n + 3], "s": [f"v{n}", None]}) for n in range(9)]
    columns = [column("k"), column("s", "string")]
    for file in files:
        index.add([file], columns)
    index.add(files[:2], columns[:1])
    before = {hash_: n for n, hash_ in enumerate(index.stats.row_groups.footers.to_pylist())}
    may = judged(index.stats, "k BETWEEN 4 AND 5")[0]
    index.merge()
    assert len(index.live) == 1
    (path,) = index.live
    assert len(COLUMN_STATS.read(index.storage, path)) == 9 + 9 + 9
    after = judged(index.stats, "k BETWEEN 4 AND 5")[0]
    assert [after[n] for n, hash_ in enumerate(index.stats.row_groups.footers.to_pylist())] == [
        may[before[hash_]] for hash_ in index.stats.row_groups.footers.to_pylist()
    ]
    assert may.count("x") == 5


def test_a_merge_drops_files_without_a_claim_and_is_void_once_one_has_it_again(index: StatsOfFiles) -> None:
    gone, kept = (index.data(name, {"k": [n]}) for n, name in enumerate("ab"))
    index.add([gone], [column("k")])
    index.add([kept], [column("k")])
    index.claimed.remove(gone.hash)
    group = next(COLUMN_STATS.due(index, None), None)
    assert group is None
    merged = index.merge()
    assert merged.forgotten == {gone.hash}
    assert index.stats.row_groups.footers.to_pylist() == [kept.hash]
    assert judged(index.stats, "k = 1") == ("x", "x")
    index.claimed.append(gone.hash)
    assert not COLUMN_STATS.may_commit(index, MergeGroup("column_stats", tuple(index.live)), merged)


def test_a_merge_of_files_that_are_all_gone_leaves_nothing(index: StatsOfFiles) -> None:
    for name in "ab":
        index.add([index.data(name, {"k": [1, 2], "n": [name, name]})], [column("k")])
    index.claimed.clear()
    assert index.merge().files == ()
    assert len(index.stats.row_groups.rows) == 0
    assert index.stats.bounds(column("k")) is None


def test_a_merge_drops_columns_without_a_definition_and_files_once_there_is_none(index: StatsOfFiles) -> None:
    index.add([index.data("a", {"k": [1], "s": ["x"]})], [column("k"), column("s", "string")])
    index.made = [definition(column("k"))]
    index.merge()
    assert [len(index.stats.cells(name)) for name in "ks"] == [1, 0]
    index.made = []
    assert len(list(COLUMN_STATS.due(index, None))) == 1
    index.merge()
    assert not index.live


def test_four_small_files_are_due_for_a_merge(index: StatsOfFiles) -> None:
    for n in range(4):
        assert not list(COLUMN_STATS.due(index, None))
        index.add([index.data(f"f{n}", {"k": [n]})], [column("k")])
    (group,) = COLUMN_STATS.due(index, None)
    assert set(group.inputs) == set(index.live)


def test_a_column_of_more_rows_than_a_row_group_holds_is_whole(index: StatsOfFiles) -> None:
    rows = np.arange(40_000)
    file = index.data("a", {"k": rows, "z": rows}, row_group_size=1)
    index.add([file], [column("k"), column("z")])
    other = index.data("b", {"k": [1], "z": [2]})
    index.add([other], [column("k"), column("z")])
    index.merge()
    may, surely = judged(index.stats, "k = 39999")
    assert (may.count("x"), surely.count("x")) == (1, 1)
    assert len(index.stats.row_groups.rows) == 40_001


def test_a_reader_of_more_files_reads_only_those_that_came(index: StatsOfFiles, tmp_path: Path) -> None:
    index.add([index.data("a", {"k": [1]})], [column("k")])
    assert index.stats.bounds(column("k")) is not None
    (first,) = index.live
    Path(tmp_path, first).unlink()
    index.add([index.data("b", {"k": [2]})], [column("k")])
    assert judged(index.stats, "k = 1")[0].count("x") == 1


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
