"""Random histories of tables as readers see them, at every version, without an index.

A reader that follows the table, one that follows its net changes alone and a new one must show the columns
and files of the history's own account and hide the rows that it hides. Where the index is what may be wrong,
`run.py` asks; a history costs an eighth of one there.
"""

from __future__ import annotations

import os
import random
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

import tailbit
from support.fuzzer.asks import Version
from support.fuzzer.built import BuiltHistory
from support.fuzzer.hudi import HudiHistory
from support.fuzzer.hudi_merged import MergedHistory
from support.fuzzer.iceberg import IcebergHistory
from support.fuzzer.model import State, path_of
from support.fuzzer.run import Report
from tailbit.errors import CommitGapError
from tailbit.tables.model import FileSlice, Fingerprint, after
from tailbit.tables.open import open_table
from tailbit.tables.table import Table

Hidden = dict[str, frozenset[int]]
"""The hidden rows of each file by its path."""

AnyHistory = BuiltHistory | HudiHistory | MergedHistory | IcebergHistory

READ: dict[str, Callable[[str, random.Random], AnyHistory]] = {
    "built": BuiltHistory,
    "hudi": HudiHistory,
    "hudi-merged": MergedHistory,
    "iceberg": IcebergHistory,
}


@dataclass
class Copy:
    """What is live and hidden at a head, kept by net changes alone as long as the table tells these."""

    table: Table
    hidden: Hidden = field(default_factory=dict)
    covered: int = -1
    proof: Fingerprint | None = None

    def follow(self) -> None:
        """Apply what has changed; begin anew where the history is another one or lacks commits."""
        head, changes = self.table.head(), None
        if self.proof is not None and self.table.fingerprint(self.covered) == self.proof:
            with suppress(CommitGapError):
                changes = self.table.changes(after(self.covered), head)
        if changes is None:
            self.hidden = shown(self.table, self.table.snapshot(head).files)
        else:
            assert [c.version for c in changes.commits] == [*self.table.versions(after(self.covered), head)]
            gone = {change.path for change in changes.slices}
            self.hidden = {path: rows for path, rows in self.hidden.items() if path not in gone}
            self.hidden |= shown(self.table, (change.new for change in changes.slices if change.new))
        self.covered, self.proof = head, self.table.fingerprint(head)


class Readers:
    """A history while it is made and read. `count`: the versions that were compared."""

    def __init__(self, seed: int, folder: str, writer: str) -> None:
        self.seed, self.rng = seed, random.Random(seed)
        self.history = READ[writer](os.path.join(folder, "t b"), self.rng)
        self.count, self.wrong = 0, list[str]()

    def go(self) -> None:
        """Follow the history, and then read every version anew, one of them with the values of the rows."""
        followed, copy = None, Copy(open_table(self.history.path))
        for _ in range(self.rng.randint(6, 14)):
            self.history.step()
            followed = followed or open_table(self.history.path)
            self.compare(followed, self.history.head(), "a reader that follows")
            if self.rng.random() < 0.7:
                copy.follow()
                self.compare_hidden(copy.hidden, self.history.head(), "net changes")
        readable = self.history.readable()
        anew = open_table(self.history.path)
        for state in self.rng.sample(readable, len(readable)):
            self.compare(anew, state, "a new reader")
        self.compare_rows(self.rng.choice(readable))

    def compare(self, table: Table, state: State, reader: str) -> None:
        """Compare columns and files of a version, and the rows hidden in each, with those of the account."""
        self.count += 1
        snapshot = table.snapshot(state.version)
        names = [column.name[0] for column in snapshot.schema.columns]
        if names != [column.name for column in state.shape.fields]:
            self.wrong.append(f"version {state.version}, {reader}: the columns {names}")
        self.compare_hidden(shown(table, snapshot.files), state, reader)

    def compare_hidden(self, hidden: Hidden, state: State, reader: str) -> None:
        """Compare files and their hidden rows with those of the account."""
        wanted = {path_of(path): frozenset(live.hidden) for path, live in state.files.items()}
        for path in sorted(hidden.keys() | wanted.keys()):
            if hidden.get(path) != wanted.get(path):
                found = (
                    f"{path} hides {_sorted(hidden.get(path))}, and should hide {_sorted(wanted.get(path))}"
                )
                self.wrong.append(f"version {state.version}, {reader}: {found}")

    def compare_rows(self, version: Version) -> None:
        rows = tailbit.open(self.history.path).where("TRUE", version=version.version).read().to_pylist()
        wanted = version.rows().drop_columns(["file", "position"]).to_pylist()
        differing = (pair for pair in zip(rows, wanted, strict=False) if repr(pair[0]) != repr(pair[1]))
        for found, expected in islice(differing, 1):
            self.wrong.append(f"version {version.version}: the row {found} should be {expected}")
        if len(rows) != len(wanted):
            self.wrong.append(f"version {version.version}: {len(rows)} rows in place of {len(wanted)}")


def shown(table: Table, files: Iterable[FileSlice]) -> Hidden:
    return {
        slice_.path: frozenset(slice_.hidden.read(table.storage)) if slice_.hidden else frozenset()
        for slice_ in files
    }


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
