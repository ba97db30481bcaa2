"""The front door: open a table with its index, ask, verify.

`open_indexed` (as `tailbit.open`) pins nothing; each `where` binds an `Answer` to one version. Neither starts
a JVM nor imports pyspark. The examples ask "flights", a table of eight flights, whose column `carrier` is
indexed.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailbit.answer import Answer
from tailbit.arguments import flag, function, names, number, path_text, text, texts_by_name, whole
from tailbit.conditions import Condition, condition_text
from tailbit.errors import NoIndexError, UnknownColumnError, UsageError
from tailbit.freshness import Freshness
from tailbit.handle import Handle
from tailbit.index.model import IndexedColumn
from tailbit.index.predicate.tree import Constant, Node
from tailbit.index.query.damages import Damages
from tailbit.index.query.recorded_counts import RecordedCounts
from tailbit.index.query.selection import Selection
from tailbit.index.sql.bind import bind
from tailbit.index.store.table import index_path
from tailbit.moments import known_zone, to_millis
from tailbit.tables import open_table
from tailbit.tables.storage import StorageOptions, one_look
from tailbit.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import Column

    from tailbit.index.analytics.transitions import Transition
    from tailbit.index.maintenance.alter import Altered
    from tailbit.index.model import Settings
    from tailbit.index.verification.verify import Report
    from tailbit.repairs import Repaired
    from tailbit.tables.schema import Schema


def open_indexed(
    path: str | os.PathLike[str] | Table,
    index: str | os.PathLike[str] | None = None,
    at_least: int | None = None,
    max_staleness: float | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> IndexedTable:
    """A table with its index, or without where none has been built yet: then every question scans.

    `path` may also be a table that is open already, of a format that no path tells. Answers are right however
    far the index is. `at_least` and `max_staleness` say how far it must be for a question to be answered: it
    covers that version; or every commit that is older than so many seconds, up to the version that is asked.
    `storage_options` are those of the stores of table and index, such as endpoint and credentials, named as
    in delta-rs (`AWS_ENDPOINT_URL`); what is not given is in the environment.

    Raises:
        NotATableError: no table of a known format at `path`.
        NoIndexError: `index` was given and there is none.
        ForeignIndexError: the index path holds something else.
        UsageError: `at_least` is no version, or `max_staleness` no number of seconds.

    >>> import tailbit
    >>> flights = tailbit.open("flights")
    >>> flights.where("carrier = 'UA' AND dest IN ('SFO', 'LAX')").count()
    4
    """
    options = StorageOptions.of(texts_by_name("storage_options", storage_options))
    with one_look():
        table = path if isinstance(path, Table) else open_table(path_text("path", path), options)
        named = None if index is None else path_text("index", index)
        opened = IndexedTable(table, index_path(table.root, named))
        opened._freshness = Freshness.of(at_least, max_staleness)
        opened._refresh()
    if named is not None and opened._index is None and opened.damage is None:
        raise NoIndexError(path=named)
    return opened


@dataclass(eq=False, repr=False)
class IndexedTable(Handle):
    """A source table and what its index knows; both are looked at anew by each `where`.

    `index_path`: where the index is, or would be. `damage`: why an index that is there cannot be read. Cost
    of a `where` when nothing is new: three probes by name, no listing.

    Threads may share it, while table and index change: a `where` binds its answer to one version and one
    state of the index while no other does; the answers are then found side by side. Upkeep (`verify`,
    `compact`, `alter`, `vacuum`) looks at the index by itself and holds up nobody.
    """

    def where(
        self,
        sql: str | Condition | Column | None = None,
        version: int | None = None,
        as_of: datetime.date | str | None = None,
        zone: str = "UTC",
        partition_zone: str | None = None,
    ) -> Answer:
        """The rows where `sql` is TRUE, at `version` (or the last one at `as_of`), else at the head.

        `sql` is a Spark SQL condition as text, built with `tailbit.col`, or a Column of pyspark; None asks
        for every row. `as_of` is ISO 8601 text, a datetime, or a date for its midnight; without an offset it
        is in `zone`, the session's time zone. So are partition values that are times without a zone, as some
        writers make them, unless `partition_zone` says what zone their writer was in.

        Raises:
            PredicateError: it does not parse, or cannot be evaluated exactly.
            UnknownColumnError: it names a column that the table lacks at that version.
            VersionNotFoundError: that version is gone or not yet there.
            UsageError: an argument is not of its type, or both a version and a time are given.
            StaleIndexError: the index is not as far as the handle was opened to demand.

        >>> flights.where("dest = 'LAX'").count(), flights.where("dest = 'LAX'", version=1).count()
        (3, 2)
        >>> import tailbit
        >>> flights.where((tailbit.col("dest") == "LAX") & tailbit.col("carrier").isin("UA", "AA")).count()
        3
        """
        if sql is not None:
            sql = condition_text("sql", sql)
        written = zone = known_zone("zone", zone)
        if partition_zone is not None:
            written = known_zone("partition_zone", partition_zone)
        with self._lock, one_look():
            return self._bound(sql, version, as_of, zone, written)

    def _bound(
        self,
        sql: str | None,
        version: int | None,
        as_of: datetime.date | str | None,
        zone: str,
        written: str,
    ) -> Answer:
        """`where`, while no other thread binds an answer or looks at the index anew."""
        self._refresh()
        snapshot = self._table.snapshot(self._version(version, as_of, zone))
        self._freshness.check(self._table, snapshot.version, self._covered())
        schema = snapshot.schema_in(written)
        node: Node = Constant(True) if sql is None else bind(sql, schema, zone)
        damages = Damages() if self.damage is None else Damages(self.damage)
        selection = Selection(node, self._cover(snapshot), self._table.storage, schema, damages)
        if self._index is None or self._index.state.ledger is None or not self._trusted():
            return Answer(self.path, sql, selection, _zone=zone, _table=self._table)
        recorded = RecordedCounts.now(self._index.state, self._index.state.ledger)
        covered = self._index.state.ledger.covered
        return Answer(self.path, sql, selection, covered, recorded, zone, self._table)

    def transitions(self, column: str, from_version: int, to_version: int) -> dict[Any, Transition]:
        """Per value of a column, rows that left and came between two versions; the most moved first.

        A row is known by its file and position: one that was rewritten to another file has left and come.

        Raises:
            UnknownColumnError: the later of the two versions has no such column.
            VersionNotFoundError: a version is gone or not yet there.

        >>> flights.transitions("carrier", 1, 2)
        {'UA': Transition(left=0, came=2), 'AA': Transition(left=0, came=1), 'DL': Transition(left=0, came=1)}
        """
        from tailbit.index.analytics.transitions import transitions

        before = self.where(version=whole("from_version", from_version))._selection
        after = self.where(version=whole("to_version", to_version))._selection
        later = max(before, after, key=lambda selection: selection.version)
        return transitions(before, after, later.schema.resolve(text("column", column)))

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

        `derive`: this many columns of files are derived again as a whole; of the `files` (paths as in the
        log) and `columns` named, all are.

        Raises:
            NoIndexError: there is no index.
            UsageError: an argument is not of its type, or `samples` is below zero.

        >>> report = flights.verify()
        >>> report.sound, report.problems, report.postings
        (True, [], 4)
        """
        from tailbit.index.verification.verify import Problem, Report, verify

        samples, seed = whole("samples", samples), whole("seed", seed, negative=True)
        derive, paths, labels = whole("derive", derive), names("files", files), names("columns", columns)
        if progress is not None:
            function("progress", progress)
        seen = self._apart()
        seen._refresh()
        if seen._index is None and seen.damage is None:
            raise NoIndexError(path=self.index_path)
        standing = seen._standing()
        if seen._index is None:
            report = Report(state=standing.value)
            report.note(Problem(f"index {self.index_path}", str(seen.damage)))
            return report
        snapshot = seen._covered_snapshot(standing)
        return verify(
            seen._index.state,
            seen._cover(snapshot),
            self._table.storage,
            standing=standing,
            at_head=snapshot.version == self._table.head(),
            samples=samples,
            seed=seed,
            derive=derive,
            wanted=_chosen(paths, {snapshot.schema.resolve(name).id for name in labels}),
            progress=progress,
        )

    def repair(
        self, samples: int = 200, seed: int = 0, progress: Callable[[int, int], None] | None = None
    ) -> Repaired:
        """Verify the index and build again only what is wrong, while an indexer may run.

        What is wrong goes in one commit. A running indexer builds it again; where none runs, this does. Every
        question is answered rightly all the while.

        Raises:
            NoIndexError: there is no index.
            CorruptIndexError: the settings of the index are lost: start an indexer with its columns; or its
                log is damaged: delete the index and start one.
            CommitConflictError: an indexer committed at the same moments; try again.

        >>> flights.repair().problems
        ()
        """
        from tailbit.repairs import repair, started_over

        report = self.verify(samples=samples, seed=seed, progress=progress)
        seen = self._apart()
        seen._refresh()
        if seen._index is None:
            return started_over(self._table, self.index_path, seen.damage, report)
        return repair(self._table, seen._index, report.problems)

    def compact(self) -> int:
        """Merge small segments until none is due; the number of merges committed.

        Raises:
            NoIndexError: there is no index.
            CommitConflictError: an indexer committed at the same moment; try again.

        >>> flights.compact()
        0
        """
        from tailbit.index.maintenance.merge import merge_all

        seen = self._apart()
        index = seen._needed()
        # Versions of another history say nothing about which of this one's files can still be asked for.
        earliest = self._table.earliest() if seen._trusted() else None
        return merge_all(index, earliest_version=earliest)

    def alter(self, add: Iterable[str] = (), drop: Iterable[str] = ()) -> Altered:
        """Make columns indexed, and others no longer; an indexer that runs takes it up by itself.

        Every question is answered rightly at every moment: where a column is not posted yet, or no longer,
        the data is read. `drop` names a column as the table does today, or as it did when it was indexed.

        Raises:
            NoIndexError: there is no index.
            UnknownColumnError: the table has no such column, nor has the index one to drop.
            ColumnTypeError: values of a column cannot be indexed.
            SettingsError: no column would be left.
            UsageError: a column is both added and dropped, or `add` or `drop` is no list of names.

        >>> altered = flights.alter(add=["dest"])
        >>> altered.added, altered.dropped
        (('dest',), ())
        """
        from tailbit.index.maintenance.alter import alter

        come, go = names("add", add), names("drop", drop)
        index, schema = self._apart()._needed(), self._table.snapshot().schema
        coming = [IndexedColumn.of(schema.resolve(name)) for name in come]
        going = [_indexed_id(index.state.settings, schema, name) for name in go]
        both = [column.label for column in coming if column.id in going]
        if both:
            raise UsageError(reason=f"{', '.join(both)} is both added and dropped", hint="Name it once.")
        return alter(index, coming, going)

    def indexed(self) -> dict[str, str]:
        """Id of each indexed column to its name today, or in its day where the table has it no more.

        >>> flights.indexed()
        {'carrier': 'carrier'}
        """
        names = {leaf.id: leaf.label for leaf in self._table.snapshot().schema.leaves()}
        indexed = self._needed().state.settings.columns
        return {column.id: names.get(column.id, column.label) for column in indexed}

    def vacuum(self, older_than_hours: float = 1.0, dry_run: bool = False) -> list[str]:
        """Delete index files that no state of the index refers to; their paths.

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

    def _apart(self) -> IndexedTable:
        """The same table with an index of its own, for what takes long or commits."""
        return IndexedTable(self._table, self.index_path)

    def _version(self, version: int | None, as_of: datetime.date | str | None, zone: str) -> int:
        if as_of is None:
            return self._table.head() if version is None else whole("version", version, negative=True)
        if version is not None:
            raise UsageError(reason="both a version and a time were given", hint="Give one of them.")
        return self._table.version_at(to_millis(as_of, zone))


def _indexed_id(settings: Settings, schema: Schema, name: str) -> str:
    """The id of a column by its name of today; where the table has none such, by that it was indexed under.

    Raises:
        UnknownColumnError: neither the table nor the index knows it.
    """
    try:
        return schema.resolve(name).id
    except UnknownColumnError:
        for column in settings.columns:
            if name.lower() == column.label.lower():
                return column.id
        indexed = ", ".join(column.label for column in settings.columns)
        hint = f"The index has {indexed}."
        raise UnknownColumnError(column=name, nearest=", nor in its index", hint=hint) from None


def _chosen(paths: Iterable[str], ids: set[str]) -> Callable[[str, str], bool] | None:
    """Whether a file, by its path, and a column, by its id, are among those named; None where none are."""
    if not paths and not ids:
        return None
    return lambda path, column: (not paths or path in paths) and (not ids or column in ids)
