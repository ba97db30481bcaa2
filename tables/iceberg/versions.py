"""The versions of an Iceberg table: numbers of its snapshots that rise with commits, and their names.

A snapshot's id is random, so the number is made of what rises: from format version 2 on of the sequence
number, before of the time. Numbers are even. A head whose schema was changed after its last snapshot has the
odd number that follows, since a question of the head has the current schema, and one of the snapshot its own.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from itertools import accumulate

from tailbit.base.once import once
from tailbit.tables.iceberg.metadata import MAIN, SnapshotEntry, TableMetadata
from tailbit.tables.model import Version

_WITH_SEQUENCE = 1 << 43
"""Added to sequence numbers, so that snapshots of format version 1 are before all others."""
EMPTY: Version = 0
"""The version of a table before its first snapshot."""


class Versions:
    """The versions of one metadata file. The ancestors of the current snapshot are the table's history."""

    def __init__(self, metadata: TableMetadata) -> None:
        self.metadata = metadata
        self._numbers = _numbered(metadata)
        self._snapshots = {number: id_ for id_, number in self._numbers.items()}
        line: list[SnapshotEntry] = []
        entry = None if metadata.current is None else metadata.snapshots[metadata.current]
        seen: set[int] = set()
        while entry is not None and entry.id not in seen:
            seen.add(entry.id)
            line.append(entry)
            entry = None if entry.parent is None else metadata.snapshots.get(entry.parent)
        self.line = line[::-1]
        """The ancestors of the current snapshot that are not expired, oldest first, and the snapshot."""
        self.from_start = not line or line[-1].parent is None
        """Whether the line begins with the table's first snapshot."""
        self.numbers = [self._numbers[entry.id] for entry in self.line]
        self._positions_in_line = {number: place for place, number in enumerate(self.numbers)}

    @property
    def head(self) -> Version:
        """The newest version."""
        return self.of_branch(MAIN)

    @property
    def earliest(self) -> Version:
        """The oldest version of the line."""
        return self.numbers[0] if self.numbers else EMPTY

    def of_branch(self, name: str) -> Version:
        """Return the version of a branch, which is read with the current schema."""
        if self.metadata.current is None and name == MAIN:
            return EMPTY
        entry = self.metadata.snapshots[self.metadata.refs[name].snapshot]
        return self._numbers[entry.id] + (entry.schema not in (None, self.metadata.schema))

    def named(self, name: str) -> Version | None:
        """Return the version of a branch, a tag or the id of a snapshot; None if there is none."""
        ref = self.metadata.refs.get(name)
        if ref is not None and ref.snapshot in self._numbers:
            return self.of_branch(name) if ref.is_branch else self._numbers[ref.snapshot]
        return self._numbers.get(int(name)) if name.isdecimal() else None

    def of_id(self, id_: int) -> Version | None:
        """Return the version of a snapshot by its id; None if there is none of that id."""
        return self._numbers.get(id_)

    def entry(self, version: Version) -> SnapshotEntry | None:
        """Return the snapshot of a version; None if it is gone, or was never there."""
        id_ = self._snapshots.get(version - version % 2)
        return None if id_ is None else self.metadata.snapshots[id_]

    def is_empty(self, version: Version) -> bool:
        """Return whether a version is that before the first snapshot of the line."""
        return version == EMPTY and self.from_start

    def schema_of(self, version: Version) -> int:
        """Return the id of the schema that a version is read with."""
        entry = self.entry(version)
        own = None if entry is None or version % 2 else entry.schema
        return self.metadata.schema if own is None else own

    def place(self, version: Version) -> int | None:
        """Return the place of a version in the line; None if it is no ancestor of the head."""
        return self._positions_in_line.get(version - version % 2)

    def between(self, first: Version, last: Version) -> list[Version]:
        """Return the versions from `first` to `last`, which are bounds."""
        numbers = self.numbers[bisect_left(self.numbers, first) : bisect_right(self.numbers, last)]
        head = self.head
        if head % 2 and first <= head <= last:
            return [*numbers, head] if not numbers or numbers[-1] != head - 1 else [*numbers[:-1], head]
        if not self.numbers and first <= EMPTY <= last:
            return [EMPTY]
        return numbers

    @once
    def times(self) -> list[int]:
        """Return the time of each version of the line in ms, raised so that times strictly rise."""
        return list(accumulate((e.time_ms for e in self.line), lambda before, time: max(before + 1, time)))

    def time_of(self, version: Version) -> int | None:
        """Return the time of a version; None if it is gone."""
        place, entry = self.place(version), self.entry(version)
        if place is not None:
            return self.times[place]
        return 0 if self.is_empty(version) else None if entry is None else entry.time_ms

    def current_at(self, timestamp_ms: int) -> Version | None:
        """Return the version that was current at a time; None if that is not known any more.

        After a rollback, the log of the table names an older snapshot again.
        """
        log = self.metadata.log or [(entry.time_ms, entry.id) for entry in self.line]
        past = [id_ for time, id_ in log if time <= timestamp_ms]
        return self._numbers.get(past[-1]) if past else None

    def digest(self, version: Version) -> str | None:
        """Return a hash that identifies a version of the line; None for any other version."""
        in_line = self.place(version) is not None or self.is_empty(version)
        return self._digest(version) if in_line else None

    def took_back(self, version: Version, digest: str) -> bool:
        """Return whether a version has left the line, and values of its files are read as before.

        A path never gets other contents, but under another name mapping the values of a file may be others;
        of an expired snapshot nobody knows the mapping any more.
        """
        if self.place(version) is not None or self.is_empty(version):
            return False
        now = self._digest(version)
        return now == digest if now is not None else not self.metadata.name_mapping

    def _digest(self, version: Version) -> str | None:
        entry = self.entry(version)
        if entry is None and not self.is_empty(version):
            return None
        text = f"{entry.id} {entry.manifest_list} {entry.manifests}" if entry else "before the first snapshot"
        return hashlib.sha256(f"{text} {self.metadata.name_mapping}".encode()).hexdigest()


def _numbered(metadata: TableMetadata) -> dict[int, Version]:
    """Return the number of each snapshot by its id."""
    numbers, last = {}, 0
    for entry in metadata.snapshots.values():
        if entry.sequence:
            numbers[entry.id] = 2 * (_WITH_SEQUENCE + entry.sequence)
        else:
            last = max(last + 1, entry.time_ms)
            numbers[entry.id] = 2 * last
    return numbers
