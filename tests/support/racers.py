"""What tests run in processes of their own: a process can only import what is not in a test module."""

from __future__ import annotations

from multiprocessing.synchronize import Barrier
from typing import Any

from support.index_records import ledger, record
from support.waiting import HANG_S
from tailbit.errors import CommitConflictError
from tailbit.index.maintenance.merge import merge_all
from tailbit.index.store.table import MetadataTable


def merge_everything(path: str) -> None:
    """Do every merge that is due."""
    merge_all(MetadataTable.open(path))


def race(path: str, name: str, barrier: Barrier, rounds: int, results: Any) -> None:
    """Commit at the same moment as another process, `rounds` times; tell which versions were won."""
    index = MetadataTable.open(path)
    won = []
    for _ in range(rounds):
        index.refresh()
        wanted = index.version + 1
        barrier.wait(HANG_S)
        try:
            index.commit([record(f"{name}{wanted}")], [], ledger(wanted))
            won.append(wanted)
        except CommitConflictError:
            pass
        barrier.wait(HANG_S)
    results.put((name, won))
