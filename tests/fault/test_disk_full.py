"""Where files can grow no further, the indexer ends with StorageError and the index stays as it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

import tailbit
from support.contents import contents_of
from support.drive import Drive

ROWS = 5_000


@pytest.mark.parametrize("limit", [0, 4_096])
def test_a_full_disk_is_named_and_leaves_the_index_as_it_was(tmp_path: Path, limit: int) -> None:
    table, index = str(tmp_path / "table"), str(tmp_path / "index")
    deltalake.write_deltalake(table, pa.table({"v": ["a", "b", "a"]}))
    Drive(table, index, ["v"]).drain()
    before, files = contents_of(index), _files(index)
    deltalake.write_deltalake(table, pa.table({"v": [f"{i:040d}" for i in range(ROWS)]}), mode="append")
    done = subprocess.run(
        [sys.executable, "-m", "support.drive_limited", table, index, "v", str(limit)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "StorageError True", done.stderr[-2000:]
    assert (contents_of(index), _files(index)) == (before, files)
    assert tailbit.open(table, index=index).where("v = 'a'").count() == 2
    Drive(table, index, ["v"]).drain()
    assert tailbit.open(table, index=index).where(f"v = '{7:040d}'").count() == 1
    assert tailbit.open(table, index=index).verify().problems == []


def _files(index: str) -> list[str]:
    return sorted(str(path.relative_to(index)) for path in Path(index).rglob("*") if path.is_file())
