"""What a soak does to the command, its Spark checkpoint, its index and its table."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from support.shipped import Shipped
from support.soak.gate import Gate
from support.soak.tally import Tally
from support.tables import DAMAGES
from support.waiting import HANG_S, wait_until
from tailbit.base.faults import Fault
from tailbit.errors import IndexerRunningError, TailbitError
from tailbit.index.kinds.settings import SETTINGS
from tailbit.index.store.table import MetadataTable

AWAY_S = 2.0
"""How long a table is away: the length of the fault, not a wait for something."""

STARTED_S = 12.0
"""A start is over, and its first batch done, in about this time: a kill comes within it."""


@dataclass
class Faults:
    """Each method is one fault, and leaves a command that runs; its name is how it is counted."""

    shipped: Shipped
    gate: Gate
    tally: Tally
    rng: random.Random
    head: Callable[[], int]

    def all(self) -> list[Callable[[], None]]:
        """Every fault."""
        return [
            *self.kills(),
            self.sigterm,
            self.checkpoint_deleted_at_work,
            self.checkpoint_torn,
            self.index_file_damaged,
            self.table_away,
            *([self.clock_jumps] if self.shipped.jumping else []),
            self.backup_put_back,
            self.second_indexer,
        ]

    def kills(self) -> list[Callable[[], None]]:
        """Those that kill and damage nothing."""
        return [
            self.kill_of_the_whole_group,
            self.kill_of_the_command_alone,
            self.kill_of_java_alone,
            self.kill_of_the_workers,
            self.kill_at_a_fault_point,
            self.kills_in_a_row,
        ]

    def kill_of_the_whole_group(self) -> None:
        """Command, Java and workers at once."""
        self.shipped.kill_group()
        self._count("kill of the whole group", killed=True)
        self.restarted()

    def kill_of_the_command_alone(self) -> None:
        """What it started must go by itself before long."""
        self.shipped.kill_alone()
        self._count("kill of the command alone", killed=True)
        self.shipped.wait_gone()
        self.restarted()

    def kill_of_java_alone(self) -> None:
        """The command says so, and that it may be started again."""
        self.shipped.kill(self.shipped.descendants("java"))
        self._count("kill of Java alone", killed=True)
        self._expect("after the kill of Java", self.shipped.process.wait(HANG_S), 75)
        self.restarted()

    def kill_of_the_workers(self) -> None:
        """A retry inside the process."""
        self.shipped.kill(self.shipped.descendants("python"))
        self._count("kill of the Python workers", killed=True)
        self.shipped.wait_covered(self.head() + 1)

    def kill_at_a_fault_point(self) -> None:
        """Killed, and again at a named point; at one that is not passed in time, at a random moment."""
        self.shipped.kill_group()
        self._count("kill of the whole group", killed=True)
        point = self.rng.choice(list(Fault))
        self.shipped.start(fault=f"{point.value}=kill@{self.rng.randint(1, 3)}")
        until = self.head() + 5
        while self.shipped.death() is None and self.shipped.covered() < until:
            time.sleep(0.1)
        name = f"kill at {point.value}" if self.shipped.death() is not None else "kill of the whole group"
        self.shipped.kill_group()
        self._count(name, killed=True)
        self.restarted()

    def kills_in_a_row(self) -> None:
        """Killed, and each start killed at a random moment, be it in Spark's start or in a batch."""
        self.shipped.kill_group()
        self._count("kill of the whole group", killed=True)
        for _ in range(self.rng.randint(1, 3)):
            self.shipped.start()
            time.sleep(self.rng.uniform(0, STARTED_S))
            death = self.shipped.death()
            assert death is None, f"it ended before it was killed: {death}"
            self.shipped.kill_group()
            self._count("kill of a start, or soon after it", killed=True)
        self.restarted()

    def sigterm(self) -> None:
        status = self.shipped.terminate()
        self._count("SIGTERM")
        self._expect("after SIGTERM", status, 0)
        self.restarted()

    def checkpoint_deleted_at_work(self) -> None:
        """The Spark checkpoint is only a cache."""
        shutil.rmtree(self.checkpoint, ignore_errors=True)
        self._count("Spark checkpoint deleted at work")
        self.shipped.wait_covered(self.head() + 1)

    def checkpoint_torn(self) -> None:
        """One of its files ends at some byte."""
        self.shipped.kill_group()
        files = [file for file in self.checkpoint.rglob("*") if file.is_file()]
        if files:
            torn = self.rng.choice(sorted(files))
            os.truncate(torn, self.rng.randint(0, torn.stat().st_size))
        self._count("Spark checkpoint torn", killed=True)
        self.restarted()

    def index_file_damaged(self) -> None:
        """A file of the index is gone, short, or holds other bytes."""
        try:
            index = MetadataTable.open(self.shipped.index)
        except TailbitError:
            return
        files = [f for k in index.kinds if k is not SETTINGS for f in index.state.files_of(k)]
        path = Path(index.path, self.rng.choice(files).path)
        damage = self.rng.choice(DAMAGES)
        if path.exists() and path.stat().st_size > 40:
            damage(path)
            self._count(f"index file damaged ({damage.__name__.replace('_', ' ')})")
        self.shipped.wait_covered(self.head() + 1)

    def table_away(self) -> None:
        """The folder of the table vanishes for a moment and comes back."""
        with self.gate.shut():
            os.rename(self.shipped.table, f"{self.shipped.table}.away")
            time.sleep(AWAY_S)
            wait_until(self._put_back)
        self._count("table away for a moment")
        self.shipped.wait_covered(self.head() + 1)

    def _put_back(self) -> bool:
        """False while Spark's checkpoint stands in the place of the table: the command takes that away."""
        with suppress(OSError):
            os.rename(f"{self.shipped.table}.away", self.shipped.table)
            return True
        return False

    def clock_jumps(self) -> None:
        """The command's clock is put hours forward or back; the machine's, and Java's, goes on."""
        self.shipped.jump(self.rng.randint(-48, 48))
        self._count("clock jumps")
        self.shipped.wait_covered(self.head() + 1)

    def backup_put_back(self) -> None:
        """The index of some moment ago stands in the place of today's; the Spark checkpoint stays."""
        backup, index = Path(f"{self.shipped.table}.backup"), Path(self.shipped.index)
        self.shipped.kill_group()
        with self.gate.shut():
            if backup.exists():
                shutil.rmtree(index)
                shutil.copytree(backup, index)
                self._count("index put back from a backup", killed=True)
            shutil.rmtree(backup, ignore_errors=True)
            shutil.copytree(index, backup)
        self.restarted()

    def second_indexer(self) -> None:
        """Another command on the same table is refused by name while the first shows life."""
        other = self.shipped.command("--checkpoint", f"{self.shipped.table}.second")
        ended = subprocess.run(
            other,
            env=self.shipped.environment(),
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )
        self._count("second indexer")
        if ended.returncode != 75 or IndexerRunningError.__name__ not in ended.stderr:
            self.tally.found(f"a second indexer ended with {ended.returncode}: {ended.stderr[-1000:]}")

    @property
    def checkpoint(self) -> Path:
        return Path(self.shipped.index, "_checkpoint")

    def restarted(self) -> None:
        """Start the command again; the next commit must come to be covered."""
        began, wanted = self.shipped.start(), self.head() + 1
        self.shipped.wait_covered(wanted)
        with self.tally.lock:
            self.tally.recoveries.append(time.monotonic() - began)

    def _count(self, name: str, killed: bool = False) -> None:
        self.tally.fault(name, killed)

    def _expect(self, when: str, status: int, wanted: int) -> None:
        if status != wanted:
            self.tally.found(f"exit status {status}, not {wanted}, {when}: {self.shipped.death()}")
