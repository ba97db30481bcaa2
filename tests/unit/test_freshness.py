"""How far the index must be: questions that are refused where it is not, and waiting until it is."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.delta_builder import DeltaBuilder
from support.drive import Drive
from support.tables import index_of
from support.waiting import HANG_S
from tailbit.errors import StaleIndexError, UsageError


def append(path: str, first: int) -> None:
    rows = pa.table({"k": pa.array(range(first, first + 10), pa.int64()), "v": ["a"] * 10})
    write_deltalake(path, rows, mode="append")


@pytest.fixture
def behind(table_path: str) -> tuple[str, Drive]:
    """Versions 0 to 2, of which the index covers the first two; and what brings it up to date."""
    append(table_path, 0)
    append(table_path, 10)
    drive = index_of(table_path, ["v"])
    append(table_path, 20)
    return table_path, drive


def test_a_question_is_refused_where_the_index_does_not_cover_at_least_that_version(
    behind: tuple[str, Drive],
) -> None:
    path, _ = behind
    assert tailbit.open(path, at_least=1).where("v = 'a'").count() == 30
    with pytest.raises(StaleIndexError, match="covers version 1; asked for version 2") as refused:
        tailbit.open(path, at_least=2).where("v = 'a'")
    assert refused.value.retryable


def test_a_handle_answers_as_soon_as_the_index_has_come_as_far_as_it_demands(
    behind: tuple[str, Drive],
) -> None:
    path, drive = behind
    opened = tailbit.open(path, at_least=2)
    with pytest.raises(StaleIndexError):
        opened.where()
    drive.drain()
    assert opened.where().count() == 30


def test_a_question_is_refused_where_an_uncovered_commit_is_older_than_is_allowed(
    behind: tuple[str, Drive],
) -> None:
    """A commit without a time of its own has that of its file: here, of the year 2001."""
    path, _ = behind
    for n, commit in enumerate(sorted(Path(path, "_delta_log").glob("*.json"))):
        lines = [json.loads(line) for line in commit.read_text().splitlines()]
        commit.write_text("\n".join(json.dumps(line) for line in lines if "commitInfo" not in line))
        os.utime(commit, (10**9 + n, 10**9 + n))
    index_of(path, ["v"])
    append(path, 30)
    last = Path(path, "_delta_log", f"{3:020d}.json")
    os.utime(last, (10**9 + 9, 10**9 + 9))
    year = 365 * 86_400.0
    with pytest.raises(StaleIndexError, match=r"older than 3\.1536e\+07 s; it is \d+\.\d s behind"):
        tailbit.open(path, max_staleness=year).where()
    assert tailbit.open(path, max_staleness=1000 * year).where().count() == 40


def test_a_version_that_the_index_covers_is_never_stale(behind: tuple[str, Drive]) -> None:
    path, _ = behind
    opened = tailbit.open(path, max_staleness=0)
    assert opened.where(version=1).count() == 20
    with pytest.raises(StaleIndexError):
        opened.where(version=2)


def test_without_an_index_every_demand_is_refused(table_path: str) -> None:
    append(table_path, 0)
    for demand in ({"at_least": 0}, {"max_staleness": 1e9}):
        with pytest.raises(StaleIndexError, match="covers no version"):
            tailbit.open(table_path, **demand).where()
    assert tailbit.open(table_path).where().count() == 10


def test_waiting_ends_when_the_index_covers_the_version(behind: tuple[str, Drive]) -> None:
    path, drive = behind
    opened, found = tailbit.open(path), []
    waiting = threading.Thread(target=lambda: found.append(opened.wait_for(timeout=HANG_S)))
    waiting.start()
    drive.drain()
    waiting.join(HANG_S)
    assert found == [2]
    assert opened.where().covered_version == 2


def test_waiting_for_what_is_covered_already_takes_no_time(behind: tuple[str, Drive]) -> None:
    path, _ = behind
    assert tailbit.open(path).wait_for(0, timeout=0) == 1


def test_a_wait_that_is_over_says_how_far_the_index_is(behind: tuple[str, Drive]) -> None:
    path, _ = behind
    with pytest.raises(StaleIndexError, match="covers version 1; asked for version 2 within 0 s"):
        tailbit.open(path).wait_for(timeout=0)


def test_a_wait_may_begin_before_there_is_an_index(table_path: str) -> None:
    append(table_path, 0)
    opened = tailbit.open(table_path)
    with pytest.raises(StaleIndexError, match="covers no version"):
        opened.wait_for(timeout=0.05)
    index_of(table_path, ["v"])
    assert opened.wait_for(timeout=HANG_S) == 0


def test_a_wait_sees_the_index_of_a_table_that_was_created_again_at_the_same_version(
    table_path: str, tmp_path: Path
) -> None:
    index = str(tmp_path / "index")
    append(table_path, 0)
    Drive(table_path, index, ["v"]).drain()
    opened = tailbit.open(table_path, index=index)
    assert opened.wait_for(version=0, timeout=0) == 0
    shutil.rmtree(table_path)
    append(table_path, 100)
    Drive(table_path, index).drain()
    assert opened.wait_for(version=0, timeout=0) == 0
    assert opened.where("k = 100").count() == 1


@pytest.mark.parametrize(
    "demand", [{"at_least": -1}, {"at_least": "1"}, {"max_staleness": -1}, {"max_staleness": float("nan")}]
)
def test_a_demand_that_is_none_is_refused(table_path: str, demand: dict[str, object]) -> None:
    append(table_path, 0)
    with pytest.raises(UsageError):
        tailbit.open(table_path, **demand)  # type: ignore[arg-type]


def test_an_answer_says_which_share_of_the_files_the_index_covers(behind: tuple[str, Drive]) -> None:
    path, drive = behind
    before = tailbit.open(path).where("v = 'a'")
    assert (before.version, before.covered_version, round(before.indexed_share, 2)) == (2, 1, 0.67)
    drive.drain()
    assert tailbit.open(path).where().indexed_share == 1.0
    assert before.indexed_share < 1.0


def test_an_answer_of_a_table_without_files_is_wholly_from_the_index(tmp_path: Path) -> None:
    builder = DeltaBuilder(str(tmp_path)).create(pa.schema([("k", pa.int64())]))
    assert tailbit.open(builder.path).where().indexed_share == 1.0
