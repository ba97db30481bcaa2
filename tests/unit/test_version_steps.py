"""Versions rise and need not be contiguous: stream, lag, freshness and errors count commits, not numbers."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import tailbit
from support.drive import NO_WAIT, Drive
from support.hudi_builder import HudiBuilder
from tailbit.checkpoints.lag import Backlog, lag_of_nothing
from tailbit.checkpoints.offset import Offset
from tailbit.errors import StaleIndexError
from tailbit.streaming.planner import versions_between
from tailbit.streaming.settings import StreamSettings
from tailbit.tables import Table, open_table

COMMITS = 7


@pytest.fixture
def made(tmp_path: Path) -> HudiBuilder:
    """Seven commits of a file each, to a table whose versions are the times at which they completed."""
    made = HudiBuilder(str(tmp_path / "t"), 9, random.Random(1))
    append(made, COMMITS)
    return made


def append(made: HudiBuilder, commits: int = 1) -> None:
    for _ in range(commits):
        rows = pa.table({"k": pa.array([1], pa.int64()), "v": ["a"]})
        requested = made.timeline.request()
        file, _ = made.data_file(rows, requested, made.new_group(), "p")
        made.commit(requested, [file], rows.schema, "UPSERT")


def versions(table: Table) -> Sequence[int]:
    return table.versions(0, table.head())


def followed(made: HudiBuilder, commits: int, settings: StreamSettings = NO_WAIT) -> Drive:
    """A stream that has built the index at the head and then sees more commits."""
    drive = Drive(str(made.root), f"{made.root}/_tailbit", ["k"], settings)
    drive.drain()
    append(made, commits)
    return drive


def test_a_batch_takes_as_many_commits_as_its_limit_says(made: HudiBuilder) -> None:
    drive = followed(made, 5, StreamSettings(versions=2))
    drive.drain()
    known = versions(open_table(str(made.root)))
    assert known[1] - known[0] > 1
    assert [end.stands_at for end in drive.ends] == [known[at] for at in (6, 8, 10, 11)]
    assert tailbit.open(made.root).where("v = 'a'").count() == 12


def test_spark_counts_a_row_for_each_commit(made: HudiBuilder) -> None:
    drive = followed(made, 3)
    begin, table = drive.position, open_table(str(made.root))
    drive.drain()
    assert versions_between(table, begin, drive.position) == versions(table)[-3:]
    assert versions_between(table, Offset(1, 5), Offset(2, 9, 0)) == [9]


def test_a_restart_goes_on_behind_the_covered_version(made: HudiBuilder) -> None:
    drive = followed(made, 2)
    drive.drain()
    append(made)
    again = Drive(str(made.root), f"{made.root}/_tailbit", ["k"])
    (outcome,) = again.drain()
    assert (outcome.target, outcome.files) == (open_table(str(made.root)).head(), 1)
    assert {end.round for end in [*drive.ends, *again.ends]} == {1}


def test_an_offset_is_kept_as_it_was(made: HudiBuilder) -> None:
    drive = followed(made, 1)
    drive.drain()
    text = json.dumps(drive.position.to_json())
    assert Offset.from_json(json.loads(text)) == drive.position
    assert json.loads(text)["version"] == open_table(str(made.root)).head() + 1


def test_lag_counts_commits(made: HudiBuilder) -> None:
    table = open_table(str(made.root))
    numbers = versions(table)
    ends = [commit.timestamp_ms / 1000 for commit in table.changes(0, table.head()).commits]
    backlog = Backlog(table, clock=lambda: ends[-1] + 100, budget=2)
    lags = [backlog.lag(covered, table.head()) for covered in (-1, numbers[0], numbers[0], numbers[4])]
    assert [(lag.versions, lag.files, lag.counted) for lag in lags] == [
        (7, 2, 2),
        (6, 3, 3),
        (6, 5, 5),
        (2, 2, 2),
    ]
    ages = [ends[-1] + 100 - ends[at] for at in (0, 1, 1, 5)]
    assert [lag.seconds for lag in lags] == pytest.approx(ages)
    assert backlog.lag(numbers[1], table.head()).files == 2
    assert backlog.lag(table.head(), table.head()).text == "up to date"
    assert lag_of_nothing(table, table.head()).versions == COMMITS


def test_the_report_of_the_stream_counts_commits(made: HudiBuilder) -> None:
    drive = followed(made, 2)
    drive.planner.next(drive.position)
    report = drive.planner.report()
    assert report is not None
    assert (report["version"], report["behind"]["versions"]) == (open_table(str(made.root)).head() + 1, 2)


def test_staleness_is_the_age_of_the_next_commit(made: HudiBuilder) -> None:
    followed(made, 1)
    opened = tailbit.open(made.root, max_staleness=1e12)
    assert opened.where("v = 'a'").count() == COMMITS + 1
    with pytest.raises(StaleIndexError, match="s behind"):
        tailbit.open(made.root, max_staleness=1).where("v = 'a'").count()
