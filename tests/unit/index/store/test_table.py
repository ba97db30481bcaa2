"""The table of an index: its commits, its log and log checkpoints, and what damage of them costs."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap

import tailbit
from support.drive import Drive
from support.index_records import counts, hidden, ledger, new_index, record, segment, settings
from support.racers import race
from support.tables import index_of, three_commits, truncated
from support.waiting import HANG_S
from tailbit.base.faults import InjectedFaultError
from tailbit.errors import (
    CommitConflictError,
    ForeignIndexError,
    IndexLogError,
    NoIndexError,
)
from tailbit.index.kinds import bloom_filter as bloom_filter
from tailbit.index.kinds.bloom_filter import BLOOM_FILTER
from tailbit.index.kinds.column_stats import COLUMN_STATS, directory
from tailbit.index.kinds.kind import kind_of
from tailbit.index.kinds.schemas import BITMAP_INDEX, KINDS, LEDGER, SETTINGS
from tailbit.index.maintenance.definitions import add
from tailbit.index.maintenance.merge import merge_all
from tailbit.index.maintenance.vacuum import Sweeper, referenced
from tailbit.index.model import Definition
from tailbit.index.store import state, stored_log
from tailbit.index.store.stored_log import LOG_CHECKPOINT_EVERY, last_checkpoint
from tailbit.index.store.table import MetadataTable
from tailbit.tables import open_table
from tailbit.tables.storage import Storage


def test_a_fresh_index_remembers_its_settings_and_nothing_else(tmp_path: Path) -> None:
    wanted = settings("c", "d")
    MetadataTable.create(str(tmp_path / "i"), wanted)
    found = MetadataTable.open(str(tmp_path / "i"))
    assert (found.version, found.state.ledger, found.state.settings, found.state.seq) == (0, None, wanted, 0)
    assert list(found.state.recorded.live()) == []
    assert found.state.recorded.get("a") is None
    assert len(found.state.recorded.table()) == 0


def test_what_was_committed_is_in_memory_what_a_fresh_open_reads(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    for i in range(12):
        file = segment(index, f"{i:032x}", {"c": [b"x", None, b"y"]})
        claims = [record(f"f{i}", 3, space=f"{i:032x}", base=0, built=("c",))]
        index.commit([*claims, record("again", size=i)], [file, counts(index, "c", {b"x": 1})], ledger(i))
    fresh = MetadataTable.open(str(tmp_path))
    assert (
        (fresh.version, fresh.state.seq, fresh.state.ledger)
        == (index.version, index.state.seq, index.state.ledger)
        == (12, 12, index.state.ledger)
    )
    assert fresh.state.files == index.state.files
    by_path = {r.path: r for r in index.state.recorded.live()}
    assert {r.path: r for r in fresh.state.recorded.live()} == by_path
    assert by_path["again"].size == 11
    assert fresh.state.spaces.keys() == index.state.spaces.keys()
    assert len(fresh.state.files_of(LEDGER)) == 1
    assert len(fresh.state.files_of(SETTINGS)) == 1


def test_effect_and_record_of_effect_are_one_commit(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    index.commit([record("a")], [segment(index, "a" * 32, {"c": [b"x"]})], ledger(5))
    log = deltalake.DeltaTable(str(tmp_path))
    assert log.version() == 1
    assert log.transaction_version(f"tailbit:{index.state.index_id}") == 1
    at_0 = deltalake.DeltaTable(str(tmp_path), version=0)
    assert {uri.split("/")[-2] for uri in at_0.file_uris()} == {"kind=settings"}
    assert {uri.split("/")[-2] for uri in log.file_uris()} == {
        "kind=settings",
        "kind=files",
        "kind=ledger",
        "kind=bitmap_index",
    }


def test_every_commit_says_when_in_its_transaction_so_that_spark_keeps_it(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    index.commit([], [], ledger(1))
    for version in (0, 1):
        log = (tmp_path / f"_delta_log/{version:020}.json").read_text()
        assert '"lastUpdated":1' in log


def test_refresh_takes_in_what_another_committed(tmp_path: Path) -> None:
    writer = new_index(str(tmp_path))
    reader = MetadataTable.open(str(tmp_path))
    assert reader.state.recorded.get("a") is None
    assert not reader.refresh()
    writer.commit([record("a")], [], ledger(1))
    writer.commit([record("a", left=2), record("b")], [], ledger(2))
    assert reader.refresh()
    assert not reader.refresh()
    assert reader.state.ledger == writer.state.ledger
    assert [r.path for r in reader.state.recorded.live()] == ["b"]
    assert reader.state.files == writer.state.files


def test_an_index_opened_anew_at_the_same_path_is_noticed(tmp_path: Path) -> None:
    import shutil

    writer = new_index(str(tmp_path / "i"))
    writer.commit([record("a")], [], ledger(1))
    reader = MetadataTable.open(str(tmp_path / "i"))
    shutil.rmtree(tmp_path / "i")
    with pytest.raises(NoIndexError):
        reader.refresh()
    other = new_index(str(tmp_path / "i"))
    other.commit([record("b")], [], ledger(1))
    assert reader.refresh()
    assert [r.path for r in reader.state.recorded.live()] == ["b"]
    assert reader.state.index_id == other.state.index_id


def test_of_two_writers_on_one_version_the_second_is_told(tmp_path: Path) -> None:
    first = new_index(str(tmp_path))
    second = MetadataTable.open(str(tmp_path))
    first.commit([record("a")], [], ledger(1))
    with pytest.raises(CommitConflictError, match="version 1"):
        second.commit([record("b")], [], ledger(1))
    assert second.version == 0
    assert second.refresh()
    second.commit([record("b")], [], ledger(2))
    first.refresh()
    assert {r.path for r in first.state.recorded.live()} == {"a", "b"}
    assert first.state.seq == 2


def test_of_two_processes_racing_for_one_version_exactly_one_wins(tmp_path: Path) -> None:
    new_index(str(tmp_path))
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(2), context.Queue()
    racers = [
        context.Process(target=race, args=(str(tmp_path), name, barrier, 25, results)) for name in ("a", "b")
    ]
    for racer in racers:
        racer.start()
    won = dict(results.get(timeout=HANG_S) for _ in racers)
    for racer in racers:
        racer.join(HANG_S)
    assert sorted(won["a"] + won["b"]) == list(range(1, 26))
    found = MetadataTable.open(str(tmp_path))
    assert found.version == 25
    assert {r.path for r in found.state.recorded.live()} == {
        f"{n}{v}" for n, versions in won.items() for v in versions
    }


def test_a_commit_to_remove_a_file_that_is_gone_is_a_conflict(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    with pytest.raises(CommitConflictError):
        index.commit([], [], ledger(1), removes=["kind=files/nothing.parquet"])
    assert index.version == 0


def test_a_process_that_slept_past_the_cleanup_of_the_log_does_not_win(tmp_path: Path) -> None:
    awake = new_index(str(tmp_path))
    asleep = MetadataTable.open(str(tmp_path))
    for i in range(3):
        awake.commit([record("a")], [], ledger(i))
    awake.checkpoint_log()
    for version in range(3):
        (tmp_path / f"_delta_log/{version:020}.json").unlink()
    with pytest.raises(CommitConflictError):
        asleep.commit([record("b")], [], ledger(9))
    assert [r.path for r in MetadataTable.open(str(tmp_path)).state.recorded.live()] == ["a"]
    asleep.refresh()
    asleep.commit([record("b")], [], ledger(9))
    assert {r.path for r in MetadataTable.open(str(tmp_path)).state.recorded.live()} == {"a", "b"}


def test_a_commit_by_another_engine_is_noticed_and_makes_the_index_a_damaged_one(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    index.commit([record("a")], [], ledger(1))
    deltalake.DeltaTable(str(tmp_path)).delete("kind = 'files'")
    with pytest.raises(CommitConflictError):
        index.commit([record("b")], [], ledger(2))
    for look in (index.refresh, lambda: MetadataTable.open(str(tmp_path))):
        with pytest.raises(IndexLogError, match="it names other files than were committed"):
            look()


@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
def test_a_fault_around_the_commit_leaves_all_of_it_or_nothing(
    tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = new_index(str(tmp_path))
    monkeypatch.setenv("TAILBIT_FAULT", f"{point}=raise")
    monkeypatch.setattr("tailbit.base.faults._passes", {})
    with pytest.raises(InjectedFaultError):
        index.commit([record("a")], [segment(index, "a" * 32, {"c": [b"x"]})], ledger(1))
    monkeypatch.delenv("TAILBIT_FAULT")
    found = MetadataTable.open(str(tmp_path))
    done = point == "after_commit"
    assert (
        found.state.recorded.get("a") is not None,
        found.state.ledger is not None,
        bool(found.state.spaces),
    ) == (
        done,
        done,
        done,
    )
    index.refresh()
    index.commit([record("b")], [], ledger(2))
    assert MetadataTable.open(str(tmp_path)).state.recorded.get("b") is not None


def test_a_path_without_an_index_says_so(tmp_path: Path) -> None:
    (tmp_path / "_checkpoint").mkdir()
    (tmp_path / "_heartbeat.json").write_text("{}")
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(NoIndexError):
            MetadataTable.open(str(path))
    new_index(str(tmp_path))
    MetadataTable.open(str(tmp_path))


def test_a_path_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("hello")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "hello.txt").write_text("hello")
    deltalake.write_deltalake(str(tmp_path / "delta"), pa.table({"x": [1]}))
    for name in ("file", "folder", "delta"):
        with pytest.raises(ForeignIndexError):
            MetadataTable.open(str(tmp_path / name))
        with pytest.raises((ForeignIndexError, CommitConflictError)):
            new_index(str(tmp_path / name))


def test_hidden_rows_are_found_by_identity(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    for i in range(5):
        rows = {f"u{i}-{k}": [i, k, 70_000] for k in range(20)}
        index.commit([], [hidden(index, rows)], ledger(i))
    for found in (index, MetadataTable.open(str(tmp_path))):
        assert found.state.hidden_rows("u3-7") == BitMap([3, 7, 70_000])
        assert found.state.hidden_rows("u9-1") is None


def test_value_counts_are_the_sum_of_all_deltas(tmp_path: Path) -> None:
    index = new_index(str(tmp_path), "c", "d")
    index.commit([], [counts(index, "c", {None: 4, b"x": 2, b"y": 3})], ledger(1))
    assert _counts(index, "c") == {None: 4, b"x": 2, b"y": 3}
    index.commit([], [counts(index, "c", {b"x": -2, b"y": 1}), counts(index, "d", {b"z": 1})], ledger(2))
    for found in (index, MetadataTable.open(str(tmp_path))):
        assert _counts(found, "c") == {None: 4, b"y": 4}
        assert _counts(found, "d") == {b"z": 1}
        assert found.state.value_counts("c")[0].to_pylist() == [None, b"y"]


def _counts(index: MetadataTable, column: str) -> dict[bytes | None, int]:
    keys, deltas = index.state.value_counts(column)
    return dict(zip(keys.to_pylist(), deltas.tolist(), strict=True))


def test_other_engines_read_the_index_as_an_ordinary_delta_table(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    file = segment(index, "a" * 32, {"c": [b"x", b"y", b"x"]})
    claim = record("f", 3, space="a" * 32, base=0, built=("c",), partition={"p": "1", "q": None})
    others = COLUMN_STATS.write_stream(index.storage, [directory(["f" * 32], [3])])
    filters = pa.table([["c"], ["string"], ["f" * 32], [0], [3], [bytes(32)]], schema=bloom_filter.SCHEMA)
    others += BLOOM_FILTER.write_stream(index.storage, [filters])
    index.commit(
        [claim], [file, counts(index, "c", {b"x": 2}), hidden(index, {"u1": [2]}), *others], ledger(1)
    )
    log = deltalake.DeltaTable(str(tmp_path))
    assert (log.protocol().min_reader_version, log.protocol().min_writer_version) == (1, 2)
    assert log.metadata().partition_columns == ["kind"]
    assert set(pa.table(log.scan())["kind"].to_pylist()) == {kind.name for kind in KINDS}
    # DuckDB's Delta extension comes over the network, so it is given the files that the log names.
    found = duckdb.execute(
        "SELECT cardinality FROM read_parquet($1, union_by_name=true, hive_partitioning=true)"
        " WHERE kind='bitmap_index' AND key='x'::BLOB",
        [log.file_uris()],
    ).fetchall()
    assert found == [(2,)]


def test_the_log_of_a_long_history_is_as_short_as_that_of_a_young_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(stored_log.CONFIGURATION, "delta.logRetentionDuration", "interval 0 seconds")
    monkeypatch.setitem(stored_log.CONFIGURATION, "delta.deletedFileRetentionDuration", "interval 0 seconds")
    index = new_index(str(tmp_path))
    for i in range(130):
        index.commit([], [], ledger(i))
    assert len(list((tmp_path / "_delta_log").glob("*.json"))) <= 3 * stored_log.LOG_CHECKPOINT_EVERY
    found = MetadataTable.open(str(tmp_path))
    assert (found.version, found.state.seq, found.state.ledger) == (130, 130, index.state.ledger)
    newest = max((tmp_path / "_delta_log").glob("*.checkpoint.parquet"))
    assert pq.read_metadata(newest).num_rows < 50


def test_a_reader_that_slept_past_the_cleanup_of_the_log_finds_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(stored_log.CONFIGURATION, "delta.logRetentionDuration", "interval 0 seconds")
    writer = new_index(str(tmp_path))
    writer.commit([record("a")], [], ledger(0))
    reader = MetadataTable.open(str(tmp_path))
    assert reader.state.recorded.get("a") is not None
    for i in range(60):
        writer.commit([record(f"f{i}")], [], ledger(i))
    assert not (tmp_path / f"_delta_log/{reader.version + 1:020}.json").exists()
    assert reader.refresh()
    assert {r.path for r in reader.state.recorded.live()} == {"a"} | {f"f{i}" for i in range(60)}


@pytest.mark.parametrize("commits", [20, 40])
def test_dying_between_a_log_checkpoint_and_its_cleanup_harms_nothing(
    tmp_path: Path, commits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = new_index(str(tmp_path))
    for i in range(commits - 1):
        index.commit([record(f"f{i}")], [], ledger(i))
    monkeypatch.setenv("TAILBIT_FAULT", "log_checkpoint_half_written=raise")
    monkeypatch.setattr("tailbit.base.faults._passes", {})
    with pytest.raises(InjectedFaultError):
        index.commit([record("last")], [], ledger(commits))
    monkeypatch.delenv("TAILBIT_FAULT")
    found = MetadataTable.open(str(tmp_path))
    assert found.version == index.version == commits
    assert found.state.recorded.get("last") is not None
    index.commit([record("next")], [], ledger(commits))
    assert found.refresh()
    assert found.state.recorded.get("next") is not None


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many paths of index files have been looked at since the last call."""
    seen: list[str] = []

    def count(path: str) -> str:
        seen.append(path)
        return kind_of(path)

    def since() -> int:
        found = len(seen)
        seen.clear()
        return found

    monkeypatch.setattr(state, "kind_of", count)
    return since


def test_a_commit_looks_at_the_files_it_changes_and_not_at_all_that_live(
    tmp_path: Path, looked_at: Callable[[], int]
) -> None:
    index = new_index(str(tmp_path))
    costs = []
    for n in range(30):
        looked_at()
        index.commit([record(f"f{n}")], [segment(index, f"{n:032x}", {"c": [b"x"]})], ledger(n))
        costs.append(looked_at())
    assert len(index.state.files_of(BITMAP_INDEX)) == 30
    assert costs[-1] == costs[1] < 12


def test_the_files_of_each_kind_are_those_that_live(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    first, second = (segment(index, f"{n:032x}", {"c": [b"x"]}) for n in range(2))
    index.commit([record("a")], [first], ledger(1))
    index.commit([record("b")], [second], ledger(2), removes=[first.path])
    found = index.state
    assert found.paths_of(BITMAP_INDEX) == {second.path}
    by_kind = [file.path for kind in KINDS for file in found.files_of(kind)]
    assert sorted(by_kind) == sorted(found.files)


def test_a_data_file_is_forgotten_whose_last_record_came_and_went_between_two_looks(tmp_path: Path) -> None:
    writer = new_index(str(tmp_path))
    writer.commit([record("gone")], [], ledger(1))
    reader = MetadataTable.open(str(tmp_path))
    assert reader.state.recorded.get("gone") is not None
    writer.commit([record("gone", left=1, counted=False)], [], ledger(2))
    for number in range(14):
        writer.commit([record(f"f{number}")], [], ledger(3 + number))
        merge_all(writer, 5)
    merge_all(writer, 5)
    reader.refresh()
    fresh = MetadataTable.open(str(tmp_path)).state.recorded
    assert fresh.get("gone") is None
    assert sorted(r.path for r in reader.state.recorded.records()) == sorted(r.path for r in fresh.records())


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = three_commits(str(tmp_path / "t"))
    index_of(path, ["v"]).drain()
    return path


def newest(path: str) -> Path:
    """The newest commit of the index's log."""
    return max(Path(path, "_tailbit/_delta_log").glob("*.json"))


def altered(commit: Path, old: str, new: str) -> None:
    lines = commit.read_text().splitlines()
    at = next(n for n, line in enumerate(lines) if "kind=value_counts" in line and old in line)
    lines[at] = lines[at].replace(old, new, 1)
    commit.write_text("\n".join(lines))


@pytest.mark.parametrize(
    ("old", "new"),
    [('{"add"', '{"adl"'), ("kind=value_counts/", "kind=walue_counts/"), ("counts-", "coents-")],
)
def test_a_log_of_the_index_that_names_other_files_than_were_committed_is_damaged(
    path: str, old: str, new: str
) -> None:
    known = MetadataTable.open(f"{path}/_tailbit")
    index_of(path).index.commit([], [], None)
    first = sorted(newest(path).parent.glob("*.json"))[1]
    altered(first, old, new)
    with pytest.raises(IndexLogError):
        MetadataTable.open(f"{path}/_tailbit")
    opened = tailbit.open(path)
    assert opened.where().facets("v") == {"v0": 10, "v1": 10, "v2": 10}
    assert "log of the index" in str(opened.damage)
    assert opened.repair().anew == ("v",)
    assert known.refresh()
    assert tailbit.open(path).verify().sound


def test_who_has_an_index_open_finds_that_a_new_commit_of_it_names_other_files(path: str) -> None:
    known = MetadataTable.open(f"{path}/_tailbit")
    three_commits(path)
    Drive(path, f"{path}/_tailbit").drain()
    whole = newest(path).read_text()
    altered(newest(path), "counts-", "coents-")
    for _ in range(2):
        with pytest.raises(IndexLogError, match="it names other files than were committed"):
            known.refresh()
    newest(path).write_text(whole)
    assert known.refresh()
    assert known.state.files == MetadataTable.open(known.path).state.files


def removed(path: str, victim: str) -> None:
    """Add to the newest commit of the index that it removes a file that is none of it."""
    action = {"remove": {"path": victim, "dataChange": True, "deletionTimestamp": 1}}
    newest(path).write_text(f"{newest(path).read_text()}\n{json.dumps(action)}")


@pytest.mark.parametrize("absolute", [True, False])
def test_a_file_that_is_none_of_the_index_is_never_deleted_whatever_its_log_says(
    path: str, absolute: bool
) -> None:
    victim = min(Path(path).glob("*.parquet"))
    removed(path, str(victim) if absolute else f"kind=files/../../{victim.name}")
    Sweeper(MetadataTable.open(f"{path}/_tailbit"), kept_s=0.0).sweep()
    assert victim.exists()


def test_a_live_file_elsewhere_makes_the_log_of_an_index_damaged(path: str) -> None:
    victim = min(Path(path).glob("*.parquet"))
    action = {"add": {"path": str(victim), "size": 1, "partitionValues": {}, "modificationTime": 1}}
    newest(path).write_text(f"{newest(path).read_text()}\n{json.dumps(action)}")
    with pytest.raises(IndexLogError, match="is no file of an index"):
        MetadataTable.open(f"{path}/_tailbit")


@pytest.mark.parametrize("name", ["a%20b", "50%", "é%41 %2F", "%", "%zz #?"])
def test_a_folder_whose_name_looks_encoded_holds_a_table_and_its_index(tmp_path: Path, name: str) -> None:
    deltalake.write_deltalake(tmp_path / "plain", pa.table({"v": [1, 2, 2]}))
    folder = (tmp_path / "plain").rename(tmp_path / name)
    drive = index_of(folder, ["v"])
    (folder / "_delta_log" / f"{1:020d}.json").write_text('{"commitInfo": {}}\n')
    drive.drain()
    opened = tailbit.open(folder)
    assert opened.where("v = 2").count() == 2
    assert opened.where().covered_version == 1
    assert opened.verify().sound
    assert [path.name for path in tmp_path.iterdir()] == [name]


def young(folder: Path) -> MetadataTable:
    """An index of a table, with a log checkpoint."""
    index = index_of(three_commits(str(folder)), ["v"]).index
    while index.version <= LOG_CHECKPOINT_EVERY:
        index.commit([], [], None)
    return index


@pytest.mark.parametrize(
    "hint", [b"", b'{"version":', b"[]", b"{}", b'{"version":"x"}', b"\xff", b'{"version":60}']
)
def test_a_damaged_hint_of_the_newest_log_checkpoint_changes_nothing(tmp_path: Path, hint: bytes) -> None:
    index = young(tmp_path / "t")
    Path(index.path, "_delta_log/_last_checkpoint").write_bytes(hint)
    index = MetadataTable.open(index.path)
    index.commit([], [], None)
    index.checkpoint_log()
    assert last_checkpoint(index.storage) == index.version == LOG_CHECKPOINT_EVERY + 2


@pytest.mark.parametrize("damage", [truncated, Path.unlink])
@pytest.mark.parametrize("delta_rs", [True, False])
def test_a_log_checkpoint_of_the_index_that_cannot_be_read_is_named_once_and_made_anew_by_who_writes(
    tmp_path: Path, delta_rs: bool, damage: Callable[[Path], object]
) -> None:
    index = young(tmp_path / "t")
    if delta_rs:
        deltalake.DeltaTable(index.path).create_checkpoint()
    checkpoint = max(Path(index.path, "_delta_log").glob("*.checkpoint.parquet"))
    damage(checkpoint)
    again = MetadataTable.open(index.path)
    again.commit([], [], None)
    again.checkpoint_log()
    told = again.take_mended()
    # One that is gone is not missed: the commits before it are there.
    assert len(told) == checkpoint.exists()
    assert all("checkpoint.parquet" in line for line in told)
    fresh = MetadataTable.open(index.path)
    fresh.commit([], [], None)
    fresh.checkpoint_log()
    assert fresh.take_mended() == []
    assert fresh.state.files.keys() <= referenced(fresh)
    assert tailbit.open(tmp_path / "t").verify().sound


def test_a_log_that_delta_rs_has_checkpointed_and_written_to_is_carried_on(tmp_path: Path) -> None:
    index = young(tmp_path / "t")
    live = set(index.state.files)
    by_delta_rs = deltalake.DeltaTable(index.path)
    by_delta_rs.create_checkpoint()
    for checkpointed in (False, True):
        index = MetadataTable.open(index.path)
        index.commit([], [], None)
        if checkpointed:
            index.checkpoint_log()
    by_delta_rs = deltalake.DeltaTable(index.path)
    assert by_delta_rs.version() == index.version
    assert {uri.partition("/kind=")[2] for uri in by_delta_rs.file_uris()} == {
        path.partition("kind=")[2] for path in index.state.files
    }
    assert len(live & set(index.state.files)) == len(live) - 1
    assert tailbit.open(tmp_path / "t").verify().sound


def test_a_log_checkpoint_that_another_process_has_damaged_meanwhile_is_named_by_who_writes(
    tmp_path: Path,
) -> None:
    asleep = young(tmp_path / "t")
    awake = MetadataTable.open(asleep.path)
    awake.commit([], [], None)
    awake.checkpoint_log()
    truncated(max(Path(asleep.path, "_delta_log").glob("*.checkpoint.parquet")))
    with pytest.raises(IndexLogError, match="the log checkpoint cannot be read"):
        referenced(MetadataTable.open(asleep.path))


def test_a_log_checkpoint_holds_what_all_commits_say_without_tombstones_that_are_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    minutes = [0]
    for module in (stored_log, stored_log):
        monkeypatch.setattr(module, "now_ms", lambda: minutes[0] * 60_000)
    index = new_index(str(tmp_path))
    while index.version < 3 * LOG_CHECKPOINT_EVERY:
        minutes[0] += 1
        index.commit([], [], ledger(minutes[0]))
    log = tmp_path / "_delta_log"
    newest: dict[object, tuple[str, dict[str, Any]]] = {}
    for version in range(index.version + 1):
        lines = map(json.loads, (log / f"{version:020}.json").read_text().splitlines())
        for action in (line for line in lines if "commitInfo" not in line):
            [(name, value)] = stored_log.storable(action).items()
            key = "file" if name in ("add", "remove") else name
            newest[key, value.get("path", value.get("appId"))] = (name, value)
    kept_ms = (minutes[0] - 10) * 60_000
    expected = [
        (name, value)
        for name, value in newest.values()
        if name != "remove" or value["deletionTimestamp"] > kept_ms
    ]
    stored = [
        (name, {key: value for key, value in fields.items() if value is not None})
        for row in stored_log.read_log_checkpoint(index.storage, index.version).to_pylist()
        for name, fields in row.items()
        if fields is not None
    ]
    assert sorted(stored, key=repr) == sorted(expected, key=repr)
    assert sum(name == "remove" for name, _ in stored) == 10


def test_a_commit_below_a_log_checkpoint_that_another_process_has_written_at_once_is_known_to_have_landed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = young(tmp_path / "t")
    while (index.version + 2) % LOG_CHECKPOINT_EVERY:
        index.commit([], [], None)
    other, above = MetadataTable.open(index.path), stored_log.is_checkpointed_above

    def after_the_other(storage: Storage, version: int) -> bool:
        monkeypatch.setattr(stored_log, "is_checkpointed_above", above)
        other.refresh()
        other.commit([], [], None)
        other.checkpoint_log()
        assert above(storage, version)
        return above(storage, version)

    monkeypatch.setattr(stored_log, "is_checkpointed_above", after_the_other)
    schema = open_table(str(tmp_path / "t")).snapshot().schema
    add(index, Definition.of_column(schema.resolve_all(["k"])[0]), schema)
    assert [definition.name for definition in MetadataTable.open(index.path).state.settings.definitions] == [
        "v",
        "k",
    ]
    index.refresh()
    assert index.version == other.version


def test_what_killed_writers_left_unfinished_in_the_log_goes_with_a_log_checkpoint_after_an_hour(
    tmp_path: Path,
) -> None:
    index = young(tmp_path / "t")
    log = Path(index.path, "_delta_log")
    targets = [f"{7:020}.json", f"{20:020}.checkpoint.parquet", "_last_checkpoint"]
    old, new = [
        [log / f".{target}.{digits}.tmp" for target in targets] for digits in ("0123abcd", "deadbeef")
    ]
    foreign = log / ".anything.tmp"
    for file in [*old, *new, foreign]:
        file.write_bytes(b"{")
    for file in [*old, foreign]:
        os.utime(file, (time.time() - 3700,) * 2)
    index.commit([], [], None)
    index.checkpoint_log()
    assert {file for file in log.iterdir() if file.suffix == ".tmp"} == {*new, foreign}


def test_a_writer_killed_before_the_first_commit_leaves_a_folder_in_which_an_index_can_be_created(
    tmp_path: Path,
) -> None:
    table = three_commits(str(tmp_path / "t"))
    unfinished = tmp_path / f"t/_tailbit/_delta_log/.{0:020}.json.deadbeef.tmp"
    unfinished.parent.mkdir(parents=True)
    unfinished.write_bytes(b"{")
    index_of(table, ["v"])
    assert tailbit.open(table).verify().sound


def test_a_writer_that_slept_does_not_put_the_hint_back_to_its_older_log_checkpoint(tmp_path: Path) -> None:
    index = young(tmp_path / "t")
    older = LOG_CHECKPOINT_EVERY
    rows = stored_log.read_log_checkpoint(index.storage, older)
    index.checkpoint_log()
    stored_log.StoredCheckpoints(index.storage, index.path).put(older, rows)
    assert last_checkpoint(index.storage) == index.version > older
