"""Fuzzed histories with Spark as the judge: of what tailbit answers, and so of the fuzzer's own account."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tailbit
from support.fuzzer.asks import ask, new_predicate
from support.fuzzer.judge import judge
from support.fuzzer.run import Run
from support.fuzzer.spark import judge_by_spark
from support.profiles import chosen, seeds

SEEDS = seeds(2)
PREDICATES = 60

pytestmark = pytest.mark.usefixtures("outside_allowed")


@pytest.mark.by_thirds
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_answered_of_any_history_is_what_spark_answers(spark: Any, tmp_path: Path, seed: int) -> None:
    run = Run(1000 + seed, 60, str(tmp_path))
    run.go()
    run.follower.drain()
    opened = tailbit.open(run.history.path)
    asks = [
        ask(opened, version, new_predicate(run.rng, version), "complete", run.rng)
        for version in chosen(run.history.readable())
        for _ in range(PREDICATES)
    ]
    assert list(run.findings(judge_by_spark(spark, run.history.path, asks))) == []
    assert list(run.findings(judge([*run.asks, *asks]))) == []
