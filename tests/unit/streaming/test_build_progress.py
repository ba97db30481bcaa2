"""Builds of every kind show what they have done of what: first builds, fills, rebuilds, of either format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.drive import Drive
from support.hudi import unpack
from support.tables import index_of
from support.waiting import wait_until
from tailbit.checkpoints.builds import Build, Builds
from tailbit.checkpoints.claim import Claim
from tailbit.index.maintenance.alter import alter
from tailbit.index.maintenance.definitions import define
from tailbit.index.maintenance.rebuild import Extent, build_extent_of
from tailbit.index.model import Definition
from tailbit.index.sql.ddl.parser import parse_statement
from tailbit.index.sql.ddl.statements import CreateIndex
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.indexer import Indexer
from tailbit.streaming.settings import StreamSettings
from tailbit.tables import open_table
from tailbit.upkeep.repairs import build_again
from tailbit.upkeep.status import status_of

ONE = StreamSettings(files=1)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Five files of ten rows."""
    table = str(tmp_path / "t")
    for first in range(0, 50, 10):
        keys = list(range(first, first + 10))
        write_deltalake(table, pa.table({"k": keys, "s": [f"S{k}" for k in keys]}), mode="append")
    return table


def drive_of(path: str, columns: list[str] | None, seen: list[dict[str, Any]]) -> Drive:
    """A drive of one file a batch; what its build shows at each task is noted in `seen`."""

    def note(build: Build) -> None:
        progress = build.progress()
        assert progress is not None
        seen.append(progress.account())

    drive = Drive(path, f"{path}/_tailbit", columns, ONE)
    build = Build("t", note)
    run = drive.indexer._run

    def run_and_add(tasks: Any) -> Any:
        from tailbit.index.maintenance.rebuild import extent_of_records

        results = run(tasks)
        build.add(extent_of_records(record for result in results for record in result.records))
        return results

    drive.indexer = Indexer(drive.table, drive.index, drive.indexer._limits, run_and_add, build=build)
    return drive


def files_done(seen: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return list(dict.fromkeys((account["files_done"], account["files"]) for account in seen))


def test_a_first_build_tells_files_and_rows_done_of_all(path: str) -> None:
    seen: list[dict[str, Any]] = []
    drive_of(path, ["k", "s"], seen).drain()
    assert files_done(seen) == [(n, 5) for n in range(6)]
    # Rows are counted once, however many columns are indexed.
    assert {account["rows"] for account in seen} == {50}
    assert [account["rows_done"] for account in seen][-1] == 50


def test_a_build_that_is_started_again_goes_on_from_what_is_committed(path: str) -> None:
    before: list[dict[str, Any]] = []
    first = drive_of(path, ["k"], before)
    for _ in range(3):
        first.step()
    after: list[dict[str, Any]] = []
    again = drive_of(path, None, after)
    again.start, again.ends = first.start, first.ends
    again.drain()
    assert files_done(after) == [(3, 5), (4, 5), (5, 5)]


def test_status_tells_what_is_built_while_no_indexer_runs(path: str) -> None:
    drive = Drive(path, f"{path}/_tailbit", ["k"], ONE)
    empty = status_of(path)
    assert (empty["build"]["files_done"], empty["build"]["files"], empty["build"]["rows"]) == (0, 5, 50)
    for _ in range(3):
        drive.step()
    building = status_of(path)
    assert (building["build"]["files_done"], building["build"]["rows_done"]) == (3, 30)
    # What is built already no longer counts as behind.
    assert building["lag"]["files"] == 2
    drive.drain()
    complete = status_of(path)
    assert "build" not in complete
    assert complete["lag"]["files"] == 0


def test_status_names_the_definitions_that_are_still_filled(path: str) -> None:
    drive = Drive(path, f"{path}/_tailbit", ["k"], ONE)
    drive.drain()
    (added,) = [Definition.of_column(c) for c in drive.table.snapshot().schema.columns if c.label == "s"]
    alter(MetadataTable.open(f"{path}/_tailbit"), [added], [])
    drive.fill()
    build = status_of(path)["build"]
    assert (build["definitions"], build["files_done"], build["files"]) == (["s"], 1, 5)


def test_the_record_of_a_filling_counts_only_what_the_definitions_lack(path: str) -> None:
    drive = Drive(path, f"{path}/_tailbit", ["k"], ONE)
    drive.drain()
    (added,) = [Definition.of_column(c) for c in drive.table.snapshot().schema.columns if c.label == "s"]
    alter(MetadataTable.open(f"{path}/_tailbit"), [added], [])
    drive.fill()
    progress = drive.filler._build.progress()
    assert progress is not None
    assert (progress.extent.definitions, progress.extent.whole.rows) == (("s",), 50)
    while drive.fill() is not None:
        pass
    assert drive.filler._build.progress() is None


def test_a_create_index_beside_others_tells_its_own_files_and_rows(path: str) -> None:
    index_of(path, ["k", "s"])
    left: list[tuple[int, int]] = []
    table = tailbit.open(path)
    table.create_index("parity", "k % 2", progress=lambda files, rows: left.append((files, rows)))
    assert (left[0], left[-1]) == ((5, 50), (0, 0))
    assert left == sorted(left, reverse=True)


def test_a_rebuild_is_a_build_of_its_own(path: str) -> None:
    index_of(path, ["k", "s"])
    left: list[tuple[int, int]] = []
    tailbit.open(path).rebuild_index("s", progress=lambda files, rows: left.append((files, rows)))
    assert (left[0], left[-1]) == ((5, 50), (0, 0))


def test_a_build_of_a_hudi_table_tells_files_and_rows(tmp_path: Path) -> None:
    hudi = unpack("cow_v9", tmp_path).path
    table = open_table(str(hudi))
    files = len(table.snapshot().files)
    Drive(str(hudi), f"{hudi}/_tailbit", [table.snapshot().schema.columns[-1].label], ONE)
    empty = status_of(str(hudi))["build"]
    assert (empty["files_done"], empty["files"]) == (0, files)
    builds = Builds()
    assert build_again(table, MetadataTable.open(f"{hudi}/_tailbit"), builds) is None
    assert "build" not in status_of(str(hudi))


def test_rows_without_a_number_in_the_log_are_estimated_and_said_to_be(path: str) -> None:
    import json

    for commit in sorted(Path(path, "_delta_log").glob("*.json"))[2:]:
        lines = [json.loads(line) for line in commit.read_text().splitlines()]
        for line in lines:
            line.get("add", {}).pop("stats", None)
        commit.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    drive = Drive(path, f"{path}/_tailbit", ["k"], ONE)
    extent = build_extent_of(drive.index.state, drive.table.snapshot())
    assert not extent.rows_exact
    assert 40 <= extent.whole.rows <= 60
    drive.drain()
    assert build_extent_of(drive.index.state, drive.table.snapshot()).rows_exact


def test_a_file_that_cannot_be_read_does_not_keep_a_build_from_its_end(path: str) -> None:
    drive = Drive(path, f"{path}/_tailbit", ["k"], ONE)
    data = sorted(Path(path).glob("*.parquet"))[1]
    data.write_bytes(b"PAR1" + bytes(data.stat().st_size - 8) + b"PAR1")
    drive.drain()
    extent = build_extent_of(drive.index.state, drive.table.snapshot())
    assert (extent.unbuilt.files, extent.whole.files) == (0, 5)
    assert "build" not in status_of(path)


def test_an_index_by_name_is_not_complete_before_its_first_build_is(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    for part in ("a", "b", "b", "b"):
        write_deltalake(table, pa.table({"k": [1], "p": [part]}), mode="append", partition_by=["p"])
    drive = Drive(table, f"{table}/_tailbit", ["k"], ONE)
    schema = drive.table.snapshot().schema
    for text in ("part ON t (k + 1) WHERE p = 'b'", "later ON t (k + 2) WITH DEFERRED REBUILD"):
        statement = parse_statement(f"CREATE INDEX {text}")
        assert isinstance(statement, CreateIndex)
        alter(drive.index, [define(statement, schema)], [])
    told = []
    for _ in range(4):
        told.append([(index.name, index.state, index.files_left) for index in tailbit.open(table).indexes()])
        drive.step()
    assert told[0] == [("k", "building", 4), ("part", "building", 3), ("later", "deferred", 0)]
    assert [states[0][2] for states in told] == [4, 3, 2, 1]
    drive.drain()
    assert {index.state for index in tailbit.open(table).indexes()} == {"complete", "deferred"}


def test_status_tells_what_the_indexer_at_work_says_until_nothing_is_left(path: str) -> None:
    drive = Drive(path, f"{path}/_tailbit", ["k"], ONE)
    drive.step()
    heartbeat = Claim(drive.index.storage)
    build = heartbeat.builds.build(drive.index.state.index_id, "batches", "t")
    build.begin(1, lambda: build_extent_of(drive.index.state, drive.table.snapshot()))
    wait_until(lambda: heartbeat.builds.of(drive.index.state.index_id))
    build.add(Extent(2, 20, build.progress().extent.whole.bytes // 3))  # type: ignore[union-attr]
    heartbeat.acquire()
    try:
        told = status_of(path)["build"]
        assert (told["files_done"], told["files"]) == (3, 5)
        assert told["seconds_left"] > 0
        drive.drain()
        assert "build" not in status_of(path)
    finally:
        heartbeat.release()
