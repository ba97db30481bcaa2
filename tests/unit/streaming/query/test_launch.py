"""What a run is refused for before Spark is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.tables import three_commits
from tailbit.errors import UnusableStorageError
from tailbit.streaming.query.launch import prepare


@pytest.mark.parametrize("kind", ["below a file", "a file", "where nobody may make one"])
def test_a_checkpoint_that_cannot_be_made_is_refused_before_spark_starts(tmp_path: Path, kind: str) -> None:
    table, file = three_commits(str(tmp_path / "orders")), tmp_path / "file"
    file.touch()
    checkpoint = {"below a file": file / "c", "a file": file}.get(kind, Path("/proc/1/c"))
    with pytest.raises(UnusableStorageError, match="checkpoint cannot be made") as refused:
        prepare(table, ["k"], None, checkpoint, "1s")
    assert not refused.value.retryable
    assert "--checkpoint" in refused.value.hint


def test_a_checkpoint_that_is_named_is_made(tmp_path: Path) -> None:
    checkpoint = tmp_path / "a" / "b"
    assert prepare(three_commits(str(tmp_path / "orders")), ["k"], None, checkpoint, "1s").checkpoint
    assert checkpoint.is_dir()
