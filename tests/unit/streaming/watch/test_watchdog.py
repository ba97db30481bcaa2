"""A run without signs of life is told of, then ended; one that waits or works is not."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from support.definitions import define
from support.drive import run_tasks
from support.tables import index_of
from support.waiting import HANG_S, wait_until
from tailbit.checkpoints.liveness import IDLE, Liveness
from tailbit.errors import HungError, NotDrainedError, TailbitError
from tailbit.index.write.work import BuildTask, TaskLimits, TaskResult
from tailbit.streaming.filler import Filler, FillThread
from tailbit.streaming.watch import watchdog
from tailbit.streaming.watch.processes import below_this
from tailbit.streaming.watch.watchdog import DRAIN_S, GRACE_S, LAST_ACT_S, Supervision, Watchdog


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that other tests have left below this one, such as a Java, are not those of a run."""
    others = {process.pid for process in below_this()}
    monkeypatch.setattr(
        watchdog, "below_this", lambda: [process for process in below_this() if process.pid not in others]
    )


class Watched:
    """A run whose time is passed by hand, a second at a time."""

    def __init__(self, limit_s: float = 60.0) -> None:
        self.life, self.stop = Liveness("starting"), threading.Event()
        self.told: list[str] = []
        self.heard: list[str] = []
        self.announced: list[str] = []
        supervision = Supervision(limit_s, self.heard.append, self.announced.append)
        self.dog = Watchdog("t", self.life, self.stop, self.told.append, supervision)
        self.dog.look(0.0)

    def passes(self, seconds: int) -> TailbitError | None:
        """Let seconds pass; why the run is ended, where it is."""
        for _ in range(seconds):
            failure = self.dog.look(1.0)
            if failure is not None:
                return failure
        return None


def test_a_run_without_a_sign_of_life_for_its_limit_is_ended_with_what_is_known() -> None:
    run = Watched()
    run.life.batch = 3
    run.life.sign("batch 3: committing to the index")
    assert run.passes(60) is None
    failure = run.passes(1)
    assert isinstance(failure, HungError)
    for known in ("t: no sign of life since", "last batch 3", "committing to the index", "no Java"):
        assert known in str(failure)


def used(process: int) -> float:
    """The seconds of CPU that a process has taken."""
    return sum(psutil.Process(process).cpu_times()[:2])


@pytest.mark.parametrize("at_work", [True, False])
def test_spark_that_starts_slowly_is_not_taken_for_one_that_hangs(tmp_path: Path, at_work: bool) -> None:
    (tmp_path / "java").symlink_to(sys.executable)
    act = "\nwhile True: pass" if at_work else "; time.sleep(600)"
    run = Watched()
    with subprocess.Popen([str(tmp_path / "java"), "-c", f"import time{act}"]) as java:
        try:
            for _ in range(2 * at_work):
                before = used(java.pid)
                wait_until(lambda before=before: used(java.pid) > before + 1.0)
                assert run.passes(60) is None
            assert isinstance(run.passes(60), HungError)
        finally:
            java.kill()


def test_any_sign_of_life_begins_the_limit_anew() -> None:
    run = Watched()
    for _ in range(5):
        assert run.passes(59) is None
        run.life.sign()
    assert run.told == ["t: no progress for 30 s: starting"] * 5


def test_a_run_that_waits_for_something_outside_says_so_at_growing_pauses_and_is_not_ended() -> None:
    run = Watched()
    for _ in range(500):
        run.life.wait_for("waiting for executors")
        assert run.passes(1) is None
    waited = [line.split(":")[1] for line in run.told]
    assert waited == [f" no progress for {text}" for text in ("30 s", "1 min", "2 min", "4 min", "8 min")]
    assert run.told[-1].endswith("waiting for executors")


def test_a_long_batch_is_announced_at_growing_pauses_and_an_idle_query_never() -> None:
    run = Watched()
    for doing, seconds in (("batch 0: indexing 5 files on workers", 250), (IDLE, 1000)):
        for _ in range(seconds):
            run.life.sign(doing)
            assert run.passes(1) is None
    assert run.announced == [
        f"t: at work for {length}: batch 0: indexing 5 files on workers"
        for length in ("30 s", "1 min", "2 min", "4 min")
    ]
    assert run.told == []


def test_a_step_of_a_fill_that_hangs_is_told_by_name_though_the_stream_goes_on(tmp_path: Path) -> None:
    run, table = Watched(), str(tmp_path / "t")
    write_deltalake(table, pa.table({"k": [1, 2, 3]}))
    index_of(table, ["k"])
    begun, go_on = threading.Event(), threading.Event()

    def hang(tasks: Sequence[BuildTask]) -> list[TaskResult]:
        begun.set()
        go_on.wait(HANG_S)
        return run_tasks(tasks)

    drive = define(table, "k % 2", drain=False)
    turn, on_step = threading.Lock(), run.life.begin_beside
    filler = Filler(drive.table, drive.index, TaskLimits(), hang, turn, 10, 1 << 20, on_step=on_step)
    beside = FillThread(filler, lambda: True, lambda damage: None, run.life, run.told.append)
    step = threading.Thread(target=beside.look)
    step.start()
    assert begun.wait(HANG_S)
    for _ in range(121):
        run.life.sign(IDLE)
        assert run.passes(1) is None
    filling = "t: filling k % 2: 0 files after these; one step has lasted"
    go_on.set()
    step.join(HANG_S)
    run.passes(300)
    lasted = [f"{filling} {text}, and the stream goes on beside it" for text in ("1 min", "2 min")]
    assert [line for line in run.told if "one step" in line] == lasted


def test_steps_of_a_fill_that_end_are_not_told() -> None:
    run = Watched()
    for _ in range(10):
        run.life.begin_beside("filling by_v: 3 files after these")
        run.life.sign(IDLE)
        assert run.passes(59) is None
        run.life.end_beside()
    assert not [line for line in run.told if "filling" in line and "one step" in line]


def test_a_wait_between_two_attempts_is_no_long_work() -> None:
    run = Watched()
    for _ in range(20):
        run.life.sign("starting the query")
        assert run.passes(1) is None
        for _ in range(5):
            run.life.wait_for("waiting after NotATableError")
            assert run.passes(1) is None
    assert run.announced == []


def test_a_limit_of_zero_ends_nothing() -> None:
    assert Watched(limit_s=0.0).passes(1000) is None


def test_a_run_that_does_not_end_after_a_signal_is_cut_off_within_thirty_seconds_though_it_works() -> None:
    assert DRAIN_S + GRACE_S + LAST_ACT_S < 30
    run = Watched()
    run.stop.set()
    failure = None
    for _ in range(30):
        run.life.sign()
        failure = failure or run.passes(1)
    assert isinstance(failure, NotDrainedError)


def test_whoever_listens_hears_of_signs_of_life_with_what_is_done() -> None:
    run = Watched()
    run.heard.clear()
    run.dog._told = -100.0
    run.life.sign("batch 1")
    run.passes(1)
    assert run.heard == ["batch 1"]
    run.passes(10)
    assert run.heard == ["batch 1"]


def test_a_run_that_ends_by_itself_ends_as_it_did() -> None:
    with Watched().dog, pytest.raises(KeyError):
        raise KeyError
