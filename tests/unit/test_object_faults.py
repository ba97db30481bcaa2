"""Table and index in a real S3 server that fails: at any request, for a while, for one object, for good."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("obstore", reason="obstore has no wheel for Python 3.10")

import tailbit
from support.delta_builder import DeltaBuilder
from support.drive import Drive
from support.faulty_proxy import Fault, Proxy, Request
from support.index_records import ledger, new_index, record
from support.stored import FILES, checked, on_disk, put_into
from tailbit.checkpoints.claim import Claim
from tailbit.errors import DataFileError, StorageError, UnusableStorageError
from tailbit.index.maintenance.vacuum import Sweeper, vacuum
from tailbit.index.store import stored_log
from tailbit.index.store.stored_log import LOG_CHECKPOINT_EVERY
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.metrics import IdleWatch, Progress
from tailbit.streaming.planner import CHECK_EVERY
from tailbit.streaming.settings import StreamSettings
from tailbit.streaming.sweeping import FIRST_S, Retrier
from tailbit.tables.storage import StorageOptions, open_storage
from tailbit.upkeep.status import status_of

EVER = 10**6
"""More requests than any test makes."""


@pytest.fixture
def options(s3_options: dict[str, str]) -> StorageOptions:
    return StorageOptions.of(s3_options)


@pytest.fixture
def written(tmp_path: Path) -> DeltaBuilder:
    return on_disk(tmp_path / "written")


@pytest.fixture
def table(written: DeltaBuilder, s3_root: str, options: StorageOptions) -> str:
    """The same table in the S3 server."""
    put_into(s3_root, options, written.path)
    return s3_root


def built(table: str, options: StorageOptions) -> Drive:
    """The index of a table, built in batches of one file."""
    drive = Drive(table, f"{table}/_tailbit", ["k", "v"], StreamSettings(files=1, poll_ms=0), options=options)
    assert len(drive.drain()) >= FILES
    return drive


def same(index: MetadataTable, options: StorageOptions) -> None:
    """What an open index says is what one says that is opened now."""
    fresh = MetadataTable.open(index.path, options=options)
    assert (index.version, index.state.seq, index.state.ledger) == (
        fresh.version,
        fresh.state.seq,
        fresh.state.ledger,
    )
    assert index.state.files == fresh.state.files
    live = {r.path: r for r in fresh.state.recorded.live()}
    assert {r.path: r for r in index.state.recorded.live()} == live


def of(method: str, *parts: str) -> Callable[[Request], bool]:
    """Requests of a method whose path holds one of these."""
    return lambda request: request.method == method and any(part in request.path for part in parts)


@pytest.mark.parametrize("kind", ["ledger", "files"])
def test_what_another_committed_is_known_whole_after_a_look_at_it_that_failed_half_way(
    s3: Proxy, s3_root: str, options: StorageOptions, kind: str
) -> None:
    other = new_index(s3_root, options=options)
    other.commit([record("a")], [], ledger(0))
    index = MetadataTable.open(s3_root, options=options)
    assert index.state.recorded.get("a") is not None
    other.commit([record("b")], [], ledger(1))
    with s3.failing(Fault.BUSY, EVER, of("GET", f"kind={kind}")) as met, pytest.raises(StorageError):
        index.refresh()
    assert met
    index.refresh()
    same(index, options)
    index.commit([record("c")], [], ledger(2))
    same(index, options)


def test_a_commit_that_landed_and_could_not_be_looked_at_is_known_as_it_is(
    s3: Proxy, s3_root: str, options: StorageOptions
) -> None:
    index = new_index(s3_root, options=options)
    assert index.state.recorded.get("a") is None
    landed = of("HEAD", f"{1:020}.json")
    with s3.failing(Fault.BUSY, EVER, landed), pytest.raises(StorageError):
        index.commit([record("a")], [], ledger(0))
    assert index.refresh()
    same(index, options)
    index.commit([record("b")], [], ledger(1))
    same(index, options)


@dataclass
class Idle:
    """A worker that has done a batch and does none now."""

    last: Progress
    busy: bool = False

    def latest(self) -> Progress | None:
        return self.last


def test_a_watch_that_begins_while_the_store_refuses_tells_later(
    s3: Proxy, table: str, options: StorageOptions
) -> None:
    drive = built(table, options)
    version = drive.index.version
    last = Progress(table, version, 0, 0, 0, 0, 0, lag=drive.planner.lag(drive.position), batch_ms=0.0)
    told = list[Progress]()
    with s3.failing(Fault.BUSY, EVER, lambda request: True):
        watch = IdleWatch(table, Idle(last), told.append, options)
        watch.look(0.0)
    assert told == []
    watch.look(100.0)
    assert [progress.head for progress in told] == [FILES + 1]


ONE = "f3"
"""Begins the name of one of the data files."""


def of_data(request: Request) -> bool:
    return ".parquet" in request.path and "kind=" not in request.path and "_delta_log" not in request.path


def reads(request: Request) -> bool:
    """Whatever needs the right to read an object; lists need another."""
    return request.method in ("GET", "HEAD") and "list-type" not in request.query


def test_a_data_file_that_the_store_denies_is_left_out_by_name_and_the_rest_goes_on(
    s3: Proxy, table: str, written: DeltaBuilder, s3_options: dict[str, str], options: StorageOptions
) -> None:
    denied = lambda request: of_data(request) and f"/{ONE}" in request.path  # noqa: E731
    with s3.failing(Fault.DENIED, EVER, denied):
        drive = built(table, options)
        [path] = drive.index.state.recorded.unread()
        assert path.startswith(ONE)
        [reason] = status_of(table, storage_options=s3_options)["not_covered"]
        assert reason.startswith(f"data file {path}: it cannot be read: the store denies access")
        with pytest.raises(DataFileError, match=path):
            tailbit.open(table, storage_options=s3_options).where("v = 'v1'").count()
        now = [0.0]
        index = MetadataTable.open(drive.index.path, options=options)
        retrier = Retrier(drive.table, index, lambda: now[0])
        assert not retrier.look()
    now[0] = FIRST_S
    assert retrier.look()
    assert any(drive.drain() for _ in range(CHECK_EVERY))
    assert drive.index.state.recorded.unread() == []
    opened = checked(table, written.path, s3_options)
    assert (opened.state, opened.where("v = 'v1'").files_scanned) == ("complete", 0)


@pytest.mark.parametrize("denied", [lambda request: True, reads, of_data], ids=["all", "reads", "data"])
def test_a_batch_to_which_all_is_denied_ends_by_name_unless_the_log_can_be_read(
    s3: Proxy, table: str, options: StorageOptions, denied: Callable[[Request], bool]
) -> None:
    drive = Drive(table, f"{table}/_tailbit", ["k"], options=options)
    with s3.failing(Fault.DENIED, EVER, denied):
        if denied is of_data:
            drive.drain()
            assert len(drive.index.state.recorded.unread()) == FILES
        else:
            with pytest.raises(UnusableStorageError, match="denies access"):
                drive.drain()
    if denied is not of_data:
        drive.drain()
        assert drive.index.state.recorded.unread() == []


def log_names(index: MetadataTable) -> list[str]:
    return [entry.name for entry in index.storage.list("_delta_log")]


def grown(root: str, options: StorageOptions, commits: int) -> MetadataTable:
    """An index of that many commits."""
    index = new_index(root, options=options)
    while index.version < commits:
        index.commit([record(f"f{index.version}")], [], ledger(index.version))
    return index


def forgetting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log keeps nothing below its newest checkpoint."""
    monkeypatch.setitem(stored_log.CONFIGURATION, "delta.logRetentionDuration", "interval 0 seconds")


def test_the_log_of_an_index_in_a_store_is_as_short_after_a_hundred_commits_as_after_twenty(
    s3_root: str, options: StorageOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgetting(monkeypatch)
    index = grown(s3_root, options, 5 * LOG_CHECKPOINT_EVERY)
    assert len(log_names(index)) == len(["commit", "log checkpoint", "the one before", "hint"])


@pytest.mark.by_thirds
@pytest.mark.parametrize("cleaned", [True, False])
def test_a_damaged_log_checkpoint_in_a_store_is_named_once_and_made_anew_of_what_is_known(
    s3_root: str, options: StorageOptions, monkeypatch: pytest.MonkeyPatch, cleaned: bool
) -> None:
    if cleaned:
        forgetting(monkeypatch)
    index = grown(s3_root, options, LOG_CHECKPOINT_EVERY + 1)
    name = f"_delta_log/{LOG_CHECKPOINT_EVERY:020}.checkpoint.parquet"
    index.storage.put(name, b"x" * len(index.storage.read(name)))
    for number in range(3 * LOG_CHECKPOINT_EVERY):
        index.commit([record(f"g{number}")], [], ledger(100 + number))
    [told] = index.take_mended()
    assert name in told
    assert index.take_mended() == []
    same(index, options)
    assert vacuum(index, older_than_hours=0) == []


def test_a_newest_commit_that_is_lost_beside_its_log_checkpoint_is_gone_on_from(
    s3_root: str, options: StorageOptions
) -> None:
    name = f"_delta_log/{LOG_CHECKPOINT_EVERY:020}.json"
    grown(s3_root, options, LOG_CHECKPOINT_EVERY).storage.delete(name)
    index = MetadataTable.open(s3_root, options=options)
    for number in range(LOG_CHECKPOINT_EVERY + 1):
        index.commit([record(f"g{number}")], [], ledger(100 + number))
    same(index, options)


def test_a_damaged_old_commit_of_the_log_keeps_neither_vacuum_nor_sweep_from_their_work(
    s3_root: str, options: StorageOptions
) -> None:
    index = grown(s3_root, options, LOG_CHECKPOINT_EVERY + 5)
    for number in (0, 7):
        index.storage.put(f"_delta_log/{number:020}.json", b"{")
    left = "kind=files/never-committed.parquet"
    index.storage.put(left, b"x")
    later = int((time.time() + 7200) * 1000)
    assert vacuum(index, dry_run=True, now_ms=later) == [left]
    assert Sweeper(MetadataTable.open(s3_root, options=options)).sweep() == []
    assert vacuum(index, now_ms=later) == [left]
    same(index, options)


def test_a_damaged_log_checkpoint_of_an_idle_index_is_made_anew_by_a_sweep(
    s3_root: str, options: StorageOptions
) -> None:
    index = grown(s3_root, options, LOG_CHECKPOINT_EVERY + 1)
    index.storage.put(f"_delta_log/{LOG_CHECKPOINT_EVERY:020}.checkpoint.parquet", b"x")
    swept = MetadataTable.open(s3_root, options=options)
    assert Sweeper(swept).sweep() == []
    assert len(swept.take_mended()) == 1
    assert Sweeper(swept).sweep() == []
    assert swept.take_mended() == []


@pytest.mark.parametrize("name", ["index", "index-501"])
def test_an_index_is_not_made_in_a_place_that_denies_writes_and_the_place_is_named(
    s3: Proxy, s3_root: str, options: StorageOptions, name: str
) -> None:
    root = f"{s3_root}/{name}"
    with s3.failing(Fault.DENIED, EVER, lambda request: request.method in ("PUT", "POST", "DELETE")):
        with pytest.raises(UnusableStorageError, match=r"nothing can be written there: .*403") as refused:
            new_index(root, options=options)
    assert refused.value.fields["path"] == root
    assert "--index" in refused.value.hint


def test_an_index_whose_place_denies_writes_is_named_with_what_to_do(
    s3: Proxy, s3_root: str, options: StorageOptions
) -> None:
    new_index(s3_root, options=options)
    with s3.failing(Fault.DENIED, EVER, lambda request: request.method == "PUT"):
        with pytest.raises(UnusableStorageError, match=r"nothing can be written there: .*403") as refused:
            Claim(open_storage(s3_root, options)).acquire()
    assert refused.value.fields["path"] == s3_root
    assert "--index" in refused.value.hint


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.REPLY_LOST, Fault.BUSY, Fault.BUSY_AFTER, Fault.CUT])
def test_a_delete_that_fails_on_the_way_is_tried_again(
    s3: Proxy, s3_root: str, options: StorageOptions, fault: Fault
) -> None:
    storage = open_storage(s3_root, options)
    for name in ("x", "y"):
        storage.put(name, b"data")
    with s3.failing(fault, 2, lambda request: request.method in ("POST", "DELETE")) as met:
        storage.delete("x")
    assert len(met) == 2
    assert [entry.name for entry in storage.list()] == ["y"]


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.REPLY_LOST, Fault.CUT])
def test_a_large_object_is_whole_though_the_requests_around_its_parts_fail_on_the_way(
    s3: Proxy, s3_root: str, options: StorageOptions, fault: Fault
) -> None:
    storage, parts = open_storage(s3_root, options), [bytes([n]) * (5 << 20) for n in range(5)]
    with s3.failing(fault, 2, lambda request: request.method == "POST") as met:
        with storage.create("folder", "stem") as unfinished:
            for part in parts:
                unfinished.sink.write(part)
            unfinished.written().close()
            unfinished.publish("large")
    assert met
    assert storage.read("folder/large") == b"".join(parts)


@pytest.mark.parametrize("listed", ["list", "list_after", "exists"])
def test_a_list_that_breaks_off_half_way_is_asked_for_again(
    s3: Proxy, s3_root: str, options: StorageOptions, listed: str
) -> None:
    storage = open_storage(s3_root, options)
    storage.put("a/x", b"data")
    asked = {
        "list": lambda: storage.list("a") != [],
        "list_after": lambda: storage.list_after("a", "") != [],
        "exists": lambda: storage.exists("a"),
    }[listed]
    with s3.failing(Fault.CUT, 2, lambda request: request.method == "GET") as met:
        assert asked()
    assert len(met) == 2


@pytest.mark.parametrize("size", [40, 300_000])
def test_an_answer_that_breaks_off_half_way_is_asked_for_again(
    s3: Proxy, s3_root: str, options: StorageOptions, size: int
) -> None:
    storage = open_storage(s3_root, options)
    data: Any = bytes(n % 251 for n in range(size))
    storage.put("x", data)
    with s3.failing(Fault.CUT, 2, lambda request: request.method == "GET") as met:
        assert storage.read("x") == data
        assert storage.read_range("x", 1, size) == data[1:]
        with storage.open("x") as opened:
            assert opened.read() == data
        assert [entry.name for entry in storage.list()] == ["x"]
    assert len(met) == 2
