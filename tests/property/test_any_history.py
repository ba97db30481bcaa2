"""For any history of commits and any state of the index, tailbit answers what DuckDB answers on the files.

The histories are written by deltalake: no JVM, so there can be many. Deletion vectors are in the integration
tests.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tailbit
from support.differential import assert_answers_agree
from support.drive import Drive
from support.histories import DeltalakeHistory
from support.oracle import duckdb_positions, live_rows
from support.predicates import INDEXED, Predicate, random_predicates
from support.profiles import examples
from tailbit.streaming.settings import StreamSettings

EVERYTHING = Predicate.both("TRUE")

seeds = st.integers(min_value=0, max_value=2**32 - 1)


def write_history(path: str, rng: random.Random, steps: int) -> DeltalakeHistory:
    """A table after some random operations, without an index."""
    history = DeltalakeHistory(path, rng)
    for _ in range(steps):
        history.step()
    return history


def drive(path: str, columns: Sequence[str] | None = None, files: int = 2000) -> Drive:
    """An indexer; with `files` of 1 or 2 a first build takes many batches, and can be left half done."""
    return Drive(path, f"{path}/_tailbit", columns, StreamSettings(files=files))


def assert_every_version_agrees(history: DeltalakeHistory, state: str, predicates: int = 12) -> None:
    """Compare at each version of the history."""
    asked = random_predicates(history.rng, predicates)
    for version in range(history.head() + 1):
        expected = duckdb_positions(history.path, version, asked)
        assert_answers_agree(history.path, version, asked, expected, f"{state}, after {history.done}")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "table")


@given(seed=seeds)
@examples(10)
def test_without_an_index_every_answer_is_right(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = write_history(f"{folder}/t", random.Random(seed), 6)
        assert_every_version_agrees(history, "absent")


@given(seed=seeds)
@examples(15)
def test_whatever_the_index_has_seen_every_answer_is_right(seed: int) -> None:
    """The index is built, tailed, left behind, left half built and restarted, at random."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        history = DeltalakeHistory(f"{folder}/t", rng)
        indexer = drive(history.path, INDEXED, files=rng.choice((1, 2, 2000)))
        for _ in range(rng.randint(3, 8)):
            what = rng.choice(("drain", "one batch", "nothing", "restart", "compact"))
            if what == "restart":
                indexer = drive(history.path, files=rng.choice((1, 2, 2000)))
            elif what == "compact":
                tailbit.open(history.path).compact()
            elif what == "one batch":
                indexer.step()
            elif what == "drain":
                indexer.drain()
            history.done.append(f"[{what}]")
            history.step()
        assert_every_version_agrees(history, "anyhow")


@given(seed=seeds)
@examples(8)
def test_a_complete_index_is_sound_and_right_at_every_version(seed: int) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        history = DeltalakeHistory(f"{folder}/t", rng)
        indexer = drive(history.path, INDEXED)
        for _ in range(6):
            history.step()
            indexer.drain()
        report = tailbit.open(history.path).verify()
        assert report.problems == []
        assert tailbit.open(history.path).where().covered_version == history.head()
        assert_every_version_agrees(history, "complete")


@given(seed=seeds)
@examples(8)
def test_an_index_that_followed_the_log_gives_the_facets_of_the_rows(seed: int) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        history = DeltalakeHistory(f"{folder}/t", rng)
        indexer = drive(history.path, INDEXED)
        for _ in range(5):
            indexer.drain()
            history.step()
        for state in ("behind", "complete"):
            rows = live_rows(history.path, history.head())
            for column in ("small", "flag", "day", "price", "note", "region"):
                found = tailbit.open(history.path).where().facets(column)
                assert found == dict(Counter(rows[column].to_pylist())), (state, column, history.done)
            indexer.drain()


def test_two_indexers_by_turns_leave_one_sound_index(path: str) -> None:
    history = DeltalakeHistory(path, random.Random(7))
    indexers = [drive(path, INDEXED), drive(path, INDEXED)]
    for turn in range(8):
        history.step()
        indexers[turn % 2].drain()
    assert tailbit.open(path).verify().problems == []
    assert_every_version_agrees(history, "by turns")
