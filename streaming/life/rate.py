"""A check by CPU time whether processes are at work."""

from __future__ import annotations

import time

WINDOW_S = 5.0
"""Seconds over which the growth of CPU time counts at most: what was done or not done before says nothing."""

EVERY_S = 1.0
"""Seconds between two looks at the CPU time."""

BUSY = 0.02
"""Least part of a core that a Python process at work takes, over a few seconds."""


class Rate:
    """A check whether a sum of CPU seconds grows by more than `part` of a core, over a second or more."""

    def __init__(self, part: float) -> None:
        self._part = part
        self._from, self._at = 0.0, time.monotonic()

    def is_busy(self, cpu: float) -> bool:
        """Return whether the sum, now `cpu`, grew that fast since the growth was last counted anew.

        It is counted anew after each call that returns True, after `WINDOW_S`, and once the sum shrinks, as
        it does when processes end.
        """
        now = time.monotonic()
        if cpu < self._from:
            self._from, self._at = cpu, now
            return False
        busy = cpu - self._from > self._part * max(now - self._at, EVERY_S)
        if busy or now - self._at > WINDOW_S:
            self._from, self._at = cpu, now
        return busy
