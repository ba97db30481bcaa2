"""The mark of an application on an index: its lease tells whether the application is at work."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import orjson
import pytest

from tailbit.checkpoints.claim import RENEW_LOCAL_S, Claim, application_lease, index_mark
from tailbit.checkpoints.liveness import Liveness
from tailbit.checkpoints.signs import NAME, Beat, State, last_sign, read_heartbeat, running_indexer
from tailbit.errors import IndexerRunningError
from tailbit.tables.storage import LocalStorage, Storage, StorageOptions


@pytest.fixture
def index(tmp_path: Path) -> Storage:
    (tmp_path / "index").mkdir()
    return LocalStorage(str(tmp_path / "index"))


@pytest.fixture
def lease(tmp_path: Path) -> Iterator[Claim]:
    """The lease of an application that is at work."""
    (tmp_path / "lease").mkdir()
    held = application_lease(LocalStorage(str(tmp_path / "lease")), Liveness("batch 7"))
    held.acquire()
    yield held
    held.release()


def age(folder: str, seconds: float) -> None:
    at = time.time() - seconds
    os.utime(Path(folder, NAME), (at, at))


def elsewhere(index: Storage, lease: Claim) -> None:
    """The mark on the index and the beats of the lease are of a process of another machine."""
    other = replace(lease.beat, machine="another machine", host="another-host", run="other")
    Path(lease.place, NAME).write_bytes(orjson.dumps(asdict(other)))
    index.put(NAME, orjson.dumps(asdict(replace(other, lease=lease.place, limit=180.0))))


def test_an_index_that_an_application_keeps_is_refused_to_others_and_told_alive_by_the_lease(
    index: Storage, lease: Claim
) -> None:
    mark = index_mark(index, lease)
    mark.acquire()
    age(index.root, 100.0)
    with pytest.raises(IndexerRunningError):
        Claim(index).acquire()
    last = last_sign(index)
    assert last is not None
    assert (last.state, last.beat.doing) == (State.ALIVE, "batch 7")
    mark.release()
    assert read_heartbeat(index) is None


def test_an_idle_mark_is_not_rewritten_until_it_is_due(index: Storage, lease: Claim) -> None:
    now = [0.0]
    mark = index_mark(index, lease, clock=lambda: now[0])
    mark.acquire()
    age(index.root, 100.0)
    seen = index.stat(NAME)
    now[0] = RENEW_LOCAL_S - 1
    mark.renew()
    assert index.stat(NAME) == seen
    now[0] = RENEW_LOCAL_S + 1
    mark.renew()
    assert index.stat(NAME) != seen


def test_an_index_is_free_at_once_when_the_lease_is_given_up_or_is_of_another_run(
    index: Storage, lease: Claim
) -> None:
    elsewhere(index, lease)
    assert running_indexer(index) is not None
    Path(lease.place, NAME).write_bytes(orjson.dumps(asdict(replace(lease.beat, run="a third"))))
    assert running_indexer(index) is None
    mine = Claim(index)
    mine.acquire()
    mine.release()


def test_an_index_is_free_when_the_lease_of_another_machine_has_no_beats_any_more(
    index: Storage, lease: Claim
) -> None:
    elsewhere(index, lease)
    with pytest.raises(IndexerRunningError, match="another-host"):
        Claim(index).acquire()
    age(lease.place, 16.0)
    last = last_sign(index)
    assert last is not None
    assert last.state is State.STALE
    mine = Claim(index)
    mine.acquire()
    mine.release()


@pytest.mark.parametrize(("age_s", "alive"), [(100.0, True), (200.0, False)])
def test_a_mark_whose_lease_cannot_be_read_from_here_is_judged_by_its_own_age(
    index: Storage, age_s: float, alive: bool
) -> None:
    beat = Beat("run", "another-host", "another machine", 1, limit=180.0, lease="/not/on/this/machine")
    index.put(NAME, orjson.dumps(asdict(beat)))
    age(index.root, age_s)
    assert (running_indexer(index) is not None) == alive


def test_an_application_that_lost_an_index_to_another_indexer_steps_back(
    index: Storage, lease: Claim
) -> None:
    now = [0.0]
    mark = index_mark(index, lease, clock=lambda: now[0])
    mark.acquire()
    index.put(NAME, orjson.dumps(asdict(Beat("other", "another-host"))))
    mark.renew()
    now[0] = RENEW_LOCAL_S + 1
    with pytest.raises(IndexerRunningError, match="another-host"):
        mark.renew()
    mark.release()
    assert (read_heartbeat(index) or Beat()).run == "other"


def test_a_mark_that_the_same_run_left_is_its_own(index: Storage, lease: Claim) -> None:
    index_mark(index, lease).acquire()
    again = index_mark(index, lease)
    again.acquire()
    again.release()
    assert read_heartbeat(index) is None


def test_a_mark_that_is_released_leaves_a_later_one_of_the_same_run(index: Storage, lease: Claim) -> None:
    first, second = index_mark(index, lease), index_mark(index, lease)
    first.acquire()
    second.acquire()
    first.release()
    assert read_heartbeat(index) is not None
    second.release()
    assert read_heartbeat(index) is None


def test_a_lease_of_the_same_path_on_another_disk_says_nothing_of_a_mark(
    index: Storage, tmp_path: Path
) -> None:
    (tmp_path / "here").mkdir()
    here = application_lease(LocalStorage(str(tmp_path / "here")), Liveness())
    here.acquire()
    there = replace(here.beat, machine="another machine", host="another-host", run="other", place="of there")
    index.put(NAME, orjson.dumps(asdict(replace(there, lease=here.place, limit=180.0))))
    age(index.root, 100.0)
    assert running_indexer(index) == there.owner
    index.put(
        NAME, orjson.dumps(asdict(replace(there, lease=here.place, limit=180.0, place=here.beat.place)))
    )
    assert running_indexer(index) is None
    again = application_lease(LocalStorage(str(tmp_path / "here")), Liveness())
    here.release()
    again.acquire()
    assert again.beat.place == here.beat.place != ""
    again.release()


def test_a_lease_that_cannot_be_asked_from_here_leaves_the_mark_to_speak(index: Storage) -> None:
    beat = Beat(run="r", host="another-host", machine="another machine", pid=7, lease="s3://lake/lease")
    index.put(NAME, orjson.dumps(asdict(replace(beat, limit=180.0))))
    odd = LocalStorage(index.root, options=StorageOptions.of({"SERVICE_ACCOUNT": "x"}))
    assert running_indexer(odd) == beat.owner


def test_a_lease_that_was_lost_is_lost_for_every_index(index: Storage, lease: Claim) -> None:
    mark = index_mark(index, lease)
    mark.acquire()
    lease.lost = IndexerRunningError(owner="x", path="y", age=0.0, limit=15.0)
    with pytest.raises(IndexerRunningError):
        mark.renew()


def test_a_lease_in_another_account_of_azure_is_not_asked(index: Storage) -> None:
    lease = "abfss://container@another.example/lease"
    index.put(NAME, orjson.dumps(asdict(Beat("run", "another-host", "another machine", 1, lease=lease))))
    assert running_indexer(index) is not None


@pytest.mark.parametrize("lease", [5, None, ["x"]])
def test_a_mark_that_names_no_lease_is_nobodys(index: Storage, lease: object) -> None:
    index.put(NAME, orjson.dumps({"pid": 1, "machine": "another", "lease": lease}))
    assert running_indexer(index) is None
