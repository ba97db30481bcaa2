"""A Spark checkpoint is a cache of progress: what cannot be used of it is reset, what can be is judged."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.drive import Drive
from support.tables import index_files, index_of, three_commits, truncated
from tailbit.checkpoints.claim import Claim
from tailbit.checkpoints.offset import Offset
from tailbit.checkpoints.signs import NAME
from tailbit.errors import (
    CorruptIndexError,
    IndexerRunningError,
    IndexLogError,
    MalformedLogError,
    StorageError,
    UsageError,
)
from tailbit.index.kinds.files import FILES, FilesKind
from tailbit.index.kinds.settings import SettingsKind
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.config.model import TableEntry
from tailbit.streaming.many.followed_table import opened_index
from tailbit.streaming.opening import SURE_S, Mender, start_over_in_time
from tailbit.streaming.patience import Patience
from tailbit.streaming.query.launch import Prepared, prepare
from tailbit.streaming.spark_checkpoint import blames_checkpoint, make_way, reset, why_unusable
from tailbit.tables import open_table
from tailbit.tables.storage import Storage, open_storage

CONF = {"batchWatermarkMs": 0, "conf": {"spark.sql.shuffle.partitions": "2"}}


def write(folder: Path, ends: list[Offset], committed: int) -> Path:
    """A checkpoint as Spark writes it: the ends of the batches, some of them committed."""
    for name in ("offsets", "commits", "sources"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_bytes(b'{"id":"4bbfc6b2-9855-452b-91c6-3434b2ce093b"}')
    for number, end in enumerate(ends):
        lines = [b"v1", orjson.dumps(CONF), orjson.dumps(end.to_json())]
        (folder / "offsets" / str(number)).write_bytes(b"\n".join(lines))
    for number in range(committed):
        (folder / "commits" / str(number)).write_bytes(b'v1\n{"nextBatchWatermarkMs":0}')
    return folder


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return write(tmp_path / "whole", [Offset(1, n, None, "95d1183bcc14cc1d") for n in range(1, 4)], 3)


def test_a_checkpoint_that_cannot_be_taken_away_is_named_and_told_as_reset_by_nobody(
    whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    monkeypatch.setattr(Path, "unlink", lambda path, missing_ok: refuse(path))
    told: list[str] = []
    with pytest.raises(StorageError, match="Read-only file system"):
        reset(str(whole), "its metadata is torn", told.append)
    assert told == []
    make_way(str(whole), str(whole.parent))
    assert whole.is_dir()


def test_what_spark_made_in_the_place_of_a_folder_that_vanished_makes_way_for_it(tmp_path: Path) -> None:
    table = tmp_path / "t"
    checkpoint = write(table / "in" / "_tailbit" / "_checkpoint", [Offset(1, 0, None, "f")], 1)
    for name in (NAME, f".{NAME}.0123abcd.tmp"):
        (table / "in" / "_tailbit" / name).write_text("beaten into the folder that Spark made")
    make_way(str(checkpoint), str(table / "in" / "_tailbit"), str(table))
    make_way(str(checkpoint), str(table / "in" / "_tailbit"), str(table))
    assert list(tmp_path.iterdir()) == []


def test_a_heartbeat_that_beat_on_after_a_checkpoint_made_way_goes_too(tmp_path: Path) -> None:
    index = tmp_path / "t" / "_tailbit"
    index.mkdir(parents=True)
    (index / NAME).write_text("beaten after the checkpoint had gone")
    make_way(str(index / "_checkpoint"), str(index), str(tmp_path / "t"))
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_in_which_spark_made_nothing_stays(tmp_path: Path) -> None:
    table, index = tmp_path / "t", tmp_path / "t" / "_tailbit"
    make_way(str(index / "_checkpoint"), str(index), str(table))
    table.mkdir()
    make_way(str(index / "_checkpoint"), str(index), str(table))
    assert [entry.name for entry in tmp_path.iterdir()] == ["t"]


def test_a_folder_that_holds_anything_else_stays_where_a_checkpoint_makes_way(tmp_path: Path) -> None:
    table = tmp_path / "t"
    checkpoint = write(table / "_tailbit" / "_checkpoint", [Offset(1, 0, None, "f")], 1)
    (table / "mine").write_text("x")
    (table / NAME).write_text("no heartbeat of an index")
    make_way(str(checkpoint), str(table / "_tailbit"), str(table))
    make_way("s3://bucket/checkpoint", str(table))
    assert sorted(entry.name for entry in table.iterdir()) == [NAME, "mine"]


def test_a_checkpoint_elsewhere_leaves_the_folders_of_table_and_index_alone(tmp_path: Path) -> None:
    checkpoint = write(tmp_path / "elsewhere" / "c", [Offset(1, 0, None, "f")], 1)
    (tmp_path / "t").mkdir()
    make_way(str(checkpoint), str(tmp_path / "t" / "_tailbit"), str(tmp_path / "t"))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["elsewhere", "t"]
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(("ends", "committed"), [(0, 0), (1, 0), (1, 1), (3, 2), (3, 3)])
def test_a_checkpoint_that_spark_left_is_used(tmp_path: Path, ends: int, committed: int) -> None:
    folder = write(tmp_path / "c", [Offset(1, n, None, "f") for n in range(ends)], committed)
    assert why_unusable(str(folder)) is None
    assert why_unusable(str(tmp_path / "nothing there")) is None


@pytest.mark.parametrize("name", ["metadata", "offsets/2", "offsets/1", "commits/2"])
def test_a_checkpoint_torn_at_any_byte_is_found_unusable_and_reset(whole: Path, name: str) -> None:
    data, told = (whole / name).read_bytes(), list[str]()
    for length in range(len(data)):
        (whole / name).write_bytes(data[:length])
        assert why_unusable(str(whole)) is not None, (name, length)
    reason = why_unusable(str(whole))
    assert reason is not None
    (whole / "mine").write_text("not Spark's")
    assert reset(str(whole), reason, told.append)
    assert [entry.name for entry in whole.iterdir()] == ["mine"]
    assert why_unusable(str(whole)) is None
    assert len(told) == 1
    assert reason in told[0]


@pytest.mark.parametrize("gone", ["metadata", "offsets", "offsets/1", "offsets/2"])
def test_a_checkpoint_that_lacks_a_part_is_found_unusable(whole: Path, gone: str) -> None:
    path = whole / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert why_unusable(str(whole)) is not None


def test_commits_that_are_lost_alone_are_replayed_by_spark_or_reset(whole: Path) -> None:
    (whole / "commits" / "2").unlink()
    assert why_unusable(str(whole)) is None
    (whole / "commits" / "1").unlink()
    assert why_unusable(str(whole)) is not None


def test_what_spark_says_of_other_troubles_is_not_put_on_the_checkpoint() -> None:
    assert blames_checkpoint("java.lang.IllegalStateException: Incomplete log file in the offset log")
    assert blames_checkpoint("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.")
    gone = "No such file or directory"
    assert blames_checkpoint(f"chmod: cannot access '/t/_checkpoint/commits/.1.a5b7f2c8.tmp': {gone}")
    assert blames_checkpoint(f"chmod: cannot access '/t/c/commits/..0.c3a98082-7770-4b3c.tmp.crc': {gone}")
    assert blames_checkpoint(f"java.io.FileNotFoundException: /t/c/.metadata.a5b7f2c8.tmp ({gone})")
    # Deleted in the moment in which Spark looks for the folder and makes the next file in it.
    assert blames_checkpoint("java.io.IOException: Mkdirs failed to create file:/t/_checkpoint/offsets")
    assert not blames_checkpoint("java.io.IOException: Mkdirs failed to create file:/tmp/blockmgr-1/0c")
    assert not blames_checkpoint("java.io.IOException: No space left on device")
    assert not blames_checkpoint("[STREAM_FAILED] Broken pipe")


def test_a_whole_checkpoint_of_another_table_or_of_yesterday_loses_nothing(tmp_path: Path) -> None:
    drives = {}
    for name in ("mine", "other"):
        for number in range(4 if name == "mine" else 9):
            write_deltalake(tmp_path / name, pa.table({"v": [name, str(number)]}), mode="append")
            drives[name] = Drive(tmp_path / name, tmp_path / f"{name}_index", ["v"])
            drives[name].drain()
    logged = {name: drive.table.head() for name, drive in drives.items()}
    foreign = Offset(1, logged["other"] + 1, None, "0123456789abcdef")
    yesterday = Offset(1, 1, None, "0123456789abcdef")
    for number, remembered in enumerate((foreign, yesterday, Offset(7, 0, 3, ""))):
        write_deltalake(tmp_path / "mine", pa.table({"v": ["new"]}), mode="append")
        Drive(tmp_path / "mine", tmp_path / "mine_index", ends=[remembered]).drain()
        opened = tailbit.open(tmp_path / "mine", index=tmp_path / "mine_index")
        answer = opened.where("v = 'new'")
        assert (answer.count(), answer.files_scanned) == (number + 1, 0)
        assert opened.verify().problems == []


def test_a_folder_that_is_no_checkpoint_of_ours_is_refused_by_name_and_nothing_of_it_is_deleted(
    tmp_path: Path,
) -> None:
    kept = b"precious"
    (tmp_path / "mine" / "metadata").mkdir(parents=True)
    stateful = write(tmp_path / "stateful", [Offset(1, 1, None, "")], 0)
    other = write(tmp_path / "other", [Offset(1, 1, None, "")], 0)
    precious = [tmp_path / "mine/metadata/x.json", stateful / "state" / "0", other / "metadata"]
    (stateful / "state").mkdir()
    (stateful / "offsets" / "0").write_bytes(b"")
    (other / "offsets" / "0").write_bytes(b'v1\n{"batchWatermarkMs":0}\n{"sourceVersion":1,"index":5}')
    torn = write(tmp_path / "torn", [Offset(1, 1, None, "")] * 2, 0)
    (torn / "offsets" / "0").write_bytes(b'v1\n{"batchWatermarkMs":0}\n-')
    (torn / "offsets" / "1").write_bytes(b"v1")
    (tmp_path / "alone").mkdir()
    precious += [torn / "offsets" / "0", tmp_path / "alone" / "metadata"]
    of_torn = precious[-2].read_bytes()
    for file in precious[:3] + precious[4:]:
        file.write_bytes(kept)
    for folder in (tmp_path / "mine", stateful, other, torn, tmp_path / "alone"):
        told: list[str] = []
        with pytest.raises(UsageError, match=f"{folder.name} is no Spark checkpoint of tailbit"):
            reset(str(folder), str(why_unusable(str(folder))), told.append)
        make_way(str(folder), str(folder))
        assert told == []
    assert [file.read_bytes() for file in precious] == [kept, kept, kept, of_torn, kept]


@pytest.mark.parametrize("damaged", ["metadata", "offsets/2"])
def test_a_part_of_ours_that_holds_other_bytes_is_reset(whole: Path, damaged: str) -> None:
    (whole / damaged).write_bytes(b"\0" * 40)
    reason = why_unusable(str(whole))
    assert reason is not None
    assert reset(str(whole), reason, lambda _: None)
    assert list(whole.iterdir()) == []


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = three_commits(str(tmp_path / "t"))
    index_of(path, ["v"])
    return path


@pytest.fixture
def newest(path: str) -> Path:
    """The newest commit of the index's log."""
    return max(Path(path, "_tailbit/_delta_log").glob("*.json"))


def started(
    path: str, tell: Callable[[str], None], sure_s: float, stop: threading.Event | None = None
) -> Prepared | None:
    """What `run` does before Spark is asked for anything."""
    return prepare(path, None, None, None, "0 seconds", None, stop, tell, sure_s)


def test_a_run_waits_for_a_newest_commit_of_the_index_that_a_writer_is_in_the_middle_of(
    path: str, newest: Path
) -> None:
    whole, told = newest.read_bytes(), list[str]()
    newest.write_bytes(b"")

    def tell(line: str) -> None:
        told.append(line)
        newest.write_bytes(whole)

    prepared = started(path, tell, SURE_S)
    assert prepared is not None
    assert prepared.index.state.ledger is not None
    assert ["cannot be read" in line and "tried again in 0.5 s" in line for line in told] == [True]


@pytest.mark.parametrize("size", [0, 200])
def test_a_run_makes_an_index_anew_whose_log_stays_damaged(path: str, newest: Path, size: int) -> None:
    newest.write_bytes(newest.read_bytes()[:size])
    told = list[str]()
    assert started(path, told.append, 0.3) is not None
    assert ["mended" in line for line in told] == [False, True]
    Drive(path, f"{path}/_tailbit").drain()
    opened = tailbit.open(path)
    assert (opened.indexed(), opened.verify().problems) == ({"v": "v"}, [])
    assert opened.where("v = 'v1'").files_scanned == 0


def test_a_run_leaves_a_log_alone_while_another_indexer_is_at_work(path: str, newest: Path) -> None:
    heartbeat = Claim(open_storage(f"{path}/_tailbit"))
    heartbeat.acquire()
    newest.write_bytes(b"")
    with pytest.raises(IndexerRunningError):
        started(path, [].append, 0.0)
    heartbeat.release()
    assert newest.read_bytes() == b""


def test_a_run_that_is_stopped_while_it_waits_ends_without_a_word_and_changes_nothing(
    path: str, newest: Path
) -> None:
    newest.write_bytes(b"")
    stop, told = threading.Event(), list[str]()

    def tell(line: str) -> None:
        told.append(line)
        stop.set()

    assert started(path, tell, SURE_S, stop) is None
    assert (len(told), newest.read_bytes()) == (1, b"")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_running_indexer_makes_the_index_anew_once_its_log_has_stayed_damaged_long_enough(
    path: str, newest: Path
) -> None:
    index, clock, told = MetadataTable.open(f"{path}/_tailbit"), Clock(), list[str]()
    patience = Patience(clock=clock)
    patience.pause(StorageError(path=path, reason="busy"))
    clock.now = 300.0
    newest.write_bytes(b"")
    with pytest.raises(IndexLogError) as met:
        index.refresh()
    patience.pause(met.value)
    for seconds in (300.0, 300.0 + SURE_S / 2):
        clock.now = seconds
        start_over_in_time(index, met.value, patience, told.append)
    clock.now = 300.0 + SURE_S
    of_table = MalformedLogError(file="of the table", reason="it is torn")
    start_over_in_time(index, of_table, patience, told.append)
    assert told == []
    start_over_in_time(index, met.value, patience, told.append)
    assert (len(told), index.refresh(), index.state.ledger) == (1, True, None)
    Drive(path, index.path).drain()
    assert tailbit.open(path).verify().problems == []


def of_many(path: str) -> MetadataTable:
    """What an application does for a table at its start."""
    entry = TableEntry.model_validate({"path": path, "columns": ("v",)})
    return opened_index(entry, open_table(path), [].append, sure_s=0.0)


def of_one(path: str) -> MetadataTable:
    """What the run of one table does at its start."""
    prepared = prepare(path, None, None, None, "0 seconds")
    assert prepared is not None
    return prepared.index


STARTS = [of_many, of_one]


def identity(path: str) -> str:
    return MetadataTable.open(f"{path}/_tailbit").state.index_id


def failing(monkeypatch: pytest.MonkeyPatch, times: int) -> list[str]:
    """Let the next reads of file records fail as on a network disk for a moment; return the failed ones."""
    read, failed = FilesKind.read, list[str]()

    def reading(kind: FilesKind, storage: Storage, path: str) -> pa.Table:
        if len(failed) < times:
            failed.append(path)
            reason = OSError(errno.ESTALE, "Stale file handle")
            raise CorruptIndexError(file=path, reason=str(reason)) from reason
        return read(kind, storage, path)

    monkeypatch.setattr(FilesKind, "read", reading)
    monkeypatch.setattr(
        FilesKind, "read_whole", lambda kind, storage, path: kind.read(storage, path) and None
    )
    return failed


@pytest.mark.parametrize("start", STARTS)
def test_a_second_start_beside_an_indexer_leaves_its_damaged_index_alone(
    path: str, start: Callable[[str], MetadataTable]
) -> None:
    truncated(index_files(path, FILES)[0])
    heartbeat = Claim(open_storage(f"{path}/_tailbit"))
    heartbeat.acquire()
    before = identity(path)
    with pytest.raises(IndexerRunningError):
        start(path)
    assert identity(path) == before
    heartbeat.release()
    start(path)
    assert identity(path) != before
    Drive(path, f"{path}/_tailbit").drain()


@pytest.mark.parametrize("start", STARTS)
def test_a_read_that_fails_for_a_moment_at_a_start_costs_no_index(
    path: str, start: Callable[[str], MetadataTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, failed = identity(path), failing(monkeypatch, 1)
    assert start(path).state.index_id == before
    assert len(failed) == 1


@pytest.mark.parametrize("start", STARTS)
def test_a_store_that_fails_again_at_a_start_is_named_and_costs_no_index(
    path: str, start: Callable[[str], MetadataTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = identity(path)
    failing(monkeypatch, 2)
    with pytest.raises(StorageError, match="Stale file handle"):
        start(path)
    assert identity(path) == before


@pytest.mark.parametrize("start", STARTS)
def test_reads_that_fail_now_and_then_at_a_start_cost_no_index(
    path: str, start: Callable[[str], MetadataTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, reads = identity(path), []
    read = FilesKind.read

    def reading(kind: FilesKind, storage: Storage, file: str) -> pa.Table:
        reads.append(file)
        if len(reads) in (1, 3):
            raise CorruptIndexError(file=file, reason="stale") from OSError(errno.ESTALE, "Stale file handle")
        return read(kind, storage, file)

    monkeypatch.setattr(FilesKind, "read", reading)
    monkeypatch.setattr(
        FilesKind, "read_whole", lambda kind, storage, file: kind.read(storage, file) and None
    )
    assert start(path).state.index_id == before


@pytest.mark.parametrize("start", [of_many])
def test_an_index_that_stays_unreadable_is_made_anew_once_and_then_named(
    path: str, start: Callable[[str], MetadataTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    written = list[str]()

    def reading(kind: SettingsKind, storage: Storage, file: str) -> pa.Table:
        if file not in written:
            written.append(file)
        raise CorruptIndexError(file=file, reason="other bytes than were written")

    monkeypatch.setattr(SettingsKind, "read", reading)
    monkeypatch.setattr(
        SettingsKind, "read_whole", lambda kind, storage, file: kind.read(storage, file) and None
    )
    with pytest.raises(CorruptIndexError, match="other bytes"):
        start(path)
    assert len(written) == 2


def test_records_that_cannot_be_read_for_a_moment_while_damage_is_mended_cost_no_index(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = identity(path)
    damaged = index_files(path, "value_counts")[0]
    truncated(damaged)
    mender = Mender(open_table(path), MetadataTable.open(f"{path}/_tailbit"))
    failing(monkeypatch, 1)
    error = CorruptIndexError(file=f"kind=value_counts/{damaged.name}", reason="it is truncated")
    mender.mend(error)
    assert (identity(path), mender.mended) == (before, 0)
    mender.mend(error)
    assert (identity(path), mender.mended) == (before, 1)
