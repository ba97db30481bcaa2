"""The index looks after itself while a query runs: its leavings are swept in a thread beside the batches.

A batch waits for none of it. Merges are `merging`'s; the log of the index gets its checkpoints from commits.
"""

from __future__ import annotations

import threading

from tailbit.errors import TailbitError
from tailbit.index.maintenance.sweep import Sweeper
from tailbit.index.store.table import MetadataTable

EVERY_S = 60.0
"""Seconds between two passes."""


class Upkeep:
    """Sweeps an index every `every_s` seconds from `start` to `stop`, with an index of its own.

    A pass that fails is made again when the next is due: nothing rests on it but disk space, and a batch that
    meets the same trouble says so by name. `failure` is why the last pass failed, None where it did not.
    """

    def __init__(self, path: str, every_s: float = EVERY_S, kept_s: float | None = None) -> None:
        self._path, self._every_s, self._kept_s = path, every_s, kept_s
        self._stop = threading.Event()
        self._sweeper: Sweeper | None = None
        self._thread = threading.Thread(target=self._keep, name="tailbit-upkeep", daemon=True)
        self.failure: TailbitError | OSError | None = None
        self.deleted = 0

    def start(self) -> None:
        """Begin; the first pass comes after `every_s`."""
        self._thread.start()

    def stop(self) -> None:
        """End after the deletion at hand; asked twice, nothing happens."""
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(self._every_s)

    def _keep(self) -> None:
        while not self._stop.wait(self._every_s):
            self._pass()

    def _pass(self) -> None:
        self.failure = None
        try:
            if self._sweeper is None:
                index = MetadataTable.open(self._path)
                self._sweeper = Sweeper(index) if self._kept_s is None else Sweeper(index, self._kept_s)
            self.deleted += len(self._sweeper.sweep())
        except (TailbitError, OSError) as error:
            # An OSError is a file of the log that another process cleaned up between listing and reading.
            self.failure = error
