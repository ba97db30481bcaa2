"""The stream without Spark: every situation of the decision table on real tables, state to state."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction, RemoveAction

import tailbit
from support.delta_builder import DeltaBuilder
from support.drive import NO_WAIT, Drive, run_tasks
from support.tables import checked, rows, three_commits
from tailbit.base.faults import Fault
from tailbit.checkpoints.offset import Offset
from tailbit.checkpoints.recovery import LogState, Situation, Verdict, decide
from tailbit.errors import (
    ColumnTypeError,
    DeletionVectorError,
    SettingsError,
    UnknownColumnError,
    UsageError,
)
from tailbit.index.store.table import MetadataTable
from tailbit.index.write.work import BuildTask, TaskResult
from tailbit.streaming.settings import StreamSettings
from tailbit.tables import open_table


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    return three_commits(path)


@pytest.fixture
def index(tmp_path: Path) -> str:
    return str(tmp_path / "i")


def test_a_commit_whose_reply_is_lost_is_found_to_be_there_and_is_not_made_again(
    table: str, index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive = Drive(table, index, ["k", "v"])
    monkeypatch.setenv("TAILBIT_FAULT", f"{Fault.COMMIT_REPLY_LOST.value}=raise")
    version = drive.index.version
    drive.drain()
    assert drive.index.version == version + 1
    checked(table, index)


def test_the_snapshot_is_read_in_bounded_batches_and_covers_nothing_before_its_last(
    table: str, index: str
) -> None:
    drive = Drive(table, index, ["v"], StreamSettings(files=1))
    drive.step()
    ledger = drive.index.state.ledger
    assert ledger is not None
    assert (ledger.state, ledger.covered, ledger.version) == ("building", None, 2)
    drive.drain()
    assert [end.file for end in drive.ends] == [1, 2, None]
    checked(table, index)


def test_the_log_is_read_in_bounded_batches_of_at_least_one_version(table: str, index: str) -> None:
    drive = Drive(table, index, ["v"], StreamSettings(versions=2, files=1))
    drive.drain()
    for first in range(30, 60, 10):
        write_deltalake(table, rows(first), mode="append")
    assert [o.target for o in drive.drain()] == [3, 4, 5]
    checked(table, index)


def test_a_replay_changes_nothing(table: str, index: str) -> None:
    drive = Drive(table, index, ["v"])
    drive.drain()
    write_deltalake(table, rows(30), mode="append")
    drive.drain()
    before = drive.index.version
    again = Drive(table, index, start=drive.start, ends=drive.ends)
    assert again.replay().verdict is Verdict.REPLAY
    assert again.index.version == before
    checked(table, index)


def test_a_part_of_a_snapshot_that_is_replayed_changes_nothing(table: str, index: str) -> None:
    drive = Drive(table, index, ["v"], StreamSettings(files=1))
    drive.step()
    before = drive.index.version
    again = Drive(table, index, None, StreamSettings(files=1), start=drive.start, ends=drive.ends)
    assert again.replay().files == 0
    assert again.index.version == before
    again.drain()
    checked(table, index)


def test_a_file_added_and_removed_in_one_batch_is_never_read(table: str, index: str) -> None:
    drive = Drive(table, index, ["v"])
    drive.drain()
    before = set(DeltaTable(table).file_uris())
    write_deltalake(table, rows(30), mode="append")
    passing = (set(DeltaTable(table).file_uris()) - before).pop()
    DeltaTable(table).delete("k >= 30")
    Path(passing.removeprefix("file://")).unlink()
    assert drive.drain()[0].skipped == 0
    checked(table, index)


def test_cost_follows_change_no_file_that_did_not_change_is_read(
    table: str, index: str, tmp_path: Path
) -> None:
    drive = Drive(table, index, ["k", "v"])
    drive.drain()
    old = list(Path(table).glob("*.parquet"))
    assert len(old) == 3
    (tmp_path / "away").mkdir()
    for file in old:
        file.rename(tmp_path / "away" / file.name)
    write_deltalake(table, rows(30), mode="append")
    assert [(o.files, o.skipped) for o in drive.drain()] == [(1, 0)]
    assert tailbit.open(table, index=index).where("v = 'v0' AND k >= 10").count() == 10
    for file in old:
        (tmp_path / "away" / file.name).rename(file)
    checked(table, index)


def test_a_lost_spark_checkpoint_goes_on_behind_the_covered_version(table: str, index: str) -> None:
    Drive(table, index, ["v"]).drain()
    write_deltalake(table, rows(30), mode="append")
    fresh = Drive(table, index)
    assert [(o.first, o.target, o.files) for o in fresh.drain()] == [(3, 3, 1)]
    checked(table, index)


def test_a_spark_checkpoint_lost_in_mid_build_reads_only_what_is_missing(table: str, index: str) -> None:
    Drive(table, index, ["v"], StreamSettings(files=1)).step()
    write_deltalake(table, rows(30), mode="append")
    fresh = Drive(table, index, None, StreamSettings(files=1))
    fresh.drain()
    assert sum(o.files for o in fresh.outcomes) == 3
    checked(table, index)


def test_a_stale_spark_checkpoint_is_trimmed_to_what_is_missing(table: str, index: str) -> None:
    drive = Drive(table, index, ["v"])
    drive.drain()
    for first in (30, 40):
        write_deltalake(table, rows(first), mode="append")
        drive.drain()
    write_deltalake(table, rows(50), mode="append")
    stale = Drive(table, index, start=drive.start, ends=drive.ends[:1])
    assert [o.files for o in stale.drain()] == [1]
    checked(table, index)


def test_a_spark_checkpoint_of_another_table_does_no_harm(table: str, index: str) -> None:
    Drive(table, index, ["v"]).drain()
    write_deltalake(table, rows(30), mode="append")
    foreign = Drive(table, index, start=Offset(7, 900, None, "f" * 16))
    foreign.drain()
    assert foreign.ends[0].round == 8
    checked(table, index)


def test_the_index_is_derived_deleting_it_costs_time_never_data(table: str) -> None:
    index = f"{table}/_tailbit"
    before = {file: file.read_bytes() for file in Path(table).rglob("*") if file.is_file()}
    for _ in range(2):
        answer = tailbit.open(table).where("v = 'v1'")
        assert (answer.count(), answer.files_scanned) == (10, 3)
        Drive(table, index, ["k", "v"]).drain()
        checked(table, index)
        shutil.rmtree(index)
    assert {file: file.read_bytes() for file in Path(table).rglob("*") if file.is_file()} == before


def test_a_deleted_index_is_built_again_under_the_old_spark_checkpoint(table: str, index: str) -> None:
    drive = Drive(table, index, ["v"])
    drive.drain()
    shutil.rmtree(index)
    again = Drive(table, index, ["v"], start=drive.start, ends=drive.ends)
    assert again.replay().verdict is not Verdict.REPLAY
    again.drain()
    checked(table, index)


def test_an_index_put_back_from_a_backup_catches_up(table: str, index: str, tmp_path: Path) -> None:
    drive = Drive(table, index, ["v"])
    drive.drain()
    shutil.copytree(index, tmp_path / "backup")
    for first in (30, 40):
        write_deltalake(table, rows(first), mode="append")
        drive.drain()
    shutil.rmtree(index)
    shutil.copytree(tmp_path / "backup", index)
    restored = Drive(table, index, start=drive.start, ends=drive.ends)
    restored.replay()
    restored.drain()
    checked(table, index)


@pytest.mark.supports("Log", "a log cleaned up while the stream was down", "exact", note="by a new round")
def test_a_lost_log_tail_opens_a_round_that_keeps_what_is_proven(table: str, index: str) -> None:
    drive = Drive(table, index, ["v"])
    drive.drain()
    for first in (30, 40):
        write_deltalake(table, rows(first), mode="append")
    DeltaTable(table).create_checkpoint()
    for version in range(4):
        (Path(table) / "_delta_log" / f"{version:020d}.json").unlink()
    later = Drive(table, index, start=drive.start, ends=drive.ends)
    later.drain()
    assert later.ends[-1].round == 2
    checked(table, index)


def test_a_table_re_created_at_the_same_place_is_another_lineage(table: str, index: str) -> None:
    drive = Drive(table, index, ["v"])
    drive.drain()
    shutil.rmtree(table)
    for first in (100, 110, 120, 130):
        write_deltalake(table, rows(first), mode="append")
    later = Drive(table, index, start=drive.start, ends=drive.ends)
    later.drain()
    assert later.index.state.ledger is not None
    assert later.index.state.ledger.lineage == 2
    checked(table, index)


def test_a_commit_that_is_replaced_while_its_batch_runs_is_another_lineage(table: str, index: str) -> None:
    """As by a log put back from a backup: the ledger does not claim it with the old one's files."""
    replaced = [Path(table, "_delta_log", f"{3:020}.json")]

    def run(tasks: Sequence[BuildTask]) -> list[TaskResult]:
        results = run_tasks(tasks)
        if replaced and replaced[0].exists():
            commit = replaced.pop()
            lines = [json.loads(line) for line in commit.read_text().splitlines()]
            pq.write_table(rows(90), f"{table}/other.parquet")
            add = next(line["add"] for line in lines if "add" in line)
            add |= {"path": "other.parquet", "size": Path(table, "other.parquet").stat().st_size}
            del add["stats"]
            commit.write_text("\n".join(map(json.dumps, lines)))
        return results

    drive = Drive(table, index, ["k", "v"], run=run)
    drive.drain()
    write_deltalake(table, rows(30), mode="append")
    assert drive.step() is not None
    assert not replaced
    state, source = drive.index.state, open_table(table)
    log = LogState.of(source, source.head())
    resume = decide(state.ledger, drive.position, log, state.settings.version)
    assert resume.situation is Situation.OTHER_LINEAGE
    drive.drain()
    checked(table, index)
    assert tailbit.open(table, index=index).where("k = 90").count() == 1


def test_a_table_re_created_shorter_while_the_stream_runs_is_noticed(table: str, index: str) -> None:
    drive = Drive(table, index, ["v"])
    drive.drain()
    shutil.rmtree(table)
    write_deltalake(table, rows(100), mode="append")
    drive.drain()
    checked(table, index)


def test_a_table_re_created_with_other_types_under_the_same_versions_is_read_with_its_own(
    table: str, index: str
) -> None:
    drive = Drive(table, index, ["k", "v"])
    drive.drain()
    shutil.rmtree(table)
    for first in (0, 10, 20):
        made = rows(first)
        write_deltalake(table, made.set_column(0, "k", made["k"].cast(pa.string())), mode="append")
    drive.drain()
    checked(table, index)
    assert tailbit.open(table, index=index).where("k = '7'").count() == 1


def test_a_table_re_created_without_columns_is_followed_until_it_has_them(table: str, index: str) -> None:
    drive = Drive(table, index, ["v"])
    drive.drain()
    shutil.rmtree(table)
    made = DeltaBuilder(table).create_without_columns()
    made.commit([made.data_file(rows(0))])
    drive.drain()
    ledger = MetadataTable.open(index).state.ledger
    assert ledger is not None
    assert ledger.version == 1
    made.commit([{"metaData": made.metadata_action(rows(0).schema, table_id=made.metadata["id"])}])
    made.commit([made.data_file(rows(10))])
    drive.drain()
    opened = tailbit.open(table, index=index)
    answer = opened.where("v = 'v0'")
    assert (answer.count(), answer.files_scanned) == (7, 1), "the file older than its column is scanned"
    assert opened.where(version=1).count() == 10
    assert opened.verify().sound


@pytest.mark.supports("Histories", "partition evolution by overwrite", "exact")
def test_a_column_that_becomes_a_partition_column_and_back_is_counted_right(
    tmp_path: Path, index: str
) -> None:
    path, drive = str(tmp_path / "evolving"), None
    data = pa.table({"k": pa.array([1, 2, 2, None], pa.int32()), "v": ["x", None, "y", "x"]})
    for text, by in ((False, None), (False, ["v"]), (False, ["k"]), (True, ["k"]), (False, None)):
        source = data.set_column(0, "k", data["k"].cast(pa.string())) if text else data
        write_deltalake(path, source, mode="overwrite", schema_mode="overwrite", partition_by=by)
        drive = drive or Drive(path, index, ["k", "v"])
        drive.drain()
        opened = tailbit.open(path, index=index)
        assert opened.verify().problems == []
        assert opened.where().facets("v") == {"x": 2, None: 1, "y": 1}
    DeltaTable(path).restore(1)
    drive.drain()
    assert tailbit.open(path, index=index).verify().problems == []


def test_two_indexers_at_once_record_everything_once(table: str, index: str) -> None:
    one, two = Drive(table, index, ["v"], NO_WAIT), Drive(table, index)
    one.step()
    for first in (30, 40, 50):
        write_deltalake(table, rows(first), mode="append")
        two.step()
        one.step()
    one.drain()
    two.drain()
    checked(table, index)


def test_two_indexers_that_read_different_snapshots_agree_in_the_end(table: str, index: str) -> None:
    one = Drive(table, index, ["v"], StreamSettings(files=1))
    two = Drive(table, index, None, StreamSettings(files=1))
    assert one.position.version == 2
    write_deltalake(table, rows(30), mode="append")
    assert two.position.version == 3
    for _ in range(4):
        one.step()
        two.step()
    one.drain()
    two.drain()
    one.drain()
    checked(table, index)


@pytest.mark.supports("Histories", "VACUUM while the index is behind", "exact")
def test_a_file_that_is_gone_because_the_log_removes_it_later_is_skipped_by_record(
    table: str, index: str
) -> None:
    drive = Drive(table, index, ["v"], StreamSettings(versions=1))
    drive.drain()
    before = set(DeltaTable(table).file_uris())
    write_deltalake(table, rows(30), mode="append")
    passing = (set(DeltaTable(table).file_uris()) - before).pop()
    DeltaTable(table).delete("k >= 30")
    Path(passing.removeprefix("file://")).unlink()
    outcome = drive.step()
    assert outcome is not None
    assert (outcome.target, outcome.skipped) == (3, 1)
    ledger = drive.index.state.ledger
    assert ledger is not None
    assert ledger.uncounted == 1
    drive.drain()
    assert drive.index.state.ledger is not None
    assert drive.index.state.ledger.uncounted == 0
    checked(table, index)


@pytest.mark.supports("Histories", "VACUUM while the index is behind", "exact")
def test_a_deletion_vector_that_is_gone_because_the_log_goes_on_without_it_is_skipped_by_record(
    tmp_path: Path, index: str
) -> None:
    made = DeltaBuilder(str(tmp_path / "hidden")).create(rows(0, 1).schema, features=["deletionVectors"])
    made.commit([made.data_file(rows(0), "a")])
    drive = Drive(made.path, index, ["v"], StreamSettings(versions=1))
    drive.drain()
    (vector,) = made.stored_vectors([1, 2])
    made.commit(made.hide("a", vector))
    made.commit(made.hide("a", None))
    next(Path(made.path).glob("deletion_vector_*")).unlink()
    outcome = drive.step()
    assert outcome is not None
    assert (outcome.target, outcome.skipped) == (2, 1)
    drive.drain()
    opened = tailbit.open(made.path, index=index)
    assert opened.verify().sound
    assert opened.where("v = 'v0'").count() == 4


def test_a_file_whose_live_deletion_vector_cannot_be_read_is_left_out_by_name(
    tmp_path: Path, index: str
) -> None:
    made = DeltaBuilder(str(tmp_path / "hidden")).create(rows(0, 1).schema, features=["deletionVectors"])
    made.commit([made.data_file(rows(0), "a")])
    drive = Drive(made.path, index, ["v"])
    drive.drain()
    (vector,) = made.stored_vectors([1, 2])
    made.commit(made.hide("a", vector))
    next(Path(made.path).glob("deletion_vector_*")).unlink()
    drive.drain()
    assert drive.index.state.recorded.unread() == ["a"]
    with pytest.raises(DeletionVectorError):
        tailbit.open(made.path, index).where("v = 'v1'").count()


def test_a_counted_file_that_came_back_otherwise_and_is_gone_leaves_the_value_counts(
    table: str, index: str
) -> None:
    drive = Drive(table, index, ["v"], StreamSettings(versions=2))
    drive.drain()
    name = DeltaTable(table).file_uris()[0].rpartition("/")[2]
    handle = DeltaTable(table)
    schema = handle.schema()

    def commit(*actions: AddAction | RemoveAction) -> None:
        handle.create_write_transaction(list(actions), "append", schema)
        handle.update_incremental()

    pq.write_table(rows(50, 5), Path(table) / name)
    size = (Path(table) / name).stat().st_size
    commit(RemoveAction(name, True, 1))
    commit(AddAction(name, size, {}, 2, True, '{"numRecords":5}'))
    commit(RemoveAction(name, True, 3))
    (Path(table) / name).unlink()
    outcome = drive.step()
    assert outcome is not None
    assert (outcome.target, outcome.skipped) == (4, 1)
    drive.drain()
    checked(table, index)


def test_columns_are_remembered_and_others_are_refused(table: str, index: str) -> None:
    Drive(table, index, ["v"])
    Drive(table, index)
    Drive(table, index, ["V"])
    with pytest.raises(SettingsError, match="has columns v; asked for k"):
        Drive(table, index, ["k"])


@pytest.mark.parametrize("kind", ["bitmap", "record_key"])
def test_columns_of_indexes_created_by_name_need_not_be_asked_for(table: str, index: str, kind: str) -> None:
    Drive(table, index, ["v"]).drain()
    tailbit.open(table, index=index).create_index("mine", "k", kind)
    for columns in (["v"], ["v", "k"]):
        Drive(table, index, columns).drain()
    with pytest.raises(SettingsError, match="has columns v, k; asked for k"):
        Drive(table, index, ["k"])
    assert [made.name for made in tailbit.open(table, index=index).indexes()] == ["v", "mine"]


def test_no_index_and_no_columns_is_wrong_use(table: str, index: str) -> None:
    with pytest.raises(UsageError, match="no columns") as wrong:
        Drive(table, index)
    assert "--columns" in wrong.value.hint
    assert not Path(index).exists()


def test_a_column_that_is_not_there_is_refused_before_anything_is_made(table: str, index: str) -> None:
    with pytest.raises(UnknownColumnError):
        Drive(table, index, ["nope"])
    assert not Path(index).exists()


def test_a_column_that_cannot_be_indexed_is_refused_before_anything_is_made(
    tmp_path: Path, index: str
) -> None:
    path = str(tmp_path / "maps")
    write_deltalake(path, pa.table({"m": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64()))}))
    with pytest.raises(ColumnTypeError):
        Drive(path, index, ["m"])
    assert not Path(index).exists()


def test_an_empty_table_is_covered_too(tmp_path: Path, index: str) -> None:
    path = str(tmp_path / "empty")
    DeltaTable.create(path, rows(0).schema)
    drive = Drive(path, index, ["v"])
    drive.drain()
    ledger = drive.index.state.ledger
    assert ledger is not None
    assert (ledger.state, ledger.covered) == ("complete", 0)
    write_deltalake(path, rows(0), mode="append")
    drive.drain()
    checked(path, index)
