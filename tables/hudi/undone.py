"""Instants that were rolled back: why a version is gone, and what an index of it can still prove."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from tailbit.tables.hudi.log.instants import CHANGES, Instant
from tailbit.tables.hudi.log.timeline import Timeline
from tailbit.tables.hudi.schema import READING_RULES
from tailbit.tables.hudi.versions import Versions
from tailbit.tables.model import Fingerprint

_UNDOES = ("rollback", "restore")
_LINEAGE = 10
"""Number of earlier versions that a fingerprint covers, to notice one that completes in the past."""
_HALF = 32
"""Hexadecimal digits of each half of a fingerprint: the hash of requested times, and the hash of contents."""


def why_missing(timeline: Timeline, name: str) -> str:
    """Return why a timeline has no version named `name`, the requested time of an instant.

    Cost: the metadata of the rollbacks and restores.

    Raises:
        FileNotFoundError: an instant has been archived or rolled back since the timeline was read.
        MalformedLogError: the metadata of an instant are damaged.
    """
    if name in timeline.pending:
        return "the instant has not completed"
    other = next((i.action for i in timeline.completed if i.requested == name), None)
    if other is not None and other not in CHANGES:
        return f"a {other} changes no rows: name the commit before it"
    for instant in reversed(timeline.completed):
        if name in _undone(timeline, instant):
            return f"the {instant.action} {instant.requested} took it back"
    return "there is no such instant"


def _undone(timeline: Timeline, instant: Instant) -> set[str]:
    """Return the requested times of the instants that an instant rolled back; empty for other actions."""
    if instant.action not in _UNDOES:
        return set()
    metadata = timeline.metadata(instant) or {}
    undone = metadata.get("commitsRollback") or metadata.get("instantsToRollback") or ()
    return {str(entry.get("commitTime") if isinstance(entry, dict) else entry) for entry in undone}


def lineage(versions: Versions, at: int) -> tuple[tuple[str, str], ...]:
    """Return the keys of a version's instant and of up to ten instants before it, in order."""
    return tuple(instant.key for instant in versions.instants[max(0, at - _LINEAGE) : at + 1])


def digest_of(versions: Versions, at: int, content: bytes) -> str:
    """Return the hash of a version: of the requested times up to it, and of its content and instant keys.

    The second hash is also of the rules by which data files are read: an index built by others checks them.
    """
    digest = hashlib.sha256(f"{READING_RULES}".encode() + content)
    for key in lineage(versions, at):
        digest.update(repr(key).encode())
    return _hash_of_requests(requested for requested, _ in lineage(versions, at)) + digest.hexdigest()[:_HALF]


def _hash_of_requests(requests: Iterable[str]) -> str:
    return hashlib.sha256(repr(tuple(requests)).encode()).hexdigest()[:_HALF]


def is_taken_back(versions: Versions, known: Fingerprint) -> bool:
    """Return whether later instants rolled back a version, while all versions before it are as they were.

    The bytes of the instant are gone. Its fingerprint proves which requested times led to it, and the
    metadata of the rollbacks name those that are gone. Every file that the table still shows is then the same
    as before, since names of files hold their instants. In table version 6 the names of log files do not, so
    a MERGE_ON_READ table of that version proves nothing.

    Cost: reads the metadata of the later rollbacks and restores.
    """
    properties = versions.timeline.properties
    unproven = properties.is_merged and not properties.has_completion_times
    if versions.place(known.version) is not None or unproven:
        return False
    at = bisect_left(versions.numbers, known.version)
    undone: set[str] = set()
    for instant in versions.instants[at:]:
        undone |= _undone(versions.timeline, instant)
    kept = [instant.requested for instant in versions.instants[max(0, at - _LINEAGE) : at]]
    return known.sha256[:_HALF] in map(_hash_of_requests, _histories(kept, sorted(undone)))


def _histories(kept: Sequence[str], undone: Sequence[str]) -> Iterable[Sequence[str]]:
    """Yield the requested times that may have led to each rolled back instant, up to and including it."""
    for place, request in enumerate(undone):
        for before in ([], undone[:place]):
            yield [*kept, *before, request][-(_LINEAGE + 1) :]
