"""The kinds of fuzzer: what a seed makes and asks, who judges, and how much of it is a run.

A kind that judges by Spark makes its session where its first seed is made, once in each process.
"""

from __future__ import annotations

import logging
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from support.fuzzer.tally import Tally

Act = Callable[[str, int, int], Tally]
"""What a seed does: from a folder, the seed, and how many units of the kind it is to do."""


@dataclass(frozen=True)
class Kind:
    """A kind of fuzzer.

    `unit`: what is counted, as the record names it; a run does `count` of them, a seed `each`. `turn`: seeds
    of one process, where it has a Spark, whose heap is full in time; 0 for kinds without one. `title`: the
    marks of its record on the page.
    """

    summary: str
    title: str
    act: Act
    unit: str = "checks"
    count: int = 20_000
    each: int = 500
    turn: int = 0

    @property
    def marks(self) -> tuple[str, str]:
        """Where the last whole run of the kind stands on the page."""
        return f"<!-- {self.title}: begin -->", f"<!-- {self.title}: end -->"


@contextmanager
def _place(folder: str) -> Iterator[str]:
    """Yield a new folder in a folder, of which nothing stays."""
    place = tempfile.mkdtemp(dir=folder)
    try:
        yield place
    finally:
        shutil.rmtree(place)


@cache
def _session(folder: str) -> Any:
    from support.spark_session import start_spark

    spark = start_spark(Path(tempfile.mkdtemp(dir=folder)), lives_long=True)
    # Conditions that raise are left out, with what Spark says of them.
    spark.sparkContext.setLogLevel("OFF")
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    return spark


def _history(writer: str, folder: str, seed: int, checks: int) -> Tally:
    from support.fuzzer.run import run_history

    return run_history(seed, checks, writer)


def _readers(writer: str, folder: str, seed: int, histories: int) -> Tally:
    from support.fuzzer.readers import run_readers

    return run_readers(seed, writer)


def _analytics(folder: str, seed: int, checks: int) -> Tally:
    from support.analytics.run import run_analytics

    return run_analytics(seed, checks)


def _definitions(folder: str, seed: int, checks: int) -> Tally:
    from support.fuzzer.cells_run import run_cells

    return run_cells(seed, checks)


def _keys(folder: str, seed: int, checks: int) -> Tally:
    from support.fuzzer.keys_run import run_keys

    return run_keys(seed, checks, random.Random(seed).choice(("built", "hudi")))


def _changes(folder: str, seed: int, histories: int) -> Tally:
    from support.row_changes.history import ALIKE, History

    spark = _session(folder)
    with _place(folder) as place:
        try:
            return History(spark, place, seed, _changed(folder, seed // ALIKE)).go()
        finally:
            spark.catalog.clearCache()
            spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


@lru_cache(maxsize=1)
def _changed(folder: str, number: int) -> Any:
    """Make a table with which histories begin; other processes may make the same one."""
    from support.row_changes.history import ALIKE, made_for

    return made_for(_session(folder), tempfile.mkdtemp(dir=folder), number * ALIKE)


PATIENT = 60_000
"""Milliseconds that a query waits: what is judged is the answer, on a machine at work."""


@cache
def _acceleration(folder: str) -> Any:
    from tailbit.spark import accelerate, jar

    jar.build()
    return accelerate(_session(folder), budget_ms=PATIENT)


def _spark(folder: str, seed: int, conditions: int) -> Tally:
    from support.plain_sql.rounds import Field

    with _place(folder) as place:
        return Field(_acceleration(folder), place, seed).go()


@dataclass
class JudgedConditions(Tally):
    """Conditions, and those of them that both sides answer; what both refuse is asked, not judged."""

    conditions: int = 0
    judged: int = 0

    def cells(self) -> dict[str, int]:
        """Return the numbers of the record."""
        return {"conditions": self.conditions, "judged": self.judged}

    def add(self, seed: int, mine: int, wrong: dict[str, tuple[Any, Any]]) -> JudgedConditions:
        """Add what was judged, and where Spark said something else."""
        self.judged += mine
        self.findings += [
            f"seed {seed}: {text}\n  ours:  {truth}\n  Spark: {said}" for text, (truth, said) in wrong.items()
        ]
        return self


def _conditions(folder: str, seed: int, count: int) -> Tally:
    from support.judged_conditions import mismatches, ours, portions
    from support.spark_cells import spark_values

    mine = ours(next(portions(seed, count, count)))
    wrong = mismatches(partial(spark_values, _cells(folder)), mine)
    return JudgedConditions(conditions=count).add(seed, len(mine), wrong)


@cache
def _cells(folder: str) -> Any:
    from support.judged_conditions import frame_of

    return frame_of(_session(folder), Path(tempfile.mkdtemp(dir=folder)))


KINDS = {
    "histories": Kind(
        "histories of Delta tables, states of the index, predicates; judged by DuckDB",
        "history fuzzer",
        partial(_history, "built"),
        count=200_000,
    ),
    "deltalake": Kind(
        "the same of tables that deltalake writes", "deltalake fuzzer", partial(_history, "deltalake")
    ),
    "hudi": Kind(
        "histories of COPY_ON_WRITE tables of Hudi, the same questions",
        "Hudi fuzzer",
        partial(_history, "hudi"),
        each=50,
    ),
    "hudi-merged": Kind(
        "histories of MERGE_ON_READ tables of Hudi, the same questions",
        "Hudi merge fuzzer",
        partial(_history, "hudi-merged"),
        each=50,
    ),
    "iceberg": Kind(
        "histories of Iceberg tables with deletes of all kinds, the same questions",
        "Iceberg fuzzer",
        partial(_history, "iceberg"),
        count=25_000,
        each=50,
    ),
    "hudi-readers": Kind(
        "histories of COPY_ON_WRITE tables, every version read without an index",
        "Hudi readers",
        partial(_readers, "hudi"),
        "histories",
        2000,
        1,
    ),
    "hudi-merged-readers": Kind(
        "histories of MERGE_ON_READ tables, every version read without an index",
        "Hudi merge readers",
        partial(_readers, "hudi-merged"),
        "histories",
        2000,
        1,
    ),
    "analytics": Kind(
        "histories, and groups, sums, histograms and transitions; judged by DuckDB",
        "analytics fuzzer",
        _analytics,
    ),
    "definitions": Kind(
        "any condition, with indexes of every kind and without", "definitions fuzzer", _definitions
    ),
    "keys": Kind("look-ups of keys at random versions; judged by DuckDB", "keys fuzzer", _keys),
    "changes": Kind(
        "rows deleted and upserted, judged by Delta's own statements",
        "changes fuzzer",
        _changes,
        "histories",
        100,
        1,
        400,
    ),
    "spark": Kind(
        "Spark's own queries with the index and without, in every mode",
        "plain SQL fuzzer",
        _spark,
        "conditions",
        10_000,
        576,
        10,
    ),
    "conditions": Kind(
        "conditions of every type and function over edge values, judged by Spark",
        "random conditions",
        _conditions,
        "conditions",
        20_000,
        600,
        100,
    ),
}
"""The kinds by name."""
