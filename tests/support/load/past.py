"""The past of an index: many commits of the table, each indexed by itself, before a load begins."""

from __future__ import annotations

from numpy.random import default_rng
from rich.progress import track

from support.drive import Drive
from support.load.writer import Appender, rows
from tailbit.index.maintenance.merge import merge_due, run_merge
from tailbit.index.maintenance.vacuum import vacuum
from tailbit.streaming.settings import StreamSettings

_UPKEEP_EVERY = 500
"""Commits between two clean-ups of the index, with a checkpoint of its log."""


def make_past(table: str, index: str, columns: list[str], commits: int) -> int:
    """Append to a table and index each commit, merging as is due, until the index has so many commits.

    Returns: how many commits the table was given.
    """
    rng, writer = default_rng(0), Appender(table)
    drive = Drive(table, index, columns, StreamSettings(files=1, versions=1))
    drive.drain()
    for made, _ in enumerate(track(range(commits), "The past")):
        if drive.index.version >= commits:
            return made
        writer.append(rows(rng))
        drive.step()
        for plan in merge_due(drive.index.state):
            run_merge(drive.index, plan)
        if made % _UPKEEP_EVERY == 0:
            vacuum(drive.index, older_than_hours=0)
    return commits
