"""The timeline of a Hudi table: all completed instants, archived or active, and what each says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tailbit.errors import MalformedLogError
from tailbit.tables.hudi.log.archive import list_archive, read_archived_record
from tailbit.tables.hudi.log.history import MANIFEST_NUMBER, list_history, read_archived
from tailbit.tables.hudi.log.instants import Instant, list_active
from tailbit.tables.hudi.log.metadata import decode_metadata
from tailbit.tables.hudi.log.properties import FILE, TableProperties, read_properties
from tailbit.tables.storage import Entry, Stat, Storage


@dataclass(frozen=True, slots=True)
class Timeline:
    """The timeline at one look.

    `completed`: in the order of completion; in table version 6 those of the archive come before the active.
    `pending`: requested times of what has begun and not completed.
    """

    storage: Storage
    properties: TableProperties
    completed: tuple[Instant, ...]
    pending: frozenset[str]

    def content(self, instant: Instant) -> bytes | None:
        """Return the bytes of an instant's metadata; None for one in the archive of table version 6.

        Archiving in table versions 8 and 9 keeps the bytes as they were.

        Raises:
            FileNotFoundError: the instant has been archived, or taken back, since this look.
            MalformedLogError: the history is damaged.
        """
        if instant.row < 0:
            return self.storage.read(instant.file)
        return read_archived(self.storage, instant) if self.properties.has_completion_times else None

    def metadata(self, instant: Instant) -> dict[str, Any] | None:
        """Return an instant's metadata by the names of the fields; None where the archive has none.

        Raises:
            FileNotFoundError: as `content` does.
            MalformedLogError: the metadata are damaged.
        """
        content = self.content(instant)
        if content is None:
            return read_archived_record(self.storage, instant)
        return decode_metadata(content, instant.file)


@dataclass
class TimelineReader:
    """A reader of one table's timeline, which keeps what it has read as long as it stays the same."""

    storage: Storage
    _properties: tuple[Stat | None, TableProperties] | None = None
    _entries: list[Entry] = field(default_factory=list)
    _earlier: tuple[object, list[Instant]] | None = None
    _timeline: Timeline | None = None

    def look(self) -> Timeline:
        """Return the timeline as it is now: the same object if nothing has changed.

        Cost: a stat of the properties and a listing of the active timeline; what is older is read again only
        if it has changed. An instant that stands in the history and in the active timeline, because a writer
        is archiving it or died while it did, counts once, as active. The history is listed after the active
        timeline: an instant that is archived between the two listings is in both.

        Raises:
            NotATableError: there is no Hudi table.
            TableInTransitionError: the properties are being written.
            MalformedLogError: properties or history are damaged.
            CommitGapError: a file of the history is missing.
            UnsupportedFeatureError: the table's version, or an action, is not known.
            UnsafePathError: a name leads out of the timeline.
        """
        known, properties = self._timeline, self._read_properties()
        entries = self.storage.list(properties.active)
        if known is not None and known.properties is properties and entries == self._entries:
            return known
        named = properties.has_completion_times
        active = list_active(entries, properties.active, named, self.storage.root)
        everything = _together(self._list_earlier(properties), active.completed, named)
        self._timeline = Timeline(self.storage, properties, tuple(everything), active.pending)
        self._entries = entries
        return self._timeline

    def _read_properties(self) -> TableProperties:
        stat = self.storage.stat(FILE)
        if self._properties is None or stat is None or self._properties[0] != stat:
            self._properties, self._earlier = (stat, read_properties(self.storage)), None
        return self._properties[1]

    def _list_earlier(self, properties: TableProperties) -> list[Instant]:
        """Return the instants of the history or the archive; read anew if its manifest or files changed."""
        folder = properties.history
        if properties.has_completion_times:
            state: object = self.storage.stat(f"{folder}/{MANIFEST_NUMBER}")
            reader = list_history
        else:
            state, reader = self.storage.list(folder), list_archive
        if self._earlier is None or self._earlier[0] != state:
            self._earlier = (state, reader(self.storage, folder))
        return self._earlier[1]


def read_timeline(storage: Storage) -> Timeline:
    """Read the timeline of the table below a root, once. Raises what `TimelineReader.look` raises."""
    return TimelineReader(storage).look()


def _together(earlier: list[Instant], active: Sequence[Instant], named: bool) -> list[Instant]:
    """Return archived and active instants in the order of completion, each once.

    Raises:
        MalformedLogError: one instant has two times of completion.
    """
    known = {instant.key for instant in active}
    everything = [i for i in earlier if i.key not in known] + list(active)
    if named:
        everything.sort(key=lambda instant: (instant.completed, *instant.key))
    _check_order(everything)
    return everything


def _check_order(instants: list[Instant]) -> None:
    """Check that no instant occurs twice.

    Raises:
        MalformedLogError: one instant has two times of completion.
    """
    seen: dict[tuple[str, str], Instant] = {}
    for instant in instants:
        other = seen.setdefault(instant.key, instant)
        if other is not instant:
            reason = f"{instant.requested} completes twice, at {other.completed} and {instant.completed}"
            raise MalformedLogError(file=instant.file, reason=reason)
