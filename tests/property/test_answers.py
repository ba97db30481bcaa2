"""Whatever the table went through and whatever the index knows, counts, positions, facets and rows are right.

Tables are written by deltalake (every operation it has) or by hand (deletion vectors); DuckDB judges the
predicates on the Arrow rows of each version.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

import tailbit
from support.delta_builder import DeltaBuilder
from support.drive import Drive
from support.histories import SCHEMA, DeltalakeHistory, random_rows
from support.predicates import INDEXED, Predicate, random_predicates
from support.profiles import examples
from support.tables import VECTORS
from tailbit.index.metadata_table import IndexTable
from tailbit.streaming.settings import StreamSettings

WITH_EXTRA = SCHEMA.append(pa.field("extra", pa.int64()))
FACETS = ("category", "score", "price", "flag", "day", "note", "region", "extra")

seeds = st.integers(min_value=0, max_value=2**32 - 1)


class EvolvingHistory(DeltalakeHistory):
    """A history in which a column may be added."""

    def operations(self) -> dict[str, Callable[[], None]]:
        return {**super().operations(), "add column": self._add_column}

    def append(self, rows: pa.Table) -> None:
        super().append(self._fitted(rows))

    def overwrite(self, rows: pa.Table) -> None:
        super().overwrite(self._fitted(rows))

    def merge(self, rows: pa.Table) -> None:
        super().merge(self._fitted(rows))

    def _fitted(self, rows: pa.Table) -> pa.Table:
        evolved = "extra" in [f.name for f in self.table.schema().fields]
        return self._with_extra(rows) if evolved else rows

    def _with_extra(self, rows: pa.Table) -> pa.Table:
        extra = [self.rng.choice([None, 1, 2]) for _ in range(len(rows))]
        return rows.append_column("extra", pa.array(extra, pa.int64()))

    def _add_column(self) -> None:
        rows = self._with_extra(random_rows(self.rng, 5))
        write_deltalake(self.path, rows, mode="append", schema_mode="merge")


@dataclass(frozen=True)
class Truth:
    """What DuckDB says of one version: per predicate the rows where it is TRUE, by path and position."""

    rows: pa.Table
    true: list[list[int]]

    def positions(self, predicate: int) -> dict[str, list[int]]:
        out: dict[str, list[int]] = {}
        for row in self.true[predicate]:
            out.setdefault(self.rows["file"][row].as_py(), []).append(self.rows["position"][row].as_py())
        return out


def truth(path: str, version: int, predicates: list[Predicate]) -> Truth:
    """Rows in the order of path and position, judged by DuckDB."""
    rows = live_rows(path, version)
    judged = [f"coalesce({p.duckdb}, FALSE) AS p{n}" for n, p in enumerate(predicates)]
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        engine.register("live", rows.append_column("number", pa.array(np.arange(len(rows)))))
        table = engine.sql(f"SELECT {', '.join(judged)} FROM live ORDER BY number").to_arrow_table()
    true = [np.flatnonzero(np.asarray(table[f"p{n}"])).tolist() for n in range(len(predicates))]
    return Truth(rows, true)


def live_rows(path: str, version: int) -> pa.Table:
    parts = []
    actions = pa.table(DeltaTable(path, version=version).get_add_actions(flatten=True)).to_pylist()
    for action in sorted(actions, key=lambda a: unquote(a["path"])):
        file = unquote(action["path"])
        rows = pq.ParquetFile(Path(path, file)).read()
        columns = {f.name: pa.nulls(len(rows), f.type) for f in WITH_EXTRA}
        columns |= {name: rows[name].cast(WITH_EXTRA.field(name).type) for name in rows.column_names}
        columns["region"] = pa.array([action["partition.region"]] * len(rows), pa.string())
        columns["file"] = pa.array([file] * len(rows), pa.string())
        columns["position"] = pa.array(np.arange(len(rows)), pa.int64())
        parts.append(pa.table(columns))
    schema = pa.schema([*WITH_EXTRA, ("file", pa.string()), ("position", pa.int64())])
    return pa.concat_tables([schema.empty_table(), *parts])


def grouped(values: list[Any]) -> dict[Any, int]:
    return dict(Counter("NaN" if v != v else v for v in values))


def assert_right_at_every_version(history: DeltalakeHistory, state: str) -> None:
    """Count, positions, one facet and the rows of random predicates, at each version."""
    predicates = random_predicates(history.rng, 7)
    opened = tailbit.open(history.path)
    for version in range(history.head() + 1):
        expected = truth(history.path, version, predicates)
        names = [c.name[0] for c in opened.where(version=version).schema.columns]
        for n, predicate in enumerate(predicates):
            where = f"{predicate.spark}\n version {version}, {state}, {history.done}"
            answer = opened.where(predicate.spark, version=version)
            found = {path: at.tolist() for path, at in answer.positions().items()}
            assert found == expected.positions(n), where
            assert opened.where(predicate.spark, version=version).count() == len(expected.true[n]), where
            assert answer.damaged == []
            rows = expected.rows.take(pa.array(expected.true[n], pa.int64()))
            assert str(answer.read().to_pylist()) == str(rows.select(names).to_pylist()), where
            column = history.rng.choice([c for c in FACETS if c in names])
            facets = {"NaN" if v != v else v: m for v, m in answer.facets(column).items()}
            assert facets == grouped(rows[column].to_pylist()), f"{column} of {where}"
        for column in FACETS:
            if column in names:
                facets = opened.where(version=version).facets(column)
                facets = {"NaN" if v != v else v: m for v, m in facets.items()}
                assert facets == grouped(expected.rows[column].to_pylist()), (
                    f"{column}, {state}, {history.done}"
                )


def drive(history: DeltalakeHistory, files: int = 2000) -> Drive:
    indexed = Path(history.path, "_tailbit").exists()
    return Drive(
        history.path, f"{history.path}/_tailbit", None if indexed else INDEXED, StreamSettings(files=files)
    )


def absent(history: DeltalakeHistory) -> None:
    steps(history, 5)


def behind(history: DeltalakeHistory) -> None:
    steps(history, 2)
    drive(history).drain()
    steps(history, 3)


def complete(history: DeltalakeHistory) -> None:
    for _ in range(5):
        drive(history).drain()
        history.step()
    drive(history).drain()


def half_built(history: DeltalakeHistory) -> None:
    steps(history, 4)
    indexer = drive(history, files=2)
    for _ in range(history.rng.randint(1, 2)):
        indexer.step()
    steps(history, 1)


def merged(history: DeltalakeHistory) -> None:
    for _ in range(9):
        history.append(random_rows(history.rng, history.rng.randint(1, 6)))
        drive(history).drain()
    assert tailbit.open(history.path).compact() > 0
    steps(history, 1)


def half_posted(history: DeltalakeHistory) -> None:
    """Some files lack some columns in their row space, as while a column is added to the index."""
    complete(history)
    index = IndexTable.open(f"{history.path}/_tailbit")
    fewer = [
        replace(record, columns=tuple(c for c in record.columns if history.rng.random() < 0.5))
        for record in list(index.recorded.records())
        if record.space is not None and history.rng.random() < 0.7
    ]
    index.commit([replace(r, columns=r.columns or ("flag",)) for r in fewer], [], None)


def of_another_table(history: DeltalakeHistory) -> None:
    """The table was dropped and made anew; the index is that of the old one."""
    steps(history, 2)
    drive(history).drain()
    made_anew(history)
    steps(history, 3)


def of_another_table_then_of_this(history: DeltalakeHistory) -> None:
    of_another_table(history)
    drive(history).drain()
    steps(history, 1)


def made_anew(history: DeltalakeHistory) -> None:
    for entry in Path(history.path).iterdir():
        if entry.name != "_tailbit":
            shutil.rmtree(entry)
    history.done.append("[made anew]")
    history.create(random_rows(history.rng, 15))


def steps(history: DeltalakeHistory, count: int) -> None:
    for _ in range(count):
        history.step()


STATES = (
    absent,
    behind,
    complete,
    half_built,
    merged,
    half_posted,
    of_another_table,
    of_another_table_then_of_this,
)


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
@given(seed=seeds)
@examples(2)
def test_every_answer_is_right_in_every_state_of_the_index(
    state: Callable[[DeltalakeHistory], None], seed: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = EvolvingHistory(f"{folder}/t", random.Random(seed))
        state(history)
        assert_right_at_every_version(history, state.__name__)


QUESTIONS: list[tuple[str | None, Callable[[dict[str, Any]], bool]]] = [
    (None, lambda r: True),
    ("v = 'a'", lambda r: r["v"] == "a"),
    ("NOT (v = 'a')", lambda r: r["v"] is not None and r["v"] != "a"),
    ("v IS NULL OR k < 4", lambda r: r["v"] is None or r["k"] < 4),
    ("v <=> 'b' AND k >= 3", lambda r: r["v"] == "b" and r["k"] >= 3),
]


class HandWritten:
    """A table with deletion vectors written by hand, and every version's rows as they must be."""

    def __init__(self, path: str, rng: random.Random) -> None:
        self.rng = rng
        schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
        self.builder = DeltaBuilder(path).create(schema, **VECTORS)
        self.content: dict[str, list[dict[str, Any]]] = {}
        self.hidden: dict[str, set[int]] = {}
        self.versions: list[dict[str, set[int]]] = [{}]

    def step(self) -> None:
        live = sorted(self.builder.live)
        actions: list[dict[str, Any]] = []
        if not live or self.rng.random() < 0.4:
            name = f"f{len(self.content)}.parquet"
            rows = [{"k": k, "v": self.rng.choice(["a", "b", None])} for k in range(self.rng.randint(1, 8))]
            self.content[name], self.hidden[name] = rows, set()
            actions.append(self.builder.data_file(pa.Table.from_pylist(rows, self._schema), name))
        for path in live:
            roll = self.rng.random()
            if roll < 0.15:
                actions.append(self.builder.remove(path))
                del self.hidden[path]
            elif roll < 0.6:
                actions += self.hide(path)
        self.builder.commit(actions)
        self.versions.append({path: set(rows) for path, rows in self.hidden.items()})

    @property
    def _schema(self) -> pa.Schema:
        return pa.schema([("k", pa.int64()), ("v", pa.string())])

    def hide(self, path: str) -> list[dict[str, Any]]:
        """Hide other rows: more, fewer, or none."""
        rows = {n for n in range(len(self.content[path])) if self.rng.random() < 0.3}
        if rows == self.hidden[path]:
            return []
        self.hidden[path] = rows
        if not rows:
            return self.builder.hide(path, None)
        (vector,) = (
            self.builder.stored_vectors(rows)
            if self.rng.random() < 0.5
            else (self.builder.inline_vector(rows),)
        )
        return self.builder.hide(path, vector)

    def rows(self, version: int) -> list[tuple[str, int, dict[str, Any]]]:
        return [
            (path, n, row)
            for path, hidden in sorted(self.versions[version].items())
            for n, row in enumerate(self.content[path])
            if n not in hidden
        ]


@given(seed=seeds)
@examples(8)
def test_hidden_rows_are_in_no_answer_of_any_version(seed: int) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/t"
        table = HandWritten(path, rng)
        table.step()
        indexer = Drive(path, f"{path}/_tailbit", ["v"], StreamSettings(files=rng.choice((1, 2000))))
        opened = tailbit.open(path)
        for _ in range(rng.randint(2, 7)):
            what = rng.random()
            if what < 0.5:
                indexer.drain()
            elif what < 0.7:
                indexer.step()
            table.step()
            check(opened, table, len(table.versions) - 1)
        for version in range(1, len(table.versions)):
            check(opened, table, version)
        indexer.drain()
        assert opened.verify(samples=20).problems == []
        for version in range(1, len(table.versions)):
            check(opened, table, version)
        assert opened.where("v = 'a'").files_scanned == 0


def check(opened: tailbit.IndexedTable, table: HandWritten, version: int) -> None:
    for predicate, true in QUESTIONS:
        wanted = [(path, n, row) for path, n, row in table.rows(version) if true(row)]
        answer = opened.where(predicate, version=version)
        assert answer.count() == len(wanted), (predicate, version)
        assert [(p, n) for p, at in answer.positions().items() for n in at.tolist()] == [
            w[:2] for w in wanted
        ]
        assert answer.facets("v") == dict(Counter(row["v"] for _, _, row in wanted)), (predicate, version)
        assert answer.read().to_pylist() == [row for _, _, row in wanted]
