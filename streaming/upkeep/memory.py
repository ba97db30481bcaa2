"""What a process of the indexer frees goes back to the system, so that its memory is what it holds.

Arrow's own allocator, that of delta-rs (jemalloc) and the C library keep what was freed for the next time,
each thread for itself. A process that merges now and then kept what its largest merges took, several times.
"""

from __future__ import annotations

import os
import sys
import time

EVERY_S = 2.0
"""Seconds between two times that freed memory is given back: it takes some milliseconds."""

_POOL = "ARROW_DEFAULT_MEMORY_POOL"
"""The environment variable by which Arrow chooses its allocator."""

_OF_DELTA_RS = "_RJEM_MALLOC_CONF"
"""The environment variable by which jemalloc, as Rust has it, is configured."""

_KEEPS_NOTHING = "narenas:1,dirty_decay_ms:0,muzzy_decay_ms:0"
"""One arena for all threads, and no page kept that is free."""


def take_from_the_system() -> None:
    """Let Arrow take memory from the C library and delta-rs keep none, here and in processes started later.

    Where somebody has chosen otherwise, it is left at that. Both look when they are first imported; of an
    Arrow that is there already, what it takes for Python alone can be moved.
    """
    # In the environment of this process, and left there: both libraries read it by getenv while they are
    # loaded, which happens late, and the workers inherit it through Java.
    os.environ.setdefault(_OF_DELTA_RS, _KEEPS_NOTHING)
    if os.environ.setdefault(_POOL, "system") == "system" and "pyarrow" in sys.modules:
        import pyarrow as pa

        pa.set_memory_pool(pa.system_memory_pool())


class Freed:
    """Gives back what this process has freed, after pieces of work."""

    def __init__(self) -> None:
        self._last = 0.0

    def give_back(self, at_once: bool = False) -> bool:
        """Give back what is free, unless that was done a moment ago; `at_once`: even then.

        Arrow passes it on to its allocator: the C library, where `take_from_the_system` was called.
        """
        import pyarrow as pa

        now = time.monotonic()
        if now - self._last < EVERY_S and not at_once:
            return False
        self._last = now
        pa.default_memory_pool().release_unused()
        return True


FREED = Freed()
"""That of this process."""
