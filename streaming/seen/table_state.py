"""The states of a table of an application, which people, metrics and alerts name alike."""

from __future__ import annotations

from enum import Enum


class TableState(str, Enum):
    """What an application does for one table."""

    WAITING = "waiting"
    """The table is not there yet, another application keeps its index, or it has not been opened yet."""
    BUILDING = "building"
    """The first snapshot is being indexed."""
    FOLLOWING = "following"
    """Every commit that was seen is indexed, or is being indexed within the lag contract."""
    BEHIND = "behind"
    """A commit waits for longer than the lag contract allows."""
    STUCK = "stuck"
    """A request to the table's store, or work on the table, gives no sign of life; it may still go on."""
    RETRYING = "retrying"
    """The last attempt failed; it is tried again after a pause, without end."""
    PAUSED = "paused"
    """The configuration pauses the table."""
    REFUSED = "refused"
    """Only a person can help; the table is tried again when the configuration is read again."""
