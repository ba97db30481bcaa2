"""The decision table: each row, and what holds for all of them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailbit.checkpoints.claim import RENEW_LOCAL_S, Claim
from tailbit.checkpoints.liveness import Liveness
from tailbit.checkpoints.offset import Offset, log_start, snapshot_start
from tailbit.checkpoints.recovery import BatchPlan, LogState, Situation, Verdict, decide, decide_batch
from tailbit.checkpoints.signs import NAME, Beat, State, last_sign, read_heartbeat, running_indexer
from tailbit.errors import IndexerRunningError
from tailbit.index.model import Ledger, LedgerState
from tailbit.tables.model import Fingerprint
from tailbit.tables.storage import LocalStorage, Storage, StorageOptions


def proof(version: int, history: str = "a") -> Fingerprint:
    return Fingerprint(version, f"{history}{version:015d}" + "0" * 48, "table")


def log(head: int = 20, first: int = 0, history: str = "a") -> LogState:
    """A log whose commits from `first` on are there; its snapshots reach as far back."""

    def fingerprint(version: int) -> Fingerprint | None:
        return proof(version, history) if first <= version <= head else None

    return LogState(head, lambda: first, fingerprint, lambda version: first <= version + 1 <= head)


def ledger(
    version: int = 10, state: str = "complete", round_: int = 3, lineage: int = 1, history: str = "a"
) -> Ledger:
    return Ledger(
        seq=5,
        round=round_,
        lineage=lineage,
        version=version,
        state=LedgerState(state),
        covered=version if state == "complete" else None,
        fingerprint=proof(version, history),
        uncounted=0,
        settings_version=1,
        query_id="q",
        batch_id=4,
        committed_at=0,
    )


def snap(round_: int, version: int, file: int = 0) -> Offset:
    return replace(snapshot_start(round_, proof(version), version), file=file)


def tail(round_: int, covered: int) -> Offset:
    return log_start(round_, proof(covered), covered)


def taken_back() -> LogState:
    """A log without the covered commit, which proves that a later one took it back."""
    return replace(log(first=12), took_back=lambda _: True)


ROWS = [
    ("fresh", None, None, log(), Situation.FRESH, snap(1, 20)),
    ("fresh, pinned before", None, snap(1, 15), log(), Situation.FRESH, snap(1, 15)),
    ("mid-build", ledger(15, "building"), snap(3, 15, 7), log(), Situation.MID_BUILD, snap(3, 15, 7)),
    ("mid-build, lost checkpoint", ledger(15, "building"), None, log(), Situation.MID_BUILD, snap(3, 15)),
    ("go on", ledger(10), tail(3, 10), log(), Situation.GO_ON, tail(3, 10)),
    ("lost checkpoint", ledger(10), None, log(), Situation.LOST_CHECKPOINT, tail(3, 10)),
    ("trim", ledger(10), tail(3, 6), log(), Situation.TRIM, tail(3, 10)),
    ("trim out of a snapshot", ledger(10), snap(3, 6, 2), log(), Situation.TRIM, tail(3, 10)),
    ("index restored", ledger(10), tail(3, 14), log(), Situation.INDEX_RESTORED, tail(4, 10)),
    (
        "index of an older round restored",
        ledger(10),
        tail(5, 14),
        log(),
        Situation.INDEX_RESTORED,
        tail(6, 10),
    ),
    (
        "index restored in mid-build",
        ledger(5, "building"),
        tail(3, 9),
        log(),
        Situation.INDEX_RESTORED,
        snap(4, 20),
    ),
    ("other indexer", ledger(10), tail(2, 14), log(), Situation.OTHER_INDEXER, tail(3, 10)),
    ("index deleted", None, tail(3, 10), log(), Situation.INDEX_DELETED, snap(4, 20)),
    (
        "an opening that recorded nothing",
        ledger(10),
        tail(4, 10),
        log(),
        Situation.LOST_LOG_TAIL,
        snap(5, 20),
    ),
    ("lost log tail", ledger(10), tail(3, 10), log(first=12), Situation.LOST_LOG_TAIL, snap(4, 20)),
    ("lost only the next commit", ledger(10), None, log(first=11), Situation.LOST_LOG_TAIL, snap(4, 20)),
    (
        "pinned version gone",
        ledger(5, "building"),
        snap(3, 5),
        log(first=8),
        Situation.LOST_LOG_TAIL,
        snap(4, 20),
    ),
    (
        "other lineage",
        ledger(10),
        tail(3, 10),
        log(history="b"),
        Situation.OTHER_LINEAGE,
        snapshot_start(4, proof(20, "b"), 20),
    ),
    ("taken back", ledger(10), tail(3, 10), taken_back(), Situation.TAKEN_BACK, snap(4, 20)),
    ("taken back in mid-build", ledger(5, "building"), None, taken_back(), Situation.TAKEN_BACK, snap(4, 20)),
    ("table re-created shorter", ledger(10), tail(3, 10), log(head=4), Situation.OTHER_LINEAGE, snap(4, 4)),
    (
        "settings changed",
        replace(ledger(10), settings_version=0),
        tail(3, 10),
        log(),
        Situation.SETTINGS_CHANGED,
        snap(4, 20),
    ),
]


def test_a_run_that_ends_by_itself_fills_in_a_new_round_what_a_covered_index_lacks() -> None:
    resume = decide(ledger(10), tail(3, 10), log(), 1, lacking=True)
    assert (resume.situation, resume.offset) == (Situation.NOT_FILLED, snap(4, 20))
    building = decide(ledger(5, "building"), snap(3, 5), log(), 1, lacking=True)
    assert building.situation is Situation.MID_BUILD, "the round looks at every file anyway"


def test_the_round_after_a_commit_was_taken_back_has_the_same_lineage() -> None:
    for recorded in (ledger(10), ledger(5, "building")):
        plan = decide_batch(recorded, tail(3, 10), snap(4, 20), taken_back())
        assert plan == BatchPlan(Verdict.APPLY, recorded.lineage)


@pytest.mark.parametrize(
    ("recorded", "remembered", "source", "situation", "offset"),
    [r[1:] for r in ROWS],
    ids=[r[0] for r in ROWS],
)
def test_every_situation_has_one_place_to_go_on(
    recorded: Ledger | None, remembered: Offset | None, source: LogState, situation: Situation, offset: Offset
) -> None:
    resume = decide(recorded, remembered, source, 1)
    assert (resume.situation, resume.offset) == (situation, offset)


def test_every_situation_is_in_the_table() -> None:
    assert {row[4] for row in ROWS} == set(Situation) - {Situation.NOT_FILLED}


ledgers = st.none() | st.builds(
    ledger,
    version=st.integers(0, 12),
    state=st.sampled_from(["building", "complete"]),
    round_=st.integers(1, 4),
    history=st.sampled_from("aab"),
)
positions = st.builds(snap, st.integers(1, 4), st.integers(0, 12), st.integers(0, 5)) | st.builds(
    tail, st.integers(1, 4), st.integers(0, 12)
)
logs = st.builds(log, head=st.integers(6, 12), first=st.integers(0, 6), history=st.sampled_from("aab"))


@given(ledgers, positions, logs)
def test_a_stream_never_goes_back(recorded: Ledger | None, remembered: Offset, source: LogState) -> None:
    assert decide(recorded, remembered, source, 1).offset.key >= remembered.key


@given(ledgers, positions, logs)
def test_a_decision_that_is_followed_is_final(
    recorded: Ledger | None, remembered: Offset, source: LogState
) -> None:
    """What the batch of an opened round records, the next decision agrees to: no round upon a round."""
    first = decide(recorded, remembered, source, 1).offset
    if first.round == remembered.round:
        return
    plan = decide_batch(recorded, remembered, first, source)
    after = recorded
    if plan.verdict is Verdict.APPLY:
        after = replace(
            recorded or ledger(),
            round=first.round,
            version=first.stands_at,
            state=LedgerState.BUILDING if first.in_snapshot else LedgerState.COMPLETE,
            fingerprint=source.fingerprint(first.stands_at),
        )
    again = decide(after, first, source, 1)
    assert (again.offset, again.situation in (Situation.GO_ON, Situation.MID_BUILD)) == (first, True)


def test_a_replayed_batch_has_nothing_to_do() -> None:
    assert decide_batch(ledger(10), tail(3, 8), tail(3, 10), log()).verdict is Verdict.REPLAY
    assert decide_batch(ledger(10), snap(3, 6, 2), tail(3, 6), log()).verdict is Verdict.REPLAY


def test_an_overlapping_batch_reads_only_what_is_missing() -> None:
    plan = decide_batch(ledger(10), tail(3, 8), tail(3, 12), log())
    assert (plan.verdict, plan.first) == (Verdict.APPLY, 11)


def test_a_batch_ahead_of_a_restored_index_reads_from_where_the_index_is() -> None:
    plan = decide_batch(ledger(10), tail(3, 14), tail(3, 16), log())
    assert (plan.verdict, plan.first) == (Verdict.APPLY, 11)


def test_the_first_batch_of_an_empty_index_reads_its_snapshot() -> None:
    assert decide_batch(None, snap(1, 20), tail(1, 20), log()).first is None
    assert decide_batch(None, snap(1, 20), tail(1, 20), log()).verdict is Verdict.APPLY


@pytest.mark.parametrize(
    ("recorded", "start", "end", "source"),
    [
        (None, tail(3, 10), tail(3, 12), log()),
        (ledger(10, round_=4), tail(3, 10), tail(3, 12), log()),
        (ledger(10), tail(3, 10), tail(3, 12), log(history="b")),
        (ledger(10), tail(3, 10), tail(3, 12), log(head=11)),
        (ledger(5, "building"), snap(3, 6), snap(3, 6, 4), log()),
        (ledger(5, "building"), tail(3, 10), tail(3, 12), log()),
        (ledger(10), tail(3, 10), tail(3, 12), replace(log(), follows=lambda _: False)),
        (ledger(10), tail(3, 12), tail(4, 10), replace(log(), follows=lambda _: False)),
        (ledger(5, "building"), snap(3, 5), snap(3, 5, 4), replace(log(), earliest=lambda: 6)),
        (None, snap(1, 5), snap(1, 5, 4), replace(log(), earliest=lambda: 6)),
    ],
    ids=[
        *("index deleted", "later round", "other lineage", "table went back", "other snapshot", "building"),
        *("log cleaned", "covered cleaned", "snapshot cleaned", "first snapshot cleaned"),
    ],
)
def test_a_batch_that_the_ledger_has_overtaken_records_nothing(
    recorded: Ledger | None, start: Offset, end: Offset, source: LogState
) -> None:
    assert decide_batch(recorded, start, end, source).verdict is Verdict.SUPERSEDED


def test_a_round_opened_on_another_history_has_a_new_lineage() -> None:
    end = snapshot_start(4, proof(20, "b"), 20)
    assert decide_batch(ledger(10), tail(3, 10), end, log(history="b")).lineage == 2
    assert decide_batch(ledger(10), tail(3, 10), snap(4, 20), log()).lineage == 1


def test_a_round_opened_along_the_log_keeps_lineage_and_reads_on() -> None:
    plan = decide_batch(ledger(10), tail(3, 14), tail(4, 10), log())
    assert (plan.verdict, plan.lineage, plan.first) == (Verdict.APPLY, 1, 11)


@pytest.fixture
def index(tmp_path: Path) -> Storage:
    (tmp_path / "index").mkdir()
    return LocalStorage(str(tmp_path / "index"))


@pytest.fixture
def lease(tmp_path: Path) -> Iterator[Claim]:
    """The lease of an application that is at work."""
    (tmp_path / "lease").mkdir()
    held = Claim(LocalStorage(str(tmp_path / "lease")), life=Liveness("batch 7"), of_application=True)
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
    mark = Claim(index, lease=lease)
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
    mark = Claim(index, lease=lease, clock=lambda: now[0])
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
    mark = Claim(index, lease=lease, clock=lambda: now[0])
    mark.acquire()
    index.put(NAME, orjson.dumps(asdict(Beat("other", "another-host"))))
    mark.renew()
    now[0] = RENEW_LOCAL_S + 1
    with pytest.raises(IndexerRunningError, match="another-host"):
        mark.renew()
    mark.release()
    assert (read_heartbeat(index) or Beat()).run == "other"


def test_a_mark_that_the_same_run_left_is_its_own(index: Storage, lease: Claim) -> None:
    Claim(index, lease=lease).acquire()
    again = Claim(index, lease=lease)
    again.acquire()
    again.release()
    assert read_heartbeat(index) is None


def test_a_mark_that_is_released_leaves_a_later_one_of_the_same_run(index: Storage, lease: Claim) -> None:
    first, second = Claim(index, lease=lease), Claim(index, lease=lease)
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
    here = Claim(LocalStorage(str(tmp_path / "here")), life=Liveness(), of_application=True)
    here.acquire()
    there = replace(here.beat, machine="another machine", host="another-host", run="other", place="of there")
    index.put(NAME, orjson.dumps(asdict(replace(there, lease=here.place, limit=180.0))))
    age(index.root, 100.0)
    assert running_indexer(index) == there.owner
    index.put(
        NAME, orjson.dumps(asdict(replace(there, lease=here.place, limit=180.0, place=here.beat.place)))
    )
    assert running_indexer(index) is None
    again = Claim(LocalStorage(str(tmp_path / "here")), life=Liveness(), of_application=True)
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
    mark = Claim(index, lease=lease)
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
