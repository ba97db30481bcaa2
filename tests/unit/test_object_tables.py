"""Source and index in a real S3 server without Spark: answers as on disk, races, faults, counted requests."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaRs
from deltalake import write_deltalake

pytest.importorskip("obstore", reason="obstore has no wheel for Python 3.10")

import tailbit
from support.delta_builder import DeltaBuilder
from support.drive import Drive
from support.faulty_proxy import Fault, Proxy
from support.forked import command
from support.index_records import ledger, new_index
from support.s3_server import SECRET, rclone
from support.stored import FILES, checked, on_disk, put_into
from support.stored_commits import check_committed_once, check_one_wins
from tailbit.checkpoints.claim import Claim
from tailbit.checkpoints.lag import Backlog
from tailbit.errors import (
    IndexerRunningError,
    NoConditionalPutError,
    NoIndexError,
    NotATableError,
    StorageError,
)
from tailbit.index.maintenance.create import ask_for_round
from tailbit.index.maintenance.vacuum import vacuum
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.planner import CHECK_ALL_EVERY, CHECK_EVERY, Planner
from tailbit.streaming.settings import StreamSettings
from tailbit.tables import open_table
from tailbit.tables.storage import StorageOptions, open_storage
from tailbit.upkeep.status import status_of


@pytest.fixture
def written(tmp_path: Path) -> DeltaBuilder:
    return on_disk(tmp_path / "written")


@pytest.fixture
def options(s3_options: dict[str, str]) -> StorageOptions:
    return StorageOptions.of(s3_options)


@pytest.fixture
def table(written: DeltaBuilder, s3_root: str, options: StorageOptions) -> str:
    """The same table in the S3 server."""
    put_into(s3_root, options, written.path)
    return s3_root


@pytest.fixture
def drive(table: str, options: StorageOptions) -> Drive:
    """The index of the table, built in batches of one file."""
    drive = Drive(table, f"{table}/_tailbit", ["k", "v"], StreamSettings(files=1, poll_ms=0), options=options)
    assert len(drive.drain()) >= FILES
    return drive


def later() -> int:
    """In two hours, in ms since 1970."""
    return int((time.time() + 7200) * 1000)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, in which whatever were taken for a local path would be seen."""
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    return tmp_path / "empty"


def test_an_index_in_a_store_answers_as_the_table_on_disk(
    empty: Path, table: str, drive: Drive, written: DeltaBuilder, s3_options: dict[str, str]
) -> None:
    opened = checked(table, written.path, s3_options)
    assert opened.state == "complete"
    assert opened.where("v = 'v1'").files_scanned == 0
    assert opened.verify().sound
    assert opened.compact() > 0
    left = "kind=files/never-committed.parquet"
    open_storage(opened.index_path, StorageOptions.of(s3_options)).put(left, b"x")
    assert vacuum(
        MetadataTable.open(opened.index_path, options=StorageOptions.of(s3_options)), now_ms=later()
    ) == [left]
    opened.alter(drop=["k"])
    assert checked(table, written.path, s3_options).verify().sound
    told = status_of(table, storage_options=s3_options)
    assert (told["columns"], told["lag"]["versions"]) == (["v"], 0)
    assert SECRET not in f"{told} {opened!r} {opened.where('k = 1').explain()}"
    assert list(empty.iterdir()) == []


def test_the_secret_is_in_no_object_of_the_store(
    table: str, drive: Drive, s3_server: object, options: StorageOptions
) -> None:
    store = open_storage(table, options)
    heartbeat = Claim(open_storage(f"{table}/_tailbit", options))
    heartbeat.acquire()
    names = [f"_tailbit/{name}" for name in ("_heartbeat",)]
    for folder in ("_tailbit/_delta_log", *(f"_tailbit/kind={kind.name}" for kind in drive.index.kinds)):
        names += [f"{folder}/{entry.name}" for entry in store.list(folder)]
    assert len(names) > 10
    assert not [name for name in names if SECRET.encode() in store.read(name)]
    heartbeat.release()


def test_delta_rs_writes_the_source_and_reads_the_index(s3_root: str, s3_options: dict[str, str]) -> None:
    given = {name: value for name, value in s3_options.items() if name.startswith("AWS_")}
    for first in (0, 10):
        rows = pa.table({"k": list(range(first, first + 10)), "d": [f"{n % 2} %:" for n in range(10)]})
        write_deltalake(s3_root, rows, mode="append", partition_by=["d"], storage_options=given)
    drive = Drive(s3_root, f"{s3_root}/_tailbit", ["k"], options=StorageOptions.of(s3_options))
    drive.drain()
    opened = tailbit.open(s3_root, storage_options=s3_options)
    assert opened.where("k >= 5 AND d = '1 %:'").count() == 8
    assert opened.where("k >= 5 AND d = '1 %:'").files_scanned == 0
    drive.index.checkpoint_log()
    judge = DeltaRs(f"{s3_root}/_tailbit", storage_options=given)
    assert judge.version() == drive.index.version
    assert {a["path"] for a in pa.table(judge.get_add_actions(flatten=True)).to_pylist()} == set(
        drive.index.state.files
    )


@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.BUSY_AFTER, Fault.BUSY, Fault.RESET])
def test_a_commit_whose_reply_is_lost_is_committed_once(
    s3: Proxy, s3_root: str, options: StorageOptions, fault: Fault
) -> None:
    check_committed_once(s3, s3_root, options, fault)


def test_of_two_writers_of_one_version_in_a_store_exactly_one_wins(
    s3_root: str, options: StorageOptions
) -> None:
    check_one_wins(s3_root, options, 10)


def test_an_index_is_not_made_where_conditional_puts_are_ignored(
    tmp_path: Path, written: DeltaBuilder
) -> None:
    (tmp_path / "data" / "bucket").mkdir(parents=True)
    with rclone(tmp_path / "data") as server:
        options = StorageOptions.of(server.options())
        source = open_table(written.path, options)
        with pytest.raises(NoConditionalPutError):
            Drive(source, "s3://bucket/index", ["k"], options=options)
        assert open_storage("s3://bucket", options).contents() == []


def test_an_index_is_not_made_where_nothing_may_be_written(
    s3: Proxy, s3_root: str, options: StorageOptions, written: DeltaBuilder
) -> None:
    source = open_table(written.path, options)
    with s3.failing(Fault.DENIED, 100, lambda r: r.method == "PUT"):
        with pytest.raises(StorageError, match="403 AccessDenied"):
            Drive(source, s3_root, ["k"], options=options)
    with pytest.raises(NoIndexError):
        tailbit.open(written.path, index=s3_root, storage_options=dict(options.items))


def test_permission_that_is_lost_in_a_commit_leaves_the_index_as_it_was(
    s3: Proxy, s3_root: str, options: StorageOptions
) -> None:
    new_index(s3_root, options=options)
    index = MetadataTable.open(s3_root, options=options)
    with s3.failing(Fault.DENIED, 100, lambda r: r.method == "PUT"):
        with pytest.raises(StorageError, match="403 AccessDenied"):
            index.commit([], [], ledger(0))
    index.commit([], [], ledger(0))
    assert MetadataTable.open(s3_root, options=options).version == 1


def test_a_folder_without_a_table_is_refused_by_name(s3_root: str, s3_options: dict[str, str]) -> None:
    with pytest.raises(NotATableError, match="there is nothing"):
        tailbit.open(s3_root, storage_options=s3_options)
    open_storage(s3_root, StorageOptions.of(s3_options)).put("notes.txt", b"mine")
    with pytest.raises(NotATableError, match="it has no _delta_log"):
        tailbit.open(s3_root, storage_options=s3_options)


@pytest.mark.parametrize("behind_s", [0.0, 3600.0, -3600.0])
def test_a_heartbeat_in_a_store_keeps_a_second_indexer_away_whatever_the_clock_of_the_store(
    s3: Proxy, s3_root: str, options: StorageOptions, behind_s: float
) -> None:
    s3.behind_s = behind_s
    mine, other = (Claim(open_storage(s3_root, options)) for _ in range(2))
    mine.acquire()
    with pytest.raises(IndexerRunningError):
        other.acquire()
    mine.release()
    other.acquire()
    other.release()
    assert open_storage(s3_root, options).list() == []


@pytest.mark.parametrize("behind_s", [3600.0, -3600.0])
def test_where_the_clock_of_the_store_is_off_by_an_hour_a_vacuum_spares_what_was_just_written(
    s3: Proxy, s3_root: str, options: StorageOptions, behind_s: float
) -> None:
    index = new_index(s3_root, options=options)
    open_storage(s3_root, options).put("kind=files/in-flight.parquet", b"x")
    s3.behind_s = behind_s
    assert vacuum(MetadataTable.open(s3_root, options=options), older_than_hours=0.5) == []
    index.commit([], [], ledger(0))
    assert index.storage.contents() == ["_delta_log", "kind=files", "kind=ledger", "kind=settings"]


def asked(table: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A question of the command line that knows no credentials but those given."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return command("count", table, *arguments, env=clean)


def test_a_command_with_wrong_credentials_ends_with_two_lines_and_shows_no_secret(
    table: str, s3_options: dict[str, str]
) -> None:
    wrong = s3_options | {"AWS_SECRET_ACCESS_KEY": "wr0ngwr0ng"}
    done = asked(table, *(part for item in wrong.items() for part in ("--storage-option", "=".join(item))))
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(
        r"UnusableStorageError: storage at s3://.*denies access.*\n  Give credentials.*\n", done.stderr
    )
    assert "wr0ng" not in done.stderr


def test_a_storage_option_without_a_value_is_wrong_use_and_is_not_shown(table: str) -> None:
    done = asked(table, "--storage-option", "wr0ngwr0ng")
    assert (done.returncode, "KEY=VALUE" in done.stderr) == (2, True)
    assert "wr0ng" not in done.stderr


def names_of(requests: list[str]) -> list[str]:
    """Requests without the place that the test has chosen."""
    return [re.sub(r"/bucket/\w{32}/", "", request) for request in requests]


def test_an_idle_poll_is_one_request_with_a_look_at_the_index_each_twentieth_and_at_the_past_each_sixtieth(
    table: str, drive: Drive, s3: Proxy
) -> None:
    planner, at = drive.planner, drive.position
    planner.next(at)
    took: list[list[str]] = []
    for _ in range(2 * CHECK_ALL_EVERY):
        mark = len(s3.seen)
        assert planner.next(at) == at
        assert planner.report() is not None
        took.append(names_of(s3.since(mark)))
    poll = [f"HEAD _delta_log/{FILES + 2:020}.json"]
    index = [f"HEAD _tailbit/_delta_log/{drive.index.version + n:020}.json" for n in (0, 1)]
    checks = [sorted(requests) for requests in took if requests != poll]
    looks = [sorted([*poll, index[1]])] * (CHECK_ALL_EVERY // CHECK_EVERY - 1)
    assert checks == [*looks, sorted([f"HEAD _delta_log/{FILES + 1:020}.json", *poll, *index])] * 2


def test_polls_are_no_closer_than_the_pace_of_polling(
    table: str, drive: Drive, s3: Proxy, options: StorageOptions
) -> None:
    now, settings = [100.0], StreamSettings(poll_ms=500)
    index = MetadataTable.open(f"{table}/_tailbit", options=options)
    planner = Planner(open_table(table, options), index, settings, clock=lambda: now[0])
    planner.next(drive.position)
    mark, began = len(s3.seen), now[0]
    while now[0] < began + 5:
        planner.next(drive.position)
        now[0] += 0.01
    assert 8 <= len(s3.since(mark)) <= 11


def test_what_happens_between_two_checks_is_seen_by_the_next(drive: Drive, options: StorageOptions) -> None:
    planner, at = drive.planner, drive.position
    planner.next(at)
    ask_for_round(MetadataTable.open(drive.index.path, options=options))
    assert any(planner.next(at) != at for _ in range(CHECK_EVERY))


def test_many_new_commits_are_listed_and_not_asked_for_one_by_one(
    s3: Proxy, s3_root: str, options: StorageOptions
) -> None:
    new_index(s3_root, options=options)
    known, writer = open_table(s3_root, options), MetadataTable.open(s3_root, options=options)
    assert known.head() == 0
    for n in range(15):
        writer.commit([], [], ledger(n))
    mark = len(s3.seen)
    assert known.head() == 15
    assert len(s3.since(mark)) <= 8


@pytest.fixture
def one_more_file(table: str, written: DeltaBuilder, options: StorageOptions) -> str:
    """The name of a commit of one small file, which the index does not cover yet."""
    rows = pa.table({"k": pa.array([1000], pa.int64()), "v": ["v1"]})
    written.commit([written.data_file(rows, "g.parquet")])
    commit = f"_delta_log/{FILES + 2:020}.json"
    for name in ("g.parquet", commit):
        open_storage(table, options).put(name, (Path(written.path) / name).read_bytes())
    return commit


def test_a_batch_of_one_small_file_is_at_most_thirty_requests(
    drive: Drive, s3: Proxy, one_more_file: str
) -> None:
    mark = len(s3.seen)
    begin = drive.position
    end = drive.planner.next(begin)
    planned = len(s3.since(mark))
    outcome = drive.indexer.apply(begin, end, drive.origin)
    requests = names_of(s3.since(mark))
    assert (outcome.files, outcome.target) == (1, FILES + 2)
    assert planned <= 6, requests
    assert len(requests) <= 30, requests
    assert sum(request.startswith("PUT") for request in requests) == 5


def test_the_planner_reads_a_commit_once_and_so_does_the_batch(
    drive: Drive, s3: Proxy, one_more_file: str
) -> None:
    """Lag, changes and fingerprint of a commit, before the batch, in it and after it, are one look at it."""
    backlog, begin = Backlog(drive.table), drive.position
    mark = len(s3.seen)
    end = drive.planner.next(begin)
    drive.planner.report()
    assert backlog.lag(begin.stands_at, drive.table.head()).versions == 1
    drive.indexer.apply(begin, end, drive.origin)
    assert backlog.lag(end.stands_at, drive.table.head()).versions == 0
    assert drive.planner.next(end) == end
    requests = names_of(s3.since(mark))
    assert requests.count(f"GET {one_more_file}") == 2, requests


def test_a_warm_question_is_four_requests(
    table: str, drive: Drive, s3: Proxy, s3_options: dict[str, str]
) -> None:
    opened = tailbit.open(table, storage_options=s3_options)
    assert opened.where("v = 'v1'").count() > 0
    mark = len(s3.seen)
    assert opened.where("v = 'v1'").count() > 0
    seen = {request.rpartition("/")[0] for request in names_of(s3.since(mark))}
    assert seen == {"HEAD _delta_log", "HEAD _tailbit/_delta_log"}
    assert len(s3.since(mark)) == 4


def test_an_index_in_a_store_whose_own_log_is_damaged_is_made_anew_there(
    drive: Drive, table: str, written: DeltaBuilder, s3_options: dict[str, str]
) -> None:
    storage = drive.index.storage
    first, *_, newest = [entry.name for entry in storage.list("_delta_log") if entry.name.endswith(".json")]
    storage.put(f"_delta_log/{newest}", b"")
    storage.delete(f"_delta_log/{first}")
    assert checked(table, written.path, s3_options).state == "damaged"
    assert tailbit.open(table, storage_options=s3_options).repair().anew == ("k", "v")
    assert checked(table, written.path, s3_options).state == "complete"
    assert drive.index.refresh()
    drive.index.checkpoint_log()
    assert vacuum(drive.index, older_than_hours=0) == []
    assert DeltaRs(f"{table}/_tailbit", storage_options=s3_options).version() == drive.index.version
