"""Random histories of Hudi tables as readers see them, at every version, without an index.

A reader that follows the table and a new one must show the files of the history's own account, hide the rows
that it hides, and read its rows. Where the index is what may be wrong, `run.py` asks; a history costs an
eighth of one there.
"""

from __future__ import annotations

import os
import random
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from itertools import islice

import tailbit
from support.fuzzer.asks import Version
from support.fuzzer.hudi import HudiHistory
from support.fuzzer.hudi_merged import MergedHistory
from support.fuzzer.model import State, path_of
from support.fuzzer.run import Report
from tailbit.tables.open import open_table
from tailbit.tables.table import Table

READ: dict[str, Callable[[str, random.Random], HudiHistory | MergedHistory]] = {
    "hudi": HudiHistory,
    "hudi-merged": MergedHistory,
}


class Readers:
    """A history while it is made and read. `count`: the versions that were compared."""

    def __init__(self, seed: int, folder: str, writer: str) -> None:
        self.seed, self.rng = seed, random.Random(seed)
        self.history = READ[writer](os.path.join(folder, "t b"), self.rng)
        self.count, self.wrong = 0, list[str]()

    def go(self) -> None:
        """Follow the history, and then read every version anew, one of them with the values of the rows."""
        followed = None
        for _ in range(self.rng.randint(6, 14)):
            self.history.step()
            followed = followed or open_table(self.history.path)
            self.compare(followed, self.history.head(), "a reader that follows")
        readable = self.history.readable()
        anew = open_table(self.history.path)
        for state in self.rng.sample(readable, len(readable)):
            self.compare(anew, state, "a new reader")
        self.compare_rows(self.rng.choice(readable))

    def compare(self, table: Table, state: State, reader: str) -> None:
        """Compare the files of a version, and the rows hidden in each, with those of the account."""
        self.count += 1
        shown = {
            slice_.path: frozenset(slice_.hidden.read(table.storage)) if slice_.hidden else frozenset()
            for slice_ in table.snapshot(state.version).files
        }
        wanted = {path_of(path): frozenset(live.hidden) for path, live in state.files.items()}
        for path in sorted(shown.keys() | wanted.keys()):
            if shown.get(path) != wanted.get(path):
                found = (
                    f"{path} hides {_sorted(shown.get(path))}, and should hide {_sorted(wanted.get(path))}"
                )
                self.wrong.append(f"version {state.version}, {reader}: {found}")

    def compare_rows(self, version: Version) -> None:
        """Compare the rows of a version with those of the account."""
        rows = tailbit.open(self.history.path).where("TRUE", version=version.version).read().to_pylist()
        wanted = version.rows().drop_columns(["file", "position"]).to_pylist()
        differing = (pair for pair in zip(rows, wanted, strict=False) if repr(pair[0]) != repr(pair[1]))
        for found, expected in islice(differing, 1):
            self.wrong.append(f"version {version.version}: the row {found} should be {expected}")
        if len(rows) != len(wanted):
            self.wrong.append(f"version {version.version}: {len(rows)} rows in place of {len(wanted)}")


def _sorted(rows: frozenset[int] | None) -> list[int] | None:
    return None if rows is None else sorted(rows)


def run_readers(seed: int, writer: str) -> Report:
    """Make one history and read it; nothing raised is lost."""
    with tempfile.TemporaryDirectory() as folder:
        readers = Readers(seed, folder, writer)
        try:
            readers.go()
        except Exception:  # A history that stops is a finding, and the next ones must still be made.
            readers.wrong.append(f"stopped\n{traceback.format_exc()}")
        done = readers.history.done
        findings = [f"history {seed}: {wrong}\n  after {', '.join(done)}" for wrong in readers.wrong]
        return Report(findings, readers.count, 1, Counter(done))


def read_histories(seeds: range, writer: str) -> Report:
    """Histories of some seeds, one after the other."""
    total = Report()
    for seed in seeds:
        total += run_readers(seed, writer)
    return total
