"""On histories written by real delta-spark, with deletion vectors, tailbit answers what Spark answers.

At every version and in every state of the index: absent, half built, behind, complete, rebuilt.
"""

from __future__ import annotations

import os
import random
import shutil
from typing import Any

import pytest

import tailbit
from support.differential import assert_answers_agree
from support.histories import SparkHistory
from support.indexer import HandIndexer
from support.oracle import spark_positions
from support.predicates import INDEXED, random_predicates

SEEDS = range(int(os.environ.get("TAILBIT_SEEDS", "2")))
STEPS = 9
PREDICATES = 30


@pytest.mark.parametrize("seed", SEEDS)
def test_every_answer_is_what_spark_answers(spark: Any, table_path: str, seed: int) -> None:
    rng = random.Random(seed)
    history = SparkHistory(spark, table_path, rng)
    indexer = HandIndexer(table_path, INDEXED, files=2)
    for _ in range(STEPS):
        history.step()
        if rng.random() < 0.5:
            indexer.drain(rng.choice((1, 2, None)))
    asked = random_predicates(rng, PREDICATES)
    versions = range(history.head() + 1)
    expected = {v: spark_positions(spark, table_path, v, asked) for v in versions}

    def compare(state: str) -> None:
        for version in versions:
            assert_answers_agree(table_path, version, asked, expected[version], f"{state} {history.done}")

    compare("behind")
    indexer.drain()
    assert tailbit.open(table_path).where().covered_version == history.head()
    assert tailbit.open(table_path).verify().problems == []
    compare("complete")
    shutil.rmtree(f"{table_path}/_tailbit")
    compare("absent")
    HandIndexer(table_path, INDEXED, files=1).drain(2)
    compare("half built")
    HandIndexer(table_path, None).drain()
    compare("rebuilt")
