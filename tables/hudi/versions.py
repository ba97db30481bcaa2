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
from dataclasses import dataclass, field

from tailbit.errors import VersionNotFoundError
from tailbit.once import once
from tailbit.tables.hudi.log.instants import CHANGES, Instant
from tailbit.tables.hudi.log.timeline import Timeline
from tailbit.tables.model import Version

WRITES = frozenset(("commit", "deltacommit", "replacecommit"))
"""The actions that write data files."""
_EARLIEST_ZONE_MS = 14 * 3_600_000
_QUARTER_MS, _SLACK_MS = 900_000, 120_000
_UTC = datetime.timezone.utc


@dataclass(frozen=True)
class Versions:
    """The versions of one look at a timeline, ascending, each with its instant and its time."""

    timeline: Timeline
    numbers: tuple[Version, ...]
    instants: tuple[Instant, ...]
    requested: Mapping[str, Version] = field(repr=False)
    """The version of each instant that writes data files, by its requested time."""
    first_active: str
    """The requested time before which an instant that nobody knows counts as complete; empty for none."""

    @classmethod
    def of(cls, timeline: Timeline) -> Versions:
        """Number the instants of a timeline."""
        numbered = list(_numbered(timeline))
        requested = {i.requested: version for version, i in numbered if i.action in WRITES}
        numbers, instants = [version for version, _ in numbered], [instant for _, instant in numbered]
        return cls(timeline, tuple(numbers), tuple(instants), requested, _first_active(timeline))

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

    @once
    def times(self) -> Sequence[int]:
        """Return the times of the versions in ms since 1970, strictly rising.

        The time is that at which the completed file changed; of an archived instant, its digits in the time
        zone by which the digits of the active ones and the changes of their files agree.
        """
        named = self.timeline.properties.has_completion_times
        offset = self._zone_ms() if named else 0
        times: list[int] = []
        for number, instant in zip(self.numbers, self.instants, strict=True):
            own = instant.changed_ms or (digits_ms(instant.completed) - offset if named else number)
            times.append(max(own, times[-1] + 1) if times else own)
        return times

    def _zone_ms(self) -> int:
        """Return by how much the digits of completion times are ahead of UTC, in ms."""
        active = [instant for instant in self.instants if instant.changed_ms]
        if self.timeline.properties.values.get("hoodie.table.timeline.timezone", "LOCAL").upper() == "UTC":
            return 0
        for instant in active:
            ahead = digits_ms(instant.completed) - instant.changed_ms
            quarters = round(ahead / _QUARTER_MS) * _QUARTER_MS
            if abs(ahead - quarters) <= _SLACK_MS and abs(quarters) <= _EARLIEST_ZONE_MS:
                return quarters
        return 0

    def not_found(self, version: object, reason: str, earliest: Version, root: str) -> VersionNotFoundError:
        """Return the error that a version cannot be read; the ends are named as people know them."""
        ends = (self.name_of(earliest), self.name_of(self.head))
        return VersionNotFoundError(
            version=version, path=root, reason=reason, earliest=ends[0], latest=ends[1]
        )

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


def digits_ms(digits: str) -> int:
    """Return the time of 14 or 17 digits in ms since 1970, read as UTC.

    >>> digits_ms("19700101000001500")
    1500
    """
    moment = datetime.datetime.strptime(digits[:14], "%Y%m%d%H%M%S").replace(tzinfo=_UTC)
    return int(moment.timestamp()) * 1000 + int(digits[14:17] or 0)


def _numbered(timeline: Timeline) -> list[tuple[Version, Instant]]:
    """Return the instants that may change rows with their versions, in order."""
    out: list[tuple[Version, Instant]] = []
    for instant in timeline.completed:
        if instant.action in CHANGES:
            number = _number(instant, timeline)
            if number is not None:
                out.append((max(number, out[-1][0] + 1) if out else number, instant))
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
    utc = timeline.properties.values.get("hoodie.table.timeline.timezone", "LOCAL").upper() == "UTC"
    return digits_ms(instant.completed) - (0 if utc else _EARLIEST_ZONE_MS)


def _first_active(timeline: Timeline) -> str:
    """Return the requested time of the oldest write in the active timeline, savepoints aside.

    A savepoint keeps its commit in the active timeline while commits after it are archived.
    """
    active = [instant for instant in timeline.completed if instant.row < 0]
    saved = {instant.requested for instant in active if instant.action == "savepoint"}
    writes = sorted(instant.requested for instant in active if instant.action in WRITES)
    return next((requested for requested in writes if requested not in saved), writes[0] if writes else "")
