"""Fuzzed histories with Spark as the judge: of what tailbit answers, and of the fuzzer's own account.

Spark reads every version of a hand-made table in one job and judges all predicates in it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import tailbit
from support.fuzzer.asks import Ask, ask, new_predicate
from support.fuzzer.judge import judge
from support.fuzzer.run import Run
from support.judged import Answers, JudgedTable

SEEDS = range(int(os.environ.get("TAILBIT_SEEDS", "3")))
PREDICATES = 25


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_answered_of_any_history_is_what_spark_answers(spark: Any, tmp_path: Path, seed: int) -> None:
    run = Run(1000 + seed, 60, str(tmp_path))
    run.go()
    assert list(run.findings(judge(run.asks))) == []
    run.follower.drain()
    opened, asks = tailbit.open(run.history.path), []
    for version in run.history.readable():
        asks += [
            ask(opened, version, new_predicate(run.rng, version), "complete", run.rng)
            for _ in range(PREDICATES)
        ]
    assert list(run.findings(judge(asks))) == []
    expected = answers(spark, run.history.path, asks)
    root = os.path.realpath(run.history.path)
    for one in asks:
        found = {os.path.join(root, path): at for path, at in one.found.positions.items()}
        assert found == expected[one.version.version, one.predicate.spark], (one.predicate, run.history.done)


def answers(spark: Any, path: str, asks: list[Ask]) -> Answers:
    """Spark's answers, a job for the versions of one schema, whose predicates it can resolve."""
    judged, out = JudgedTable(spark, path, []), {}
    for key in {one.version.key for one in asks}:
        group = [one for one in asks if one.version.key == key]
        versions = sorted({one.version.version for one in group})
        out.update(judged.spark_answers(versions, sorted({one.predicate.spark for one in group})))
    return out
