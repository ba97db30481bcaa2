"""One soak: a live writer, readers, upkeep and the shipped indexer at once, and fault after fault."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import tailbit
from support.contents import contents_of
from support.drive import Drive
from support.shipped import JUMPS, Shipped
from support.soak.account import Account
from support.soak.asker import Asker
from support.soak.caretaker import Caretaker
from support.soak.faults import Faults
from support.soak.gate import Gate
from support.soak.tally import Tally
from support.soak.writer import Writer
from support.waiting import wait_until
from tailbit.errors import TailbitError

FIRST_COMMITS = 5

COMMIT_S, QUESTION_S, UPKEEP_S = 0.3, 0.5, 2.0
"""Pauses of the writer, of readers and of upkeep: how hard the table is worked, not a wait for something."""

ALL_DERIVED = 10**6
"""More (file, column) pairs than there are: verify derives every one again."""

Choose = Callable[[Faults], Iterator[Callable[[], None]]]
"""The faults in the order in which they are injected."""


@dataclass
class Soak:
    """A table in a folder, and all that works on it; `tally` says what came of it."""

    folder: Path
    seed: int
    tally: Tally = field(default_factory=Tally)
    gate: Gate = field(default_factory=Gate)
    account: Account = field(default_factory=Account)

    def __post_init__(self) -> None:
        self.table = str(self.folder / "orders")
        self.writer = Writer(self.table, self.account, random.Random(self.seed))
        for _ in range(FIRST_COMMITS):
            self.writer.step()
        self.shipped = Shipped(self.table, self.folder / "output", jumping=JUMPS)
        self.faults = Faults(
            self.shipped, self.gate, self.tally, random.Random(self.seed + 1), lambda: self.account.head
        )

    def run(self, choose: Choose) -> Tally:
        """Inject the chosen faults; then the index comes to rest and must equal one that met none."""
        self.shipped.start("--columns", "k,v,w")
        try:
            self.shipped.wait_covered(self.account.head)
            with self._at_work():
                for fault in choose(self.faults):
                    self._inject(fault)
            self._rest()
        finally:
            self.shipped.kill_group()
        return self.tally

    def _inject(self, fault: Callable[[], None]) -> None:
        try:
            fault()
        except AssertionError as error:
            self.tally.found(f"after {fault.__name__}: {error}")
            if self.shipped.death() is not None:
                self.shipped.start()

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Writer, readers and upkeep, each in a thread of its own."""
        rng, stop = random.Random(self.seed + 2), threading.Event()
        workers: Sequence[tuple[Callable[[], None], float]] = [
            (self.writer.step, COMMIT_S),
            (Asker(self.table, self.account, self.tally, random.Random(rng.random())).step, QUESTION_S),
            (Asker(self.table, self.account, self.tally, random.Random(rng.random())).step, QUESTION_S),
            (Caretaker(self.table, self.tally, random.Random(rng.random())).step, UPKEEP_S),
        ]
        threads = [threading.Thread(target=self._repeat, args=(stop, *worker)) for worker in workers]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def _repeat(self, stop: threading.Event, step: Callable[[], None], pause: float) -> None:
        while not stop.is_set():
            try:
                with self.gate.inside():
                    step()
            except Exception as error:
                self.tally.found(f"{step.__qualname__}: {type(error).__name__}: {error}")
                return
            stop.wait(pause)

    def _rest(self) -> None:
        """Nothing is written any more: the index mends itself, and equals one that never met a fault."""
        self.shipped.wait_covered(self.account.head)
        wait_until(self._sound, self.shipped.death)
        if (status := self.shipped.terminate()) != 0:
            self.tally.found(f"exit status {status}, not 0, at the end: {self.shipped.death()}")
        self.shipped.wait_gone()
        columns = list(tailbit.open(self.table).indexed().values())
        whole = str(self.folder / "whole")
        Drive(self.table, whole, columns).drain()
        if contents_of(self.shipped.index) != contents_of(whole):
            self.tally.found("the index is not equal to one that was built in one go")
        report = tailbit.open(self.table).verify(derive=ALL_DERIVED)
        for problem in report.problems:
            self.tally.found(f"verify: {problem}")

    def _sound(self) -> bool:
        """Whether verify finds nothing, and a question reads nothing but the index."""
        time.sleep(0.5)
        with suppress(TailbitError):
            table = tailbit.open(self.table)
            every = " AND ".join(f"{column} IS NOT NULL" for column in table.indexed().values())
            return not table.verify().problems and not table.where(every).files_scanned
        return False
