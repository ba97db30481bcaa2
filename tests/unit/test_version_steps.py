"""Versions rise and need not be contiguous: stream, lag, freshness and errors count commits, not numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import tailbit
from support.drive import NO_WAIT, Drive
from support.listed_table import ListedTable
from tailbit.checkpoints.lag import Backlog, lag_of_nothing
from tailbit.checkpoints.offset import Offset
from tailbit.errors import StaleIndexError, VacuumedFileError
from tailbit.streaming.settings import StreamSettings
from tailbit.streaming.source.planner import versions_between

COMMITS = 7


@pytest.fixture(params=[1, 1_000_003])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> ListedTable:
    """Seven commits of a file each."""
    (tmp_path / "listed").mkdir()
    table = ListedTable(tmp_path / "listed", step=request.param)
    append(table, COMMITS)
    return table


def append(table: ListedTable, commits: int = 1) -> None:
    for _ in range(commits):
        number = len(table.versions(0, table.head()))
        rows = pa.table({"k": pa.array([number], pa.int64()), "v": ["a"]})
        table.commit({f"{number}.parquet": table.write(f"{number}.parquet", rows, "x")})


def versions(table: ListedTable) -> Sequence[int]:
    return table.versions(0, table.head())


def followed(table: ListedTable, index: Path, commits: int, settings: StreamSettings = NO_WAIT) -> Drive:
    """A stream that has built the index at the head and then sees more commits."""
    drive = Drive(table, index, ["k"], settings)
    drive.drain()
    append(table, commits)
    return drive


def test_a_batch_takes_as_many_commits_as_its_limit_says(table: ListedTable, tmp_path: Path) -> None:
    drive = followed(table, tmp_path / "index", 5, StreamSettings(wait_ms=0, versions=2))
    drive.drain()
    assert [end.stands_at for end in drive.ends] == [versions(table)[at] for at in (6, 8, 10, 11)]
    assert tailbit.open(table, index=str(tmp_path / "index")).where("v = 'a'").count() == 12


def test_spark_counts_a_row_for_each_commit(table: ListedTable, tmp_path: Path) -> None:
    drive = followed(table, tmp_path / "index", 3)
    begin = drive.position
    drive.drain()
    assert versions_between(table, begin, drive.position) == versions(table)[-3:]
    assert versions_between(table, Offset(1, 5), Offset(2, 9, 0)) == [9]


def test_a_restart_goes_on_behind_the_covered_version(table: ListedTable, tmp_path: Path) -> None:
    drive = followed(table, tmp_path / "index", 2)
    drive.drain()
    append(table)
    again = Drive(table, tmp_path / "index", ["k"])
    (outcome,) = again.drain()
    assert (outcome.target, outcome.files) == (table.head(), 1)
    assert {end.round for end in [*drive.ends, *again.ends]} == {1}


def test_an_offset_is_kept_as_it_was(table: ListedTable, tmp_path: Path) -> None:
    drive = followed(table, tmp_path / "index", 1)
    drive.drain()
    text = json.dumps(drive.position.to_json())
    assert Offset.from_json(json.loads(text)) == drive.position
    assert json.loads(text)["version"] == table.head() + 1


def test_lag_counts_commits(table: ListedTable) -> None:
    backlog, numbers = Backlog(table, clock=lambda: 100.0, budget=2), versions(table)
    lags = [backlog.lag(covered, table.head()) for covered in (-1, numbers[0], numbers[0], numbers[4])]
    assert [(lag.versions, lag.files, lag.counted) for lag in lags] == [
        (7, 2, 2),
        (6, 3, 3),
        (6, 5, 5),
        (2, 2, 2),
    ]
    assert [lag.seconds for lag in lags] == [99, 98, 98, 94]
    assert backlog.lag(numbers[1], table.head()).files == 2
    assert backlog.lag(table.head(), table.head()).text == "up to date"
    assert lag_of_nothing(table, table.head()).versions == COMMITS


def test_the_report_of_the_stream_counts_commits(table: ListedTable, tmp_path: Path) -> None:
    drive = followed(table, tmp_path / "index", 2)
    drive.planner.next(drive.position)
    report = drive.planner.report()
    assert report is not None
    assert (report["version"], report["behind"]["versions"]) == (table.head() + 1, 2)


def test_staleness_is_the_age_of_the_next_commit(table: ListedTable, tmp_path: Path) -> None:
    followed(table, tmp_path / "index", 1)
    opened = tailbit.open(table, index=str(tmp_path / "index"), max_staleness=1e12)
    assert opened.where("v = 'a'").count() == COMMITS + 1
    with pytest.raises(StaleIndexError, match="s behind"):
        tailbit.open(table, index=str(tmp_path / "index"), max_staleness=1).where("v = 'a'").count()


def test_a_file_that_left_is_told_by_the_commit_that_dropped_it(table: ListedTable) -> None:
    append(table)
    table.commit({"0.parquet": None})
    append(table)
    Path(table.root, "0.parquet").unlink()
    first, dropped = versions(table)[0], versions(table)[COMMITS + 1]
    with pytest.raises(VacuumedFileError, match=f"from version {dropped} on") as raised:
        tailbit.open(table).where("v = 'a'", version=first).read()
    assert raised.value.fields["head"] == table.head()
