"""What the index of a MERGE_ON_READ table does for one more commit of a group with log blocks."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from unittest.mock import Mock

import orjson
import pytest

from support.drive import Drive
from support.hudi_made import Made, updates
from tailbit.index.write import counting
from tailbit.tables.hudi.log_files import records
from tailbit.tables.hudi.log_files.plan import MergePlan
from tailbit.tables.hudi.log_files.slices import MergedRows
from tailbit.tables.open import open_table


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A table with three log blocks of new rows, which say no positions."""
    made = Made(tmp_path)
    for key in (10, 20, 30):
        made.write(updates([key, key + 1], 9))
    return made


def test_a_block_is_decoded_once(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    drive = Drive(made.path, Path(made.path) / "_tailbit", ["city"])
    drive.drain()
    decoded = Mock(side_effect=records.as_parquet)
    monkeypatch.setattr(records, "as_parquet", decoded)
    made.write(updates([40], 9))
    drive.drain()
    assert decoded.call_count == 1


def test_rows_that_stay_hidden_are_not_read_from_the_index(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive = Drive(made.path, Path(made.path) / "_tailbit", ["city"])
    drive.drain()
    opened = Mock(side_effect=counting.MetadataTable.open)
    monkeypatch.setattr(counting, "MetadataTable", Mock(open=opened))
    made.write(updates([40], 9))
    [outcome] = drive.drain()
    # The base file, three blocks that the new one may have hidden rows of, and the new one.
    assert (outcome.files, outcome.rows, opened.call_count) == (5, 1, 0)


def test_an_identity_is_the_hash_of_the_text_up_to_the_block_that_decides(made: Made) -> None:
    """Indexes of earlier releases hold identities that were made of the whole text."""
    slices = [*open_table(made.path).snapshot().files]
    assert len(slices) == 4
    for slice_ in slices:
        assert isinstance(slice_.hidden, MergedRows)
        plan = MergePlan.parse(slice_.hidden.plan)
        for last in range(len(plan.blocks)):
            parts = plan.folder, plan.base, plan.rule[:2], [[*block] for block in plan.blocks[: last + 1]]
            hashed = sha256(orjson.dumps(parts) + b"\0" + slice_.path.encode()).hexdigest()
            assert plan.identity(slice_.path, last) == hashed[:32]
        assert slice_.hidden.id == plan.identity(slice_.path, len(plan.blocks) - 1)
