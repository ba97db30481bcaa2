"""A log of the index that cannot be read is waited for; where it stays so, the index is made anew."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import tailbit
from support.drive import Drive
from support.tables import index_of, three_commits
from tailbit.checkpoints.claim import Claim
from tailbit.errors import IndexerRunningError, IndexLogError, MalformedLogError, StorageError
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.opening import SURE_S, start_over_in_time
from tailbit.streaming.patience import Patience
from tailbit.streaming.query.launch import Prepared, prepare
from tailbit.tables.storage import open_storage


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
