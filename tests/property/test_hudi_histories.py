"""What is said of a hand-made Hudi table is what another reader finds in it: hudi-rs, at the head."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

from support.fuzzer.hudi import HudiHistory

STEPS = 25


def counted(rows: pa.Table) -> Counter[str]:
    """Count equal rows; a value is told by its text, so that NaN is equal to NaN."""
    names = sorted({*rows.column_names} - {"file", "position"})
    return Counter(repr(row) for row in rows.select(names).to_pylist())


@pytest.mark.parametrize("seed", range(12))
def test_hudi_rs_reads_the_rows_of_every_step_of_a_hand_made_table(seed: int, tmp_path: Path) -> None:
    history = HudiHistory(str(tmp_path / "table"), random.Random(seed))
    for _ in range(STEPS):
        history.step()
        expected = history.head().rows()
        batches = HudiTableBuilder.from_base_uri(history.path).build().read()
        found = pa.Table.from_batches(batches) if batches else expected.slice(0, 0)
        assert counted(found) == counted(expected), history.done
