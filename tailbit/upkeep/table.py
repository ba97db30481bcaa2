"""A table whose index is maintained: checked, repaired, merged, altered and vacuumed.

Each of these operations opens the index for itself, since it takes long or commits: questions to the same
object are not blocked meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tailbit.arguments.values import flag, function, names, number, whole
from tailbit.base.errors import CorruptIndexError, NoIndexError, UnknownColumnError, UsageError
from tailbit.handle import table_name
from tailbit.index.model import Definition, Standing
from tailbit.upkeep.definitions import DefinedTable

if TYPE_CHECKING:
    from tailbit.checkpoints.builds import Builds
    from tailbit.index.advice.advise import Advice
    from tailbit.index.maintenance.alter import Altered
    from tailbit.index.maintenance.verify import Report
    from tailbit.index.model import Settings
    from tailbit.index.store.state import IndexState
    from tailbit.index.store.table import MetadataTable
    from tailbit.tables.schema import Schema
    from tailbit.tables.snapshot import Snapshot
    from tailbit.upkeep.repairs import Repaired


class MaintainedTable(DefinedTable):
    """A source table and the maintenance of its index; the base of `IndexedTable`."""

    def verify(
        self,
        samples: int = 200,
        seed: int = 0,
        progress: Callable[[int, int], None] | None = None,
        derive: int = 0,
        files: Iterable[str] = (),
        columns: Iterable[str] = (),
    ) -> Report:
        """Check the index: checksums, postings, value counts, and a sample of values of the data files.

        `derive`: number of (file, column) pairs whose postings are derived again as a whole; with `files`
        (paths as in the log) or `columns`, all pairs of these are.

        Raises:
            NoIndexError: there is no index.
            UsageError: an argument is not of its type, or `samples` is below zero; a file is not in the
                table, or a column not in the index.

        >>> report = flights.verify()
        >>> report.sound, report.problems, report.postings
        (True, [], 4)
        """
        sampling: dict[str, Any] = {
            "samples": whole("samples", samples),
            "seed": whole("seed", seed, negative=True),
            "derive": whole("derive", derive),
        }
        files, columns = names("files", files), names("columns", columns)
        if progress is not None:
            function("progress", progress)
        seen = self._apart()
        seen._refresh()
        if seen._index is None:
            if seen.damage is None:
                raise NoIndexError(path=self.index_path)
            return _unreadable(seen._standing(), seen.damage)
        return seen._compared(seen._index, files, columns, progress=progress, **sampling)

    def _compared(
        self, index: MetadataTable, files: Collection[str], columns: Collection[str], **sampling: Any
    ) -> Report:
        """Compare the index with the snapshot that it covers, and report the differences."""
        from tailbit.index.maintenance.verify import ledgers_without_a_commit, lost_commits, verify

        standing, unnamed = self._standing(), ledgers_without_a_commit(index.state)
        snapshot = self._covered_snapshot(standing)
        report = verify(
            index.state,
            self._cover(snapshot, self._trusted()),
            self._table.storage,
            standing=standing,
            at_head=snapshot.version == self._table.head(),
            chosen_by=_chosen(files, columns, snapshot, index.state),
            **sampling,
        )
        report.version = self._table.name_of(snapshot.version)
        if unnamed:
            now = self._apart()
            now._refresh()
            report.notes += [] if now._index is None else lost_commits(now._index.state, unnamed)
        return report

    def repair(
        self,
        samples: int = 200,
        seed: int = 0,
        progress: Callable[[int, int], None] | None = None,
        columns: Iterable[str] | None = None,
    ) -> Repaired:
        """Verify the index and build again only what is wrong, while an indexer may run.

        One commit removes the damaged parts. A running indexer builds them again; if none runs, this call
        does. An index whose records or own log cannot be read, or of an older format, is rebuilt with its
        columns, or with `columns` if its own are lost. Every question is answered rightly all the while.

        Raises:
            NoIndexError: there is no index.
            CorruptIndexError: the settings of the index are lost, and no columns are given.
            SettingsError: the index has other columns than those given.
            CommitConflictError: an indexer committed at the same moments; try again.

        >>> flights.repair().problems
        ()
        """
        definitions, report = self._checked_for_repair(samples, seed, progress, columns)
        return self._repaired(report, definitions)

    def _checked_for_repair(
        self,
        samples: int,
        seed: int,
        progress: Callable[[int, int], None] | None,
        columns: Iterable[str] | None,
    ) -> tuple[Sequence[Definition] | None, Report]:
        """Return the columns that the index must have, None for any, and what `verify` finds."""
        from tailbit.index.maintenance.create import indexed_columns

        definitions = None if columns is None else indexed_columns(self._table, names("columns", columns))
        return definitions, self.verify(samples=samples, seed=seed, progress=progress)

    def _repaired(
        self, report: Report, definitions: Sequence[Definition] | None, builds: Builds | None = None
    ) -> Repaired:
        """Build again what a report names. `builds`: gets the record of the build."""
        from tailbit.upkeep.repairs import made_anew, repair

        seen = self._apart()
        seen._refresh()
        if seen._index is None:
            return made_anew(self._table, self.index_path, definitions, report.problems, builds=builds)
        return repair(self._table, seen._index, report.problems, definitions, builds)

    def advise(
        self,
        queries: Iterable[str] | None = None,
        seed: int = 0,
        progress: Callable[[int, int], None] | None = None,
    ) -> Advice:
        """Advise which columns and which indexes of every kind are worth it, from a sample of the data.

        `queries`: questions that are asked of the table, each a predicate or a SELECT; a column that none of
        them names is not advised. `seed`: seed of the sample. No index is needed, and nothing is written. The
        `definitions` of the advice are CREATE INDEX statements for indexes that do not exist yet.

        Raises:
            DataFileError: a sampled file is missing or is not Parquet.
            UsageError: a question is not understood, or an argument is not of its type.

        >>> advice = flights.advise()
        >>> advice.columns, advice.every[3].estimate.distinct  # so few rows are as quick to scan
        ([], 8)
        """
        from tailbit.index.advice.advise import advise
        from tailbit.index.advice.proposals import read_questions
        from tailbit.index.sql.ddl.statements import TableReference

        lines = None if queries is None else names("queries", queries)
        if progress is not None:
            function("progress", progress)
        snapshot = self._apart()._table.snapshot()
        table = table_name(self.path)
        questions = None if lines is None else read_questions(lines, snapshot.schema, table)
        seed, existing = whole("seed", seed), self._readable_definitions()
        named = TableReference("path", (self._table.address,), format=self._table.words.sql_name)
        return advise(snapshot, self._table.storage, questions, seed, progress, named, existing)

    def compact(self) -> int:
        """Merge small segments until none is due; return the number of merges committed.

        Raises:
            NoIndexError: there is no index.
            CommitConflictError: an indexer committed at the same moment; try again.

        >>> flights.compact()
        0
        """
        from tailbit.index.maintenance.merge import merge_all

        seen = self._apart()
        index = seen._needed()
        # Versions of another history do not tell which files of this one can still be asked for.
        earliest = self._table.earliest() if seen._trusted() else None
        return merge_all(index, earliest_version=earliest)

    def alter(self, add: Iterable[str] = (), drop: Iterable[str] = ()) -> Altered:
        """Index more columns and drop others; a running indexer takes up the change by itself.

        Every question is answered rightly at every moment: files without postings of a column are scanned.
        `drop` names a column as the table does today, or as it did when it was indexed.

        Raises:
            NoIndexError: there is no index.
            UnknownColumnError: the table has no such column, nor has the index one to drop.
            ColumnTypeError: values of a column cannot be indexed.
            UsageError: a column is both added and dropped, or `add` or `drop` is no list of names.

        >>> altered = flights.alter(add=["dest"])
        >>> altered.added, altered.dropped
        (('dest',), ())
        """
        from tailbit.index.advice.estimate import decided
        from tailbit.index.maintenance.alter import alter

        come, go = names("add", add), names("drop", drop)
        index, schema = self._apart()._needed(), self._table.snapshot().schema
        coming = [Definition.of_column(schema.resolve(name)) for name in come]
        existing = {definition.id for definition in index.state.settings.definitions}
        going = [_indexed_id(index.state.settings, schema, name) for name in go]
        both = [column.label for column in coming if column.id in going]
        if both:
            raise UsageError(reason=f"{', '.join(both)} is both added and dropped", hint="Name it once.")
        new = decided(self._table, [definition for definition in coming if definition.id not in existing])
        return alter(index, new, going)

    def indexed(self) -> dict[str, str]:
        """Return for each indexed column its id and its name, a former name if the column is dropped.

        >>> flights.indexed()
        {'carrier': 'carrier'}
        """
        names = {leaf.id: leaf.label for leaf in self._table.snapshot().schema.leaves()}
        indexed = self._needed().state.settings.columns
        return {column.id: names.get(column.id, column.label) for column in indexed}

    def vacuum(self, older_than_hours: float = 1.0, dry_run: bool = False) -> list[str]:
        """Delete index files that no state of the index refers to; return their paths.

        Raises:
            NoIndexError: there is no index.
            UsageError: the age is negative or no number, or `dry_run` is no truth value.

        >>> flights.vacuum(dry_run=True)
        []
        """
        from tailbit.index.maintenance.vacuum import vacuum

        hours, dry_run = number("older_than_hours", older_than_hours), flag("dry_run", dry_run)
        if not hours >= 0:
            raise UsageError(reason=f"{older_than_hours} hours is no age", hint="Give 0 or more.")
        return vacuum(self._apart()._needed(), older_than_hours=hours, dry_run=dry_run)

    def _apart(self) -> MaintainedTable:
        """Return the same table with an index handle of its own, for work that takes long or commits."""
        return MaintainedTable(self._table, self.index_path)


def _chosen(
    files: Collection[str], columns: Collection[str], snapshot: Snapshot, index: IndexState
) -> Callable[[str, str], bool] | None:
    """Return a filter on file path and column id for the named files and columns; None if none is named."""
    indexed = {c.id: c.label for c in index.settings.columns} if columns else {}
    ids = {snapshot.schema.resolve(name).id: name for name in columns}
    for name in (name for id_, name in ids.items() if id_ not in indexed):
        hint = f"Indexed are {', '.join(indexed.values())}."
        raise UsageError(reason=f"column {name} is not indexed", hint=hint)
    for path in (path for path in files if snapshot.files.get(path) is None):
        hint = "Write its path as the log has it, percent-decoded; `explain --json` shows such paths."
        raise UsageError(reason=f"version {snapshot.version} has no data file {path}", hint=hint)
    if not files and not ids:
        return None
    return lambda path, column: (not files or path in files) and (not ids or column in ids)


def _unreadable(standing: Standing, damage: CorruptIndexError) -> Report:
    from tailbit.index.kinds.kind import Problem
    from tailbit.index.maintenance.verify import Report

    report = Report(state=standing.value)
    report.note(Problem.of(damage))
    return report


def _indexed_id(settings: Settings, schema: Schema, name: str) -> str:
    """Return the id of a column by its name today, else by the name under which it was indexed."""
    try:
        return schema.resolve(name).id
    except UnknownColumnError:
        for column in settings.columns:
            if name.lower() == column.label.lower():
                return column.id
        indexed = ", ".join(column.label for column in settings.columns)
        hint = f"The index has {indexed}."
        raise UnknownColumnError(column=name, nearest=", nor in its index", hint=hint) from None
