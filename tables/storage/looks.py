"""One look at stores: within it, a name that is asked for again is as it was when it was first asked for.

A question looks at the newest commits from several places of the code. On local disk each is a stat of a
microsecond; in an object store each would be a request. Within one look they are one request, and they agree.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any


class _Seen(threading.local):
    """What this thread has seen in the look that it is in; None outside of a look."""

    stats: dict[Any, Any] | None = None


SEEN = _Seen()


class one_look:
    """A context within which this thread sees each name of an object store in one state; cost: none.

    A write within it is seen: it forgets what was seen before. A look within a look is a part of it.
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
    """What was seen so far may have changed."""
    if SEEN.stats:
        SEEN.stats.clear()
