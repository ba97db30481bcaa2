"""A table with its index, both refreshed at each question: state, trust, coverage and lag of the index.

An answer is right at any lag; a lag costs the scan of the uncovered files. A caller who prefers an error to a
slow answer states how far the index must be, and gets a named error if it is not.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from tailbit.arguments.values import path_text, seconds, texts_by_name, whole
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import (
    CommitGapError,
    CorruptIndexError,
    IndexFormatError,
    NoIndexError,
    StaleIndexError,
    TailbitError,
    VersionNotFoundError,
)
from tailbit.index.expression.build import micros_now
from tailbit.index.model import Standing
from tailbit.index.query.coverage import Coverage, cover
from tailbit.index.store.place import index_path, refuse_index_as_table
from tailbit.index.store.table import MetadataTable
from tailbit.tables import check_alone, located, open_table
from tailbit.tables.model import Version, after
from tailbit.tables.snapshot import Snapshot
from tailbit.tables.storage import StorageOptions, at_once, forget, one_look, open_storage
from tailbit.tables.table import Table

if TYPE_CHECKING:
    from tailbit.index.evaluation.row_space import Access
    from tailbit.index.model import Ledger
    from tailbit.index.store.state import IndexState
    from tailbit.tables.schema import Schema


class Freshness(NamedTuple):
    """The limits on the index's lag: a version that must be covered, and an age in seconds, or None."""

    at_least: Version | None = None
    max_staleness: float | None = None

    @classmethod
    def of(cls, at_least: int | None, max_staleness: float | None) -> Freshness:
        """Return the limits that a caller's arguments state.

        Raises:
            UsageError: `at_least` is no version, or `max_staleness` no number of seconds.
        """
        return cls(
            None if at_least is None else whole("at_least", at_least),
            None if max_staleness is None else seconds("max_staleness", max_staleness),
        )

    def check(self, table: Table, version: Version, covered: Version | None) -> None:
        """Raise if the index does not cover enough for a question at a version.

        Cost: at most one commit is read.

        Raises:
            StaleIndexError: the index does not cover enough.
        """
        if self.at_least is not None and (covered is None or covered < self.at_least):
            raise stale(table, covered, f"version {self.at_least}")
        if self.max_staleness is not None and (covered is None or covered < version):
            behind = _seconds_behind(table, covered, version)
            if behind is None or behind > self.max_staleness:
                lag = "an unknown time" if behind is None else f"{behind:.1f} s"
                required = f"all commits older than {self.max_staleness:g} s; it is {lag} behind"
                raise stale(table, covered, required)


def stale(table: Table, covered: Version | None, required: str) -> StaleIndexError:
    """Return the error for an index that covers too little; `required`: what must be covered, in words."""
    so_far = "no version" if covered is None else f"version {table.name_of(covered)}"
    return StaleIndexError(path=table.root, covered=so_far, wanted=required)


def _seconds_behind(table: Table, covered: Version | None, version: Version) -> float | None:
    """Return the seconds since the oldest commit up to `version` that is not covered; None if unknown."""
    if covered is None:
        return None
    try:
        (oldest,) = table.versions(after(covered), version, most=1)
        return max(0.0, time.time() - table.commit_timestamp(oldest) / 1000)
    except CommitGapError:
        return None


def wait_until_covered(
    covered: Callable[[], Version | None], table: Table, version: Version, timeout: float | None
) -> Version:
    """Wait until `covered`, which refreshes the index, returns `version` or later; return that version.

    Raises:
        StaleIndexError: the version is not covered within `timeout` seconds.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    pause = _FIRST_PAUSE_S
    while (covered_version := covered()) is None or covered_version < version:
        seconds_left = _LONGEST_PAUSE_S if deadline is None else deadline - time.monotonic()
        if seconds_left <= 0:
            raise stale(table, covered_version, f"version {version} within {timeout:g} s")
        time.sleep(min(pause, seconds_left))
        pause = min(2 * pause, _LONGEST_PAUSE_S)
    return covered_version


@dataclass(eq=False, repr=False)
class Handle:
    """A source table and its index, and how both are refreshed; the base of `IndexedTable`.

    `index_path`: where the index is, or would be. `damage`: why an existing index cannot be read;
    `older_format`: the reason is that an older release wrote it.
    """

    _table: Table
    index_path: str
    _index: MetadataTable | None = None
    damage: CorruptIndexError | None = None
    older_format: bool = False
    _coverage: Coverage | None = field(default=None, repr=False)
    _stale: bool = field(default=True, repr=False)
    _opening: Callable[[], MetadataTable] | None = field(default=None, repr=False)
    _trust: tuple[Any, bool] | None = field(default=None, repr=False)
    _freshness: Freshness = field(default=Freshness(), repr=False)
    _clock: Callable[[], int] = field(default=micros_now, repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False, compare=False)

    def __repr__(self) -> str:
        """Return the table, and the last known state of its index, in one line; reads nothing."""
        ledger = None if self._index is None else self._index.state.ledger
        seen = "damaged" if self.damage is not None else "absent" if self._index is None else self.index_path
        covered = None if ledger is None else ledger.covered
        return f"{type(self).__name__}({self.path!r}, index={seen!r}, covered_version={covered})"

    @property
    def path(self) -> str:
        """Return the absolute local path of the table, or its URL."""
        return self._table.root

    @property
    def state(self) -> str:
        """Return the state of the index.

        `absent`; `damaged`; `of an older format`: `run` makes it anew; `empty`: nothing is recorded yet;
        `building`: the first snapshot is being indexed; `complete`; `other history`: the
        source log is not the one that was indexed, so questions scan until the indexer has caught up.

        >>> flights.state
        'complete'
        """
        return self._standing().value

    def _numbered(self, name: str, version: int | str, negative: bool = False) -> int:
        """Return the version that argument `name` gives: a number, or the name of a version in the format."""
        if isinstance(version, str):
            return self._table.version_named(version)
        return self._table.version_numbered(whole(name, version, negative))

    def wait_for(self, version: int | str | None = None, timeout: float | None = None) -> int:
        """Wait until the index covers a version, else the current head; return the covered version.

        `timeout` is in seconds; None waits for ever. The index is refreshed at least twice a second.

        Raises:
            StaleIndexError: the index does not cover the version within `timeout`.
            UsageError: an argument is not of its type, or is below zero.

        >>> flights.wait_for(timeout=10)
        2
        """
        target = self._table.head() if version is None else self._numbered("version", version)
        limit = None if timeout is None else seconds("timeout", timeout)

        def covered() -> int | None:
            with self._lock, one_look():
                self._refresh()
                return self._covered()

        return wait_until_covered(covered, self._table, target, limit)

    def _standing(self) -> Standing:
        with self._lock:
            if self._index is None:
                if self.older_format:
                    return Standing.OLDER_FORMAT
                return Standing.ABSENT if self.damage is None else Standing.DAMAGED
            ledger = self._index.state.ledger
            if ledger is None:
                return Standing.EMPTY
            return Standing(ledger.state.value) if self._trusted() else Standing.OTHER_HISTORY

    def _covered_snapshot(self, standing: Standing) -> Snapshot:
        """Return the snapshot that the index covers; the head if it covers none that can be read."""
        ledger = self._index.state.ledger if self._index is not None else None
        if ledger is not None and standing in (Standing.COMPLETE, Standing.BUILDING):
            try:
                return self._table.snapshot(ledger.version)
            except (VersionNotFoundError, CommitGapError):
                return self._table.snapshot()
        return self._table.snapshot()

    def _needed(self) -> MetadataTable:
        with self._lock:
            self._refresh()
            if self._index is None:
                raise self.damage or NoIndexError(path=self.index_path)
            return self._index

    def _refresh(self) -> None:
        """Refresh the index; an unreadable index is ignored, and described by `damage`, until it can be read.

        A table of which the look has seen less than the index covers is looked at again.
        """
        with self._lock, one_look():
            if self._table.storage.remote:
                # The store is asked for the newest commits of table and index at once.
                for _ in at_once(self._table.storage, [self._look, self._table.head]):
                    pass
            else:
                self._look()
            ledger = None if self._index is None or not self._stale else self._index.state.ledger
            if ledger is not None and ledger.fingerprint is not None:
                if ledger.fingerprint.version > self._table.head():
                    forget()

    def _look(self) -> None:
        self.damage, self.older_format = None, False
        try:
            if self._index is None:
                self._index, self._stale = self._open_index(), True
            elif self._index.refresh():
                self._stale = True
        except NoIndexError:
            self._index, self._stale = None, True
        except CorruptIndexError as damage:
            self._index, self._stale, self.damage = None, True, damage
        except IndexFormatError as other:
            if not other.is_older:
                raise
            self._index, self._stale, self.older_format = None, True, True
            reason = f"it has format {other.fields['found']}, which an older release wrote"
            self.damage = CorruptIndexError(file=self.index_path, reason=reason, hint=other.hint)

    def _snapshot(self, version: int | None) -> Snapshot:
        """Return the snapshot of a version, or of the head.

        A store is asked at once for what the index records of data files: any question needs it.
        """
        state = None if self._index is None else self._index.state
        if state is None or state.ledger is None or not state.storage.remote:
            return self._table.snapshot(version)

        def read_records() -> None:
            # Damage is met again, and noted, when the records are needed.
            with suppress(CorruptIndexError):
                _ = state.recorded

        steps: list[Callable[[], Any]] = [partial(self._table.snapshot, version), read_records]
        snapshot, _ = at_once(state.storage, steps)
        assert isinstance(snapshot, Snapshot)
        return snapshot

    def _open_index(self) -> MetadataTable:
        opening, self._opening = self._opening, None
        if opening is not None:
            return opening()
        return MetadataTable.open(self.index_path, options=self._table.storage.options)

    def _trusted(self) -> bool:
        """Return whether the ledger's commit is still in the source log, unchanged, or was rolled back there.

        If the commit differs (other history) or is no longer there (cleaned up), no file counts as covered.
        """
        with self._lock:
            ledger = self._index.state.ledger if self._index is not None else None
            if ledger is None or ledger.fingerprint is None:
                return False
            stat = self._table.fingerprint_stat(ledger.fingerprint.version)
            if stat is None:
                stat = self._table.fingerprint_stat(self._table.head())
            seen = (ledger.fingerprint, stat)
            if self._trust is None or self._trust[0] != seen:
                try:
                    fingerprint = self._table.fingerprint(ledger.fingerprint.version)
                except (CommitGapError, VersionNotFoundError):
                    fingerprint = None
                holds = fingerprint == ledger.fingerprint or self._table.took_back(ledger.fingerprint)
                if not holds:
                    check_alone(self._table)
                self._trust = (seen, holds)
            return self._trust[1]

    def _covered(self) -> int | None:
        """Return the version that the index covers as a whole; None if no index can be trusted."""
        ledger = self._trusted_ledger()
        return None if ledger is None else ledger.covered

    def _trusted_ledger(self) -> Ledger | None:
        """Return the ledger record of the index; None if no index can be trusted."""
        return self._index.state.ledger if self._index is not None and self._trusted() else None

    def _cover(self, snapshot: Snapshot, trusted: bool) -> Coverage:
        """Return the coverage of a snapshot by the index, cached until the snapshot or the index changes."""
        coverage = self._coverage
        state = None if self._index is None else self._index.state
        if (
            coverage is None
            or self._stale
            or coverage.snapshot is not snapshot
            or coverage.trusted != trusted
        ):
            accesses = [] if state is None else accesses_of(state, snapshot.schema)
            coverage = cover(snapshot, self._table.storage, state, trusted, coverage, accesses)
            self._coverage = coverage
            self._stale = False
        return coverage


def accesses_of(state: IndexState, schema: Schema) -> list[Access]:
    """Return how the definitions of an index serve conditions on other columns than their own."""
    definitions = state.settings.definitions
    if all(definition.is_of_column for definition in definitions):
        return []
    from tailbit.index.sql.terms import indexed_columns_of, kept_expressions

    expressions = (term for definition in definitions for term in kept_expressions(definition, schema))
    return state.kinds.accesses(state, [*indexed_columns_of(definitions, schema), *expressions])


def table_name(path: str) -> str:
    """Return the name of a table, the last part of its path, by which a condition may qualify columns."""
    return path.rstrip("/").rpartition("/")[2]


def _both(path: str, index: str | None, options: StorageOptions) -> tuple[Table, Callable[[], MetadataTable]]:
    """Open the table at a path and its index, in a store at once; return a function that returns the index.

    The function raises what opening the index raised.
    """
    storage = open_storage(*located(path, options))

    def open_index() -> Callable[[], MetadataTable]:
        try:
            opened_index = MetadataTable.open(index_path(storage.root, index), options=storage.options)
        except TailbitError as refused:
            return partial(_raise, refused)
        return lambda: opened_index

    steps: list[Callable[[], Any]] = [partial(open_table, path, options, alone=False), open_index]
    table, opening = at_once(storage, steps)
    return table, opening


def _raise(error: TailbitError) -> NoReturn:
    raise error


H = TypeVar("H", bound=Handle)


def opened(
    kind: type[H],
    path: str | os.PathLike[str] | Table,
    index: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    at_least: int | None = None,
    max_staleness: float | None = None,
) -> H:
    """Return a handle of a class on the table at `path`; the index is read once.

    Raises:
        NotATableError: no table of a known format at `path`.
        NoIndexError: `index` was given and there is none.
        ForeignIndexError: the index path holds something else.
        UsageError: an argument is not of its type.
    """
    options = StorageOptions.of(texts_by_name("storage_options", storage_options))
    with one_look():
        given = isinstance(path, Table)
        named = None if index is None else path_text("index", index)
        opening: Callable[[], MetadataTable] | None = None
        if isinstance(path, Table):
            table = path
        else:
            table, opening = _both(path_text("path", path), named, options)
        handle = kind(table, index_path(table.root, named), _opening=opening)
        handle._freshness = Freshness.of(at_least, max_staleness)
        handle._refresh()
        # Of two tables in one folder, an index that fits the opened table tells that it is the one meant.
        if handle._index is None and not given:
            check_alone(table)
            refuse_index_as_table(table)
    if named is not None and handle._index is None and handle.damage is None:
        raise NoIndexError(path=named)
    return handle


_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.5
"""A wait looks at the index anew after these pauses, each twice as long as the one before."""
