"""Killed at every named point, one after the other, the index of a Hudi table equals one built without."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import tailbit
from support.contents import contents_of
from support.forked import forked
from support.hudi import HudiTable, unpack
from support.hudi_states import changes
from tailbit.base.faults import Fault

COLUMNS = "id,city,qty,part,_hoodie_commit_time"
POINTS = (
    *(Fault.OFFSET_LOGGED, Fault.BATCH_PLANNED, Fault.SEGMENT_HALF_WRITTEN, Fault.SEGMENT_WRITTEN),
    *(Fault.BEFORE_COMMIT, Fault.COMMIT_REPLY_LOST, Fault.AFTER_COMMIT, Fault.MERGE_WRITTEN),
    *(Fault.MERGE_COMMITTED, Fault.LOG_CHECKPOINT_HALF_WRITTEN, Fault.VACUUM_HALF_DONE),
)
"""Points that a stream without Spark passes, in an order in which each is still ahead."""


def indexer(table: HudiTable, index: Path, fault: str = "") -> int:
    """Drive the stream in a process of its own until it is done or dies; return its status."""
    words = ["-m", "support.drive_process", table.path, index, COLUMNS]
    run = forked(*words, env={**os.environ, "TAILBIT_FAULT": fault}, start_new_session=True)
    assert run.returncode in (0, -signal.SIGKILL), run.stderr
    return run.returncode


def ask(table: HudiTable, index: Path) -> None:
    """At each instant the answers are those of the rows that Hudi's Spark read."""
    opened = tailbit.open(table.path, index)
    for instant in changes(table):
        rows = table.rows(instant).to_pylist()
        for city in ("Lima", "Oslo"):
            expected = sorted(row["id"] for row in rows if row["city"] == city and row["part"] != "p1")
            answer = opened.where(f"city = '{city}' AND NOT part = 'p1'", version=instant.requested)
            assert sorted(answer.read(["id"])["id"].to_pylist()) == expected
            assert answer.count() == len(expected)


def test_an_index_of_a_merged_table_killed_at_every_named_point_equals_one_built_without_the_faults(
    tmp_path: Path,
) -> None:
    table = unpack("mor_v9_replaced", tmp_path)
    sound, killed = tmp_path / "sound", tmp_path / "killed"
    assert indexer(table, sound) == 0
    for fault in POINTS:
        assert indexer(table, killed, f"{fault.value}=kill@1") == -signal.SIGKILL, fault
        if (killed / "_delta_log").exists():
            ask(table, killed)
    assert indexer(table, killed) == 0
    assert contents_of(str(killed)) == contents_of(str(sound))
    assert tailbit.open(table.path, killed).verify().problems == []
    ask(table, killed)
