"""Random histories of changed rows: what `delete` and `upsert` leave is what Delta's own statements leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.row_changes.history import History

SEEDS = (2_000_001, 2_000_010)
"""The rows in memory alone judge the first; Delta does too of the second."""


@pytest.mark.parametrize("seed", SEEDS)
def test_any_history_of_changes_leaves_the_rows_that_delta_leaves(
    spark: Any, tmp_path: Path, seed: int
) -> None:
    tally = History(spark, str(tmp_path), seed, steps=6).go()
    assert tally.findings == []
    assert tally.changes
