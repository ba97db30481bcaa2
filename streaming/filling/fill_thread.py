"""The thread that fills files beside the stream, on a worker or in this process, and the time that it takes.

A step waits for its turn at the index only to plan and to commit, some milliseconds; files are read and
postings built beside the batches. So no batch waits while a step reads data. While the stream has caught up,
the next step follows at once. While the stream is behind the log, the next step waits until the stream has
caught up, but at most three times as long as the last step took: a busy stream keeps three quarters of the
time, and still every file is filled in the end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tailbit.base.errors import CorruptIndexError, TailbitError
from tailbit.checkpoints.liveness import Liveness
from tailbit.streaming.filling.filler import Filler
from tailbit.streaming.upkeep.mending import Tell

LOOK_S, REMOTE_LOOK_S = 1.0, 20.0
"""Seconds between two looks for something to fill; in an object store a look costs a request."""

BUSY_FACTOR = 3.0
"""The longest wait for a stream that is behind the log, as a multiple of the duration of the last step."""

_ASK_S = 0.02
"""Seconds between two looks at whether the stream has caught up; a look costs nothing."""

_LONGEST_S = 60.0


class FillThread:
    """The thread that fills files beside one query.

    `caught_up`: returns whether the stream has nothing to do. `mend`: repairs damage of the index that a step
    met. A step that failed is tried again after a pause, which doubles: nothing depends on a step, and a
    batch with the same trouble reports it by name. `failure`: why the last step failed.
    """

    def __init__(
        self,
        filler: Filler,
        caught_up: Callable[[], bool],
        mend: Callable[[CorruptIndexError], None],
        life: Liveness,
        tell: Tell,
        look_s: float = LOOK_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._filler, self._caught_up, self._mend = filler, caught_up, mend
        self._life, self._tell, self._look_s = life, tell, look_s
        self._pause = look_s
        self._stop, self._woken = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._keep, name="tailbit-fill", daemon=True)
        self.failure: Exception | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread: commit nothing more, and discard a step in progress; safe to call twice."""
        self._stop.set()
        self._woken.set()
        self._filler.stop()

    def wake(self) -> None:
        """Let the thread look for work at once, since the index has changed."""
        self._woken.set()

    def _keep(self) -> None:
        pause = 0.0
        while not self._has_stopped(pause):
            pause = self.look()

    def _has_stopped(self, pause: float) -> bool:
        """Wait for `pause` seconds, or until woken; return whether the thread is to end."""
        self._woken.wait(pause)
        self._woken.clear()
        return self._stop.is_set()

    def look(self) -> float:
        """Fill once if there is something to fill; return the seconds to wait before the next look."""
        began = self._clock()
        try:
            outcome = self._filler.step()
        except CorruptIndexError as damage:
            return self._failed(damage, mend=damage)
        except Exception as error:
            # The boundary of the thread, which must outlive every failure: Java is stopping, a worker was
            # lost, the store does not answer. While a session is stopped, pyspark has no Java context.
            return self._look_s if self._stop.is_set() else self._failed(error)
        finally:
            self._life.end_beside()
        self.failure, self._pause = None, self._look_s
        if outcome is None:
            return self._look_s
        self._let_stream_catch_up(BUSY_FACTOR * (self._clock() - began))
        return 0.0

    def _let_stream_catch_up(self, most_s: float) -> None:
        """Wait until the stream has nothing to do, `most_s` seconds at most."""
        until = self._clock() + most_s
        while not self._caught_up() and (left := until - self._clock()) > 0:
            if self._stop.wait(min(left, _ASK_S)):
                return

    def _failed(self, error: Exception, mend: CorruptIndexError | None = None) -> float:
        """Note an error, mend the damage that it names, and return the seconds to wait."""
        if not self._stop.is_set() and str(error) != str(self.failure):
            self._tell(f"not filled: {error}; tried again")
        self.failure, self._pause = error, min(2 * self._pause, _LONGEST_S)
        if mend is not None and not self._stop.is_set():
            try:
                self._mend(mend)
            except (TailbitError, OSError) as again:
                self.failure = again
        return self._pause
