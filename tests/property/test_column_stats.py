"""Definitions of column statistics come and go at any moment of any history: answers stay right.

The judge is DuckDB on the files that deltalake lists.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import tailbit
from support.column_stats import definition
from support.differential import assert_answers_agree
from support.drive import Drive
from support.histories import DeltalakeHistory
from support.oracle import duckdb_positions, live_rows
from support.predicates import random_predicates
from support.profiles import examples
from tailbit.index.maintenance.alter import alter
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.settings import StreamSettings
from tailbit.tables import open_table

COLUMNS = ("id", "category", "amount", "small", "price", "flag", "day", "moment", "note")


def assert_right(history: DeltalakeHistory, version: int, state: str) -> None:
    """Every answer at one version, and extremes and NULLs of some columns."""
    asked = random_predicates(history.rng, 10)
    expected = duckdb_positions(history.path, version, asked)
    assert_answers_agree(history.path, version, asked, expected, f"{state}, after {history.done}")
    rows, opened = live_rows(history.path, version), tailbit.open(history.path)
    for column in history.rng.sample(["id", "small", "day", "price", "category"], 2):
        values = [value for value in rows[column].to_pylist() if value is not None]
        ends = (min(values, default=None), max(values, default=None))
        answer = opened.where(version=version)
        assert (answer.min(column), answer.max(column)) == ends, (column, history.done)
        nulls = opened.where(f"{column} IS NULL", version=version).count()
        assert nulls == len(rows) - len(values), (column, history.done)


@given(seed=st.integers(min_value=0, max_value=2**32 - 1))
@examples(6)
def test_with_any_statistics_at_every_moment_every_answer_is_right(seed: int) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        history = DeltalakeHistory(f"{folder}/t", rng)
        settings, index = StreamSettings(files=rng.choice((1, 2, 2000))), f"{history.path}/_tailbit"
        indexer, made = Drive(history.path, index, ["region"], settings), list[str]()
        for number in range(rng.randint(5, 10)):
            what = rng.choice(("create", "create", "drop", "batch", "drain", "commit", "commit", "compact"))
            if what == "create":
                schema = open_table(history.path).snapshot().schema
                some = rng.sample(COLUMNS, rng.randint(1, 5)) if rng.random() < 0.7 else []
                named = definition(*(schema.resolve(name) for name in some), id_=f"#{number:08x}")
                alter(MetadataTable.open(index), [named], [])
                made.append(named.id)
            elif what == "drop" and made:
                alter(MetadataTable.open(index), [], [made.pop(rng.randrange(len(made)))])
            elif what == "batch":
                indexer.step()
            elif what == "drain":
                indexer.drain()
            elif what == "commit":
                history.step()
            elif what == "compact":
                tailbit.open(history.path).compact()
            history.done.append(f"[{what}]")
            assert_right(history, history.head(), "in between")
        indexer.drain()
        assert tailbit.open(history.path).verify().problems == [], history.done
        for version in range(history.head() + 1):
            assert_right(history, version, "at the end")
        assert bool(made) <= bool(list(Path(index).glob("kind=column_stats/*"))), history.done
