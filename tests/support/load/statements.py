"""Random statements about the indexes of a table that is written to, and what must hold in the end."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import duckdb
from deltalake import DeltaTable

import tailbit
from tailbit.errors import TailbitError


@dataclass(frozen=True)
class Shape:
    """An index that is made and dropped: its name, kind and terms, which Spark and DuckDB read alike."""

    name: str
    terms: tuple[str, ...]
    kind: str = "bitmap"
    clauses: str = ""


SHAPES = (
    Shape("by_v", ("v",)),
    Shape("by_lower", ("lower(v)",)),
    Shape("by_prefix", ("substring(v, 1, 2)",)),
    Shape("by_length", ("length(v)",)),
    Shape("by_rest", ("k % 97",)),
    Shape("by_both", ("k % 7", "upper(v)")),
    Shape("by_three", ("length(v)", "k % 3", "k % 5")),
    Shape("later", ("k % 11",), clauses=" WITH DEFERRED REBUILD"),
    Shape("bounds", ("k", "v"), "column_stats"),
)
"""One or more of every kind, of few and of many values."""


@dataclass
class Statements:
    """Statements one after the other, as a person would give them to a table whose stream runs."""

    table: str
    rng: random.Random
    done: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    existing: dict[str, Shape] = field(default_factory=dict)

    def act(self) -> str:
        """Carry out a random statement, and return its text."""
        absent = [shape for shape in SHAPES if shape.name not in self.existing]
        words = ["CREATE"] * bool(absent) + ["DROP", "REBUILD"] * bool(self.existing)
        word = self.rng.choice(words)
        shape = self.rng.choice(absent if word == "CREATE" else list(self.existing.values()))
        return self._run(word, shape)

    def rebuild_deferred(self) -> None:
        """Let the deferred index be built if it is there."""
        for shape in list(self.existing.values()):
            if shape.clauses:
                self._run("REBUILD", shape)

    def _run(self, word: str, shape: Shape) -> str:
        texts = {
            "CREATE": f"CREATE INDEX {shape.name} ON '{self.table}' USING {shape.kind}"
            f" ({', '.join(shape.terms)}){shape.clauses}",
            "DROP": f"DROP INDEX {shape.name} ON '{self.table}'",
            "REBUILD": f"ALTER INDEX {shape.name} ON '{self.table}' REBUILD",
        }
        began = time.monotonic()
        tailbit.sql(texts[word])
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        self.done[word] += 1
        if word == "DROP":
            del self.existing[shape.name]
        else:
            self.existing[shape.name] = shape
        return f"{word} {shape.name}"


def unfinished(table: str) -> list[str]:
    """Return the names of the indexes of a table that are not whole; names that stand twice count as such."""
    indexes = tailbit.open(table).indexes()
    twice = [name for name, times in Counter(index.name for index in indexes).items() if times > 1]
    return [index.name for index in indexes if index.state != "complete"] + twice


def wrong(table: str, existing: Sequence[Shape], written: int) -> list[str]:
    """Return in words what is wrong of the indexes of a table: names, soundness and counts, by DuckDB.

    Counts of groups over all terms come from the counts of the index; one condition for each of the last
    values of the groups is served by postings. `written`: how many rows the table must have.
    """
    opened = tailbit.open(table)
    there = sorted(index.name for index in opened.indexes() if index.name not in ("k", "v"))
    problems = [f"verify: {problem}" for problem in opened.verify(derive=20).problems]
    if there != sorted(shape.name for shape in existing):
        problems.append(f"indexes {there}; those made and not dropped are {existing}")
    rows = DeltaTable(table).to_pyarrow_table()
    if (count := opened.where("k >= 0").count()) != written or len(rows) != written:
        problems.append(f"{count} rows by the index, {len(rows)} in the table; {written} were written")
    for shape in existing:
        if shape.kind == "column_stats":
            problems += _wrong_bounds(opened, shape, len(rows))
            continue
        terms = ", ".join(shape.terms)
        judged = duckdb.sql(f"SELECT {terms}, count(*) FROM rows GROUP BY ALL").fetchall()
        groups = {row[:-1] if len(shape.terms) > 1 else row[0]: row[-1] for row in judged}
        if (facets := dict(opened.where().facets(*shape.terms))) != groups:
            different = sum(facets.get(key) != count for key, count in groups.items())
            problems.append(f"{shape.name}: {different} of {len(groups)} groups have other counts")
        for *values, count in judged[-5:]:
            condition = " AND ".join(
                f"{term} = {value!r}" for term, value in zip(shape.terms, values, strict=True)
            )
            answer = opened.where(condition)
            if (answer.count(), answer.files_scanned) != (count, 0):
                counted = f"{answer.count()} rows, {answer.files_scanned} files scanned"
                problems.append(f"{condition}: {counted}; {count} rows by DuckDB")
    return problems


def _wrong_bounds(opened: tailbit.IndexedTable, shape: Shape, rows: int) -> list[str]:
    try:
        counts = [opened.where(f"{term} IS NOT NULL").count() for term in shape.terms]
    except TailbitError as error:
        return [f"{shape.name}: {error}"]
    return [] if counts == [rows] * len(counts) else [f"{shape.name}: {counts} rows of {rows}"]
