"""Hudi tables as Delta tables without copies: Spark, without Hudi, reads the rows that Hudi's own read."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from click.testing import CliRunner

import tailbit
from support.hudi import HudiInstant, HudiTable, packed_names, unpack
from support.hudi_builder import HudiBuilder
from support.hudi_states import changes
from support.iceberg import counted
from tailbit.cli.main import cli
from tailbit.errors import UsageError

REFUSED = {
    "cow_v6_units": "holds moment as timestamp[us, tz=UTC], the table as timestamp",
    "cow_v9_columns": "holds rate as float, the table as double",
    "cow_v9_promoted": "holds i_f as int32, the table as float",
    "cow_v9_null_folders": "lies in the folder of NULL of v, and holds another value",
}
"""Tables of which some files would be read by other engines as other values, and what is said of them."""


def files(folder: str) -> dict[str, tuple[int, int]]:
    """Return size and time of every file below a folder."""
    stats = {str(path): path.stat() for path in Path(folder).rglob("*") if path.is_file()}
    return {path: (stat.st_size, stat.st_mtime_ns) for path, stat in stats.items()}


def view_of(table: HudiTable, instant: HudiInstant) -> str:
    """Write all rows of an instant as a view; return its path."""
    target = table.folder / f"view {instant.requested}"
    return tailbit.open(table.path).where(version=instant.requested).to_delta(target)


def read_by_spark(spark: Any, view: str) -> pa.Table:
    """Read a view by Spark, which knows nothing of Hudi."""
    rows: pa.Table = spark.read.format("delta").load(view).toArrow()
    return rows


@pytest.mark.by_thirds
@pytest.mark.supports_hudi("Ways to ask", "COPY_ON_WRITE tables in Spark without Hudi (`to_delta`)", "exact")
@pytest.mark.parametrize("name", sorted({*packed_names("cow")} - {*REFUSED}))
def test_spark_and_deltalake_read_of_a_view_the_rows_that_hudi_read(
    spark: Any, tmp_path: Path, name: str
) -> None:
    table = unpack(name, tmp_path)
    before = files(table.path)
    for instant in changes(table):
        view, truth = view_of(table, instant), table.rows(instant)
        assert counted(pa.table(deltalake.DeltaTable(view).scan())) == counted(truth)
        assert not [*Path(view).rglob("*.parquet")]
    assert counted(read_by_spark(spark, view)) == counted(truth)
    assert files(table.path) == before


@pytest.mark.supports_hudi("Ways to ask", "widened whole numbers in views of `to_delta`", "exact")
def test_spark_reads_whole_numbers_of_a_view_that_became_longs_and_doubles(
    spark: Any, tmp_path: Path
) -> None:
    builder = HudiBuilder(str(tmp_path / "table"), 9, random.Random(1))
    wider = {"id": pa.int64(), "n": pa.float64(), "place": pa.struct([("x", pa.int64())])}
    narrow = {"id": pa.int32(), "n": pa.int32(), "place": pa.struct([("x", pa.int32())])}
    values = {"id": [1, 2**31 - 1], "n": [-3, None], "place": [{"x": 7}, None]}
    for types in (narrow, wider):
        rows = pa.table({name: pa.array(values[name], types[name]) for name in values})
        requested = builder.timeline.request()
        file, _ = builder.data_file(rows, requested, builder.new_group(), "")
        builder.commit(requested, [file], rows.schema, "INSERT")
    answer = tailbit.open(tmp_path / "table").where("id > 0")
    view = answer.to_delta(tmp_path / "view")
    features = deltalake.DeltaTable(view).protocol().reader_features
    assert features is not None
    assert "typeWidening" in features
    assert counted(read_by_spark(spark, view)) == counted(answer.read())
    assert answer.count() == 4


@pytest.mark.supports_hudi("Ways to ask", "other promoted columns in views of `to_delta`", "refused")
@pytest.mark.supports_hudi(
    "Ways to ask", "empty partition values that Spark reads as NULL in such views", "refused"
)
@pytest.mark.by_thirds
@pytest.mark.parametrize("name", REFUSED)
def test_files_that_other_engines_would_read_as_other_values_are_refused_in_a_view(
    spark: Any, tmp_path: Path, name: str
) -> None:
    table, said, views = unpack(name, tmp_path), [], {}
    for instant in changes(table):
        try:
            views[instant] = view_of(table, instant)
        except UsageError as refused:
            said.append(str(refused))
    assert said
    assert all(REFUSED[name] in text for text in said), said
    for instant, view in views.items():
        assert counted(read_by_spark(spark, view)) == counted(table.rows(instant))


@pytest.mark.supports_hudi("Ways to ask", "rows in log blocks in views of `to_delta`", "refused")
def test_a_merged_table_is_a_view_where_no_rows_lie_in_logs_and_is_refused_by_name_elsewhere(
    spark: Any, tmp_path: Path
) -> None:
    table, seen = unpack("mor_v9", tmp_path), Counter[bool]()
    for instant in changes(table):
        answer = tailbit.open(table.path).where(version=instant.requested)
        in_logs = any("!" in path for path in answer.positions())
        seen[in_logs] += 1
        if in_logs:
            with pytest.raises(UsageError, match=r"lie in \d+ blocks of log files, such as ") as refused:
                view_of(table, instant)
            assert "Compact the table" in refused.value.hint
        else:
            assert counted(read_by_spark(spark, view_of(table, instant))) == counted(table.rows(instant))
    assert min(seen[False], seen[True]) > 0


def test_the_command_writes_a_view_of_a_condition_at_an_instant(tmp_path: Path) -> None:
    table = unpack("cow_v9", tmp_path)
    instant = changes(table)[1]
    view, condition = str(tmp_path / "lima"), "city = 'Lima'"
    arguments = ["to-delta", table.path, view, condition, "--version", instant.requested]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.output == f"{view}\n"
    truth = [row for row in table.rows(instant).to_pylist() if row["city"] == "Lima"]
    rows = pa.table(deltalake.DeltaTable(view).scan()).to_pylist()
    assert truth
    assert sorted(row["id"] for row in rows) == sorted(row["id"] for row in truth)


def test_a_frame_of_the_data_source_is_of_the_instant_that_its_version_names(
    spark: Any, tmp_path: Path
) -> None:
    tailbit.spark.register(spark)
    table = unpack(min(packed_names("cow")), tmp_path)
    for instant in changes(table)[:3]:
        for version in (instant.requested, f" {instant.requested} "):
            frame = spark.read.format("tailbit").option("version", version).load(table.path)
            assert frame.count() == tailbit.open(table.path).where(version=instant.requested).count()
