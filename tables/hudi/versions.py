"""The versions of a Hudi table: the instants that may change its rows, numbered by their completion.

From table version 8 on, the number of a version is the 17 digits of the completion time. In table version 6
it is the modification time of the completed instant's file, in ms since 1970; the archive of that version
keeps completion times as digits in an unknown time zone, which are read as the earliest time that any zone
gives. Equal numbers are raised, so that numbers strictly increase in order of completion, then of request.
"""

from __future__ import annotations

import datetime
import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import field

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import VersionNotFoundError
from tailbit.tables.hudi.groups import LogFile
from tailbit.tables.hudi.instants import CHANGES, Instant
from tailbit.tables.hudi.timeline import Timeline
from tailbit.tables.model import Version

WRITES = frozenset(("commit", "deltacommit", "replacecommit"))
"""The actions that write data files."""
_EARLIEST_ZONE_MS = 14 * 3_600_000
_QUARTER_MS, _SLACK_MS = 900_000, 120_000
_EPOCH = datetime.date(1970, 1, 1)


@dataclass(frozen=True)
class Versions:
    """The versions of one look at a timeline, ascending, each with its instant and its time."""

    timeline: Timeline
    numbers: tuple[Version, ...]
    instants: tuple[Instant, ...]
    requested: Mapping[str, Version] = field(repr=False)
    """The version of each instant that writes data files, by its requested time."""
    times: tuple[int, ...] = field(repr=False)
    """The times of the versions in ms since 1970, strictly rising.

    A time is the modification time of the instant's file. For an archived instant it is the completion time,
    converted from the time zone in which completion times and modification times of active instants agree.
    """
    first_active: str
    """The requested time before which unknown instants count as complete; empty if they never do."""
    offset_ms: int
    """How far the digits of completion times are ahead of UTC, in ms."""

    @classmethod
    def of(cls, timeline: Timeline, earlier: Versions | None = None) -> Versions:
        """Return the versions of the instants of a timeline.

        `earlier`: the versions of an earlier look, which are extended if they still hold.

        Cost of an extension: a pass over the active timeline.
        """
        if earlier is None or not earlier.begins(timeline):
            offset = _zone_ms(timeline)
            earlier = cls(timeline, (), (), {}, (), "", offset)
            new: Sequence[Instant] = timeline.completed
        else:
            new = timeline.completed[len(earlier.timeline.completed) :]
        out = _numbered(new, timeline, earlier.numbers[-1] if earlier.numbers else -1)
        times = _times(out, earlier)
        requested = {i.requested: version for version, i in out if i.action in WRITES}
        return cls(
            timeline,
            (*earlier.numbers, *(version for version, _ in out)),
            (*earlier.instants, *(instant for _, instant in out)),
            {**earlier.requested, **requested},
            (*earlier.times, *times),
            _first_active(timeline),
            earlier.offset_ms,
        )

    def begins(self, timeline: Timeline) -> bool:
        """Return whether a later look has all completed instants of this one, at its beginning."""
        own = self.timeline.completed
        same = self.timeline.properties is timeline.properties
        return same and timeline.completed[: len(own)] == own

    @property
    def head(self) -> Version:
        """The newest version."""
        return self.numbers[-1]

    def between(self, first: Version, last: Version) -> range:
        """Return the indexes in `numbers` of the versions from `first` to `last`, which are bounds."""
        return range(bisect_left(self.numbers, first), bisect_right(self.numbers, last))

    def place(self, version: Version) -> int | None:
        """Return the index of a version in `numbers`; None if there is no such version."""
        index = bisect_left(self.numbers, version)
        return index if index < len(self.numbers) and self.numbers[index] == version else None

    def is_complete(self, requested: str, version: Version) -> bool:
        """Return whether an instant had completed at a version.

        An instant that the timeline does not hold counts as complete if it is older than the active timeline
        and not pending.
        """
        own = self.requested.get(requested)
        if own is not None:
            return own <= version
        return requested < self.first_active and requested not in self.timeline.pending

    def completion(self, requested: str) -> str:
        """Return the completion time of a write as digits; its requested time if the write is unknown."""
        own = self.requested.get(requested)
        index = None if own is None else self.place(own)
        return requested if index is None else self.instants[index].completed

    def follows_base(self, log: LogFile, requested: str) -> bool:
        """Return whether a log file belongs to the base file of an instant, or to a later base file.

        Compared with the instant: from table version 8 on the completion time of the log file's own instant,
        before that the instant in the log file's name.
        """
        if self.timeline.properties.has_completion_times:
            return self.completion(log.instant) >= requested
        return log.instant >= requested

    def not_found(self, version: object, reason: str, earliest: Version, root: str) -> VersionNotFoundError:
        """Return the error for a version that cannot be read; it names the ends by their requested times."""
        ends = (self.name_of(earliest), self.name_of(self.head))
        return VersionNotFoundError(
            version=version, path=root, reason=reason, earliest=ends[0], latest=ends[1]
        )

    def why_unknown(self, version: Version) -> str:
        """Return why no version has the number `version`."""
        if self.named(str(version)) is not None:
            return f"a number is a completion time; the time of a request is a text, version='{version}'"
        return "it is not there yet" if version > self.head else "there is no such version"

    def named(self, name: str) -> Version | None:
        """Return the version that a text names: the requested time of its instant, or its number."""
        version = self.requested.get(name)
        if version is not None:
            return version
        others = (
            v for v, i in zip(self.numbers, self.instants, strict=True) if name in (i.requested, str(v))
        )
        return next(others, None)

    def name_of(self, version: Version) -> str:
        """Return the requested time of a version's instant, the name under which people know the version."""
        index = self.place(version)
        return str(version) if index is None else self.instants[index].requested


def _times(numbered: Sequence[tuple[Version, Instant]], earlier: Versions) -> list[int]:
    """Return the times of new versions, which follow the known versions."""
    named = earlier.timeline.properties.has_completion_times
    times: list[int] = []
    last = earlier.times[-1] if earlier.times else None
    for number, instant in numbered:
        own = instant.changed_ms or (digits_ms(instant.completed) - earlier.offset_ms if named else number)
        last = own if last is None else max(own, last + 1)
        times.append(last)
    return times


def _zone_ms(timeline: Timeline) -> int:
    """Return how far the digits of completion times are ahead of UTC, in ms; 0 if nothing tells."""
    if not timeline.properties.has_completion_times or _is_utc(timeline):
        return 0
    for instant in timeline.active:
        ahead = digits_ms(instant.completed) - instant.changed_ms
        quarters = round(ahead / _QUARTER_MS) * _QUARTER_MS
        if abs(ahead - quarters) <= _SLACK_MS and abs(quarters) <= _EARLIEST_ZONE_MS:
            return quarters
    return 0


def _is_utc(timeline: Timeline) -> bool:
    """Return whether the table says that its digits are UTC; by default they are the writer's local time."""
    return timeline.properties.values.get("hoodie.table.timeline.timezone", "LOCAL").upper() == "UTC"


def digits_ms(digits: str) -> int:
    """Return the time of 14 or 17 digits in ms since 1970, read as UTC.

    >>> digits_ms("19700101000001500")
    1500
    """
    date = datetime.date(int(digits[:4]), int(digits[4:6]), int(digits[6:8]))
    seconds = int(digits[8:10]) * 3600 + int(digits[10:12]) * 60 + int(digits[12:14])
    return ((date - _EPOCH).days * 86_400 + seconds) * 1000 + int(digits[14:17] or 0)


def _numbered(
    instants: Sequence[Instant], timeline: Timeline, last: Version
) -> list[tuple[Version, Instant]]:
    """Return the instants that may change rows, each with its version, in order and greater than `last`."""
    out: list[tuple[Version, Instant]] = []
    for instant in instants:
        number = _number(instant, timeline) if instant.action in CHANGES else None
        if number is not None:
            last = max(number, last + 1)
            out.append((last, instant))
    if timeline.properties.has_completion_times:
        return out
    first = next((version for version, instant in out if instant.row < 0), math.inf)
    return [(version, instant) for version, instant in out if instant.row < 0 or version < first]


def _number(instant: Instant, timeline: Timeline) -> Version | None:
    """Return the number of an instant before it is raised; None if its completion time is unknown."""
    if timeline.properties.has_completion_times:
        return int(instant.completed)
    if instant.row < 0:
        return instant.changed_ms
    if not instant.completed:
        return None
    return digits_ms(instant.completed) - (0 if _is_utc(timeline) else _EARLIEST_ZONE_MS)


def _first_active(timeline: Timeline) -> str:
    """Return the requested time of the oldest write in the active timeline that has no savepoint.

    A savepoint keeps its commit in the active timeline while later commits are archived. If every write has a
    savepoint, the oldest write counts; empty if there is no write.
    """
    active = timeline.active
    saved = {instant.requested for instant in active if instant.action == "savepoint"}
    writes = sorted(instant.requested for instant in active if instant.action in WRITES)
    return next((requested for requested in writes if requested not in saved), writes[0] if writes else "")
