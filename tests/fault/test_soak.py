"""A short soak: everything works on one table at once, while faults come; `make soak` does it for an hour."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.profiles import PROOF, seeds
from support.soak.faults import Faults
from support.soak.run import Soak

pytestmark = pytest.mark.spark

KILLS = 15
"""Kills at random under a live writer in `make proof`."""


def few(faults: Faults) -> Iterator[Callable[[], None]]:
    """Faults that leave the command running, and one kill: a start of Spark costs as much as all the rest."""
    yield faults.kill_of_the_workers
    yield faults.index_file_damaged
    yield faults.checkpoint_deleted_at_work
    yield faults.table_away
    yield faults.kill_of_the_whole_group


def many(faults: Faults) -> Iterator[Callable[[], None]]:
    """Every fault once, then kills."""
    yield from faults.all()
    kills = [faults.kill_of_the_whole_group, faults.kill_of_java_alone, faults.kill_at_a_fault_point]
    yield from random.Random(1).choices(kills, k=KILLS)


@pytest.mark.parametrize("seed", seeds(1)[:2])
def test_compact_vacuum_verify_alter_run_and_queries_all_at_once_under_faults_give_right_answers(
    tmp_path: Path, seed: int
) -> None:
    tally = Soak(tmp_path, seed).run(many if PROOF else few)
    assert tally.findings == []
    assert (tally.mismatches, tally.lost, tally.twice) == (0, 0, 0)
    assert tally.answers
