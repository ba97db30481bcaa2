"""Signs of life of one run, given by whatever works for it and read by whatever watches it.

A sign is given where a counter of work has moved: a file indexed, a poll of the planner answered, a task of
Spark done. No thread gives one because it is itself alive. Safe to use from any thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

OnLife = Callable[[str], None]
"""Is told that there were signs of life, with what the run is doing; at most once a second."""

_STEP_S = 1.0


class Liveness:
    """What a run is doing, and how many signs of life there were.

    `moves` counts progress. `lives` counts that, and every sign that the run waits for something outside of
    it, such as an executor, and would go on at once if it came. `doing`: what is done or waited for, in
    words. `batch`: the last one begun, -1 before. `answered`: when Spark's Java last answered, by
    `time.monotonic`; None before.
    """

    def __init__(self, doing: str = "starting") -> None:
        self.moves = self.lives = 0
        self.batch = -1
        self.answered: float | None = None
        self._doing, self._waiting = doing, ""

    @property
    def doing_now(self) -> str:
        """What the run does, or did before it waited."""
        return self._doing

    @property
    def doing(self) -> str:
        """What the run waits for, else what it does."""
        return self._waiting or self._doing

    def sign(self, doing: str | None = None) -> None:
        """Note progress, and what is done from now on where that is given."""
        self._waiting = ""
        self._doing = self._doing if doing is None else doing
        self.moves += 1
        self.lives += 1

    def wait_for(self, what: str) -> None:
        """Note that the run is well and waits for something outside of it."""
        self._waiting = what
        self.lives += 1

    def pause(self, stop: threading.Event, seconds: float, what: str) -> None:
        """Wait until `stop` is set, `seconds` at most, and say all the while what is waited for."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not stop.is_set():
            self.wait_for(what)
            stop.wait(min(left, _STEP_S))
