"""A newer release goes on from an older one: under a writer that never pauses, and where that one died."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.application import Application
from support.contents import contents_of
from support.drive import Drive
from support.pages import ROOT
from support.profiles import variants
from support.tables import rows, three_commits
from support.waiting import HANG_S, wait_until

pytestmark = pytest.mark.spark

OLDER = "1c6afbdc"
"""A commit of the release before: it has no status page, and tables wait for Spark's query."""

NAMES = ("orders", "returns")
ROOMS = ("tables", "index", "checkpoints", "streaming")


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The packages of the older release, as they are installed."""
    command = ["git", "-C", str(ROOT), "archive", OLDER, "tailbit", *ROOMS]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"the history of the repository lacks the older release {OLDER}")
    folder = tmp_path / "older"
    with tarfile.open(fileobj=BytesIO(done.stdout)) as packed:
        packed.extractall(folder, filter="data")
    for room in ROOMS:
        shutil.move(folder / room, folder / "tailbit" / room)
    return folder


class Writer(threading.Thread):
    """Appends to the tables in turn until `stop` is set."""

    def __init__(self, tables: list[str]) -> None:
        super().__init__(daemon=True)
        self.stop, self.commits, self._tables = threading.Event(), 0, tables

    def run(self) -> None:
        while not self.stop.wait(0.2):
            table = self._tables[self.commits % len(self._tables)]
            write_deltalake(table, rows(1000 + 10 * self.commits, 10), mode="append")
            self.commits += 1


@pytest.fixture
def applications(tmp_path: Path, older: Path) -> Iterator[tuple[Application, Application]]:
    """One of the older release and one of this, with one configuration; nothing is started yet."""
    for name in NAMES:
        three_commits(str(tmp_path / name))
    both = Application(tmp_path, release=older), Application(tmp_path, "newer.txt")
    both[0].configure(*NAMES)
    yield both
    for application in both:
        application.end_of_test()


def test_a_newer_release_takes_over_from_an_older_one_under_a_live_writer_without_a_gap(
    applications: tuple[Application, Application],
) -> None:
    older, newer = applications
    older.start()
    older.wait_for_head(*NAMES)
    writer = Writer([older.table(name) for name in NAMES])
    writer.start()
    newer.start()
    newer.wait_for_words("standing by")
    assert older.end() == 0, older.said.read_text()
    newer.wait_for_words("taken over from")
    seen = writer.commits
    wait_until(lambda: writer.commits > seen + 4, newer.death)
    writer.stop.set()
    writer.join()
    newer.wait_for_head(*NAMES)
    assert "status page" in newer.said.read_text()
    assert "status page" not in older.said.read_text()
    assert newer.end() == 0
    for name in NAMES:
        opened = tailbit.open(newer.table(name))
        answer = opened.where("v = 'v1'")
        values = DeltaTable(newer.table(name)).to_pyarrow_table(columns=["v"])["v"].to_pylist()
        assert (answer.count(), answer.files_scanned) == (values.count("v1"), 0)
        assert opened.verify().sound


def batches(table: str, folder: str) -> dict[int, dict[str, int]]:
    """The files of a folder of Spark's checkpoint, by batch: the last line of each, as JSON."""
    files = Path(table, "_tailbit", "_checkpoint", folder).glob("[0-9]*")
    return {int(file.name): json.loads(file.read_text().splitlines()[-1]) for file in files}


@pytest.mark.parametrize("fault", variants(["before_commit", "before_spark_commit"], 2))
def test_a_run_of_one_table_goes_on_by_the_checkpoint_that_an_older_release_left_in_the_middle_of_a_batch(
    tmp_path: Path, older: Path, fault: str
) -> None:
    table = three_commits(str(tmp_path / "orders"))
    command = [sys.executable, "-m", "tailbit.cli", "run", table, "--json"]
    of_older = os.environ | {"PYTHONPATH": str(older), "TAILBIT_FAULT": f"{fault}=kill"}
    killed = subprocess.run(
        [*command, "--columns", "k,v"],
        env=of_older,
        check=False,
        timeout=HANG_S,
        cwd=tmp_path,
        start_new_session=True,
    )
    assert killed.returncode == -signal.SIGKILL
    assert (list(batches(table, "offsets")), list(batches(table, "commits"))) == ([0], [])
    planned = batches(table, "offsets")[0]
    write_deltalake(table, rows(30), mode="append")
    done = subprocess.run(
        [*command, "--once", "--master", "local[2]"],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_S,
    )
    assert done.returncode == 0, done.stderr
    assert "is reset" not in done.stdout + done.stderr
    offsets = batches(table, "offsets")
    assert offsets[0] == planned
    assert offsets.keys() == batches(table, "commits").keys()
    Drive(table, tmp_path / "whole", ["k", "v"]).drain()
    assert contents_of(f"{table}/_tailbit") == contents_of(str(tmp_path / "whole"))
    assert tailbit.open(table).verify(derive=9).problems == []
