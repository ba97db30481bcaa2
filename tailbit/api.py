"""The front door: open a table with its index, ask, verify.

`open_indexed` (as `tailbit.open`) pins nothing; each `where` binds an `Answer` to one version. Neither starts
a JVM nor imports pyspark.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tailbit.errors import (
    CommitGapError,
    CorruptIndexError,
    MalformedLogError,
    NoIndexError,
    UnknownColumnError,
    UsageError,
    VersionNotFoundError,
)
from tailbit.index.answer import Answer, RecordedCounts
from tailbit.index.coverage import Coverage, cover
from tailbit.index.metadata_table import IndexTable
from tailbit.index.predicate import Constant, Node
from tailbit.index.sql import bind
from tailbit.tables import open_table
from tailbit.tables.delta.snapshot import Snapshot
from tailbit.tables.partition_values import parse_micros
from tailbit.tables.storage import Storage
from tailbit.tables.table import Table
from tailbit.tables.time_zones import check_zone

if TYPE_CHECKING:
    from tailbit.index.alter import Altered
    from tailbit.index.model import Settings
    from tailbit.index.verify import Report
    from tailbit.tables.delta.schema import Schema

INDEX_FOLDER = "_tailbit"


def index_path(table: str, index: str | None) -> str:
    """Where the index of a table is: as given, else `_tailbit` below the table."""
    return index if index is not None else f"{table.rstrip('/')}/{INDEX_FOLDER}"


def open_indexed(path: str, index: str | None = None) -> IndexedTable:
    """A table with its index, or without where none has been built yet: then every question scans.

    Raises:
        NotATableError: no Delta table at `path`.
        NoIndexError: `index` was given and there is none.
        ForeignIndexError: the index path holds something else.

    >>> import tailbit
    >>> flights = tailbit.open("/data/flights")  # doctest: +SKIP
    >>> flights.where("carrier = 'UA' AND dest IN ('SFO', 'LAX')").count()  # doctest: +SKIP
    9671
    """
    table = open_table(path)
    opened = IndexedTable(table, index_path(path, index))
    opened.refresh()
    if index is not None and opened.index is None and opened.damage is None:
        raise NoIndexError(path=index)
    return opened


@dataclass
class IndexedTable:
    """A source table and what its index knows; both are looked at anew by each `where`.

    `index` is None where there is none, and where it cannot be read: then `damage` says why. Cost of a
    `where` when nothing is new: three probes by name, no listing.

    Threads may share it, while table and index change: a `where` binds its answer to one version and one
    state of the index while no other does; the answers are then found side by side. Upkeep (`verify`,
    `compact`, `alter`, `vacuum`) looks at the index by itself and holds up nobody.
    """

    table: Table
    index_path: str
    index: IndexTable | None = None
    damage: CorruptIndexError | None = None
    _coverage: Coverage | None = field(default=None, repr=False)
    _stale: bool = field(default=True, repr=False)
    _trust: tuple[Any, bool] | None = field(default=None, repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False, compare=False)

    @property
    def storage(self) -> Storage:
        """The storage of the source table."""
        return self.table.storage

    def where(
        self,
        sql: str | None = None,
        version: int | None = None,
        as_of: datetime.datetime | str | None = None,
        zone: str = "UTC",
        partition_zone: str | None = None,
    ) -> Answer:
        """The rows where `sql` is TRUE, at `version` (or the last one at `as_of`), else at the head.

        `sql` is a Spark SQL condition; None asks for every row. `as_of` without an offset is in `zone`, the
        session's time zone. So are partition values that are times without a zone, as some writers make them,
        unless `partition_zone` says what zone their writer was in.

        Raises:
            PredicateError: it does not parse, or cannot be evaluated exactly.
            UnknownColumnError: it names a column that the table lacks at that version.
            VersionNotFoundError: that version is gone or not yet there.
        """
        with self._lock:
            return self._bound(sql, version, as_of, zone, partition_zone)

    def _bound(
        self,
        sql: str | None,
        version: int | None,
        as_of: datetime.datetime | str | None,
        zone: str,
        partition_zone: str | None,
    ) -> Answer:
        """`where`, while no other thread binds an answer or looks at the index anew."""
        self.refresh()
        snapshot = self.table.snapshot(self._version(version, as_of, zone))
        written = _known(zone if partition_zone is None else partition_zone)
        node: Node = Constant(True) if sql is None else bind(sql, snapshot.schema_in(written), zone)
        coverage = self._cover(snapshot)
        ledger = self.index.ledger if self.index is not None and self.trusted() else None
        counts = None
        if self.index is not None and ledger is not None and ledger.state == "complete":
            if ledger.version == snapshot.version and not ledger.uncounted:
                counts = RecordedCounts.now(self.index)
        return Answer(
            text=sql,
            node=node,
            coverage=coverage,
            storage=self.storage,
            covered_version=None if ledger is None else ledger.covered,
            counted=counts,
            damages=[] if self.damage is None else [self.damage],
            partition_zone=written,
        )

    @property
    def state(self) -> str:
        """What the index is now.

        `absent`; `damaged`; `empty`: nothing is recorded yet; `building`: the first snapshot is being
        indexed; `complete`; `other history`: the source log is not the one that was indexed, so questions
        scan until the indexer has caught up.
        """
        with self._lock:
            if self.index is None:
                return "absent" if self.damage is None else "damaged"
            if self.index.ledger is None:
                return "empty"
            return str(self.index.ledger.state) if self.trusted() else "other history"

    def verify(
        self, samples: int = 200, seed: int = 0, progress: Callable[[int, int], None] | None = None
    ) -> Report:
        """Check the index: postings, value counts, and a sample of values read again from the data files.

        Raises:
            NoIndexError: there is no index.
        """
        from tailbit.index.verify import Report, verify

        seen = self._apart()
        seen.refresh()
        if seen.index is None and seen.damage is None:
            raise NoIndexError(path=self.index_path)
        state = seen.state
        if seen.index is None:
            report = Report(state=state)
            report.wrong(f"index {self.index_path}", str(seen.damage))
            return report
        snapshot = seen._covered_snapshot(state)
        return verify(
            seen.index,
            seen._cover(snapshot),
            self.storage,
            state=state,
            at_head=snapshot.version == self.table.head(),
            samples=samples,
            seed=seed,
            progress=progress,
        )

    def _covered_snapshot(self, state: str) -> Snapshot:
        """The snapshot that the index speaks of; the head where it speaks of none that can be read."""
        ledger = self.index.ledger if self.index is not None else None
        if ledger is not None and state in ("complete", "building"):
            try:
                return self.table.snapshot(ledger.version)
            except (VersionNotFoundError, CommitGapError):
                return self.table.snapshot()
        return self.table.snapshot()

    def compact(self) -> int:
        """Merge small segments until none is due; the number of merges committed.

        Raises:
            NoIndexError: there is no index.
            CommitConflictError: an indexer committed at the same moment; try again.
        """
        from tailbit.index.merge import merge_all

        seen = self._apart()
        index = seen._needed()
        # Versions of another history say nothing about which of this one's files can still be asked for.
        earliest = self.table.earliest() if seen.trusted() else None
        return merge_all(index, earliest_version=earliest)

    def alter(self, add: Sequence[str] = (), drop: Sequence[str] = ()) -> Altered:
        """Make columns indexed, and others no longer; an indexer that runs takes it up by itself.

        Every question is answered rightly at every moment: where a column is not posted yet, or no longer,
        the data is read. `drop` names a column as the table does today, or as it did when it was indexed.

        Raises:
            NoIndexError: there is no index.
            UnknownColumnError: the table has no such column, nor has the index one to drop.
            ColumnTypeError: values of a column cannot be indexed.
            SettingsError: no column would be left.
            UsageError: a column is both added and dropped.
        """
        from tailbit.index.alter import alter, indexed_column

        index, schema = self._apart()._needed(), self.table.snapshot().schema
        coming = [indexed_column(schema.resolve(name)) for name in add]
        going = [_indexed_id(index.settings, schema, name) for name in drop]
        both = [column.label for column in coming if column.id in going]
        if both:
            raise UsageError(reason=f"{', '.join(both)} is both added and dropped", hint="Name it once.")
        return alter(index, coming, going)

    def indexed(self) -> dict[str, str]:
        """Id of each indexed column to its name today, or in its day where the table has it no more."""
        names = {leaf.id: leaf.label for leaf in self.table.snapshot().schema.leaves()}
        return {column.id: names.get(column.id, column.label) for column in self._needed().settings.columns}

    def vacuum(self, older_than_hours: float = 1.0, dry_run: bool = False) -> list[str]:
        """Delete index files that no state of the index refers to; their paths.

        Raises:
            NoIndexError: there is no index.
            UsageError: the age is negative or no number.
        """
        from tailbit.index.vacuum import vacuum

        if not older_than_hours >= 0:
            raise UsageError(reason=f"{older_than_hours} hours is no age", hint="Give 0 or more.")
        index = self._apart()._needed()
        return vacuum(index, older_than_hours=older_than_hours, dry_run=dry_run)

    def _apart(self) -> IndexedTable:
        """The same table with an index of its own, for what takes long or commits."""
        return IndexedTable(self.table, self.index_path)

    def _needed(self) -> IndexTable:
        with self._lock:
            self.refresh()
            if self.index is None:
                raise self.damage or NoIndexError(path=self.index_path)
            return self.index

    def _version(self, version: int | None, as_of: datetime.datetime | str | None, zone: str) -> int:
        if as_of is None:
            return self.table.head() if version is None else version
        if version is not None:
            raise UsageError(reason="both a version and a time were given", hint="Give one of them.")
        return self.table.version_at(to_millis(as_of, zone))

    def refresh(self) -> None:
        """Look at the index anew. One that cannot be read is left aside, with its `damage`, until it can.

        Raises:
            ForeignIndexError: the index path holds something else.
            IndexFormatError: another release wrote the index.
        """
        with self._lock:
            self._refresh()

    def _refresh(self) -> None:
        self.damage = None
        try:
            if self.index is None:
                self.index, self._stale = IndexTable.open(self.index_path), True
            elif self.index.refresh():
                self._stale = True
        except NoIndexError:
            self.index, self._stale = None, True
        except CorruptIndexError as damage:
            self.index, self._stale, self.damage = None, True, damage
        except (MalformedLogError, CommitGapError, VersionNotFoundError) as damage:
            self.index, self._stale = None, True
            self.damage = CorruptIndexError(file=self.index_path, reason=str(damage))

    def trusted(self) -> bool:
        """Whether the commit that the ledger vouches for is still in the source log as it was.

        Where it is not (other history) or cannot be seen any more (cleaned up), nothing counts as covered.
        """
        with self._lock:
            return self._trusted()

    def _trusted(self) -> bool:
        ledger = self.index.ledger if self.index is not None else None
        if ledger is None or ledger.fingerprint is None:
            return False
        seen = (ledger.fingerprint, self.table.fingerprint_stat(ledger.fingerprint.version))
        if self._trust is None or self._trust[0] != seen:
            try:
                found = self.table.fingerprint(ledger.fingerprint.version)
            except (CommitGapError, VersionNotFoundError):
                found = None
            self._trust = (seen, found == ledger.fingerprint)
        return self._trust[1]

    def _cover(self, snapshot: Snapshot) -> Coverage:
        """The snapshot divided by the index; kept while neither changes, extended where one does."""
        trusted, kept = self.trusted(), self._coverage
        if kept is None or self._stale or kept.snapshot is not snapshot or kept.trusted != trusted:
            kept = self._coverage = cover(snapshot, self.storage, self.index, trusted, before=kept)
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


def _known(zone: str) -> str:
    """A time zone that there is.

    Raises:
        UsageError: there is no such zone.
    """
    try:
        check_zone(zone)
    except ValueError as unknown:
        raise UsageError(
            reason=f"there is no time zone {zone!r}", hint="Name it like UTC, +01:00 or Europe/Paris."
        ) from unknown
    return zone


def to_millis(when: datetime.datetime | str, zone: str = "UTC") -> int:
    """Milliseconds since 1970 of a time; text is ISO 8601, without an offset it is in `zone`.

    >>> to_millis("1970-01-02"), to_millis("1970-01-01T01:00:00.5+01:00")
    (86400000, 500)

    Raises:
        UsageError: the text is not a time, or there is no such zone.
    """
    _known(zone)
    if isinstance(when, datetime.datetime):
        if when.tzinfo is None:
            return parse_micros(when.isoformat(), zone) // 1000
        return int(when.timestamp() * 1000)
    try:
        return parse_micros(when, zone) // 1000
    except ValueError as wrong:
        raise UsageError(
            reason=f"{when!r} is not a time", hint="Write it like 2026-01-31T12:00:00 or 2026-01-31."
        ) from wrong
