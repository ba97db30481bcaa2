"""Freed memory of the indexer's processes is returned to the operating system.

Arrow's own allocator, jemalloc in delta-rs, and the C library keep freed memory for later, each thread for
itself. A process that merges now and then would keep several times what its largest merges took.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time

EVERY_S = 2.0
"""Least seconds between two returns of freed memory to the system: each takes some milliseconds."""

_POOL = "ARROW_DEFAULT_MEMORY_POOL"
"""The environment variable that selects Arrow's allocator."""

_OF_DELTA_RS = "_RJEM_MALLOC_CONF"
"""The environment variable that configures jemalloc as Rust builds it."""

_KEEPS_NOTHING = "narenas:1,dirty_decay_ms:0,muzzy_decay_ms:0"
"""jemalloc settings: one arena for all threads, and free pages returned at once."""

_ARENAS = "MALLOC_ARENA_MAX"
"""The environment variable that says how many arenas the C library has (glibc, mallopt(3): M_ARENA_MAX)."""

_MOST_ARENAS, _M_ARENA_MAX = 2, -8


def take_from_the_system() -> None:
    """Configure Arrow, delta-rs and the C library to keep no freed memory, here and in child processes.

    Settings that somebody has chosen stay. The libraries read their settings when they are first imported;
    if Arrow is imported already, only Arrow's allocations for Python can be moved to the C library. glibc
    gives each of many threads an arena of its own, whose pages stay as long as anything on them is in use:
    here all threads share two.
    """
    if os.environ.setdefault(_ARENAS, str(_MOST_ARENAS)) == str(_MOST_ARENAS) and sys.platform == "linux":
        # glibc reads the variable when a process starts; this process is told by a call that only glibc has.
        if (choose := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
            choose(_M_ARENA_MAX, _MOST_ARENAS)
    # These variables stay in the environment of this process: Arrow and delta-rs read them by getenv while
    # they are loaded, which happens late, and the workers inherit them through Java.
    os.environ.setdefault(_OF_DELTA_RS, _KEEPS_NOTHING)
    if os.environ.setdefault(_POOL, "system") == "system" and "pyarrow" in sys.modules:
        import pyarrow as pa

        pa.set_memory_pool(pa.system_memory_pool())


class Freed:
    """The return of freed memory to the system, after pieces of work."""

    def __init__(self) -> None:
        self._last = 0.0

    def give_back(self, at_once: bool = False) -> bool:
        """Return free memory to the system if the last time is `EVERY_S` seconds ago, or with `at_once`.

        Return whether that was done. Arrow passes the call on to its allocator: the C library, if
        `take_from_the_system` was called.
        """
        import pyarrow as pa

        now = time.monotonic()
        if now - self._last < EVERY_S and not at_once:
            return False
        self._last = now
        pa.default_memory_pool().release_unused()
        return True


FREED = Freed()
"""The instance of this process."""
