"""Portions of a selection, packed for other processes, answer together as the selection itself does."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
import pytest

import tailbit
from support import hudi, iceberg
from support.drive import Drive
from support.executor_questions import CONDITIONS, history
from support.tables import index_files, index_of, rows, three_commits, with_vectors
from tailbit.answer import Answer
from tailbit.api import IndexedTable
from tailbit.errors import RequirementError, UnusableStorageError
from tailbit.index.evaluation.side_by_side import unread_by
from tailbit.index.grouping.facets import count_groups
from tailbit.index.grouping.grouping import sum_of_groups
from tailbit.index.grouping.measures import Aggregates, Measure, aggregated
from tailbit.index.postings.layout import NAME as POSTINGS
from tailbit.index.query.explain import Account, explain
from tailbit.spark.portions import Division, Portion, packed, unpacked
from tailbit.tables.storage import NO_OPTIONS, StorageOptions


def portions(
    table: IndexedTable, answer: Answer, task_bytes: int = 0, cores: int | None = None, whole: bool = False
) -> list[Portion]:
    division = Division.of(table, answer._selection, task_bytes)
    return [sent(portion) for portion in division.portions(cores, whole)]


def sent(portion: Portion) -> Portion:
    return unpacked(packed(portion), NO_OPTIONS, tailbit.__version__)


def positions(answer: Answer) -> dict[str, list[int]]:
    return {hit.slice_.path: hit.positions.tolist() for hit in answer._selection.hits()}


def found(given: list[Portion]) -> dict[str, list[int]]:
    hits = [hit for portion in given for hit in portion.hits()]
    assert len({hit.slice_.path for hit in hits}) == len(hits), "a file is in two portions"
    return {hit.slice_.path: hit.positions.tolist() for hit in hits}


def groups(given: list[Portion], columns: list[Any]) -> Any:
    parts = [count_groups(portion.division().selection, columns).combinations() for portion in given]
    return sum_of_groups(columns, parts)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> IndexedTable:
    return tailbit.open(history(str(tmp_path_factory.mktemp("divided") / "t")))


@pytest.mark.by_thirds
@pytest.mark.parametrize("condition", CONDITIONS)
def test_portions_have_the_rows_and_groups_of_the_selection_at_each_version(
    table: IndexedTable, condition: str | None
) -> None:
    for version in range(deltalake.DeltaTable(table.path).version() + 1):
        answer = table.where(condition, version=version)
        for task_bytes, cores, whole in (
            (0, None, False),
            (0, None, True),
            (4000, None, False),
            (0, 2, False),
        ):
            given = portions(table, answer, task_bytes, cores, whole)
            assert found(given) == positions(answer), (version, task_bytes)
        assert sum(portion.division().selection.count() for portion in given) == answer.count()
        for names in (["s"], ["day", "s"], ["upper(s)"], ["x"]):
            columns = answer._keys(*names)
            whole_groups, summed = count_groups(answer._selection, columns), groups(given, columns)
            for number in range(len(columns)):
                assert summed.keys_of(number).equals(whole_groups.keys_of(number)), (version, names)
            assert np.array_equal(summed.counts, whole_groups.counts)


@pytest.mark.parametrize("condition", ["s = 's1' AND k < 60", "x > 3 OR s IS NULL", "upper(s) = 'S2'"])
def test_explanations_of_portions_add_up_to_that_of_the_answer(table: IndexedTable, condition: str) -> None:
    for version in (1, 4, 7):
        answer = table.where(condition, version=version)
        division = Division.of(table, answer._selection, 0)
        given = [sent(portion) for portion in division.portions(None, whole=True, every=True)]
        accounts = [Account.of(portion.division().selection) for portion in given]
        judged = {**explain(answer._selection, 4, [Account.of(answer._selection)]), "took_ms": 0}
        ours = {**explain(answer._selection, 4, accounts), "took_ms": 0, "bytes_touched": 0}
        assert ours == {**judged, "bytes_touched": 0}


def test_aggregates_of_portions_add_up_to_those_of_the_selection(table: IndexedTable) -> None:
    answer = table.where("k < 70")
    for names in ([], ["x"], ["x", "s"]):
        by = answer._keys(*names)
        measures = [Measure("sum", answer._key("k")), Measure("max", answer._key("x"))]
        total = Aggregates.none(by, measures)
        for portion in portions(table, answer):
            sums = aggregated(portion.division().selection, by, measures)
            total.add(pickle.loads(pickle.dumps(sums)))
        expected = aggregated(answer._selection, by, measures)
        assert repr(total.by_group(measures)) == repr(expected.by_group(measures)), names


def test_portions_leave_out_the_rows_that_deletion_vectors_hide(tmp_path: Path) -> None:
    with_vectors(str(tmp_path / "t"))
    table = tailbit.open(tmp_path / "t")
    for condition in (None, "v = 'v0'", "k < 7", "v <> 'v1' AND k > 2"):
        answer = table.where(condition)
        assert found(portions(table, answer)) == positions(answer)


@pytest.mark.parametrize("name", ["deletes_v2", "partitions_v3", "schemas_v3", "upgraded"])
def test_portions_of_an_iceberg_table_have_its_rows_with_and_without_an_index(
    name: str, tmp_path: Path
) -> None:
    table = iceberg.unpack(name, tmp_path)
    bare = tailbit.open(table.table)
    column = bare.columns[0]
    index_by_name = {"index": str(tmp_path / "index")}
    Drive(table.table, index_by_name["index"], [column]).drain()
    for opened in (bare, tailbit.open(table.table, **index_by_name)):
        for condition in (None, f"`{column}` IS NOT NULL", f"`{column}` IS NULL"):
            answer = opened.where(condition)
            assert found(portions(opened, answer)) == positions(answer)


@pytest.mark.parametrize("name", ["cow_v9_columns", "mor_v9_columns", "mor_v9_log_only", "mor_v9_sql"])
def test_portions_of_a_hudi_table_have_its_rows_with_and_without_an_index(name: str, tmp_path: Path) -> None:
    table = hudi.unpack(name, tmp_path)
    bare = tailbit.open(table.path)
    column = next(column for column in ("city", "a_text") if column in bare.columns)
    Drive(table.path, tmp_path / "index", [column]).drain()
    for opened in (bare, tailbit.open(table.path, tmp_path / "index")):
        for condition in (None, f"{column} > 'M'", f"{column} IS NULL OR {column} < 'P'"):
            answer = opened.where(condition)
            assert found(portions(opened, answer)) == positions(answer)


def test_a_row_space_is_one_portion_for_questions_that_read_postings(table: IndexedTable) -> None:
    answer = table.where("k >= 0")
    spaces = [set(space.files.tolist()) for space in answer._selection.coverage.spaces]
    paths = answer._selection.snapshot.files.paths.to_pylist()
    given = [set(portion.files.paths.to_pylist()) for portion in portions(table, answer, whole=True)]
    assert len(spaces) > 1
    assert all({paths[number] for number in space} in given for space in spaces)
    assert len(portions(table, answer, whole=False)) == len(paths)


def test_files_that_cannot_have_a_row_are_in_no_portion_where_the_driver_may_find_out(
    table: IndexedTable,
) -> None:
    answer = table.where("k = 5")
    (portion,) = portions(table, answer, task_bytes=1 << 20)
    assert portion.files.paths.to_pylist() == list(positions(answer))
    assert portions(table, table.where("k = 999"), task_bytes=1 << 20) == []


@pytest.mark.parametrize(
    "condition", ["k = 7 AND s >= 's'", "(k = 7 OR k = 9) AND (v >= 'v' OR s >= 's')", "x < 700 AND s >= 's'"]
)
def test_cheap_terms_and_the_log_leave_files_out_where_the_whole_is_worth_a_task(
    tmp_path: Path, condition: str
) -> None:
    path = str(tmp_path / "t")
    for number in range(6):
        keys, texts = [*range(number, 60, 6)] * 50, [f"s{n * 7919}" for n in range(500)]
        columns = {"k": keys, "x": range(number * 500, number * 500 + 500), "v": texts, "s": texts}
        deltalake.write_deltalake(path, pa.table(columns), mode="append")
    index_of(path, ["k", "v", "s"])
    opened = tailbit.open(path)
    answer = opened.where(condition)
    worth = sum(unread_by(answer._selection.node, space) for space in answer._selection.coverage.spaces)
    division = Division.of(opened, answer._selection, worth)
    assert division._node != answer._selection.node
    given = [sent(portion) for portion in division.portions(None, whole=False)]
    assert [path for portion in given for path in portion.files.paths.to_pylist()] == list(positions(answer))
    assert found(given) == positions(answer)


def test_segments_that_a_merge_has_replaced_and_vacuum_deleted_cost_a_scan_and_no_row(tmp_path: Path) -> None:
    table = tailbit.open(history(str(tmp_path / "t")))
    answer = table.where("s = 's1'")
    given = portions(table, answer)
    expected = positions(answer)
    for segment in index_files(table.path, POSTINGS):
        segment.unlink()
    assert found(given) == expected
    assert any(portion.division().selection.files_scanned for portion in given)


def test_portions_stand_for_the_state_of_the_index_that_they_were_made_from(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for first in range(0, 160, 10):
        deltalake.write_deltalake(path, rows(first), mode="append")
        index_of(path, ["v"])
    table = tailbit.open(path)
    answer = table.where("v = 'v1' AND k < 60")
    given, expected = portions(table, answer), positions(answer)
    assert tailbit.open(table.path).compact()
    table.count()
    assert found(given) == expected == found(portions(table, answer))


def test_a_packed_portion_has_no_options_of_stores(tmp_path: Path) -> None:
    path = three_commits(str(tmp_path / "t"))
    table = tailbit.open(path, storage_options={"AWS_SECRET_ACCESS_KEY": "hush-hush"})
    (portion,) = Division.of(table, table.where()._selection).portions(1, whole=False)
    options = StorageOptions.of({"AWS_SECRET_ACCESS_KEY": "hush-hush"})
    assert b"hush-hush" in pickle.dumps(portion)
    assert b"hush-hush" not in packed(portion)
    assert unpacked(packed(portion), options, tailbit.__version__).storage.options == options


def test_another_release_and_a_folder_that_is_not_there_are_named(tmp_path: Path) -> None:
    table = tailbit.open(three_commits(str(tmp_path / "t")))
    (portion,) = Division.of(table, table.where()._selection).portions(1, whole=False)
    data = packed(portion)
    with pytest.raises(RequirementError, match=r"the driver has 0\.0\.1"):
        unpacked(data, NO_OPTIONS, "0.0.1")
    (tmp_path / "t").rename(tmp_path / "elsewhere")
    with pytest.raises(UnusableStorageError, match="finds no such folder"):
        unpacked(data, NO_OPTIONS, tailbit.__version__)
