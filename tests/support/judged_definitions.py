"""Tables with random index definitions, and where conditions on them are TRUE, FALSE and NULL by Spark.

Each table is written in small files, some before its definitions are there, some after. A condition that
raises for some rows is asked without those rows, as in `judged_conditions`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.fuzzer.definitions import REFUSALS, RandomDefinition
from support.fuzzer.term_conditions import TermConditions, definition_of_terms
from support.implications import TERMS
from support.judged_conditions import SCHEMA, TABLE, rows_that_raise
from support.nested_cells import fields_of
from support.spark_cells import spark_values
from tailbit.api import IndexedTable
from tailbit.errors import ColumnTypeError, EvaluationError, PredicateError, TailbitError
from tailbit.index.sql.bind import bind
from tailbit.index.sql.syntax.parser import parse_predicate

ROWS = 70
PARTITIONS = ((), (), ("bo",), ("b",), ("i",), ("dt",), ("bo", "b"))
_TRUTHS: dict[str, bool | None] = {"{}": True, "NOT {}": False, "({}) IS NULL": None}
"""The shapes that each condition is asked in, and the truth of the condition where a shape is TRUE."""


@dataclass(frozen=True)
class RandomTable:
    """A table to be made in a folder, and the number of conditions that it is asked."""

    seed: int
    count: int
    folder: Path

    def __len__(self) -> int:
        return self.count


@dataclass
class Answers:
    """What a table's index says: by condition the rows left out, and the rows of a shape or their number.

    `wrong`: what needs no judge to be wrong, by condition.
    """

    path: str
    story: list[str]
    live: list[int] = field(default_factory=list)
    by_condition: dict[str, tuple[list[int], dict[str, list[int] | int]]] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.by_condition)


def answered(made: RandomTable) -> Answers:
    """Write a table with random definitions, and ask its conditions."""
    return _Making(made).answers()


class _Making:
    """A table while it is written and indexed."""

    def __init__(self, made: RandomTable) -> None:
        self.count, self.rng = made.count, random.Random(made.seed)
        self.path = str(made.folder / str(made.seed))
        self.partitions = self.rng.choice(PARTITIONS)
        self.rows = _mixed(self.rng)
        self.files = self._cut()
        self.written, self.live = 0, set[int]()
        self.story = [f"table {made.seed} partitioned by {self.partitions}"]

    def answers(self) -> Answers:
        """Everything."""
        self._write(self.rng.randint(1, len(self.files)))
        for number in range(self.rng.randint(3, 10)):
            self._define(f"index {number}")
        changes = self.rng.sample(_CHANGES, self.rng.randint(0, 4))
        for name, change in changes:
            self.story.append(name)
            change(self)
        self._write(len(self.files))
        if self.rng.random() < 0.5:
            self.story.append("repaired")
            self.opened().repair()
        return self._asked()

    def opened(self) -> IndexedTable:
        """The table as it is now."""
        return tailbit.open(self.path)

    def names(self) -> list[str]:
        """The names of its indexes."""
        return [index.name for index in self.opened().indexes()]

    def _cut(self) -> list[pa.Table]:
        """The rows of each file: in the order of some column, so that bounds of files differ."""
        sizes: list[int] = []
        while sum(sizes) < ROWS:
            sizes.append(self.rng.choice((1, 4, 8, 16, 32)))
        starts = np.cumsum([0, *sizes])
        return [self.rows.slice(start, size) for start, size in zip(starts, sizes, strict=False)]

    def _write(self, upto: int) -> None:
        """Write files until so many are written."""
        stored = [name for name in self.rows.column_names if "." not in name]
        for rows in self.files[self.written : upto]:
            self.live.update(rows["row"].to_pylist())
            write_deltalake(
                self.path, rows.select(stored), mode="append", partition_by=list(self.partitions) or None
            )
        self.written = max(self.written, upto)

    def _define(self, name: str) -> None:
        made = definition_of_terms(self.rng, self.partitions)
        try:
            self.opened().create_index(name, made.on, made.kind, made.only)
        except REFUSALS:
            return
        self.story.append(_shown(name, made))

    def rebuild(self) -> None:
        """One of the indexes is built anew."""
        names = self.names()
        if names:
            self.opened().rebuild_index(self.rng.choice(names))

    def drop(self) -> None:
        """One of the indexes goes, where more than one would be left."""
        names = self.names()
        if len(names) > 1:
            self.opened().drop_index(self.rng.choice(names))

    def delete(self) -> None:
        """Rows are deleted, and their files written anew."""
        rest = self.rng.randint(0, 4)
        DeltaTable(self.path).delete(f"row % 5 = {rest}")
        self.live = {row for row in self.live if row % 5 != rest}

    def append(self) -> None:
        """A file comes."""
        self._write(self.written + 1)

    def merge(self) -> None:
        """Segments of the index are merged, and what is not needed deleted."""
        if self.names():
            self.opened().compact()
            self.opened().vacuum(0)

    def alter(self) -> None:
        """A plain column comes to the index."""
        if self.names():
            self.opened().alter(add=[self.rng.choice(("s", "l", "ts", "d", "p", "x", "st.zip"))])

    def repair(self) -> None:
        """What is missing is built."""
        if self.names():
            self.opened().repair()

    def _asked(self) -> Answers:
        opened, made = self.opened(), TermConditions(self.rng)
        answers = Answers(self.path, self.story)
        answers.live = sorted(self.live)
        indexed = [text for index in opened.indexes() for text in index.terms if text != "*"]
        terms = [*indexed, *self.rng.sample(TERMS, 3)]
        for _ in range(self.count):
            self._ask(opened, made.condition(terms), answers)
        return answers

    def _ask(self, opened: IndexedTable, condition: str, answers: Answers) -> None:
        text = f"({condition})"
        try:
            bind(text, SCHEMA)
            out = np.flatnonzero(rows_that_raise(list(_atoms(text)), self.rows)).tolist()
        except (PredicateError, ColumnTypeError):
            return
        rest = f" AND row NOT IN ({', '.join(map(str, out))})" if out else ""
        shapes: dict[str, list[int] | int] = {}
        read = self.rng.choice(list(_TRUTHS))
        try:
            for shape in _TRUTHS:
                answer = opened.where(shape.format(text) + rest)
                shapes[shape] = count = answer.count()
                if shape == read:
                    shapes[shape] = rows = sorted(answer.read(["row"])["row"].to_pylist())
                    if count != len(rows):
                        answers.wrong[text] = f"{count} rows counted, {len(rows)} read: {shape}"
        except TailbitError as raised:
            if not out or not isinstance(raised, EvaluationError):
                answers.wrong[text] = str(raised)
            return
        answers.by_condition[text] = (out, shapes)


_CHANGES: tuple[tuple[str, Callable[[_Making], None]], ...] = (
    ("rebuilt", _Making.rebuild),
    ("dropped", _Making.drop),
    ("deleted", _Making.delete),
    ("appended", _Making.append),
    ("merged", _Making.merge),
    ("altered", _Making.alter),
    ("repaired", _Making.repair),
)


def _atoms(text: str) -> Iterator[str]:
    """The conditions between the ANDs, ORs, NOTs and ISs of a condition: Spark may evaluate each of them."""
    trees = [parse_predicate(text)]
    while trees:
        tree = trees.pop()
        if tree.kind in ("and", "or"):
            trees += tree.items
        elif tree.kind in ("not", "parenthesis") and tree.first is not None:
            trees.append(tree.first)
        else:
            yield text[tree.start : tree.end]
        inner = tree.first if tree.kind == "is" else None
        while inner is not None and inner.kind == "parenthesis":
            inner = inner.first
        trees += [inner] if inner is not None and inner.kind in ("and", "or", "not") else []


def _mixed(rng: random.Random) -> pa.Table:
    """Rows that mix the edge values of all columns, in the order of one column, numbered in that order."""
    columns = {"row": pa.array(range(ROWS), pa.int64())}
    known = [name for name in TABLE.column_names if name != "row" and not name.startswith("st.")]
    first = rng.choice([name for name in known if not pa.types.is_nested(TABLE[name].type)])
    for name in known:
        whole = TABLE[name].combine_chunks()
        few = [rng.randrange(len(whole)) for _ in range(rng.choice((3, 6, 60)))]
        at = [rng.choice(few) for _ in range(ROWS)]
        columns[name] = whole.take(pa.array(sorted(at) if name == first else at))
    return pa.table({**columns, **fields_of(columns["st"], "st")})


def _shown(name: str, made: RandomDefinition) -> str:
    only = f" WHERE {made.only}" if made.only else ""
    return f"{name} USING {made.kind} ({', '.join(made.on)}){only}"


def mismatches(frame: Any, answers: Answers) -> dict[str, tuple[Any, Any]]:
    """By condition the rows of each truth by the index and by Spark, where they differ."""
    theirs = spark_values(frame, {text: out for text, (out, _) in answers.by_condition.items()})
    found: dict[str, tuple[Any, Any]] = {text: (reason, "") for text, reason in answers.wrong.items()}
    for text, (out, shapes) in answers.by_condition.items():
        said = theirs[text]
        judged = said if isinstance(said, str) else _rows(said, answers.live, out, shapes)
        if judged != shapes:
            found[text] = (shapes, judged)
    return {f"{text}\n  {'; '.join(answers.story)}": pair for text, pair in found.items()}


def _rows(
    said: pa.Array, live: list[int], out: list[int], shapes: Mapping[str, list[int] | int]
) -> dict[str, list[int] | int]:
    """The rows where each shape is TRUE, or their number, by the truth of the condition in each live row."""
    truths = dict(zip(live, said.cast(pa.bool_()).to_pylist(), strict=True))
    left = [row for row in live if row not in out]
    rows = {shape: [row for row in left if truths[row] is truth] for shape, truth in _TRUTHS.items()}
    return {shape: rows[shape] if isinstance(shapes[shape], list) else len(rows[shape]) for shape in rows}
