"""The front door: open a table with its index, ask, verify.

`open_indexed` (as `tailbit.open`) pins nothing; each `where` binds an `Answer` to one version. Neither starts
a JVM nor imports pyspark. The examples ask "flights", a table of eight flights, whose column `carrier` is
indexed. The file is long since all that a table can be asked or told stands together, with its examples.
"""

from __future__ import annotations

import datetime
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tailbit.answer import Answer
from tailbit.arguments import flag, function, names, number, path_text, text, whole, wrong_type
from tailbit.errors import (
    CommitGapError,
    CorruptIndexError,
    MalformedLogError,
    NoIndexError,
    UnknownColumnError,
    UsageError,
    VersionNotFoundError,
)
from tailbit.index.model import IndexedColumn
from tailbit.index.predicate.tree import Constant, Node
from tailbit.index.query.coverage import Coverage, cover
from tailbit.index.query.damages import Damages
from tailbit.index.query.recorded_counts import RecordedCounts
from tailbit.index.query.selection import Selection
from tailbit.index.sql.bind import bind
from tailbit.index.store.table import MetadataTable, index_path
from tailbit.tables import open_table
from tailbit.tables.partition_values import parse_micros
from tailbit.tables.snapshot import Snapshot
from tailbit.tables.table import Table
from tailbit.tables.time_zones import check_zone

if TYPE_CHECKING:
    from tailbit.index.maintenance.alter import Altered
    from tailbit.index.maintenance.verify import Report
    from tailbit.index.model import Settings
    from tailbit.tables.schema import Schema


def open_indexed(
    path: str | os.PathLike[str] | Table, index: str | os.PathLike[str] | None = None
) -> IndexedTable:
    """A table with its index, or without where none has been built yet: then every question scans.

    `path` may also be a table that is open already, of a format that no path tells.

    Raises:
        NotATableError: no table of a known format at `path`.
        NoIndexError: `index` was given and there is none.
        ForeignIndexError: the index path holds something else.

    >>> import tailbit
    >>> flights = tailbit.open("flights")
    >>> flights.where("carrier = 'UA' AND dest IN ('SFO', 'LAX')").count()
    4
    """
    table = path if isinstance(path, Table) else open_table(path_text("path", path))
    named = None if index is None else path_text("index", index)
    opened = IndexedTable(table, index_path(table.root, named))
    opened._refresh()
    if named is not None and opened._index is None and opened.damage is None:
        raise NoIndexError(path=named)
    return opened


@dataclass(eq=False, repr=False)
class IndexedTable:
    """A source table and what its index knows; both are looked at anew by each `where`.

    `index_path`: where the index is, or would be. `damage`: why an index that is there cannot be read. Cost
    of a `where` when nothing is new: three probes by name, no listing.

    Threads may share it, while table and index change: a `where` binds its answer to one version and one
    state of the index while no other does; the answers are then found side by side. Upkeep (`verify`,
    `compact`, `alter`, `vacuum`) looks at the index by itself and holds up nobody.
    """

    _table: Table
    index_path: str
    _index: MetadataTable | None = None
    damage: CorruptIndexError | None = None
    _coverage: Coverage | None = field(default=None, repr=False)
    _stale: bool = field(default=True, repr=False)
    _trust: tuple[Any, bool] | None = field(default=None, repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False, compare=False)

    def __repr__(self) -> str:
        """The table, and what was last seen of its index, in one line; looks at nothing."""
        ledger = None if self._index is None else self._index.state.ledger
        seen = "damaged" if self.damage is not None else "absent" if self._index is None else self.index_path
        covered = None if ledger is None else ledger.covered
        return f"IndexedTable({self.path!r}, index={seen!r}, covered_version={covered})"

    @property
    def path(self) -> str:
        """The absolute local path of the table."""
        return self._table.root

    def where(
        self,
        sql: str | None = None,
        version: int | None = None,
        as_of: datetime.date | str | None = None,
        zone: str = "UTC",
        partition_zone: str | None = None,
    ) -> Answer:
        """The rows where `sql` is TRUE, at `version` (or the last one at `as_of`), else at the head.

        `sql` is a Spark SQL condition; None asks for every row. `as_of` is ISO 8601 text, a datetime, or a
        date for its midnight; without an offset it is in `zone`, the session's time zone. So are partition
        values that are times without a zone, as some writers make them, unless `partition_zone` says what
        zone their writer was in.

        Raises:
            PredicateError: it does not parse, or cannot be evaluated exactly.
            UnknownColumnError: it names a column that the table lacks at that version.
            VersionNotFoundError: that version is gone or not yet there.
            UsageError: an argument is not of its type, or both a version and a time are given.

        >>> flights.where("dest = 'LAX'").count(), flights.where("dest = 'LAX'", version=1).count()
        (3, 2)
        """
        if sql is not None:
            text("sql", sql)
        written = zone = _known("zone", zone)
        if partition_zone is not None:
            written = _known("partition_zone", partition_zone)
        with self._lock:
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
        schema = snapshot.schema_in(written)
        node: Node = Constant(True) if sql is None else bind(sql, schema, zone)
        damages = Damages() if self.damage is None else Damages(self.damage)
        selection = Selection(node, self._cover(snapshot), self._table.storage, schema, damages)
        if self._index is None or self._index.state.ledger is None or not self._trusted():
            return Answer(self.path, sql, selection)
        recorded = RecordedCounts.now(self._index.state, self._index.state.ledger)
        return Answer(self.path, sql, selection, self._index.state.ledger.covered, recorded)

    @property
    def state(self) -> str:
        """What the index is now.

        `absent`; `damaged`; `empty`: nothing is recorded yet; `building`: the first snapshot is being
        indexed; `complete`; `other history`: the source log is not the one that was indexed, so questions
        scan until the indexer has caught up.

        >>> flights.state
        'complete'
        """
        with self._lock:
            if self._index is None:
                return "absent" if self.damage is None else "damaged"
            if self._index.state.ledger is None:
                return "empty"
            return str(self._index.state.ledger.state) if self._trusted() else "other history"

    def verify(
        self, samples: int = 200, seed: int = 0, progress: Callable[[int, int], None] | None = None
    ) -> Report:
        """Check the index: postings, value counts, and a sample of values read again from the data files.

        Raises:
            NoIndexError: there is no index.
            UsageError: an argument is not of its type, or `samples` is below zero.

        >>> report = flights.verify()
        >>> report.sound, report.problems, report.postings
        (True, [], 4)
        """
        from tailbit.index.maintenance.verify import Problem, Report, verify

        samples, seed = whole("samples", samples), whole("seed", seed, negative=True)
        if progress is not None:
            function("progress", progress)
        seen = self._apart()
        seen._refresh()
        if seen._index is None and seen.damage is None:
            raise NoIndexError(path=self.index_path)
        state = seen.state
        if seen._index is None:
            report = Report(state=state)
            report.note(Problem(f"index {self.index_path}", str(seen.damage)))
            return report
        snapshot = seen._covered_snapshot(state)
        return verify(
            seen._index.state,
            seen._cover(snapshot),
            self._table.storage,
            state=state,
            at_head=snapshot.version == self._table.head(),
            samples=samples,
            seed=seed,
            progress=progress,
        )

    def _covered_snapshot(self, state: str) -> Snapshot:
        """The snapshot that the index speaks of; the head where it speaks of none that can be read."""
        ledger = self._index.state.ledger if self._index is not None else None
        if ledger is not None and state in ("complete", "building"):
            try:
                return self._table.snapshot(ledger.version)
            except (VersionNotFoundError, CommitGapError):
                return self._table.snapshot()
        return self._table.snapshot()

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

    def _needed(self) -> MetadataTable:
        with self._lock:
            self._refresh()
            if self._index is None:
                raise self.damage or NoIndexError(path=self.index_path)
            return self._index

    def _version(self, version: int | None, as_of: datetime.date | str | None, zone: str) -> int:
        if as_of is None:
            return self._table.head() if version is None else whole("version", version, negative=True)
        if version is not None:
            raise UsageError(reason="both a version and a time were given", hint="Give one of them.")
        return self._table.version_at(to_millis(as_of, zone))

    def _refresh(self) -> None:
        """Look at the index anew. One that cannot be read is left aside, with its `damage`, until it can.

        Raises:
            ForeignIndexError: the index path holds something else.
            IndexFormatError: another release wrote the index.
        """
        with self._lock:
            self._look()

    def _look(self) -> None:
        self.damage = None
        try:
            if self._index is None:
                self._index, self._stale = MetadataTable.open(self.index_path), True
            elif self._index.refresh():
                self._stale = True
        except NoIndexError:
            self._index, self._stale = None, True
        except CorruptIndexError as damage:
            self._index, self._stale, self.damage = None, True, damage
        except (MalformedLogError, CommitGapError, VersionNotFoundError) as damage:
            self._index, self._stale = None, True
            self.damage = CorruptIndexError(file=self.index_path, reason=str(damage))

    def _trusted(self) -> bool:
        """Whether the commit that the ledger vouches for is still in the source log as it was.

        Where it is not (other history) or cannot be seen any more (cleaned up), nothing counts as covered.
        """
        with self._lock:
            return self._vouched()

    def _vouched(self) -> bool:
        ledger = self._index.state.ledger if self._index is not None else None
        if ledger is None or ledger.fingerprint is None:
            return False
        seen = (ledger.fingerprint, self._table.fingerprint_stat(ledger.fingerprint.version))
        if self._trust is None or self._trust[0] != seen:
            try:
                found = self._table.fingerprint(ledger.fingerprint.version)
            except (CommitGapError, VersionNotFoundError):
                found = None
            self._trust = (seen, found == ledger.fingerprint)
        return self._trust[1]

    def _cover(self, snapshot: Snapshot) -> Coverage:
        """The snapshot divided by the index; kept while neither changes, extended where one does."""
        trusted, kept = self._trusted(), self._coverage
        state = None if self._index is None else self._index.state
        if kept is None or self._stale or kept.snapshot is not snapshot or kept.trusted != trusted:
            kept = self._coverage = cover(snapshot, self._table.storage, state, trusted, before=kept)
            self._stale = False
        return kept


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


def _known(name: str, zone: str) -> str:
    """A time zone that there is.

    Raises:
        UsageError: there is no such zone, or it is no text.
    """
    try:
        check_zone(text(name, zone))
    except ValueError as unknown:
        raise UsageError(
            reason=f"there is no time zone {zone!r}", hint="Name it like UTC, +01:00 or Europe/Paris."
        ) from unknown
    return zone


def to_millis(when: datetime.date | str, zone: str = "UTC") -> int:
    """Milliseconds since 1970 of a time; text is ISO 8601, a date is its midnight.

    Without an offset it is in `zone`.

    >>> to_millis("1970-01-02"), to_millis("1970-01-01T01:00:00.5+01:00")
    (86400000, 500)

    Raises:
        UsageError: the text is not a time, or there is no such zone.
    """
    _known("zone", zone)
    if not isinstance(when, (datetime.date, str)):
        raise wrong_type("as_of", when, "a datetime, a date or text like 2026-01-31T12:00:00")
    try:
        if isinstance(when, datetime.datetime) and when.tzinfo is not None:
            return int(when.timestamp() * 1000)
        when = when if isinstance(when, str) else when.isoformat()
        return parse_micros(when, zone) // 1000
    except ValueError as wrong:
        raise UsageError(
            reason=f"{when!r} is not a time", hint="Write it like 2026-01-31T12:00:00 or 2026-01-31."
        ) from wrong
