"""How the shipped command ends, and what it says then, whatever it was doing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import write_deltalake

from support.shipped import Shipped
from support.tables import rows, three_commits
from support.waiting import HANG_S

pytestmark = pytest.mark.spark

_NOT_MOUNTED = 77
_IMPATIENT = """
import sys
from tailbit.cli.entry import main
from tailbit.streaming.query import run as query_run
query_run.WAIT_S = 8.0
main()
"""


_OF_THE_START = ('{"notice": "starting Spark for ', '{"notice": "found Spark ', '{"notice": "Spark UI: ')


class OnADisk(Shipped):
    """The command with a file system of its own, and less patience."""

    @property
    def disk(self) -> Path:
        """Where it is mounted, for the command alone."""
        return self.output.with_name("disk")

    def command(self, *arguments: str) -> list[str]:
        """The words of the command line."""
        mount = f'mount -t tmpfs -o size=64m tailbit "$0" || exit {_NOT_MOUNTED}; exec "$@"'
        run = [sys.executable, "-c", _IMPATIENT, *super().command(*arguments)[3:]]
        return ["unshare", "-Urm", "sh", "-c", mount, str(self.disk), *run]

    def remount(self, how: str) -> None:
        """Let it be read only, or not."""
        inside = ["nsenter", "--preserve-credentials", "-U", "-m", "-t", str(self.process.pid)]
        subprocess.run([*inside, "mount", "-o", f"remount,{how}", str(self.disk)], check=True)

    def tells(self, notice: str) -> bool:
        return any(notice in told.get("notice", "") for told in self.told())

    def tells_covered(self, version: int) -> bool:
        """Whether its last line says that it covers a version, and is idle."""
        last = (self.told() or [{}])[-1]
        return bool(last.get("idle") and last["covered_version"] == version)


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Three versions."""
    return three_commits(str(tmp_path / "orders"))


@pytest.fixture
def on_a_disk(table: str, tmp_path: Path) -> Iterator[OnADisk]:
    """The command at work, its index on a disk of its own; it covers three versions."""
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        pytest.skip("no commands unshare and nsenter here")
    run = OnADisk(table, tmp_path / "output")
    run.disk.mkdir()
    run.start("--columns", "k,v", "--index", str(run.disk / "index"))
    try:
        run.wait(lambda: run.tells_covered(2))
        yield run
    except AssertionError:
        if run.process.poll() == _NOT_MOUNTED or "unshare" in run.output.read_text():
            pytest.skip("no file system can be mounted here")
        raise
    finally:
        run.kill_group()


def test_a_disk_that_is_read_only_is_waited_for_and_a_table_that_stays_away_is_worth_a_restart(
    on_a_disk: OnADisk,
) -> None:
    run = on_a_disk
    run.remount("ro")
    write_deltalake(run.table, rows(30), mode="append")
    run.wait(lambda: run.tells("Read-only file system; tried again in"))
    run.remount("rw")
    run.wait(lambda: run.tells_covered(3))
    os.rename(run.table, f"{run.table}.away")
    assert run.process.wait(HANG_S) == 75
    last = [line for line in run.output.read_text().splitlines() if not line.startswith("{")]
    assert len(last) == 2, last
    assert last[0].startswith("NotATableError: no Delta table")
    assert "It was waited for 8 s" in last[1]


def test_ctrl_c_again_and_again_from_the_start_of_java_on_ends_with_0_and_not_a_word(
    run: Shipped,
) -> None:
    run.start("--columns", "k,v")
    run.wait(lambda: run.descendants("java"))
    while run.process.poll() is None:
        os.killpg(run.process.pid, signal.SIGINT)
        time.sleep(0.1)
    assert run.process.returncode == 0
    said = run.output.read_text().splitlines()
    assert [line for line in said if not line.startswith(_OF_THE_START)] == []
    run.wait_gone()
