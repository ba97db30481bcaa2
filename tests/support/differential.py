"""Compare what tailbit answers with what another engine answered, predicate by predicate."""

from __future__ import annotations

from collections.abc import Sequence

import tailbit
from support.oracle import Positions, as_lists
from support.predicates import Predicate


def assert_answers_agree(
    path: str,
    version: int,
    predicates: Sequence[Predicate],
    expected: Sequence[Positions],
    state: str,
    index: str | None = None,
) -> None:
    """Every count and every position is the oracle's; `state` says what the index was like, for a failure."""
    table = tailbit.open(path, index=index)
    for predicate, positions in zip(predicates, expected, strict=True):
        answer = table.where(predicate.spark, version=version)
        found = as_lists(answer.positions())
        where = f"{predicate.spark}\n at version {version}, index {state}, covered {answer.covered_version}"
        assert found == positions, where
        assert table.where(predicate.spark, version=version).count() == sum(map(len, positions.values())), (
            where
        )
