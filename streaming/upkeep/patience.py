"""How long a run waits for what is wrong to go, before it ends and leaves the rest to its supervisor.

Troubles that pass: a folder that vanishes for a moment, a full disk, a commit that a writer has half written,
a worker that was killed. Each is told when it is met, waited for with back-off, and gone on from.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tailbit.errors import (
    IndexLogError,
    MalformedLogError,
    NoIndexError,
    NotATableError,
    StorageError,
    StreamError,
    TailbitError,
)

WAIT_S = 600.0
"""A trouble that lasts longer than this many seconds ends the run."""

FIRST_S, LONGEST_S = 0.5, 30.0
"""The first pause, doubled each time, and the longest."""

_PASSING = (StorageError, NoIndexError, NotATableError, MalformedLogError, IndexLogError)

_LOST_WORKER = re.compile(
    r"Broken pipe|Python worker (?:exited|failed)|Connection reset|EOFException|crashed|Socket closed"
    r"|ClosedChannelException|Could not read output|failed to connect back|worker.*died|no cause message"
    r"|Stream closed|Pipe closed|Python process was lost",
    re.IGNORECASE,
)
"""What Spark says of a Python process that died; where the planner did, it has no words for the cause."""


def lost_worker(text: str) -> bool:
    """Whether what Spark says, with all its causes, is that a Python process of its own died."""
    return _LOST_WORKER.search(text) is not None


def passes(error: TailbitError) -> bool:
    """Whether what an error says may be gone in a moment, with nobody's help."""
    if isinstance(error, StreamError):
        return lost_worker(str(error))
    return isinstance(error, _PASSING)


_REFUSED = re.compile(
    r"(No space left on device|Disk quota exceeded)|(Read-only file system)|\((Permission denied)\)"
)
"""How Spark's Java says that the operating system did not let it write."""


def refused_write(text: str, path: str) -> StorageError | None:
    """What Spark says, with all its causes, as a refusal of the storage at `path`; None where it is none."""
    found = _REFUSED.search(text)
    if found is None:
        return None
    full, *others = found.groups()
    return StorageError(path=path, reason="the disk is full" if full else next(filter(None, others)))


def worth_a_restart(error: TailbitError, waited_s: float = 0.0) -> TailbitError:
    """The error, marked so that a supervisor starts again, where what it says may yet pass.

    So a table that vanished while a run worked is no wrong use of the command.
    """
    if not isinstance(error, (NoIndexError, NotATableError, MalformedLogError, IndexLogError)):
        return error
    again = "Started again, the command goes on where the index was"
    waited = f"It was waited for {waited_s:.0f} s. {again}, once this is mended." if waited_s else error.hint
    return type(error)(**error.fields | {"retryable": True, "hint": waited})


@dataclass
class Patience:
    """The pauses of one run: doubled while nothing works, short again once something did."""

    limit_s: float = WAIT_S
    clock: Callable[[], float] = time.monotonic
    _since: float | None = field(default=None, init=False)
    _pause: float = field(default=FIRST_S, init=False)

    def worked(self) -> None:
        """Something was recorded since the last trouble."""
        self._since, self._pause = None, FIRST_S

    def waited(self) -> float:
        """Seconds since the first of the troubles that have not gone."""
        return 0.0 if self._since is None else self.clock() - self._since

    def pause(self, error: TailbitError, mended: bool = False) -> float | None:
        """Seconds to wait before it is tried again; None where the error does not pass, or has not in time.

        `mended`: what caused the error has been taken away.
        """
        now = self.clock()
        self._since = now if self._since is None else self._since
        if not (mended or passes(error)) or now - self._since >= self.limit_s:
            return None
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_S)
        return min(pause, max(0.0, self._since + self.limit_s - now))
