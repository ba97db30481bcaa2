"""A second table format needs only `tables.Table`: indexer, answers and checks know nothing of Delta."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tailbit
from support.drive import Drive, run_tasks
from support.listed_table import ListedRows, ListedTable
from tailbit.api import IndexedTable
from tailbit.errors import CommitGapError, VersionNotFoundError
from tailbit.index.write.run import BuildTask, TaskResult
from tailbit.streaming.settings import StreamSettings
from tailbit.tables.model import FileSlice
from tailbit.tables.storage import LocalStorage

PREDICATES = (
    None,
    "k >= 13",
    "v = 'v1' AND k < 25",
    "v IS NULL",
    "part = 'x' OR k = 12",
    "part IS NULL AND v <> 'v0'",
    "NOT (v IN ('v0', 'new')) OR k > 91",
)

Live = Mapping[str, tuple[str | None, Sequence[int]]]
"""Path to the partition value and the hidden rows of a live file: what the tests themselves committed."""

AT_FIRST: Live = {"a-0.parquet": ("x", [1, 4]), "b-0.parquet": ("y", []), "c-0.parquet": (None, [0])}
LATER: Live = {
    "a-0.parquet": ("x", [4, 5, 9]),
    "b-1.parquet": ("y", []),
    "c-0.parquet": (None, []),
    "d-0.parquet": ("x", [2]),
}
VERSIONS = (AT_FIRST, LATER)


def rows(first: int, count: int = 10, text: str | None = None) -> pa.Table:
    keys = list(range(first, first + count))
    values = [text or (None if k % 7 == 0 else f"v{k % 3}") for k in keys]
    return pa.table({"k": pa.array(keys, pa.int64()), "v": values})


def hiding(slice_: FileSlice, positions: Sequence[int]) -> FileSlice:
    hidden = ListedRows(",".join(map(str, positions))) if positions else None
    return FileSlice(
        slice_.path,
        slice_.size,
        slice_.mtime,
        slice_.rows,
        slice_.partition,
        hidden=hidden,
        stats=slice_.stats,
    )


@pytest.fixture(params=[1, 1_000_003])
def step(request: pytest.FixtureRequest) -> int:
    """How far versions are apart: as in Delta, and as in a format whose versions are moments."""
    return int(request.param)


def at_first(root: Path, step: int) -> ListedTable:
    """The first version: three files, of two of them some rows are hidden."""
    root.mkdir()
    table = ListedTable(root, step=step)
    pieces = (
        table.write("a-0.parquet", rows(0), "x"),
        table.write("b-0.parquet", rows(10), "y"),
        table.write("c-0.parquet", rows(20), None),
    )
    table.commit({p.path: hiding(p, AT_FIRST[p.path][1]) for p in pieces})
    return table


def go_on(table: ListedTable) -> None:
    """The second version: a file is rewritten, one is new, rows are hidden and shown again."""
    files = table.snapshot().files
    kept = [slice_ for slice_ in files if slice_.path != "b-0.parquet"]
    fresh = [
        table.write("b-1.parquet", pa.concat_tables([rows(10, 8), rows(90, 3, "new")]), "y"),
        table.write("d-0.parquet", rows(30, 5), "x"),
    ]
    changed = {p.path: hiding(p, LATER[p.path][1]) for p in [*kept, *fresh]}
    table.commit({"b-0.parquet": None, **changed})


@pytest.fixture
def table(tmp_path: Path, step: int) -> ListedTable:
    made = at_first(tmp_path / "listed", step)
    go_on(made)
    return made


def judged(
    engine: duckdb.DuckDBPyConnection, root: str, live: Live, predicate: str | None
) -> list[dict[str, Any]]:
    """What DuckDB finds in the Parquet files of a version: file, position and columns of the rows."""
    out: list[dict[str, Any]] = []
    for path, (part, hidden) in sorted(live.items()):
        found = engine.sql(
            "SELECT * FROM (SELECT k, v, CAST($part AS VARCHAR) AS part, file_row_number AS position "
            "FROM read_parquet($file, file_row_number = true)) "
            f"WHERE NOT list_contains($hidden, position) AND ({predicate or 'true'}) ORDER BY position",
            params={"part": part, "file": f"{root}/{path}", "hidden": list(hidden)},
        ).to_arrow_table()
        out += [{"file": path, **row} for row in found.to_pylist()]
    return out


def check(table: ListedTable, index: str | Path) -> IndexedTable:
    """Counts, facets, positions and rows are DuckDB's at every version of the table."""
    opened = tailbit.open(table, index=str(index) if Path(index).exists() else None)
    with duckdb.connect() as engine:
        for version, live in zip(table.versions(0, table.head()), VERSIONS, strict=False):
            for predicate in PREDICATES:
                expected = judged(engine, table.root, live, predicate)
                same(opened.where(predicate, version=version), expected)
    return opened


def same(answer: tailbit.Answer, expected: Sequence[Mapping[str, Any]]) -> None:
    assert answer.count() == len(expected), (answer.version, answer.text)
    positions = [(f, int(at)) for f, found in answer.positions().items() for at in found]
    assert positions == [(row["file"], row["position"]) for row in expected]
    for column in ("v", "part"):
        assert answer.facets(column) == Counter(row[column] for row in expected)
    wanted = [{name: row[name] for name in ("k", "v", "part")} for row in expected]
    assert answer.read().to_pylist() == wanted


def pickled(tasks: Sequence[BuildTask]) -> list[TaskResult]:
    """Tasks as a worker gets them, results as the driver gets them."""
    found: list[TaskResult] = pickle.loads(pickle.dumps(run_tasks(pickle.loads(pickle.dumps(tasks)))))
    return found


def drive(table: ListedTable, index: Path, files: int = 2000) -> Drive:
    return Drive(table, index, ["k", "v", "part"], StreamSettings(files=files), run=pickled)


def test_another_format_is_answered_from_without_an_index(table: ListedTable, tmp_path: Path) -> None:
    assert check(table, tmp_path / "none").state == "absent"


def test_another_format_is_indexed_and_answered_from_at_every_version(
    table: ListedTable, tmp_path: Path
) -> None:
    drive(table, tmp_path / "index").drain()
    opened = check(table, tmp_path / "index")
    assert opened.state == "complete"
    answer = opened.where("v = 'v1'")
    assert (answer.count(), answer.files_scanned, answer.covered_version) == (8, 0, table.head())
    assert opened.verify().problems == []


def test_an_index_behind_another_format_costs_time_and_no_rows(tmp_path: Path, step: int) -> None:
    table = at_first(tmp_path / "listed", step)
    driven = drive(table, tmp_path / "index")
    driven.drain()
    go_on(table)
    behind = check(table, tmp_path / "index").where("v = 'v1'")
    assert (behind.covered_version, behind.version) == (table.earliest(), table.head())
    driven.drain()
    opened = check(table, tmp_path / "index")
    assert opened.where().covered_version == table.head()
    assert opened.verify().problems == []


def test_a_first_build_of_another_format_may_be_under_way(table: ListedTable, tmp_path: Path) -> None:
    driven = drive(table, tmp_path / "index", files=1)
    driven.step()
    assert check(table, tmp_path / "index").state == "building"
    driven.drain()
    assert check(table, tmp_path / "index").state == "complete"


def test_an_index_of_another_history_of_the_format_is_not_trusted(tmp_path: Path, step: int) -> None:
    table = at_first(tmp_path / "listed", step)
    drive(table, tmp_path / "index").drain()
    other = ListedTable(table.root, "another", step)
    other.commit({slice_.path: slice_ for slice_ in table.snapshot().files})
    assert check(other, tmp_path / "index").state == "other history"
    drive(other, tmp_path / "index").drain()
    assert check(other, tmp_path / "index").state == "complete"


def test_the_formats_own_statistics_keep_files_from_being_read(table: ListedTable, tmp_path: Path) -> None:
    answer = tailbit.open(table).where("k = 3")
    assert (answer.count(), answer.files_scanned) == (1, 1)


def test_a_time_means_the_version_that_the_format_says(table: ListedTable) -> None:
    opened = tailbit.open(table)
    assert [opened.where(as_of=f"1970-01-01T00:00:0{s}").version for s in (1, 2)] == table.versions(
        0, table.head()
    )
    with pytest.raises(VersionNotFoundError, match="not listed"):
        opened.where(as_of="1970-01-01T00:01:00")


def test_a_version_that_the_format_lacks_is_refused_by_name(table: ListedTable) -> None:
    with pytest.raises(VersionNotFoundError, match="version 7"):
        tailbit.open(table).where(version=7)
    with pytest.raises(CommitGapError):
        table.changes(0, table.head() + 1)


def test_a_slice_of_any_format_takes_its_hidden_rows_and_bounds_along(table: ListedTable) -> None:
    slice_ = table.snapshot().files.get("d-0.parquet")
    there: FileSlice = pickle.loads(pickle.dumps(slice_))
    assert there == slice_
    assert there.hidden is not None
    assert list(there.hidden.read(LocalStorage(table.root))) == [2]
    (k, v, _) = table.snapshot().schema.columns
    assert (there.bounds(k), there.bounds(v)) == ((30, 34, 0, 5), None)
