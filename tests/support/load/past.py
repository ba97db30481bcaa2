"""The past of an index: many commits of the table, each indexed by itself, before a load begins."""

from __future__ import annotations

from deltalake import DeltaTable, write_deltalake
from numpy.random import default_rng
from rich.progress import track

from support.drive import Drive
from support.load.writer import rows
from tailbit.index.maintenance.due import merge_due
from tailbit.index.maintenance.merge import run_merge
from tailbit.index.maintenance.vacuum import vacuum
from tailbit.streaming.settings import StreamSettings

_UPKEEP_EVERY = 500
"""Commits of the index between two checkpoints of both logs."""


def make_past(table: str, index: str, columns: list[str], commits: int) -> int:
    """Append to a table and index each commit, merging as is due, until the index has so many commits.

    Returns: how many commits the table was given.
    """
    rng, opened = default_rng(0), DeltaTable(table)
    drive = Drive(table, index, columns, StreamSettings(files=1, versions=1))
    drive.drain()
    for made, _ in enumerate(track(range(commits), "The past")):
        if drive.index.version >= commits:
            return made
        write_deltalake(opened, rows(rng), mode="append")
        drive.step()
        for plan in merge_due(drive.index.state):
            run_merge(drive.index, plan)
        if made % _UPKEEP_EVERY == 0:
            opened.create_checkpoint()
            vacuum(drive.index, older_than_hours=0)
    return commits
