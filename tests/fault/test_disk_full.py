"""Where files can grow no further, the indexer ends with StorageError and the index stays as it was."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import tailbit
from support.contents import contents_of
from support.drive import Drive
from support.profiles import PARTS

ROWS = 5_000


ALIKE = [f"{n:040d}" for n in range(ROWS)]
"""They compress so well that a segment of them is smaller than the ledger."""

UNLIKE = [hashlib.sha1(value.encode()).hexdigest() for value in ALIKE]


@pytest.mark.parametrize(
    ("limit", "values", "left"),
    [
        pytest.param(0, ALIKE, 0, id="nothing can be written"),
        pytest.param(4_096, UNLIKE, 0, id="the segment cannot"),
        pytest.param(4_096, ALIKE, 2, id="the segment and its counts can, the ledger cannot"),
    ],
)
def test_a_full_disk_is_named_and_leaves_the_index_as_it_was(
    tmp_path: Path, limit: int, values: list[str], left: int
) -> None:
    table, index = str(tmp_path / "table"), str(tmp_path / "index")
    deltalake.write_deltalake(table, pa.table({"v": ["a", "b", "a"]}))
    Drive(table, index, ["v"]).drain()
    before, files = contents_of(index), _files(index)
    deltalake.write_deltalake(table, pa.table({"v": values}), mode="append")
    done = subprocess.run(
        [sys.executable, "-m", "support.drive_limited", table, index, "v", str(limit)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "StorageError True", done.stderr[-2000:]
    assert contents_of(index) == before
    indexed = tailbit.open(table, index=index)
    orphans = sorted(_files(index) - files)
    assert (len(orphans), indexed.vacuum(older_than_hours=0, dry_run=True)) == (left, orphans)
    assert indexed.where("v = 'a'").count() == 2
    Drive(table, index, ["v"]).drain()
    assert indexed.where(f"v = '{values[7]}'").count() == 1
    assert indexed.verify().problems == []


def test_a_vacuum_of_an_index_on_a_full_disk_makes_room(tmp_path: Path) -> None:
    table, index = _indexed(tmp_path, versions=3)
    left = Path(index, "kind=files", "never-committed.parquet")
    left.write_bytes(bytes(1 << 20))
    os.utime(left, (1, 1))
    assert [told["error"] for told in _on_a_full_disk(tmp_path, table, index, "vacuum")] == [None]


def test_a_disk_that_is_full_at_any_write_costs_nothing_once_it_has_room(tmp_path: Path) -> None:
    table, index = _indexed(tmp_path, versions=9)
    deltalake.write_deltalake(table, pa.table({"v": UNLIKE[:300]}), mode="append")
    told = _on_a_full_disk(tmp_path, table, index)
    assert [t for t in told if not t["whole"] or not t["mended"]] == []
    assert {t["error"] for t in told} == {"StorageError True", None}
    tried = Counter(t["operation"] for t in told)
    assert tried["batch"] > 10 // PARTS, tried
    assert tried["compact"] > 5 // PARTS, tried
    assert tried["vacuum"] >= 1, tried


def _indexed(folder: Path, versions: int) -> tuple[str, str]:
    """A table of `versions` small commits, indexed one by one."""
    table, index = str(folder / "table"), str(folder / "index")
    for number in range(versions):
        deltalake.write_deltalake(table, pa.table({"v": [f"{number}", "a"]}), mode="append")
        Drive(table, index, ["v"]).drain()
    return table, index


_NOT_MOUNTED = 77


def _on_a_full_disk(folder: Path, table: str, index: str, *operation: str) -> list[dict[str, Any]]:
    """What `drive_full` tells in a process that sees a file system of 4 MiB."""
    if shutil.which("unshare") is None:
        pytest.skip("no command unshare here")
    disk = folder / "disk"
    disk.mkdir()
    mount = f'mount -t tmpfs -o size=4m tailbit "$0" || exit {_NOT_MOUNTED}; exec "$@"'
    drive = [sys.executable, "-m", "support.drive_full", table, index, "v", str(disk), *operation]
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", mount, str(disk), *drive],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == _NOT_MOUNTED or "unshare" in done.stderr:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def _files(index: str) -> set[str]:
    return {str(path.relative_to(index)) for path in Path(index).rglob("*") if path.is_file()}
