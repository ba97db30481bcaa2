"""A look at a store: within one look, each name of a store is requested once and keeps its state.

A question checks the newest commits in several places of the code. On local disk each check is a stat of a
microsecond; in an object store each would be a request. Within one look they are one request, and they agree.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any


class _Seen(threading.local):
    """The stats that this thread has seen in its current look; None outside of a look."""

    stats: dict[Any, Any] | None = None


SEEN = _Seen()


class one_look:
    """A context within which this thread sees each name of an object store in one state; costs nothing.

    A write within the look is seen, because it drops the earlier stats. A nested look is part of the outer
    one.
    """

    __slots__ = ("_outer",)

    def __enter__(self) -> None:
        self._outer = SEEN.stats
        if self._outer is None:
            SEEN.stats = {}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        SEEN.stats = self._outer


def forget() -> None:
    """Forget the stats seen so far, because they may have changed: the look goes on as a later one."""
    if SEEN.stats:
        SEEN.stats.clear()
