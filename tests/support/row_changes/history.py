"""A random history of changes of rows, each judged by rows in memory or by Delta's own statements too."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import tailbit
import tailbit.spark
from support.fuzzer.tally import Tally
from support.row_changes.changes import Change, Changes
from support.row_changes.copy import REFUSALS, told
from support.row_changes.judge import Difference
from support.row_changes.others import Others
from support.row_changes.table import Made, Pair, last_version
from support.tables import index_of
from tailbit.errors import UsageError
from tailbit.spark.writing.target import Target

STEPS = 8
"""Changes of a history, those of other writers among them."""

SPARK_READS = 0.1
"""The share of the changes after which Spark reads the table; after the others deltalake or tailbit does,
which is ten times as quick. At the end Spark and one of them read."""

BY_DELTA = 10
"""One history in so many has a copy in Delta, which Delta's own statements change."""

ALIKE = 10
"""So many histories in a row begin with the same table, since to make one takes two commits or more."""


@dataclass
class Histories(Tally):
    """What histories did: changes by who made them, those refused by both sides, conflicts, and findings.

    `by_delta`: histories that a copy in Delta judged too.
    """

    histories: int = 0
    by_delta: int = 0
    changes: int = 0
    by_index: int = 0
    refused: int = 0
    conflicts: int = 0

    def cells(self) -> dict[str, int]:
        """Return the numbers of the record."""
        return {
            "histories": self.histories,
            "judged by Delta too": self.by_delta,
            "changes": self.changes,
            "by the index": self.by_index,
            "refused by both": self.refused,
            "conflicts": self.conflicts,
        }


def made_for(spark: Any, folder: str, seed: int) -> Made:
    """Make the table with which the history of a seed begins, and those of the seeds beside it."""
    number = seed // ALIKE
    return Pair(spark, f"{folder}/made {number}", random.Random(f"table {number}")).make()


class History:
    """A table through some changes, and what it must be; `go` returns what was done and found."""

    def __init__(self, spark: Any, folder: str, seed: int, made: Made | None = None, *, steps: int = STEPS):
        self.spark, self.seed, self.rng = spark, seed, random.Random(seed)
        self.pair = Pair(spark, f"{folder}/t {seed}", self.rng)
        self._made = made or made_for(spark, folder, seed)
        self.tally, self.done = Histories([], 1, int(seed % BY_DELTA == 0)), list[str]()
        self._changes = Changes(spark, self.pair, f"{folder}/stage {seed}")
        self._others = Others(self.pair, self.done)
        self._number, self._steps = 0, steps

    def go(self) -> Histories:
        """Make the history; what differs is a finding, told with all that led there."""
        try:
            self.done.append(self._made.told)
            self.pair.begin(self._made, by_delta=bool(self.tally.by_delta))
            self._index()
            for _ in range(self._steps):
                self._step()
            self._read_by_others()
        # Whatever ends a history is a finding, with what led there.
        except Exception as error:
            told = "\n  ".join([*self.done, f"{type(error).__name__}: {str(error)[:2000]}"])
            self.tally.findings.append(f"history {self.seed}:\n  {told}")
        return self.tally

    def _step(self) -> None:
        made, others = self._changes, self._others
        steps: list[Callable[[], Change | None]] = [
            *(made.delete, made.delete_keys, made.upsert),
            *(others.other, others.schema, others.maintenance),
        ]
        step = self.rng.choices(steps, (3, 3, 8, 2, 1, 1))[0]
        change = step()
        if change is not None:
            self._judge(change)
        self._compare_rows(
            self.pair.contents if self.rng.random() < SPARK_READS else self.pair.quick_contents
        )
        self._others.keep_versions()
        if self.rng.random() < 0.35:
            self._index()

    def _compare_rows(self, read: Callable[[str], list[str]]) -> list[str]:
        """Compare the rows as something reads them with those that must be there; return them."""
        theirs = told(self.pair.judge.rows.table)
        for path in filter(None, (self.pair.path, self.pair.judge.twin)):
            ours = read(path)
            if ours != theirs:
                only = [row for row in ours if row not in theirs], [row for row in theirs if row not in ours]
                raise Difference(
                    f"{path}: only there {only[0]}, not there {only[1]}; {len(ours)} and {len(theirs)} rows"
                )
        return theirs

    def _index(self) -> None:
        """Build the index of some columns, or follow the table; sometimes there is none."""
        if self.done[-1].startswith("index"):
            return
        if len(self.done) == 1:
            if self.rng.random() < 0.1:
                return
            names = [name for name, type_ in self.pair.columns.items() if not type_.startswith("STRUCT")]
            columns = sorted(
                {*self.rng.sample(names, 2), *(self.pair.key if self.rng.random() < 0.7 else ())}
            )
            index_of(self.pair.path, columns)
            self.done.append(f"index of {columns}")
        elif any(told.startswith("index") for told in self.done):
            index_of(self.pair.path)
            self.done.append("index")

    def _judge(self, change: Change) -> None:
        """Make a change on both sides; what one refuses the other refuses too."""
        self.done.append(change.told)
        self.tally.changes += 1
        if change.refusal is not None:
            before = self._version()
            try:
                change.ours()
            except UsageError as error:
                if change.refusal in str(error) and before == self._version():
                    self.tally.refused += 1
                    return
                raise
            raise Difference(f"not refused: {change.refusal}")
        if self.rng.random() < 0.25 and not change.reads_itself:
            self._judge_overtaken(change)
        else:
            self._judge_alone(change)

    def _judge_alone(self, change: Change) -> None:
        try:
            theirs = change.theirs()
        except REFUSALS as refusal:
            try:
                done = change.ours()
            except (*REFUSALS, UsageError):
                self.tally.refused += 1
                return
            raise Difference(f"{done}, and the judge refuses: {str(refusal)[:300]}") from refusal
        application = (f"app {self.seed}", self._number) if self.rng.random() < 0.3 else None
        plan = change.ours(dry_run=True) if self.rng.random() < 0.3 else None
        self._number += 1
        done = change.ours(application=application)
        self._compare(done, theirs)
        if plan is not None and (plan.by, counts(plan)) != (done.by, counts(done)) and plan.by == "index":
            raise Difference(f"planned {plan}, done {done}")
        if application is not None:
            again = change.ours(application=application)
            if again.version is not None and done.version is not None:
                raise Difference(f"replayed: {again}")

    def _compare(self, done: Any, theirs: tuple[int, ...]) -> None:
        self.done[-1] += f" -> {done}"
        self.tally.by_index += done.by == "index"
        if counts(done) != theirs:
            raise Difference(f"{done}, and the judge tells {theirs}")

    def _judge_overtaken(self, change: Change) -> None:
        """Another writer commits between the look-up and the commit: a conflict, or some order of the two.

        Rows that are inserted in between come after the change, as they do under Delta's isolation; whatever
        else does not conflict may as well have come before.
        """
        rival, rival_judged, name = self._rival()
        acted = list[bool]()

        def begin(target: Target) -> Any:
            return _Overtaken(_BEGIN(target), act)

        def act() -> None:
            acted.append(True)
            rival()

        self.done[-1] += f" overtaken by {name}"
        try:
            with patch.object(Target, "begin", begin):
                done = change.ours()
        except REFUSALS as refusal:
            if not acted or not any(word in f"{refusal}" for word in _CONFLICTS):
                self._refused_by_delta_too(change, refusal)
            else:
                self.tally.conflicts += 1
            if acted:
                rival_judged()
            return
        comes_after = name.startswith("INSERT") and done.by == "index"
        if acted and not comes_after:
            rival_judged()
        self._compare(done, change.theirs())
        if acted and comes_after:
            rival_judged()

    def _refused_by_delta_too(self, change: Change, refusal: Exception) -> None:
        """Check, where tailbit has refused a change, that Delta does."""
        try:
            done = change.theirs()
        except REFUSALS:
            self.tally.refused += 1
            return
        raise Difference(f"refused, and the judge does {done}: {str(refusal)[:1500]}")

    def _rival(self) -> tuple[Callable[[], object], Callable[[], object], str]:
        """Return what another writer does to the table, the judge with it, and how that is told."""
        pair, condition = self.pair, self.pair.condition(1)
        judge = pair.judge

        def deleted() -> None:
            with patch.object(Target, "begin", _BEGIN):
                tailbit.spark.delete(pair.path, condition, spark=self.spark)

        statements = (
            pair.insertion(2),
            f"DELETE FROM THIS_TABLE WHERE {condition}",
            f"UPDATE THIS_TABLE SET n = n + 1 WHERE {condition}",
        )
        draw = self.rng.randrange(5)
        if draw == 0:
            return lambda: pair.run("OPTIMIZE THIS_TABLE"), lambda: None, "OPTIMIZE"
        if draw == 1:
            return deleted, lambda: judge.delete(condition), f"tailbit: {condition}"
        statement = statements[draw - 2]
        return lambda: pair.run(statement), lambda: judge.run(statement), statement

    def _version(self) -> int:
        return last_version(self.pair.path)

    def _read_by_others(self) -> None:
        """Spark, tailbit with its index, and deltalake, where it can, read the rows."""
        pair = self.pair
        contents = self._compare_rows(pair.contents)
        rows = len(contents)
        if (count := tailbit.open(pair.path).count()) != rows:
            raise Difference(f"tailbit counts {count} of {rows} rows")
        self._index()
        condition = pair.condition()
        theirs = sum(pair.judge.rows.selected(condition))
        if (count := tailbit.open(pair.path).where(condition).count()) != theirs:
            raise Difference(f"tailbit counts {count} where {condition}, Spark {theirs}")
        if self._compare_rows(pair.quick_contents) != contents:
            raise Difference("other rows are read than by Spark")


class _Overtaken:
    """The changes of a transaction, before whose deletions another writer commits."""

    def __init__(self, changes: Any, rival: Callable[[], Any]) -> None:
        self._changes, self._rival = changes, rival

    def __getattr__(self, name: str) -> Any:
        return getattr(self._changes, name)

    def delete(self, places: bytes) -> bool:
        self._rival()
        return bool(self._changes.delete(places))


_BEGIN = Target.begin
_CONFLICTS = ("oncurrent", "CONCURRENT", "DELTA_METADATA_CHANGED")


def counts(done: Any) -> tuple[int | None, ...]:
    """Return how many rows a result tells."""
    return (done.updated, done.inserted) if hasattr(done, "updated") else (done.rows,)
