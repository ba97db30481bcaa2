"""Groups, extremes, sums, histograms and transitions of any history are those of the judge.

Hundreds of checks here, any number by `make fuzz KIND=analytics`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyroaring import BitMap

from support.analytics.judge import judged
from support.analytics.questions import KINDS
from support.analytics.run import AnalyticsRun, fuzz_analytics
from support.profiles import seeds
from support.tables import tamper

pytestmark = pytest.mark.usefixtures("outside_allowed")


@pytest.mark.by_thirds
@pytest.mark.parametrize("seed", seeds(3))
def test_every_analytical_answer_about_any_history_is_right(seed: int) -> None:
    found = fuzz_analytics(seed, checks=200, each=100)
    assert found.findings == []
    assert (found.checks, found.histories) == (200, 2)


def test_every_kind_of_question_is_asked_of_one_history(tmp_path: Path) -> None:
    run = AnalyticsRun(1, 0, str(tmp_path))
    run.follower.drain()
    run.ask("complete", run.history.readable(), 150)
    assert {given.question.kind for given in run.answers} == set(KINDS)
    assert run.judged() == []


def test_a_wrong_bit_in_the_index_is_found_by_analytics(tmp_path: Path) -> None:
    run = AnalyticsRun(3, 0, str(tmp_path))
    run.follower.drain()
    tamper(run.history.path, lambda column, key, bits: bits - BitMap([bits.min()]))
    run.ask("tampered", run.history.readable(), 60)
    assert judged(run.answers)
