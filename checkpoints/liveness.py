"""Signs of life of one run, given by its workers and read by its watchers.

A sign is given when a counter of work has moved: a file indexed, a poll of the planner answered, a Spark task
done. No thread gives a sign merely because the thread itself is alive. Safe to use from any thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

OnLife = Callable[[str], None]
"""A callback for signs of life: receives the work of the run in words, at most once a second."""

IDLE = "waiting for the planner to look for commits"
"""The work of a query that has nothing to do."""

_STEP_S = 1.0


class Liveness:
    """The current work of a run, and counters of its signs of life.

    `moves` counts signs of progress. `lives` counts these, and also each sign that the run is well but waits
    for something outside, such as an executor. `doing`: the work or wait, in words. `begun`: whether a query
    was started. `batch`: the last batch begun, -1 before the first. `beside`: in words, the step of work that
    goes on in parallel to the batches; such a step gives no signs of life, and `steps` counts begins and ends
    of such steps. `answered`: when Spark's JVM last answered, by `time.monotonic`; None before.
    """

    def __init__(self, doing: str = "starting") -> None:
        self.moves = self.lives = 0
        self.batch, self.begun = -1, False
        self.answered: float | None = None
        self.beside, self.steps = "", 0
        self._doing, self._waiting = doing, ""

    @property
    def doing_now(self) -> str:
        """Return the current work in words, or the last work if the run waits."""
        return self._doing

    @property
    def doing(self) -> str:
        """Return what the run waits for; if it does not wait, its current work."""
        work = self._waiting or self._doing
        return f"{work}; beside it {self.beside}" if self.beside else work

    @property
    def waits(self) -> bool:
        """Return whether the run waits for something outside."""
        return bool(self._waiting)

    @property
    def idle(self) -> bool:
        """Return whether the run does no more than look for new commits."""
        return self._doing == IDLE

    def sign(self, doing: str | None = None) -> None:
        """Record progress, and the present work if `doing` is given."""
        self._waiting = ""
        self._doing = self._doing if doing is None else doing
        self.moves += 1
        self.lives += 1

    def show(self, doing: str) -> None:
        """Record the present work in words, which proves no progress and so is no sign of life."""
        self._doing = doing

    def begin_beside(self, doing: str) -> None:
        """Record that a step of work in parallel to the batches begins; `doing` names the step."""
        self.beside = doing
        self.steps += 1

    def end_beside(self) -> None:
        """Record that no step of work goes on in parallel to the batches."""
        self.beside = ""
        self.steps += 1

    def wait_for(self, reason: str) -> None:
        """Record that the run is well but waits for something outside, named by `reason`."""
        self._waiting = reason
        self.lives += 1

    def pause(self, stop: threading.Event, seconds: float, reason: str) -> None:
        """Wait for `seconds`, or until `stop` is set, and record the wait and its `reason` all the while."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not stop.is_set():
            self.wait_for(reason)
            stop.wait(min(left, _STEP_S))
