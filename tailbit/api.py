"""The front door: open a table with its index, ask, verify.

`open_indexed` (as `tailbit.open`) pins nothing; each `where` binds an `Answer` to one version. Neither starts
a JVM nor imports pyspark.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tailbit.errors import NoIndexError, UsageError
from tailbit.index.answer import Answer
from tailbit.index.coverage import Coverage, cover
from tailbit.index.metadata_table import IndexTable
from tailbit.index.predicate import Constant, Node
from tailbit.index.sql import bind
from tailbit.tables import open_table
from tailbit.tables.storage import Storage
from tailbit.tables.table import Table

if TYPE_CHECKING:
    from tailbit.index.verify import Report

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
    where = index_path(path, index)
    try:
        found = IndexTable.open(where)
    except NoIndexError:
        if index is not None:
            raise
        found = None
    return IndexedTable(table, where, found)


@dataclass
class IndexedTable:
    """A source table and what its index knows; both are looked at anew by each `where`.

    Cost of a `where` when nothing is new: three probes by name, no listing.
    """

    table: Table
    index_path: str
    index: IndexTable | None
    _coverage: tuple[tuple[int, int, bool], Coverage] | None = field(default=None, repr=False)
    _trust: tuple[Any, bool] | None = field(default=None, repr=False)

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
    ) -> Answer:
        """The rows where `sql` is TRUE, at `version` (or the last one at `as_of`), else at the head.

        `sql` is a Spark SQL condition; None asks for every row. `as_of` without an offset is in `zone`.

        Raises:
            PredicateError: it does not parse, or cannot be evaluated exactly.
            UnknownColumnError: it names a column that the table lacks at that version.
            VersionNotFoundError: that version is gone or not yet there.
        """
        self._refresh()
        snapshot = self.table.snapshot(self._version(version, as_of, zone))
        node: Node = Constant(True) if sql is None else bind(sql, snapshot.schema, zone)
        trusted = self.index is not None and self.trusted()
        ledger = self.index.ledger if self.index is not None else None
        coverage = self._cover(snapshot.version, trusted)
        served = (
            trusted
            and ledger is not None
            and ledger.state == "complete"
            and ledger.version == snapshot.version
            and not ledger.uncounted
        )
        return Answer(
            text=sql,
            node=node,
            coverage=coverage,
            storage=self.storage,
            covered_version=ledger.covered if ledger is not None and trusted else None,
            counted=self.index if served else None,
        )

    def verify(
        self, samples: int = 200, seed: int = 0, progress: Callable[[int, int], None] | None = None
    ) -> Report:
        """Check the index: postings, value counts, and a sample of values read again from the data files.

        Raises:
            NoIndexError: there is no index.
        """
        from tailbit.index.verify import verify

        index = self._needed()
        answer = self.where()
        return verify(
            index,
            list(answer.coverage.spaces),
            answer.snapshot,
            self.storage,
            samples=samples,
            seed=seed,
            progress=progress,
        )

    def compact(self) -> int:
        """Merge small segments until none is due; the number of merges committed.

        Raises:
            NoIndexError: there is no index.
            CommitConflictError: an indexer committed at the same moment; try again.
        """
        from tailbit.index.merge import merge_all

        return merge_all(self._needed(), earliest_version=self.table.earliest())

    def vacuum(self, older_than_hours: float = 1.0, dry_run: bool = False) -> list[str]:
        """Delete index files that no state of the index refers to; their paths.

        Raises:
            NoIndexError: there is no index.
        """
        from tailbit.index.vacuum import vacuum

        return vacuum(self._needed(), older_than_hours=older_than_hours, dry_run=dry_run)

    def _needed(self) -> IndexTable:
        self._refresh()
        if self.index is None:
            raise NoIndexError(path=self.index_path)
        return self.index

    def _version(self, version: int | None, as_of: datetime.datetime | str | None, zone: str) -> int:
        if as_of is None:
            return self.table.head() if version is None else version
        if version is not None:
            raise UsageError(reason="both a version and a time were given", hint="Give one of them.")
        return self.table.version_at(to_millis(as_of, zone))

    def _refresh(self) -> None:
        if self.index is not None:
            self.index.refresh()
            return
        try:
            self.index = IndexTable.open(self.index_path)
        except NoIndexError:
            self.index = None

    def trusted(self) -> bool:
        """Whether the commit that the ledger vouches for is still in the source log as it was.

        Where it is not (other history) or cannot be seen any more (cleaned up), nothing counts as covered.
        """
        ledger = self.index.ledger if self.index is not None else None
        if ledger is None or ledger.fingerprint is None:
            return False
        seen = (ledger.fingerprint, self.table.fingerprint_stat(ledger.fingerprint.version))
        if self._trust is None or self._trust[0] != seen:
            found = self.table.fingerprint(ledger.fingerprint.version)
            self._trust = (seen, found == ledger.fingerprint)
        return self._trust[1]

    def _cover(self, version: int, trusted: bool) -> Coverage:
        key = (version, self.index.version if self.index is not None else -1, trusted)
        if self._coverage is None or self._coverage[0] != key:
            snapshot = self.table.snapshot(version)
            self._coverage = (key, cover(snapshot, self.storage, self.index, trusted))
        return self._coverage[1]


def to_millis(when: datetime.datetime | str, zone: str = "UTC") -> int:
    """Milliseconds since 1970 of a time; text is ISO 8601, without an offset it is in `zone`.

    Raises:
        UsageError: the text is not a time.
    """
    from zoneinfo import ZoneInfo

    if isinstance(when, str):
        try:
            when = datetime.datetime.fromisoformat(when.strip().replace("Z", "+00:00"))
        except ValueError as wrong:
            raise UsageError(
                reason=f"{when!r} is not a time", hint="Write it like 2026-01-31T12:00:00 or 2026-01-31."
            ) from wrong
    if when.tzinfo is None:
        when = when.replace(tzinfo=ZoneInfo(zone))
    return int(when.timestamp() * 1000)
