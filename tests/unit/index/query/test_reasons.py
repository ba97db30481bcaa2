"""Each reason of an explanation stands in docs/reasons.md, and is given where it holds."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.delta_builder import DeltaBuilder
from support.drive import Drive
from support.tables import LONG, gone, index_files, index_of
from tailbit.index.grouping.choice import CountingWay
from tailbit.index.query.explain import Reason
from tailbit.streaming.settings import StreamSettings

PAGE = (Path(__file__).parents[4] / "docs" / "reasons.md").read_text()


def sentences(cls: type) -> dict[str, str]:
    """Value to docstring of the members of an enum."""
    (tree,) = ast.parse(inspect.getsource(cls)).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for member, text in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(member, ast.Assign):
            assert isinstance(member.value, ast.Constant)
            assert isinstance(text, ast.Expr)
            assert isinstance(text.value, ast.Constant)
            found[str(member.value.value)] = " ".join(str(text.value.value).split())
    return found


def test_the_page_has_every_reason_and_every_way_with_its_sentence() -> None:
    rows = dict(re.findall(r"^\| `?([a-z_ ]+?)`? \| (.*) \|$", PAGE, re.M))
    assert {code: rows.get(code) for code in sentences(Reason)} == sentences(Reason)
    assert {way: rows.get(way) for way in sentences(CountingWay)} == sentences(CountingWay)


@pytest.fixture
def path(table_path: str) -> str:
    """Two files, of the partitions x and y; v is indexed, and only w of the second is above 5."""
    for p, first in (("x", 0), ("y", 10)):
        values = ["a", "b", LONG, LONG + "y"]
        columns = {"v": values, "w": [first + n for n in range(4)], "k": [3, 2, 1, 0], "p": [p] * 4}
        write_deltalake(table_path, pa.table(columns), mode="append", partition_by=["p"])
    return table_path


def reasons(path: str, predicate: str | None) -> list[tuple[str, str | None]]:
    """Reason, and what it is by, of the first file and of the second."""
    account = tailbit.open(path).where(predicate).explain()
    files = sorted(account["files"], key=lambda file: str(file["path"]).split("p=")[1])
    return [(file["reason"], file["by"]) for file in files]


INDEXED = [
    ("v = 'a'", Reason.KEPT_BY_INDEX, None),
    ("v = 'zz'", Reason.PRUNED_BY_INDEX, "v = 'zz'"),
    ("v <> 'zz' AND p = 'q'", Reason.PRUNED_BY_INDEX, "p = 'q'"),
    ("w = 99", Reason.PRUNED_BY_STATISTICS, "w = 99 (statistics)"),
    ("w <> 2", Reason.COLUMN_NOT_INDEXED, "w <> 2"),
    (f"v = '{LONG}'", Reason.LONG_VALUES, None),
    ("w = k", Reason.COMPUTED, "w = k"),
    ("w + k > 2", Reason.COMPUTED, None),
]


@pytest.mark.parametrize(
    ("predicate", "reason", "by"), INDEXED, ids=[reason.value for _, reason, _ in INDEXED]
)
def test_a_covered_file_has_the_reason(path: str, predicate: str, reason: Reason, by: str | None) -> None:
    index_of(path, ["v"])
    found, what = reasons(path, predicate)[0]
    assert found == reason.value
    assert by is None or what == by


def test_rows_that_another_index_bounds_have_the_reason(path: str) -> None:
    index_of(path, ["v"])
    tailbit.open(path).create_index("by_place", "floor(w / 4)")
    account = tailbit.open(path).where("w > 1 AND w < 3").explain()
    first = next(file for file in account["files"] if file["matching"])
    assert (first["reason"], first["by"]) == (Reason.BOUNDED.value, "w > 1 AND w < 3")
    assert account["bytes_touched"] > 0
    assert list(account["encodings"]) == ["by_place"]


UNCOVERED = [
    ("p = 'x'", Reason.KEPT_BY_LOG),
    ("p = 'y'", Reason.PRUNED_BY_PARTITION),
    ("w > 5", Reason.PRUNED_BY_STATISTICS),
    ("v = 'a'", Reason.NO_INDEX),
]


@pytest.mark.parametrize(("predicate", "reason"), UNCOVERED, ids=[reason.value for _, reason in UNCOVERED])
def test_a_file_without_an_index_has_the_reason(path: str, predicate: str, reason: Reason) -> None:
    assert reasons(path, predicate)[0][0] == reason.value


def test_a_file_that_came_after_the_index_is_not_covered(path: str) -> None:
    index_of(path, ["v"])
    write_deltalake(
        path, pa.table({"v": ["a"], "w": [1], "k": [1], "p": ["z"]}), mode="append", partition_by=["p"]
    )
    assert [reason for reason, _ in reasons(path, "v = 'a'")] == [
        *("kept_by_index", "kept_by_index", "not_covered")
    ]


def test_a_column_that_is_not_posted_for_a_file_yet_is_told(path: str) -> None:
    index_of(path, ["v"])
    tailbit.open(path).alter(add=["w"])
    drive = Drive(path, f"{path}/_tailbit", None, StreamSettings(files=1))
    seen = set()
    for _ in range(6):
        seen |= {reason for reason, _ in reasons(path, "w <> 2")}
        drive.step()
    assert {"column_not_posted", "kept_by_index"} <= seen


@pytest.mark.parametrize("kind", ["bitmap_index", "files"])
def test_a_damaged_index_is_told(path: str, kind: str) -> None:
    index_of(path, ["v"])
    for file in index_files(path, kind):
        gone(file)
    assert [reason for reason, _ in reasons(path, "v = 'a'")] == ["index_damaged"] * 2


def test_row_groups_read_are_told(table_path: str) -> None:
    rows = pa.table({"v": ["a"] * 30 + ["b"] * 10, "w": [float(n % 7) for n in range(40)]})
    builder = DeltaBuilder(table_path).create(rows.schema)
    builder.commit([builder.data_file(rows, "f.parquet", row_group_size=10)])
    index_of(table_path, ["v"])
    answer = tailbit.open(table_path).where("v = 'b' AND w <> 3")
    (file,) = answer.explain()["files"]
    assert (file["row_groups"], file["row_groups_read"]) == (4, 1)


def test_a_column_that_the_condition_leaves_one_value_is_told_as_counted_by_it(path: str) -> None:
    index_of(path, ["v"])
    (step,) = tailbit.open(path).where("v = 'a'").explain(facets=["v"])["facets"]
    assert (step["way"], step["rows"], step["estimates_ms"]) == (CountingWay.RECORDED.value, 2, {})


def test_ways_of_facets_are_told_with_estimates(path: str) -> None:
    index_of(path, ["v"])
    step = tailbit.open(path).where("v <= 'a'").explain(facets=["v"])["facets"][0]
    estimates = step["estimates_ms"]
    assert set(estimates) == {
        way.value for way in (CountingWay.INTERSECTIONS, CountingWay.CODES, CountingWay.DATA)
    }
    assert step["way"] == min(estimates, key=estimates.__getitem__)
    assert step["rows"] == 2
    assert step["took_ms"] is not None
