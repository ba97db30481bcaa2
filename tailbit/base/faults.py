"""Named points between two durable effects, where a test can make the process die, raise or hang.

Faults are off unless the environment variable TAILBIT_FAULT is set, e.g. `TAILBIT_FAULT=after_commit=kill@2`
(at the second pass); several are separated by commas. Actions: `kill` (SIGKILL to the process group of the
indexer), `raise`, `hang`.
Production code pays one dictionary look-up.
"""

from __future__ import annotations

import enum
import os
import signal
import time


class Fault(enum.Enum):
    """Names of the steps between two durable effects."""

    OFFSET_LOGGED = "offset_logged"
    BATCH_PLANNED = "batch_planned"
    SEGMENT_HALF_WRITTEN = "segment_half_written"
    SEGMENT_WRITTEN = "segment_written"
    BEFORE_COMMIT = "before_commit"
    COMMIT_REPLY_LOST = "commit_reply_lost"
    AFTER_COMMIT = "after_commit"
    BEFORE_SPARK_COMMIT = "before_spark_commit"
    MERGE_WRITTEN = "merge_written"
    MERGE_COMMITTED = "merge_committed"
    FILL_PLANNED = "fill_planned"
    FILL_BUILT = "fill_built"
    FILL_COMMITTED = "fill_committed"
    VACUUM_HALF_DONE = "vacuum_half_done"
    REPAIR_HALF_DONE = "repair_half_done"
    LOG_CHECKPOINT_HALF_WRITTEN = "log_checkpoint_half_written"
    ROWS_LOCATED = "rows_located"
    VECTORS_WRITTEN = "vectors_written"
    ROWS_APPENDED = "rows_appended"
    CHANGE_COMMITTED = "change_committed"


class InjectedFaultError(Exception):
    """Raised by the action `raise`."""


class LostReplyError(InjectedFaultError, OSError):
    """Raised in place of a store's reply, as the store's client raises an error if a connection breaks."""


_passes: dict[str, int] = {}


def fault_point(fault: Fault) -> None:
    """Apply TAILBIT_FAULT at this point; do nothing if it is not set."""
    setting = os.environ.get("TAILBIT_FAULT")
    if not setting:
        return
    modes = [
        assignment.partition("=")[2]
        for assignment in setting.split(",")
        if assignment.partition("=")[0] == fault.value
    ]
    if not modes:
        return
    name = fault.value
    _passes[name] = _passes.get(name, 0) + 1
    for action, _, nth in (assignment.partition("@") for assignment in modes):
        if _passes[name] == int(nth or 1):
            _act(fault, action)


def _act(fault: Fault, action: str) -> None:
    if action == "kill":
        os.killpg(os.getpgid(0), signal.SIGKILL)
    elif action == "hang":
        time.sleep(3600)
    else:
        kind = LostReplyError if fault is Fault.COMMIT_REPLY_LOST else InjectedFaultError
        raise kind(fault.value)
