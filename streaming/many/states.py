"""The state of each table of an application, and the pauses before a table in trouble is tried again."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

import orjson

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import (
    CommitGapError,
    IndexerRunningError,
    NoIndexError,
    NotATableError,
    TailbitError,
    VersionNotFoundError,
)
from tailbit.streaming.config.model import Config, TableEntry
from tailbit.streaming.patience import is_transient
from tailbit.streaming.query.failures import in_short
from tailbit.streaming.settings import own_state
from tailbit.streaming.watch.view import TableState
from tailbit.tables.storage import SMALL, Storage, StorageOptions, open_storage

STATES = "tables.json"
"""The file with the states of the tables, in the folder of the lease: `tailbit status` reads it."""

FIRST_S, LONGEST_S = 0.5, 60.0
"""The pause after a table's first failure, doubled for each further one, and the longest pause."""


@dataclass
class Standing:
    """The state of one table, with why and since when.

    `retry_at`: when the table may be tried again, by `clock`. `last_error`: the last failure, kept once the
    table is well again; `erred`: when it happened, by `time.time`.
    """

    state: TableState = TableState.WAITING
    reason: str = ""
    remedy: str = ""
    since: float = field(default_factory=time.time)
    failures: int = 0
    retry_at: float = 0.0
    last_error: str = ""
    erred: float = 0.0
    clock: Callable[[], float] = time.monotonic

    def becomes(self, state: TableState, reason: str = "", remedy: str = "") -> bool:
        """Set the state; return whether state or reason changed."""
        changed = (state, reason) != (self.state, self.reason)
        if state is not self.state:
            self.since = time.time()
        self.state, self.reason, self.remedy = state, reason, remedy
        return changed

    def worked(self) -> None:
        """Forget the earlier failures, since something was recorded."""
        self.failures, self.retry_at = 0, 0.0

    def failed(self, error: Exception) -> bool:
        """Set the state after a failure, and the pause; return whether state or reason changed."""
        pause = min(FIRST_S * 2 ** min(self.failures, 16), LONGEST_S)
        self.failures += 1
        self.retry_at = self.clock() + pause
        remedy = _remedy(error)
        self.last_error, self.erred = f"{type(error).__name__}: {in_short(str(error))}", time.time()
        return self.becomes(state_after(error), self.last_error, remedy)

    @property
    def retry_in(self) -> float | None:
        """Return the seconds until a table that failed is tried again; None if it is not due for a retry."""
        if not self.failures or self.state not in (TableState.WAITING, TableState.RETRYING):
            return None
        return max(0.0, self.retry_at - self.clock())

    @property
    def is_due(self) -> bool:
        """Return whether the table may be looked at now."""
        return self.state not in (TableState.PAUSED, TableState.REFUSED) and self.clock() >= self.retry_at


def state_after(error: Exception) -> TableState:
    """Return the state after a failure: waiting, retrying, or refused if only a person can help."""
    if isinstance(error, (NotATableError, NoIndexError, IndexerRunningError)):
        return TableState.WAITING
    if not isinstance(error, TailbitError) or error.retryable or is_transient(error):
        return TableState.RETRYING
    if isinstance(error, (CommitGapError, VersionNotFoundError)):
        # A log that is being copied, restored or cleaned up.
        return TableState.RETRYING
    return TableState.REFUSED


def checkpoint_of(config: Config, file: str) -> str:
    """Return the folder of Spark's checkpoint: the configured one, or one in this user's state folder.

    The default is named by a hash of the absolute path of the configuration `file`.
    """
    digest = hashlib.sha256(os.path.abspath(file).encode()).hexdigest()[:16]
    return config.application.checkpoint or str(own_state() / "applications" / digest)


def lease_place(config: Config, file: str) -> Storage:
    """Return the storage for the application's lease, opened with the storage options of the defaults."""
    options = StorageOptions.of(config.defaults.storage_options)
    return open_storage(config.application.lease or checkpoint_of(config, file), options)


def states_of(place: Storage) -> dict[str, dict[str, Any]]:
    """Return the states that the last application wrote beside its lease, by table id; empty without any."""
    try:
        written = orjson.loads(place.read(STATES, SMALL))
        return {state["id"]: state for state in written["tables"]}
    except (OSError, TailbitError, ValueError, KeyError, TypeError):
        return {}


def located(table: TableEntry, states: Mapping[str, Mapping[str, Any]]) -> TableEntry:
    """Return an entry with the path of its table.

    A table of Spark's catalog is where the application last found it; without a path if it never did.
    """
    root = states.get(table.id, {}).get("root")
    return table.model_copy(update={"path": root}) if table.path is None and root else table


def _remedy(error: Exception) -> str:
    """Return what a person can do about an error; the application itself makes an index that is not there."""
    if isinstance(error, NoIndexError) and "hint" not in error.fields:
        return "The application makes it when it looks at the table again."
    return error.hint if isinstance(error, TailbitError) else ""
