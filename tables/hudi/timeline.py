"""The timeline of a Hudi table: all completed instants, archived or active, and the metadata of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from typing import Any

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import MalformedLogError
from tailbit.tables.hudi.archive import (
    MANIFEST_NUMBER,
    list_archive,
    list_history,
    read_archived,
    read_archived_record,
)
from tailbit.tables.hudi.instants import Instant, decode_metadata, list_active
from tailbit.tables.hudi.properties import FILE, TableProperties, read_properties
from tailbit.tables.storage import Entry, Stat, Storage, at_once
from tailbit.tables.storage.requests import SEEN


@dataclass(frozen=True, slots=True)
class Timeline:
    """The timeline at one look.

    `completed`: in the order of completion; in table version 6 archived instants come before active ones.
    `active`: the instants of `completed` that are not archived. `pending`: requested times of instants that
    have begun and not completed. `deleting`: those of them that may be deleting files.
    """

    storage: Storage
    properties: TableProperties
    completed: tuple[Instant, ...]
    active: tuple[Instant, ...]
    pending: frozenset[str]
    deleting: frozenset[str]

    def content(self, instant: Instant) -> bytes | None:
        """Return the bytes of an instant's metadata; None for one in the archive of table version 6.

        Archiving in table versions 8 and 9 keeps the bytes as they were.
        """
        if instant.row < 0:
            return _content(self.storage, instant.file)
        return read_archived(self.storage, instant) if self.properties.has_completion_times else None

    def metadata(self, instant: Instant) -> dict[str, Any] | None:
        """Return an instant's metadata by field name; None if the archive has none for the instant."""
        content = self.content(instant)
        if content is None:
            return read_archived_record(self.storage, instant)
        return decode_metadata(content, instant.file)


def _content(storage: Storage, file: str) -> bytes:
    """Read the file of an instant; the newest one that a look has read is not requested again."""
    newest, looks = ("content", storage), SEEN.stats
    cached = None if looks is None else looks.get(newest)
    if cached is not None and cached[0] == file:
        return bytes(cached[1])
    data = storage.read(file)
    if looks is not None:
        looks[newest] = (file, data)
    return data


_QUIET_NS = 2_000_000_000
"""How long a folder must have been unchanged before an equal stat proves that nothing in it has changed."""


@dataclass
class TimelineReader:
    """A reader of one table's timeline, which caches what it has read until that changes."""

    storage: Storage
    _properties: tuple[Stat | None, TableProperties] | None = None
    _entries: list[Entry] = field(default_factory=list)
    _earlier: _Earlier | None = None
    _timeline: Timeline | None = None
    _folder: Stat | None = None
    """The stat of the folder of the active timeline, if no file in it had changed for a while."""

    def look(self, anew: bool = False) -> Timeline:
        """Return the timeline as it is now: the same object if nothing has changed.

        Cost: a stat of the properties and a listing of the active timeline; on local disk only a stat of its
        folder if nothing changed there for a while; within `one_look` nothing more, unless `anew`. History or
        archive are read again only if they changed. An instant that is in the history and in the active
        timeline, because a writer is archiving it or died meanwhile, counts once, as active. The history is
        listed after the active timeline: an instant that is archived between the two listings is in both.
        """
        key = ("timeline", self.storage)
        before = self._timeline
        seen = None if anew or SEEN.stats is None else SEEN.stats.get(key)
        if before is not None and id(seen) == id(before):
            return before
        timeline = self._timeline = self._read()
        if SEEN.stats is not None:
            SEEN.stats[key] = timeline
        return timeline

    def _read(self) -> Timeline:
        if self._properties is None or not self.storage.remote:
            return self._read_timeline(self._read_properties(), None)
        # A store is asked at once for the stat of the properties and for the folder that they named before.
        folder = self._properties[1].active
        steps: list[Callable[[], Any]] = [self._read_properties, partial(self.storage.list, folder)]
        properties, listed = at_once(self.storage, steps)
        return self._read_timeline(properties, listed if properties.active == folder else None)

    def _read_timeline(self, properties: TableProperties, listed: list[Entry] | None) -> Timeline:
        """Return the timeline; `listed`: what its folder holds, if that has just been listed."""
        before = self._timeline
        is_same = before is not None and before.properties is properties
        folder = None if self.storage.remote else self.storage.stat(properties.active)
        if before is not None and is_same and folder is not None and folder == self._folder:
            return before
        began = time.time_ns()
        named = properties.has_completion_times
        # In table version 6 modification times are completion times, so all entries are read again.
        if listed is None:
            listed = self.storage.list_again(properties.active, self._entries if named and is_same else ())
        entries = listed
        changed = max([0 if folder is None else folder.mtime_ns, *(e.mtime_ms * 1_000_000 for e in entries)])
        quiet = folder if began - changed > _QUIET_NS else None
        if before is not None and is_same and entries == self._entries:
            self._folder = quiet
            return before
        active = list_active(entries, properties.active, named, self.storage.root)
        everything = self._list_earlier(properties).before(active.completed, named)
        # Only now: after a look that failed, the next must not take the folder for known.
        self._entries, self._folder = entries, quiet
        return Timeline(
            *(self.storage, properties, tuple(everything), active.completed),
            *(active.pending, active.deleting),
        )

    def _read_properties(self) -> TableProperties:
        stat = self.storage.stat(FILE)
        if self._properties is None or stat is None or self._properties[0] != stat:
            self._properties, self._earlier = (stat, read_properties(self.storage)), None
        return self._properties[1]

    def _list_earlier(self, properties: TableProperties) -> _Earlier:
        """Return the instants of history or archive; read again if the manifest or the files changed."""
        folder = properties.history
        if properties.has_completion_times:
            # While a writer replaces the number, and before there is a history, the manifests tell the state.
            state: object = self.storage.stat(f"{folder}/{MANIFEST_NUMBER}") or self.storage.list(folder)
            reader = list_history
        else:
            state, reader = self.storage.list(folder), list_archive
        if self._earlier is None or self._earlier.state != state:
            self._earlier = _Earlier.of(state, reader(self.storage, folder))
        return self._earlier


@dataclass(frozen=True, slots=True)
class _Earlier:
    """The archived instants, in order. `state`: the stat of the number of the manifest, or a listing."""

    state: object
    instants: list[Instant]
    keys: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, state: object, instants: list[Instant]) -> _Earlier:
        """Return the instants, after a check that none occurs twice."""
        seen: dict[tuple[str, str], Instant] = {}
        for instant in instants:
            other = seen.setdefault(instant.key, instant)
            if other is not instant:
                raise _twice(other, instant)
        return cls(state, instants, frozenset(seen))

    def before(self, active: Sequence[Instant], named: bool) -> list[Instant]:
        """Return the archived and the active instants in the order of completion, each once.

        Cost: if no instant is both archived and active, a pass over the active instants.
        """
        keys: dict[tuple[str, str], Instant] = {}
        for instant in active:
            other = keys.setdefault(instant.key, instant)
            if other is not instant:
                raise _twice(other, instant)
        gone = self.instants
        if not self.keys.isdisjoint(keys):
            gone = [instant for instant in gone if instant.key not in keys]
        everything = [*gone, *active]
        if named and gone and active and _moment(active[0]) < _moment(gone[-1]):
            everything.sort(key=_moment)
        return everything


def _moment(instant: Instant) -> tuple[str, str, str]:
    return instant.completed, *instant.key


def _twice(first: Instant, other: Instant) -> MalformedLogError:
    reason = f"{first.requested} completes twice, at {first.completed} and {other.completed}"
    return MalformedLogError(file=other.file, reason=reason)
