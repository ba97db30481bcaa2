"""The versions of a Hudi table: the instants that may change its rows, numbered by their completion.

From table version 8 on, a version is the completion time, as the whole number of its 17 digits. In table
version 6 it is the time at which the completed file changed, in ms since 1970; the archive of that version
keeps digits in an unknown time zone, which are read as early as any zone makes them. Numbers are raised where
two would be equal, so that they strictly rise in the order of completion, and then of requests.
"""

from __future__ import annotations

import datetime
import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import field

from tailbit.errors import VersionNotFoundError
from tailbit.imports.dataclass import dataclass
from tailbit.tables.hudi.groups import LogFile
from tailbit.tables.hudi.log.instants import CHANGES, Instant
from tailbit.tables.hudi.log.timeline import Timeline
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

    The time is that at which the completed file changed; of an archived instant, its digits in the time zone
    by which the digits of the active ones and the changes of their files agree.
    """
    first_active: str
    """The requested time before which an instant that nobody knows counts as complete; empty for none."""
    offset_ms: int
    """By how much the digits of completion times are ahead of UTC."""

    @classmethod
    def of(cls, timeline: Timeline, known: Versions | None = None) -> Versions:
        """Return the versions of the instants of a timeline.

        `known`: the versions of an earlier look, which are extended if they still hold.

        Cost: of an extension, that of the active timeline.
        """
        if known is None or not known.begins(timeline):
            offset = _zone_ms(timeline)
            known = cls(timeline, (), (), {}, (), "", offset)
            new: Sequence[Instant] = timeline.completed
        else:
            new = timeline.completed[len(known.timeline.completed) :]
        out = _numbered(new, timeline, known.numbers[-1] if known.numbers else -1)
        times = _times(out, known)
        requested = {i.requested: version for version, i in out if i.action in WRITES}
        return cls(
            timeline,
            (*known.numbers, *(version for version, _ in out)),
            (*known.instants, *(instant for _, instant in out)),
            {**known.requested, **requested},
            (*known.times, *times),
            _first_active(timeline),
            known.offset_ms,
        )

    def begins(self, timeline: Timeline) -> bool:
        """Return whether a later look holds all completed instants of this one, and then newer ones."""
        own = self.timeline.completed
        same = self.timeline.properties is timeline.properties
        return same and timeline.completed[: len(own)] == own

    @property
    def head(self) -> Version:
        """The newest version."""
        return self.numbers[-1]

    def between(self, first: Version, last: Version) -> range:
        """Return the places of the versions from `first` to `last`, which are bounds."""
        return range(bisect_left(self.numbers, first), bisect_right(self.numbers, last))

    def place(self, version: Version) -> int | None:
        """Return the place of a version in `numbers`; None if there is no such version."""
        at = bisect_left(self.numbers, version)
        return at if at < len(self.numbers) and self.numbers[at] == version else None

    def is_complete(self, requested: str, version: Version) -> bool:
        """Return whether an instant had completed at a version.

        An instant older than the active timeline, of which no history is left, counts as complete.
        """
        own = self.requested.get(requested)
        if own is not None:
            return own <= version
        return requested < self.first_active and requested not in self.timeline.pending

    def completion(self, requested: str) -> str:
        """Return when an instant completed, as digits; the request itself where nothing tells."""
        own = self.requested.get(requested)
        at = None if own is None else self.place(own)
        return requested if at is None else self.instants[at].completed

    def follows_base(self, log: LogFile, requested: str) -> bool:
        """Return whether a log file belongs to the base file of an instant, or to a later one.

        From table version 8 on the completion of the log's own instant tells, before that its name.
        """
        if self.timeline.properties.has_completion_times:
            return self.completion(log.instant) >= requested
        return log.instant >= requested

    def not_found(self, version: object, reason: str, earliest: Version, root: str) -> VersionNotFoundError:
        """Return the error that a version cannot be read; the ends are named as people know them."""
        ends = (self.name_of(earliest), self.name_of(self.head))
        return VersionNotFoundError(
            version=version, path=root, reason=reason, earliest=ends[0], latest=ends[1]
        )

    def why_unknown(self, version: Version) -> str:
        """Return the reason why there is no version of a number."""
        if self.named(str(version)) is not None:
            return f"a number is a completion time; the time of a request is a text, version='{version}'"
        return "it is not there yet" if version > self.head else "there is no such version"

    def named(self, name: str) -> Version | None:
        """Return the version that a text names: the requested time of its instant, or its number."""
        known = self.requested.get(name)
        if known is not None:
            return known
        others = (
            v for v, i in zip(self.numbers, self.instants, strict=True) if name in (i.requested, str(v))
        )
        return next(others, None)

    def name_of(self, version: Version) -> str:
        """Return the requested time of a version's instant, by which people know it."""
        at = self.place(version)
        return str(version) if at is None else self.instants[at].requested


def _times(numbered: Sequence[tuple[Version, Instant]], known: Versions) -> list[int]:
    """Return the times of versions that follow the known ones."""
    named = known.timeline.properties.has_completion_times
    times: list[int] = []
    last = known.times[-1] if known.times else None
    for number, instant in numbered:
        own = instant.changed_ms or (digits_ms(instant.completed) - known.offset_ms if named else number)
        last = own if last is None else max(own, last + 1)
        times.append(last)
    return times


def _zone_ms(timeline: Timeline) -> int:
    """Return by how much the digits of completion times are ahead of UTC, in ms."""
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
    """Return the instants that may change rows with their versions, in order and greater than `last`."""
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
    """Return the number of an instant before it is raised; None where nothing tells its completion."""
    if timeline.properties.has_completion_times:
        return int(instant.completed)
    if instant.row < 0:
        return instant.changed_ms
    if not instant.completed:
        return None
    return digits_ms(instant.completed) - (0 if _is_utc(timeline) else _EARLIEST_ZONE_MS)


def _first_active(timeline: Timeline) -> str:
    """Return the requested time of the oldest write in the active timeline, savepoints aside.

    A savepoint keeps its commit in the active timeline while commits after it are archived.
    """
    active = timeline.active
    saved = {instant.requested for instant in active if instant.action == "savepoint"}
    writes = sorted(instant.requested for instant in active if instant.action in WRITES)
    return next((requested for requested in writes if requested not in saved), writes[0] if writes else "")
