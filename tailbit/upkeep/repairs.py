"""Repair of an index: one commit removes what `verify` finds wrong, which is then built again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import PurePath

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CorruptIndexError, IndexerRunningError
from tailbit.base.faults import Fault, fault_point
from tailbit.checkpoints.builds import Build, Builds
from tailbit.checkpoints.claim import Claim
from tailbit.checkpoints.recovery import Origin
from tailbit.index.kinds.kind import Problem
from tailbit.index.kinds.schemas import KINDS, Kinds
from tailbit.index.maintenance.create import check_columns, check_remembered, start_over
from tailbit.index.maintenance.rebuild import extent_of_records
from tailbit.index.maintenance.repair import Mended, damage_of, is_of_records, mend
from tailbit.index.model import Definition
from tailbit.index.store.table import MetadataTable
from tailbit.index.write.run import run_task
from tailbit.index.write.work import BuildTask, TaskLimits, TaskResult
from tailbit.tables.table import Table

Progress = Callable[[int, int], None]
"""A callback with the numbers of files and rows that are still to be built."""
_OFTEN = 256 << 20
"""Bytes of a batch while a caller waits: the most that is lost if the process is interrupted."""

_TOLD_BYTES = 16 << 20
"""Bytes of a task while a caller waits: progress is reported after each task."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """The result of a repair: the problems, what was removed, what is left, and who builds it again.

    `left`: problems outside the index, such as a data file that cannot be read. `indexer`: the running
    indexer that builds the removed parts again; None if they are built when the repair returns. `anew`: ids
    of the columns, if the whole index was rebuilt.
    """

    problems: tuple[Problem, ...]
    left: tuple[Problem, ...]
    mended: Mended
    indexer: str | None = None
    anew: tuple[str, ...] = ()


def repair(
    table: Table,
    index: MetadataTable,
    problems: Sequence[Problem],
    columns: Sequence[Definition] | None = None,
    builds: Builds | None = None,
) -> Repaired:
    """Remove damaged parts from an index in one commit, and build them again if no indexer does.

    `columns`: the columns that the index must have; None for any. `builds`: as of `build_again`.

    Raises:
        SettingsError: the index has other columns.
        CommitConflictError: an indexer committed again and again at the same moments; try again.
        DataFileError: a live data file cannot be read, so that it cannot be posted again.
    """
    if columns is not None:
        check_columns(index.path, index.state.settings.columns, columns)
    outside = tuple(problem for problem in problems if not damage_of([problem]))
    damage = damage_of(problems)
    if not damage:
        return Repaired(tuple(problems), outside, Mended((), 0, 0))
    try:
        done = mend(index, table, damage, f"repair: {problems[0].where}")
    except CorruptIndexError as records:
        if not is_of_records(records):
            raise
        # The file records are damaged: without them nothing tells what the other parts are about.
        definitions = index.state.settings.definitions
        return made_anew(table, index.path, definitions, problems, index.kinds, builds)
    fault_point(Fault.REPAIR_HALF_DONE)
    return Repaired(tuple(problems), outside, done, build_again(table, index, builds))


def made_anew(
    table: Table,
    path: str,
    columns: Sequence[Definition] | None,
    problems: Sequence[Problem],
    kinds: Kinds = KINDS,
    builds: Builds | None = None,
) -> Repaired:
    """Rebuild the index at `path` from nothing, and return the result of the repair.

    `columns`: the columns to index if the settings are lost. `problems`: the problems that the result lists.
    `builds`: as of `build_again`.

    Raises:
        TailbitError: the settings are lost and no columns given, the columns differ, another process
            committed, or the store refused.
    """
    options = table.storage.options
    check_remembered(path, columns, options)
    settings = start_over(path, lambda: columns, options, kinds)
    index = MetadataTable.open(path, kinds, options)
    anew = tuple(column.label for column in settings.columns)
    return Repaired(tuple(problems), (), Mended((), 0, 0), build_again(table, index, builds), anew)


def build_again(table: Table, index: MetadataTable, builds: Builds | None = None) -> str | None:
    """Build what an index lacks in this process, unless an indexer runs; return that indexer, else None.

    `builds`: gets the record of the build, for whoever shows it. Whatever is committed when the process is
    interrupted stays built.
    """
    from tailbit.streaming.indexer import Indexer
    from tailbit.streaming.planner import Planner
    from tailbit.streaming.settings import StreamSettings

    heartbeat = Claim(index.storage, builds=builds)
    try:
        heartbeat.acquire()
    except IndexerRunningError as running:
        return str(running.fields["owner"])
    try:
        planner = Planner(
            table,
            MetadataTable.open(index.path, index.kinds, index.storage.options),
            StreamSettings() if builds is None else StreamSettings(bytes=_OFTEN),
        )
        planner.freeze()
        limits = TaskLimits() if builds is None else TaskLimits(task_bytes=_TOLD_BYTES)
        build = heartbeat.builds.build(index.state.index_id, "build", PurePath(table.root).name)
        indexer = Indexer(table, index, limits, partial(_run_all, build), build=build)
        for start, end in planner.batches(planner.initial()):
            indexer.apply(start, end, Origin("repair"))
    finally:
        heartbeat.release()
    return None


def _run_all(build: Build, tasks: Sequence[BuildTask]) -> list[TaskResult]:
    """Run tasks one after the other, and add each to the record of the build."""
    results = []
    for task in tasks:
        results.append(run_task(task))
        build.add(extent_of_records(results[-1].records))
    return results


def builds_told_to(progress: Progress) -> Builds:
    """Return builds that tell `progress` what is left, first and after each task.

    If it raises, the build ends, and what is committed stays built.
    """

    def tell(build: Build) -> None:
        now = build.progress()
        if now is not None:
            progress(now.extent.unbuilt.files, now.extent.unbuilt.rows)

    return Builds(tell)
