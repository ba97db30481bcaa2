"""An answer is right in every state of the index, and says what could not be read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.delta_builder import DeltaBuilder
from support.tables import (
    DAMAGES,
    EVERY_TYPE,
    flipped_pages,
    half_built,
    index_files,
    index_of,
    rows,
    three_commits,
)
from tailbit.errors import DataFileError, UnknownColumnError, UsageError


@pytest.fixture
def path(table_path: str) -> str:
    return three_commits(table_path)


def test_only_files_whose_data_was_read_are_counted_as_scanned(path: str) -> None:
    def scanned(predicate: str | None) -> int:
        answer = tailbit.open(path).where(predicate)
        answer.count()
        return answer.files_scanned

    assert [scanned(None), scanned("k = 5"), scanned("v = 'v1'"), scanned("k = 99")] == [0, 1, 3, 0]
    half_built(path, ["v"])
    assert [scanned(None), scanned("k = 5"), scanned("v = 'v1'"), scanned("k = 99")] == [0, 1, 2, 0]
    index_of(path)
    assert [scanned(None), scanned("k = 5"), scanned("v = 'v1'"), scanned("k = 99")] == [0, 1, 0, 0]


@pytest.mark.parametrize("harm", DAMAGES)
def test_a_damaged_segment_costs_time_and_not_rows(path: str, harm: Callable[[Path], None]) -> None:
    drive = index_of(path, ["v"])
    write_deltalake(path, rows(30), mode="append")
    drive.drain()
    files = index_files(path, "bitmap_index")
    assert len(files) == 2
    harm(files[0])
    answer = tailbit.open(path).where("v = 'v1'")
    assert answer.count() == 13
    assert answer.files_scanned in (1, 3)
    assert [d.fields["file"] for d in answer.damaged] == [f"kind=bitmap_index/{files[0].name}"]
    assert len(answer.read()) == 13
    assert answer.explain()["damaged"] == [str(answer.damaged[0])]


def test_damage_found_late_in_a_query_is_scanned_too(path: str) -> None:
    """The predicate's row groups are read and cached; those of the facet column are not."""
    index_of(path, ["k", "v"])
    answer = tailbit.open(path).where("k < 12")
    assert answer.count() == 12
    for file in index_files(path, "bitmap_index"):
        flipped_pages(file)
    assert answer.facets("v") == {"v0": 4, "v1": 4, "v2": 4}
    assert len(answer.damaged) == 1


def test_a_missing_data_file_is_named_where_its_data_is_needed(path: str) -> None:
    index_of(path, ["v"])
    opened = tailbit.open(path)
    victim = opened.where("k = 15").files()[0]
    Path(path, victim).unlink()
    assert tailbit.open(path).where("v = 'v1'").count() == 10
    for ask in (
        lambda: tailbit.open(path).where("k = 15").count(),
        lambda: tailbit.open(path).where("v = 'v1'").read(),
    ):
        with pytest.raises(DataFileError, match=f"{victim}.*missing"):
            ask()


@pytest.mark.parametrize("content", [b"", b"not parquet at all, but long enough for a footer", None])
def test_a_data_file_that_is_not_parquet_is_named(path: str, content: bytes | None) -> None:
    victim = tailbit.open(path).where("k = 15").files()[0]
    file = Path(path, victim)
    size = file.stat().st_size
    file.write_bytes(content if content is not None else b"x" * size)
    with pytest.raises(DataFileError, match=victim):
        tailbit.open(path).where("v = 'v1'").count()


def test_an_answer_stays_at_its_version_while_the_table_moves_on(path: str) -> None:
    drive = index_of(path, ["v"])
    opened = tailbit.open(path)
    first, untouched = opened.where("v = 'v1'"), opened.where("v = 'v2' AND k > 2")
    assert first.count() == 10
    DeltaTable(path).delete("k < 10")
    drive.drain()
    assert opened.where("v = 'v1'").count() == 7
    assert (first.version, first.count(), len(first.read())) == (2, 10, 10)
    assert untouched.count() == 9


def test_an_answer_outlives_the_index_it_was_bound_to(path: str) -> None:
    index_of(path, ["k", "v"])
    answer = tailbit.open(path).where("v = 'v1'")
    shutil.rmtree(Path(path, "_tailbit"))
    assert answer.count() == 10
    assert answer.facets("k") == dict.fromkeys(range(1, 30, 3), 1)
    assert answer.damaged


def test_a_predicate_without_columns_reads_nothing_of_covered_files(path: str) -> None:
    index_of(path, ["k"])
    for file in Path(path).glob("*.parquet"):
        file.unlink()
    opened = tailbit.open(path)
    asked = (None, "TRUE", "FALSE", "NULL = 1", "1 = 1")
    assert [opened.where(text).count() for text in asked] == [30, 30, 0, 0, 30]


def test_files_that_are_not_covered_are_asked_for_their_row_count(table_path: str) -> None:
    builder = DeltaBuilder(table_path).create(rows(0).schema)
    builder.commit([builder.data_file(rows(0), stats=False)])
    answer = tailbit.open(table_path).where()
    assert (answer.count(), answer.files_scanned) == (10, 0)
    assert tailbit.open(table_path).where("k < 3").explain()["files"][0]["rows"] == 10


def test_rows_of_every_type_come_back_as_they_are(table_path: str) -> None:
    write_deltalake(table_path, EVERY_TYPE)
    expected = DeltaTable(table_path).to_pyarrow_table()
    for _ in range(2):
        found = tailbit.open(table_path).where().read()
        assert found.schema.names == expected.schema.names
        assert (
            found.drop_columns(["score", "amount"]).to_pylist()
            == expected.drop_columns(["score", "amount"]).to_pylist()
        )
        assert str(found["amount"].to_pylist()) == str(expected["amount"].to_pylist())
        assert tailbit.open(table_path).where("id IN (1, 4)").read(["place", "tags"]).to_pylist() == [
            {"place": None, "tags": []},
            {"place": None, "tags": []},
        ]
        index_of(table_path, ["id", "name"])


def test_no_match_gives_the_schema_and_so_does_a_limit_of_zero(table_path: str) -> None:
    write_deltalake(table_path, EVERY_TYPE)
    opened = tailbit.open(table_path)
    whole = opened.where().read()
    for nothing in (opened.where("id > 100").read(), opened.where().read(limit=0)):
        assert nothing.schema == whole.schema
        assert nothing.num_rows == 0
    assert opened.where().read(["place.city"], limit=0).schema.names == ["place.city"]


def test_a_limit_gives_the_first_rows_by_path_and_position(path: str) -> None:
    opened = tailbit.open(path)
    whole = opened.where("v <> 'v0'").read(["k"])["k"].to_pylist()
    for limit in (1, 6, 7, 8, 20, 1000):
        assert opened.where("v <> 'v0'").read(["k"], limit)["k"].to_pylist() == whole[:limit]
    with pytest.raises(UsageError, match="below zero"):
        opened.where().read(limit=-1)


def test_columns_are_read_by_any_spelling_once_each_and_in_the_order_asked_for(table_path: str) -> None:
    write_deltalake(table_path, EVERY_TYPE)
    answer = tailbit.open(table_path).where("id = 0")
    found = answer.read(["NAME", "place.city", "id", "Place.City", "name", "place"])
    assert found.to_pylist() == [
        {"name": "a", "place.city": "Oslo", "id": 0, "place": {"city": "Oslo", "at": {"x": 1}}}
    ]
    assert found.column_names == ["name", "place.city", "id", "place"]


def test_an_unknown_column_names_the_nearest_and_no_column_is_refused(table_path: str) -> None:
    write_deltalake(table_path, EVERY_TYPE)
    answer = tailbit.open(table_path).where()
    with pytest.raises(UnknownColumnError, match=r"no column nam in the table .nearest: name."):
        answer.read(["id", "nam"])
    with pytest.raises(UsageError, match="no columns"):
        answer.read([])


def test_partition_columns_are_read_from_the_log(table_path: str) -> None:
    data = pa.table({"k": range(4), "p": ["x", None, "a b/c%", ""], "d": pa.array([1.5, None, -0.0, 2.0])})
    write_deltalake(table_path, data.take([0, 1, 2]), partition_by=["p", "d"])
    found = tailbit.open(table_path).where().read(["p", "k", "d"]).sort_by("k")
    assert found.to_pylist() == [
        {"p": "x", "k": 0, "d": 1.5},
        {"p": None, "k": 1, "d": None},
        {"p": "a b/c%", "k": 2, "d": -0.0},
    ]
    only = tailbit.open(table_path).where("p IS NOT NULL").read(["p"])
    assert sorted(only["p"].to_pylist()) == ["a b/c%", "x"]


def test_a_column_added_later_is_null_in_older_files(path: str) -> None:
    write_deltalake(path, pa.table({"k": [99], "extra": ["e"]}), mode="append", schema_mode="merge")
    index_of(path, ["v"])
    opened = tailbit.open(path)
    assert opened.where("extra IS NULL").count() == 30
    assert opened.where("k = 99").read().to_pylist() == [{"k": 99, "v": None, "extra": "e"}]
    assert opened.where("v IS NULL").count() == 1
    with pytest.raises(UnknownColumnError):
        opened.where("extra IS NULL", version=1)


def test_small_row_groups_are_streamed_together(table_path: str) -> None:
    builder = DeltaBuilder(table_path).create(rows(0).schema)
    builder.commit([builder.data_file(rows(0, 100), "f.parquet", row_group_size=7)])
    schema, tables = tailbit.open(table_path).where("k BETWEEN 5 AND 30").stream(["k"])
    sizes = [len(table) for table in tables]
    assert sizes == [26]
    assert schema.names == ["k"]
    assert tailbit.open(table_path).where("k IN (6, 7, 48, 49, 98)").positions()["f.parquet"].tolist() == [
        6,
        7,
        48,
        49,
        98,
    ]
