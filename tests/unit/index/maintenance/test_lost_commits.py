"""An index whose newest commits were deleted is sound, and what was lost is told until it is done again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.drive import Drive
from support.tables import index_of


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table of three commits, each indexed by a commit of its own."""
    table = str(tmp_path / "t")
    for number in range(3):
        write_deltalake(table, pa.table({"k": range(10), "s": ["a"] * 10}), mode="append")
        if number:
            Drive(table, f"{table}/_tailbit").drain()
        else:
            index_of(table, ["k"])
    return table


def newest(path: str, count: int) -> list[Path]:
    return sorted(Path(path, "_tailbit/_delta_log").glob("*.json"))[-count:]


@pytest.mark.parametrize("count", [1, 2])
def test_commits_that_were_deleted_at_the_end_of_the_log_are_told(path: str, count: int) -> None:
    assert tailbit.open(path).verify().notes == []
    for commit in newest(path, count):
        commit.unlink()
    report = tailbit.open(path).verify()
    assert (report.sound, len(report.notes)) == (True, 1)
    assert "deleted" in report.notes[0]
    Drive(path, f"{path}/_tailbit").drain()
    assert tailbit.open(path).verify().notes == []


def test_a_deleted_change_of_columns_is_told(path: str) -> None:
    tailbit.open(path).alter(add=["s"])
    newest(path, 1)[0].unlink()
    assert len(tailbit.open(path).verify().notes) == 1


def test_a_ledger_that_cannot_be_read_is_no_trace(path: str) -> None:
    for commit in newest(path, 1):
        commit.unlink()
    for ledger in Path(path, "_tailbit/kind=ledger").iterdir():
        if ledger.stat().st_mtime_ns >= max(f.stat().st_mtime_ns for f in ledger.parent.iterdir()):
            ledger.write_bytes(b"")
    assert tailbit.open(path).verify().notes == []
