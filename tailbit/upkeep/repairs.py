"""An index is repaired: what `verify` finds wrong goes in one commit, and is then built again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tailbit.checkpoints.heartbeat import Heartbeat
from tailbit.checkpoints.ledger import Origin
from tailbit.errors import CorruptIndexError, IndexerRunningError
from tailbit.faults import Fault, fault_point
from tailbit.index.kinds.kind import Problem
from tailbit.index.kinds.schemas import KINDS, Kinds
from tailbit.index.maintenance.start_over import check_columns, start_over
from tailbit.index.model import Definition
from tailbit.index.repair.damage import damage_of
from tailbit.index.repair.mend import Mended, mend
from tailbit.index.store.table import MetadataTable
from tailbit.index.write.plan import TaskLimits
from tailbit.index.write.run import run_task
from tailbit.tables.table import Table


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
) -> Repaired:
    """Remove damaged parts from an index in one commit, and build them again if no indexer does.

    `columns`: those that the index must have.

    Raises:
        SettingsError: the index has other columns.
        CommitConflictError: an indexer committed again and again at the same moments; try again.
        DataFileError: a live data file cannot be read, so that it cannot be posted again.
    """
    if columns is not None:
        check_columns(index.path, index.state.settings.columns, columns)
    left = tuple(problem for problem in problems if not damage_of([problem]))
    damage = damage_of(problems)
    if not damage:
        return Repaired(tuple(problems), left, Mended((), 0, 0))
    try:
        done = mend(index, table, damage, f"repair: {problems[0].where}")
    except CorruptIndexError:
        # The records themselves: without them nothing tells what the rest is about.
        return made_anew(table, index.path, index.state.settings.columns, problems, index.kinds)
    fault_point(Fault.REPAIR_HALF_DONE)
    return Repaired(tuple(problems), left, done, build_again(table, index))


def made_anew(
    table: Table,
    path: str,
    columns: Sequence[Definition] | None,
    problems: Sequence[Problem],
    kinds: Kinds = KINDS,
) -> Repaired:
    """Rebuild the index at `path` from nothing, and return the result of the repair.

    `columns`: those to index if the settings are lost. `problems`: go into the result.

    Raises:
        TailbitError: the settings are lost and no columns given, the columns differ, another process
            committed, or the store refused.
    """
    options = table.storage.options
    settings = start_over(path, columns, options, kinds)
    index = MetadataTable.open(path, kinds, options)
    anew = tuple(column.label for column in settings.columns)
    return Repaired(tuple(problems), (), Mended((), 0, 0), build_again(table, index), anew)


def build_again(table: Table, index: MetadataTable) -> str | None:
    """Bring an index up to its table in this process, unless an indexer runs; return that indexer."""
    from tailbit.streaming.indexer import Indexer
    from tailbit.streaming.settings import StreamSettings
    from tailbit.streaming.source.planner import Planner

    heartbeat = Heartbeat(index.storage)
    try:
        heartbeat.claim()
    except IndexerRunningError as running:
        return str(running.fields["owner"])
    try:
        planner = Planner(
            table,
            MetadataTable.open(index.path, index.kinds, index.storage.options),
            StreamSettings(wait_ms=0),
        )
        planner.freeze()
        indexer = Indexer(table, index, TaskLimits(), lambda tasks: [run_task(task) for task in tasks])
        start = planner.initial()
        while (end := planner.next(start)) != start:
            indexer.apply(start, end, Origin("repair"))
            start = end
    finally:
        heartbeat.release()
    return None
