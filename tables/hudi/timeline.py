"""The timeline of a Hudi table: all completed instants, archived or active, and what each says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tailbit.errors import MalformedLogError
from tailbit.tables.hudi.archive import list_archive
from tailbit.tables.hudi.history import list_history, read_archived
from tailbit.tables.hudi.instants import Instant, list_active
from tailbit.tables.hudi.metadata import decode_metadata
from tailbit.tables.hudi.properties import TableProperties, read_properties
from tailbit.tables.storage import Storage


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
        """Return an instant's metadata by the names of the fields; None where `content` is None.

        Raises:
            FileNotFoundError: as `content` does.
            MalformedLogError: the metadata are damaged.
        """
        content = self.content(instant)
        return None if content is None else decode_metadata(content, instant.file)


def read_timeline(storage: Storage) -> Timeline:
    """Read the timeline of the table below a root.

    An instant that stands in the history and in the active timeline, because a writer is archiving it or died
    while it did, counts once, as active. The history is listed after the active timeline: an instant that is
    archived between the two listings is in both.

    Raises:
        NotATableError: there is no Hudi table.
        TableInTransitionError: the properties are being written.
        MalformedLogError: properties or history are damaged.
        CommitGapError: a file of the history is missing.
        UnsupportedFeatureError: the table's version, or an action, is not known.
        UnsafePathError: a name leads out of the timeline.
    """
    properties = read_properties(storage)
    entries = storage.list(properties.active)
    named = properties.has_completion_times
    active = list_active(entries, properties.active, named, storage.root)
    earlier = (list_history if named else list_archive)(storage, properties.history)
    known = {instant.key for instant in active.completed}
    everything = [i for i in earlier if i.key not in known] + list(active.completed)
    if named:
        everything.sort(key=lambda instant: (instant.completed, *instant.key))
    _check_order(everything)
    return Timeline(storage, properties, tuple(everything), active.pending)


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
