"""One open table, asked by several threads while it and its index change: each answer is of its version."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import tailbit
from support.delta_builder import DeltaBuilder
from support.drive import Drive
from support.tables import VECTORS, index_of

THREADS = 4
STEPS = 24


@pytest.fixture(autouse=True)
def switched_often() -> Iterator[None]:
    """Threads take turns every microsecond, so that what can be torn apart is."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Changing:
    """A table that grows, hides rows and moves files between partitions; and what is true of it."""

    def __init__(self, path: str) -> None:
        schema = pa.schema([("v", pa.string()), ("p", pa.string())])
        self.builder = DeltaBuilder(path).create(schema, ["p"], **VECTORS)
        self.files: dict[str, tuple[str, int]] = {}
        self.counts: list[tuple[int, int]] = [(0, 0)]
        self.rng = random.Random(7)

    def step(self) -> None:
        """Commit something; `counts` gets (rows where v = 'x', rows where p = 'a') of the version."""
        name = self.rng.choice([*self.files, ""])
        if not name or self.rng.random() < 0.4:
            name, p = f"f{self.builder.version}.parquet", self.rng.choice("ab")
            rows = pa.table({"v": ["x", "y"] * 5})
            added = self.builder.data_file(rows, name, {"p": p})
            self._note(name, p, 0)
            self.builder.commit([added])
        elif self.rng.random() < 0.5:
            p, hidden = self.rng.choice("ab"), self.files[name][1]
            self._note(name, p, hidden)
            self.builder.commit([{"add": {**self.builder.live[name], "partitionValues": {"p": p}}}])
        else:
            hidden = self.rng.randint(1, 5)
            (vector,) = self.builder.stored_vectors(range(0, 2 * hidden, 2))
            self._note(name, self.files[name][0], hidden)
            self.builder.commit(self.builder.hide(name, vector))

    def _note(self, name: str, p: str, hidden: int) -> None:
        """What the next version holds, said before it is there for anyone to ask about."""
        self.files[name] = (p, hidden)
        xs = sum(5 - hidden for _, hidden in self.files.values())
        self.counts.append((xs, sum(10 - hidden for p, hidden in self.files.values() if p == "a")))


def asked_by_threads(ask: Callable[[int], None], change: Callable[[], None]) -> None:
    """Threads ask again and again until the change is done; what one raises is raised."""
    done = threading.Event()

    def keep_asking(seed: int) -> None:
        while not done.is_set():
            ask(seed)
        ask(seed)

    with ThreadPoolExecutor(THREADS) as pool:
        asking = [pool.submit(keep_asking, seed) for seed in range(THREADS)]
        try:
            change()
        finally:
            done.set()
        for one in asking:
            one.result()


def test_every_answer_of_a_shared_handle_is_that_of_its_version(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = Changing(path)
    table.step()
    drive: Drive = index_of(path, ["v"])
    opened = tailbit.open(path)
    rngs = [random.Random(seed) for seed in range(THREADS)]

    def ask(seed: int) -> None:
        newest = opened.where().version
        version = rngs[seed].choice([None, newest, rngs[seed].randint(0, newest)])
        x, a = opened.where("v = 'x'", version=version), opened.where("p = 'a'", version=version)
        assert x.version >= newest or version is not None
        assert x.facets("v").get("x", 0) == table.counts[x.version][0]
        assert x.count() == table.counts[x.version][0]
        assert a.count() == table.counts[a.version][1]

    def change() -> None:
        for number in range(STEPS):
            table.step()
            if number % 3 == 0:
                drive.drain()
            if number % 8 == 7:
                tailbit.open(path).compact()

    asked_by_threads(ask, change)


def test_a_head_found_by_two_threads_at_once_is_not_passed(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    builder = DeltaBuilder(path).create(pa.schema([("v", pa.string())]))
    opened = tailbit.open(path)

    def ask(_: int) -> None:
        newest = opened._table.head()
        assert newest <= builder.version + 1
        assert opened._table.snapshot(newest).version == newest

    def change() -> None:
        for _ in range(150):
            builder.commit([])

    asked_by_threads(ask, change)
