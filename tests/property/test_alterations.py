"""Columns come to an index and go at any moment of any history: answers stay right and `verify` agrees.

The judge is DuckDB on the files that deltalake lists.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tailbit
from support.differential import assert_answers_agree
from support.drive import Drive
from support.histories import DeltalakeHistory
from support.oracle import duckdb_positions, live_rows
from support.predicates import INDEXED, random_predicates
from support.profiles import examples
from tailbit.streaming.settings import StreamSettings


def assert_right(history: DeltalakeHistory, version: int, state: str) -> None:
    """Every answer and every facet at one version."""
    asked = random_predicates(history.rng, 8)
    expected = duckdb_positions(history.path, version, asked)
    assert_answers_agree(history.path, version, asked, expected, f"{state}, after {history.done}")
    rows = live_rows(history.path, version)
    for column in history.rng.sample(["category", "small", "price", "day"], 2):
        facets = tailbit.open(history.path).where(version=version).facets(column)
        assert facets == dict(Counter(rows[column].to_pylist())), (column, history.done)


@pytest.mark.supports("Changes", "tailbit alter --add and --drop between any two batches", "exact")
@pytest.mark.supports(
    "Changes", "a column that is posted for some files only", "exact", note="the rest is scanned"
)
@given(seed=st.integers(min_value=0, max_value=2**32 - 1))
@examples(8)
def test_at_every_moment_between_two_alterations_every_answer_is_right(seed: int) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        history = DeltalakeHistory(f"{folder}/t", rng)
        settings = StreamSettings(files=rng.choice((1, 2, 2000)))
        indexer = Drive(history.path, f"{history.path}/_tailbit", ["category", "small"], settings)
        for _ in range(rng.randint(4, 9)):
            what = rng.choice(("alter", "alter", "batch", "batch", "drain", "commit", "compact", "restart"))
            if what == "alter":
                added, dropped = rng.sample(INDEXED, 2), rng.sample(INDEXED, 2)
                tailbit.open(history.path).alter(add=[*added, "day"], drop=set(dropped) - {*added, "day"})
            elif what == "batch":
                indexer.step()
            elif what == "drain":
                indexer.drain()
            elif what == "commit":
                history.step()
            elif what == "compact":
                tailbit.open(history.path).compact()
            else:
                indexer = Drive(history.path, f"{history.path}/_tailbit", None, settings)
            history.done.append(f"[{what}]")
            assert_right(history, history.head(), "in between")
        indexer.drain()
        opened = tailbit.open(history.path)
        report = opened.verify()
        assert report.problems == [], history.done
        assert opened.where().covered_version == history.head()
        for version in range(history.head() + 1):
            assert_right(history, version, "at the end")
