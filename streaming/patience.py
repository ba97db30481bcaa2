"""How long a run retries after transient failures, before it ends and leaves the rest to its supervisor.

Transient failures: a folder that vanishes for a moment, a full disk, a commit that a writer has half written,
a worker that was killed. Each failure is reported when it happens and retried with back-off.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import field

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import (
    IndexLogError,
    MalformedLogError,
    NoIndexError,
    NotATableError,
    StorageError,
    StreamError,
    TailbitError,
)

WAIT_S = 600.0
"""Seconds of lasting failure after which the run ends."""

FIRST_S, LONGEST_S = 0.5, 30.0
"""The first pause, doubled for each retry, and the longest pause."""

_PASSING = (StorageError, NoIndexError, NotATableError, MalformedLogError, IndexLogError)

_LOST_WORKER = re.compile(
    r"Broken pipe|Python worker (?:exited|failed)|Connection reset|EOFException|crashed|Socket closed"
    r"|ClosedChannelException|Could not read output|failed to connect back|worker.*died|no cause message"
    r"|Stream closed|Pipe closed|Python process was lost",
    re.IGNORECASE,
)
"""Spark's messages about a Python process that died; if the planner died, they do not say why."""


def lost_worker(text: str) -> bool:
    """Return whether Spark's message, with all causes, says that a Python process of Spark died."""
    return _LOST_WORKER.search(text) is not None


def is_transient(error: TailbitError) -> bool:
    """Return whether an error may be transient, so that a retry can succeed."""
    if isinstance(error, StreamError):
        return lost_worker(str(error))
    return isinstance(error, _PASSING)


_REFUSED = re.compile(
    r"(No space left on device|Disk quota exceeded)|(Read-only file system)|\((Permission denied)\)"
)
"""Messages of Spark's Java that the operating system refused a write."""


def refused_write(text: str, path: str) -> StorageError | None:
    """Return a StorageError if Spark's message, with all causes, says that a write was refused, else None.

    `path`: root of the storage.
    """
    match = _REFUSED.search(text)
    if match is None:
        return None
    full, *others = match.groups()
    return StorageError(path=path, reason="the disk is full" if full else next(filter(None, others)))


def worth_a_restart(error: TailbitError, waited_s: float = 0.0) -> TailbitError:
    """Return the error, marked as retryable by a restart if the failure may be transient.

    So a table that vanished while a run worked is not reported as wrong use of the command.
    """
    if not isinstance(error, (NoIndexError, NotATableError, MalformedLogError, IndexLogError)):
        return error
    again = "Started again, the command goes on where the index was"
    waited = f"It was waited for {waited_s:.0f} s. {again}, once this is mended." if waited_s else error.hint
    return type(error)(**error.fields | {"retryable": True, "hint": waited})


@dataclass
class Patience:
    """The pauses of one run: doubled while retries fail, short again after a success."""

    limit_s: float = WAIT_S
    clock: Callable[[], float] = time.monotonic
    _since: float | None = field(default=None, init=False)
    _pause: float = field(default=FIRST_S, init=False)
    _kind: type[TailbitError] | None = field(default=None, init=False)
    _kind_since: float = field(default=0.0, init=False)

    def worked(self) -> None:
        """Reset the pauses, since something was recorded."""
        self._since, self._pause, self._kind = None, FIRST_S, None

    def lasts(self) -> float:
        """Return for how many seconds every failure has been of the class of the last one."""
        return 0.0 if self._kind is None else self.clock() - self._kind_since

    def pause(self, error: TailbitError, mended: bool = False) -> float | None:
        """Return the seconds to wait before a retry; None if the error is not transient, or lasted too long.

        `mended`: the cause of the error has been removed.
        """
        now = self.clock()
        if type(error) is not self._kind:
            self._kind, self._kind_since = type(error), now
        self._since = now if self._since is None else self._since
        if not (mended or is_transient(error)) or now - self._since >= self.limit_s:
            return None
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_S)
        return min(pause, max(0.0, self._since + self.limit_s - now))
