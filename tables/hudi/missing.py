"""Why a version that people name is not there: taken back, no version at all, or not there yet."""

from __future__ import annotations

from tailbit.tables.hudi.log.instants import CHANGES
from tailbit.tables.hudi.log.timeline import Timeline


def why_missing(timeline: Timeline, name: str) -> str:
    """Return the reason why a timeline has no version of a name.

    Cost: the metadata of the instants that took others back.

    Raises:
        FileNotFoundError: an instant has been archived, or taken back, since the timeline was read.
        MalformedLogError: the metadata of an instant are damaged.
    """
    if name in timeline.pending:
        return "the instant has not completed"
    other = next((i.action for i in timeline.completed if i.requested == name), None)
    if other is not None and other not in CHANGES:
        return f"a {other} changes no rows: name the commit before it"
    for instant in reversed(timeline.completed):
        if instant.action in ("rollback", "restore"):
            metadata = timeline.metadata(instant) or {}
            undone = metadata.get("commitsRollback") or metadata.get("instantsToRollback") or ()
            if any(name == (i.get("commitTime") if isinstance(i, dict) else i) for i in undone):
                return f"the {instant.action} {instant.requested} took it back"
    return "there is no such instant"
