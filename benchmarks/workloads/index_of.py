"""An index brought up to date in this process, without Spark, by the path that foreachBatch takes."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Mapping, Sequence
from functools import partial

from tailbit.checkpoints.offset import log_start, snapshot_start
from tailbit.checkpoints.recovery import Origin
from tailbit.errors import IndexFormatError
from tailbit.index.maintenance.create import indexed_columns, open_or_create
from tailbit.index.maintenance.definitions import define
from tailbit.index.maintenance.merge import merge_due, run_merge
from tailbit.index.sql.ddl.statements import CreateIndex, TableReference, WrittenExpression
from tailbit.index.store.table import MetadataTable
from tailbit.index.write.run import run_task
from tailbit.index.write.work import TaskLimits
from tailbit.streaming.indexer import Indexer
from tailbit.tables import Table, open_table


class Upkeep:
    """One table and its index, kept by hand."""

    def __init__(
        self, table: pathlib.Path, columns: Sequence[str] | None, index: pathlib.Path | None = None
    ) -> None:
        self.table = open_table(str(table))
        self.index = _prepared(self.table, str(index or table / "_tailbit"), columns)
        self._indexer = Indexer(
            self.table, self.index, TaskLimits(parallelism=1), lambda tasks: [run_task(t) for t in tasks]
        )

    def catch_up(self) -> None:
        """Bring the index to the head of the log."""
        head, ledger = self.table.head(), self.index.state.ledger
        print_of_head = self.table.fingerprint(head)
        if ledger is None:
            start = snapshot_start(1, print_of_head, head)
            end = start.after_snapshot()
        else:
            start = log_start(ledger.round, ledger.fingerprint, ledger.version)
            end = log_start(ledger.round, print_of_head, head)
        self._indexer.apply(start, end, Origin())

    def merge(self) -> None:
        """Merge what is due, as the stream does between batches."""
        for plan in merge_due(self.index.state):
            run_merge(self.index, plan)


def _prepared(table: Table, path: str, columns: Sequence[str] | None) -> MetadataTable:
    """The index of a table; one of another format, which an earlier release left, is made anew."""
    make, options = partial(indexed_columns, table, columns or ()), table.storage.options
    try:
        return open_or_create(path, make, options)[0]
    except IndexFormatError:
        shutil.rmtree(path)
        return open_or_create(path, make, options)[0]


def keyed_index(
    table: pathlib.Path,
    column: str,
    kind: str = "record_key",
    options: Mapping[str, str] | None = None,
    index: pathlib.Path | None = None,
) -> Upkeep:
    """A new index of a column for look-ups by its keys, brought up to date."""
    index = index or table / "_tailbit"
    shutil.rmtree(index, ignore_errors=True)
    source = open_table(str(table))
    terms = (WrittenExpression(column),)
    made = CreateIndex("key", TableReference("path", (str(table),)), terms, kind, dict(options or {}))
    definition = define(made, source.snapshot().schema)
    open_or_create(str(index), lambda: [definition], source.storage.options)
    return index_without_spark(table, None, index)


def index_without_spark(
    table: pathlib.Path, columns: Sequence[str] | None, index: pathlib.Path | None = None
) -> Upkeep:
    """The index of a table, brought up to date; beside the table unless it is to be elsewhere.

    `columns`: None for those of an index that there is.
    """
    upkeep = Upkeep(table, columns, index)
    upkeep.catch_up()
    return upkeep
