"""An index that follows a table, or does not: built, left behind, half built, merged, lost, put back."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Sequence

import tailbit
from support.drive import Drive
from support.fuzzer.definitions import RandomDefinition, create, drop_one, name_only, random_definition
from tailbit.errors import ColumnTypeError, PredicateError, UnknownColumnError
from tailbit.index.functions.tree import spelled
from tailbit.index.sql.terms import every_column
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.settings import StreamSettings
from tailbit.tables import open_table

FILE_LIMITS = (1, 2, 5, 2000)


class Follower:
    """One index of one table; `columns` names what could be indexed now, as SQL, `partitions` parts files."""

    def __init__(
        self,
        path: str,
        rng: random.Random,
        columns: Callable[[], Sequence[str]],
        partitions: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self.path, self.rng, self.columns, self.partitions = path, rng, columns, partitions
        self._names = 0
        self.index, self._kept = f"{path}/_tailbit", f"{path}-kept-index"
        self.drive: Drive | None = None
        self._opened: tailbit.IndexedTable | None = None

    def move(self) -> str:
        """Something happens to the index, or nothing; its name."""
        name, act = self.rng.choice(MOVES)
        act(self)
        return name

    def opened(self) -> tailbit.IndexedTable:
        """The table, opened long ago or just now."""
        if self._opened is None or self.rng.random() < 0.4:
            self._opened = tailbit.open(self.path)
        return self._opened

    def start(self) -> Drive:
        """An indexer that begins now; where there is no index it makes one of columns and definitions."""
        columns, is_new = None, not os.path.isdir(self.index)
        if is_new:
            able = self.columns()
            columns = self.rng.sample(able, min(len(able), self.rng.randint(2, 12)))
        limit = self.rng.choice(FILE_LIMITS)
        self.drive = Drive(self.path, self.index, columns, StreamSettings(files=limit, versions=limit))
        for _ in range(self.rng.choice((0, 1, 2, 4)) if is_new else 0):
            self._define(name_only)
        return self.drive

    def step(self) -> None:
        (self.drive or self.start()).step()

    def drain(self) -> None:
        """Batches until the index is complete."""
        (self.drive or self.start()).drain()

    def restart(self) -> None:
        """The indexer dies, and another begins where the ledger says."""
        self.start().step()

    def by_another(self) -> None:
        """Another indexer of the same index catches up, while this one lives on."""
        if os.path.isdir(self.index):
            Drive(self.path, self.index).drain()

    def compact(self) -> None:
        """Segments are merged."""
        if os.path.isdir(self.index):
            tailbit.open(self.path).compact()

    def lose(self) -> None:
        """The index is deleted; the next indexer builds another."""
        shutil.rmtree(self.index, ignore_errors=True)
        self.drive = None

    def keep(self) -> None:
        """The index is copied as it is."""
        if os.path.isdir(self.index):
            shutil.rmtree(self._kept, ignore_errors=True)
            shutil.copytree(self.index, self._kept)

    def put_back(self) -> None:
        """The index is what it was when it was copied."""
        if os.path.isdir(self._kept):
            shutil.rmtree(self.index, ignore_errors=True)
            shutil.copytree(self._kept, self.index)
            self.drive = None

    def alter(self) -> None:
        """A column comes to the index; another goes, where more than one would be left."""
        if not os.path.isdir(self.index):
            return
        opened = tailbit.open(self.path)
        known = list(opened.indexed().values())
        add = self.rng.sample(self.columns(), 1)
        opened.alter(add=add)
        if len(known) > 2 and self.rng.random() < 0.5:
            gone = self.rng.choice([c for c in known if c not in add])
            tailbit.open(self.path).alter(drop=[gone])

    def define(self) -> None:
        """Indexes of expressions, of several columns or of their statistics come, built at once or later."""
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            self._define(name_only if self.rng.random() < 0.3 and os.path.isdir(self.index) else create)

    def _define(self, act: Callable[[str, str, RandomDefinition], bool]) -> None:
        self._names += 1
        act(self.path, f"index {self._names}", self.definition())

    def definition(self) -> RandomDefinition:
        """A definition that may be refused."""
        return random_definition(self.rng, self.columns(), self.partitions())

    def undefine(self) -> None:
        """An index goes."""
        if os.path.isdir(self.index):
            drop_one(self.path, self.rng)

    def rebuild(self) -> None:
        """An index is built anew beside the present one; or begun, if deferred.

        It is refused if its column is gone, or another of its name has a type that the expression refuses.
        """
        names = [index.name for index in tailbit.open(self.path).indexes()]
        if not names:
            return
        name = self.rng.choice(names)
        try:
            tailbit.open(self.path).rebuild_index(name)
        except UnknownColumnError:
            pass
        except (PredicateError, ColumnTypeError):
            if not self._has_other_types(name):
                raise

    def _has_other_types(self, name: str) -> bool:
        """Return whether a column that an index reads has another type now, or is another of its name."""
        present = every_column(open_table(self.path).snapshot().schema)
        now = {column.id: (str(column.type), spelled(column.type)) for column in present}
        every = MetadataTable.open(self.index).state.settings.definitions
        terms = (term for definition in every if definition.name == name for term in definition.terms)
        return any(column.type not in now.get(column.id, ()) for term in terms for column in term.columns)

    def verify(self) -> None:
        """The index is compared with the table, whatever the index covers; AssertionError: it differs."""
        if os.path.isdir(self.index):
            report = tailbit.open(self.path).verify(samples=20, derive=self.rng.choice((0, 3)))
            assert report.problems == [], report.problems

    def repair(self) -> None:
        """What is missing or wrong is built again."""
        if os.path.isdir(self.index):
            tailbit.open(self.path).repair()

    def vacuum(self) -> None:
        """Files that the index needs no longer are deleted."""
        if os.path.isdir(self.index):
            tailbit.open(self.path).vacuum(0)

    def repeat(self) -> None:
        """The last batch comes once more, as after a crash."""
        if self.drive is not None and self.drive.ends:
            self.drive.replay()


MOVES: tuple[tuple[str, Callable[[Follower], None]], ...] = (
    *[("drained", Follower.drain)] * 5,
    *[("one batch", Follower.step)] * 4,
    *[("left alone", lambda follower: None)] * 3,
    ("restarted", Follower.restart),
    ("drained by another", Follower.by_another),
    ("compacted", Follower.compact),
    ("lost", Follower.lose),
    ("copied", Follower.keep),
    ("put back", Follower.put_back),
    ("altered", Follower.alter),
    *[("defined", Follower.define)] * 4,
    ("undefined", Follower.undefine),
    *[("rebuilt", Follower.rebuild)] * 2,
    ("verified", Follower.verify),
    ("repaired", Follower.repair),
    ("vacuumed", Follower.vacuum),
    ("repeated", Follower.repeat),
)
