"""A run that ends by itself builds in its own process where little is left: no Java, the same index."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.contents import contents_of
from support.drive import Drive
from support.tables import index_files, index_of, rows, three_commits, truncated
from support.waiting import HANG_S
from tailbit.checkpoints.claim import Claim
from tailbit.checkpoints.liveness import Liveness
from tailbit.errors import DataFileError, IndexerRunningError
from tailbit.streaming import merging
from tailbit.streaming.query import run as query_run
from tailbit.streaming.query.launch import prepare
from tailbit.streaming.query.run import Run, index_in_process
from tailbit.streaming.query.sampler import Sampled, Sampler

WITHOUT_SPARK = """
import sys
for name in ("pyspark", "py4j"):
    sys.modules[name] = None
from tailbit.cli.entry import main
main()
"""


@pytest.fixture
def table(tmp_path: Path) -> str:
    return three_commits(str(tmp_path / "t"))


def run_of(
    table: str,
    columns: list[str] | None = None,
    stop: threading.Event | None = None,
    told: list[str] | None = None,
) -> Run:
    prepared = prepare(table, columns, None, None, "200ms")
    assert prepared is not None
    claim = Claim(prepared.index.storage, life=Liveness())
    return Run(
        prepared, claim, True, stop or threading.Event(), tell=(told if told is not None else []).append
    )


def command(table: str, *options: str, fault: str = "") -> subprocess.CompletedProcess[str]:
    """`tailbit run --once` where neither pyspark nor py4j can be imported, and no Java is found."""
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK, "run", table, "--once", "--json", *options],
        env=environment | {"PATH": "/nowhere"} | ({"TAILBIT_FAULT": fault} if fault else {}),
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_S,
        start_new_session=True,
    )


def checked(table: str, tmp_path: Path, columns: list[str]) -> None:
    """The index is the one that a stream without faults makes."""
    Drive(table, tmp_path / "whole", columns).drain()
    assert contents_of(f"{table}/_tailbit") == contents_of(str(tmp_path / "whole"))
    assert tailbit.open(table).verify().sound


def test_a_run_needs_neither_spark_nor_java_where_little_is_left(table: str, tmp_path: Path) -> None:
    done = command(table, "--columns", "k,v")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["covered_version"] == 2
    write_deltalake(table, rows(30), mode="append")
    DeltaTable(table).delete("k < 2")
    assert command(table).returncode == 0
    checked(table, tmp_path, ["k", "v"])
    assert not Path(table, "_tailbit", "_heartbeat").exists()
    assert tailbit.open(table).where("v = 'v1'").files_scanned == 0


def test_a_run_with_a_master_says_what_is_missing(table: str) -> None:
    done = command(table, "--columns", "v", "--master", "local[2]")
    assert done.returncode == 78
    assert "RequirementError" in done.stdout + done.stderr


def test_more_than_little_is_left_to_spark(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    left = sum(file.stat().st_size for file in Path(table).glob("*.parquet"))
    monkeypatch.setattr(query_run, "LITTLE_BYTES", left - 1)
    run = run_of(table, ["v"])
    assert not index_in_process(run)
    assert (run.prepared.index.state.ledger, run.life.begun) == (None, False)
    monkeypatch.setattr(query_run, "LITTLE_BYTES", left)
    assert index_in_process(run_of(table))
    # Only what is new counts, also of a definition that files lack.
    monkeypatch.setattr(query_run, "LITTLE_BYTES", left // 2)
    write_deltalake(table, rows(30), mode="append")
    assert index_in_process(run_of(table))
    tailbit.open(table).alter(add=["k"])
    assert not index_in_process(run_of(table))


@pytest.mark.parametrize("fault", ["batch_planned", "segment_half_written", "before_commit", "after_commit"])
def test_a_run_that_is_killed_anywhere_is_gone_on_with(table: str, tmp_path: Path, fault: str) -> None:
    killed = command(table, "--columns", "k,v", fault=f"{fault}=kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert command(table, "--columns", "k,v").returncode == 0
    checked(table, tmp_path, ["k", "v"])


def test_a_second_run_steps_back(table: str) -> None:
    index_of(table, ["v"])
    write_deltalake(table, rows(30), mode="append")
    run = run_of(table)
    run.heartbeat.acquire()
    try:
        done = command(table)
        assert done.returncode == 75
        assert IndexerRunningError.__name__ in done.stdout + done.stderr
    finally:
        run.heartbeat.release()


def test_a_run_that_is_to_stop_begins_no_batch(table: str) -> None:
    stop = threading.Event()
    stop.set()
    run = run_of(table, ["v"], stop)
    assert index_in_process(run)
    assert run.prepared.index.state.ledger is None


def test_a_commit_that_is_half_written_is_waited_for(table: str) -> None:
    index_of(table, ["v"])
    write_deltalake(table, rows(30), mode="append")
    newest = max(Path(table, "_delta_log").glob("*.json"))
    whole, told = newest.read_bytes(), list[str]()
    newest.write_bytes(whole[: len(whole) // 2])
    finished = threading.Timer(0.8, newest.write_bytes, [whole])
    finished.start()
    run = run_of(table, told=told)
    assert index_in_process(run)
    finished.join()
    assert run.prepared.index.state.ledger is not None
    assert run.prepared.index.state.ledger.covered == 3


def test_an_unreadable_data_file_is_told_and_the_rest_is_indexed(table: str) -> None:
    poison = Path(DeltaTable(table).file_uris()[0].removeprefix("file://"))
    poison.unlink()
    told: list[str] = []
    assert index_in_process(run_of(table, ["v"], told=told))
    assert [poison.name in line for line in told] == [True]
    with pytest.raises(DataFileError, match=poison.name):
        tailbit.open(table).where("v = 'v1'").count()


def test_many_short_runs_leave_few_segments(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "INLINE_BYTES", 1)
    assert index_in_process(run_of(table, ["v"]))
    for number in range(12):
        write_deltalake(table, rows(100 + 10 * number), mode="append")
        assert index_in_process(run_of(table))
    assert len(index_files(table, "bitmap_index")) < 12
    assert tailbit.open(table).verify().sound


def test_damage_that_a_batch_meets_is_mended(table: str) -> None:
    assert index_in_process(run_of(table, ["v"]))
    truncated(index_files(table, "bitmap_index")[0])
    before = set(DeltaTable(table).file_uris())
    DeltaTable(table).delete("k < 10")
    # As VACUUM leaves it: only the postings tell which rows leave.
    for file in before - set(DeltaTable(table).file_uris()):
        Path(file.removeprefix("file://")).unlink()
    told: list[str] = []
    assert index_in_process(run_of(table, told=told))
    assert any("mended" in line for line in told)
    index_of(table)
    assert tailbit.open(table).verify().sound


@pytest.mark.parametrize("fault", ["batch_planned", "segment_written", "after_commit"])
def test_a_run_that_hangs_ends_with_75_and_is_gone_on_with(table: str, tmp_path: Path, fault: str) -> None:
    index_of(table, ["k", "v"])
    write_deltalake(table, rows(30), mode="append")
    hung = command(table, "--stall-limit", "2s", fault=f"{fault}=hang")
    assert hung.returncode == 75
    assert "HungError" in hung.stdout + hung.stderr
    assert command(table).returncode == 0
    checked(table, tmp_path, ["k", "v"])


def works(life: Liveness) -> None:
    """Compute until that is seen."""
    until = time.monotonic() + HANG_S
    while not life.moves and time.monotonic() < until:
        sum(range(10_000))


def rests(_: Liveness) -> None:
    time.sleep(4.0)


@pytest.mark.parametrize(("act", "signs"), [(works, True), (rests, False)])
def test_a_task_in_a_thread_lives_by_the_cpu_time_that_it_takes(
    table: str, act: Callable[[Liveness], None], signs: bool
) -> None:
    run, life = run_of(table, ["v"]), Liveness()
    with Sampler(life) as sampler:
        executor = query_run.ThreadExecutor()
        sampler.follow(Sampled(threads=lambda: executor.threads))
        executor.run(act, [life, life])
        sampler.follow(None)
    assert run.prepared.index.state.ledger is None
    assert (life.moves > 0) == signs
