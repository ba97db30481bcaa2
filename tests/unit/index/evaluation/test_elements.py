"""Conditions on an array column are told by the postings of its elements, as the rows tell them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.drive import Drive
from support.tables import index_of
from tailbit.errors import EvaluationError

LONG = "x" * 300
TAGS: list[list[str | None] | None] = [
    ["a", "b", "a"], None, [], [None, "a"], ["c"], [None], ["b", None], [LONG], [LONG + "y", "a"]
]  # fmt: skip
MARKS = [[0.0], [-0.0], [float("nan"), None], [1.5, -0.0], [], None, [2.0], [None], [1e300]]
NUMBERS = [[1, 2], [2], None, [], [None, 1], [-128], [127, 127], [None], [0]]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of three files, all of whose arrays are indexed."""
    path = str(tmp_path_factory.mktemp("arrays") / "t")
    for first in (0, 9, 18):
        data = pa.table(
            {
                "id": pa.array(range(first, first + 9)),
                "tags": pa.array(TAGS, pa.list_(pa.string())),
                "marks": pa.array(MARKS, pa.list_(pa.float64())),
                "numbers": pa.array(NUMBERS, pa.list_(pa.int8())),
            }
        )
        write_deltalake(path, data, mode="append")
    Drive(path, f"{path}/_tailbit", ["tags", "marks", "numbers"]).drain()
    Drive(path, f"{path}-none", ["id"])
    return path


TOLD = {
    "array_contains(tags, 'a')": [0, 3, 8],
    "NOT array_contains(tags, 'a')": [2, 4, 7],
    "array_contains(tags, 'a') IS NULL": [1, 5, 6],
    "array_contains(tags, 'a') IS NOT NULL": [0, 2, 3, 4, 7, 8],
    "(NOT array_contains(tags, 'a')) IS NULL": [1, 5, 6],
    "array_contains(tags, 'nothing')": [],
    "array_contains(tags, '')": [],
    "arrays_overlap(tags, array('a', 'c'))": [0, 3, 4, 8],
    "arrays_overlap(array('a', 'c'), tags)": [0, 3, 4, 8],
    "NOT arrays_overlap(tags, array('a', 'c'))": [2, 7],
    "arrays_overlap(tags, array('a', NULL))": [0, 3, 8],
    "arrays_overlap(tags, array('a', NULL)) IS NULL": [1, 4, 5, 6, 7],
    "NOT arrays_overlap(tags, array('a', NULL))": [2],
    "NOT arrays_overlap(tags, array())": [0, 2, 3, 4, 5, 6, 7, 8],
    "tags IS NULL": [1],
    "size(tags) = 0": [2],
    "size(tags) > 0": [0, 3, 4, 5, 6, 7, 8],
    "NOT (0 < size(tags))": [2],
    "size(tags) >= 1 OR tags IS NULL": [0, 1, 3, 4, 5, 6, 7, 8],
    "array_contains(tags, 'a') AND array_contains(tags, 'b')": [0],
    "array_contains(tags, 'b') OR arrays_overlap(numbers, array(CAST(1 AS TINYINT)))": [0, 4, 6],
    "array_contains(marks, 0.0D)": [0, 1, 3],
    "array_contains(marks, -0.0D)": [0, 1, 3],
    "array_contains(marks, double('NaN'))": [2],
    "arrays_overlap(marks, array(1.5D, double('NaN')))": [2, 3],
    "array_contains(numbers, 1)": [0, 4],
    "array_contains(numbers, 1000)": [],
    "NOT array_contains(numbers, 2.5)": [0, 1, 3, 5, 6, 8],
    "array_contains(numbers, 127L) OR array_contains(numbers, -128)": [5, 6],
    "NOT array_contains(numbers, 2.00)": [3, 5, 6, 8],
    "exists(numbers, n -> n > 1)": [0, 1, 6],
    "exists(numbers, n -> n > 1) IS NULL": [2, 4, 7],
    "forall(numbers, n -> n > 1)": [1, 3, 6],
    "forall(numbers, n -> n > 1) IS NULL": [2, 7],
    "exists(numbers, n -> n % 2 = 1)": [0, 4, 6],
}
"""Conditions that the index alone tells, and the rows of each file where they are TRUE."""

READ = {
    f"array_contains(tags, '{LONG}')": [7],
    f"array_contains(tags, '{LONG}') AND array_contains(tags, 'a')": [],
    f"exists(tags, t -> t LIKE '{LONG[:10]}%y')": [8],
    "size(tags) = 3": [0],
    "exists(tags, t -> t = element_at(tags, 1))": [0, 4, 6, 7, 8],
    "array_contains(tags, 'a') OR id = 5": [0, 3, 5, 8],
}
"""Conditions for which rows are read as well."""


def rows(table: tailbit.IndexedTable, where: str) -> list[int]:
    return sorted(row["id"] for row in table.where(where).read(["id"]).to_pylist())


@pytest.mark.parametrize("where", TOLD)
def test_a_condition_on_elements_reads_no_data(path: str, where: str) -> None:
    table = tailbit.open(path)
    answer = table.where(where)
    assert (answer.count(), answer.files_scanned) == (3 * len(TOLD[where]), 0)
    assert rows(table, where) == [first + row for first in (0, 9, 18) for row in TOLD[where]]


@pytest.mark.parametrize("where", [*TOLD, *READ])
def test_an_index_changes_no_answer_about_arrays(path: str, where: str) -> None:
    expected = [first + row for first in (0, 9, 18) for row in (TOLD | READ).get(where, [])]
    if "id = 5" in where:
        expected = [row for row in expected if row % 9 != 5 or row == 5]
    for index in (None, f"{path}-none"):
        assert rows(tailbit.open(path, index=index), where) == expected


def test_an_element_for_which_a_condition_raises_raises_as_the_row_does(path: str) -> None:
    where = "exists(numbers, n -> 1 / n > 0.4) AND id = {}"
    assert rows(tailbit.open(path), where.format(0)) == [0]
    for index in (None, f"{path}-none"):
        with pytest.raises(tailbit.errors.TailbitError, match="DIVIDE_BY_ZERO"):
            tailbit.open(path, index=index).where(where.format(8)).count()


def test_explain_says_that_the_elements_told_the_rows(path: str) -> None:
    said = tailbit.open(path).where("array_contains(tags, 'a')").explain()
    assert {file["reason"] for file in said["files"]} == {"kept_by_index"}
    assert said["encodings"]["tags"]["keys"] > 0


def test_rows_of_a_file_that_is_gone_are_not_told_from_its_postings(tmp_path: Path) -> None:
    """As many rows are empty, gone ones among them, as may match: the bounds are not equal for that."""
    path = str(tmp_path / "t")
    for first, arrays in ((0, [["a"], ["b"], []]), (9, [[], []])):
        ids = pa.array(range(first, first + len(arrays)))
        data = pa.table({"id": ids, "tags": pa.array(arrays, pa.list_(pa.string()))})
        write_deltalake(path, data, mode="append")
    Drive(path, f"{path}/_tailbit", ["tags"]).drain()
    DeltaTable(path).delete("id >= 9")
    Drive(path, f"{path}/_tailbit").drain()
    assert tailbit.open(path).where("size(tags) <> 3").count() == 3
    assert tailbit.open(path).where("size(tags) = 1").count() == 2


@pytest.mark.parametrize("size", ["CAST(size(t) AS TINYINT)", "CAST(CAST(size(t) AS DECIMAL(2)) AS INT)"])
def test_a_size_that_is_cast_to_a_narrower_type_raises_with_an_index_too(tmp_path: Path, size: str) -> None:
    arrays = pa.array([list(range(200)), [1], [], None], pa.list_(pa.int64()))
    write_deltalake(tmp_path / "t", pa.table({"t": arrays}))
    raised = []
    for _ in range(2):
        with pytest.raises(EvaluationError) as refused:
            tailbit.open(tmp_path / "t").where(f"{size} > 0").count()
        raised.append(str(refused.value))
        index_of(tmp_path / "t", ["t"])
    assert raised[0] == raised[1]
