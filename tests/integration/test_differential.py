"""On histories written by real delta-spark, with deletion vectors, tailbit answers what Spark answers.

At every version and in every state of the index: absent, half built, behind, complete, rebuilt.
"""

from __future__ import annotations

import random
import shutil
from typing import Any

import pytest

import tailbit
from support.differential import assert_answers_agree
from support.drive import Drive
from support.histories import SparkHistory
from support.oracle import spark_positions
from support.predicates import INDEXED, random_predicates
from support.profiles import chosen, seeds
from tailbit.streaming.settings import StreamSettings

SEEDS = seeds(1)
STEPS = 9
PREDICATES = 30


@pytest.fixture
def spark(replayed_spark: Any) -> Any:
    """A session for what is not recorded."""
    return replayed_spark


@pytest.mark.parametrize("seed", SEEDS)
def test_every_answer_is_what_spark_answers(spark: Any, table_path: str, seed: int) -> None:
    rng = random.Random(seed)
    history = SparkHistory(spark, table_path, rng)
    index = f"{table_path}/_tailbit"
    indexer = Drive(table_path, index, INDEXED, StreamSettings(files=2))
    for _ in range(STEPS):
        history.step()
        for _ in range(rng.choice((0, 0, 1, 2, 100))):
            indexer.step()
    asked = random_predicates(rng, PREDICATES)
    versions = chosen(range(history.head() + 1))
    expected = spark_positions(spark, table_path, versions, asked)

    def compare(state: str) -> None:
        for version in versions:
            assert_answers_agree(table_path, version, asked, expected[version], f"{state} {history.done}")

    compare("behind")
    indexer.drain()
    assert tailbit.open(table_path).where().covered_version == history.head()
    assert tailbit.open(table_path).verify().problems == []
    compare("complete")
    shutil.rmtree(index)
    compare("absent")
    half = Drive(table_path, index, INDEXED, StreamSettings(files=1))
    half.step()
    compare("half built")
    Drive(table_path, index).drain()
    compare("rebuilt")
