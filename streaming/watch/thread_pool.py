"""Threads for work that may never end: a job that is given up keeps its thread, but delays no other job."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from typing import Any, Generic, TypeVar

T = TypeVar("T")
S = TypeVar("S")

_LOOK_S = 0.05


class Job(Generic[T]):
    """One piece of work.

    `began`: by `time.monotonic`; None before a thread has begun it. `thread`: the native id of that thread.
    """

    def __init__(self, act: Callable[[], T]) -> None:
        self.act = act
        self.began: float | None = None
        self.thread = 0
        self.result: Future[T] = Future()
        self.is_given_up = False

    @property
    def seconds(self) -> float:
        """Return for how long a thread has been at work on the job; 0 before it begins, and after its end."""
        began = self.began
        return 0.0 if began is None or self.result.done() else time.monotonic() - began


class ThreadPool:
    """At most `size` threads at work, besides those whose jobs were given up. Safe to use from any thread.

    The threads are kept for the next jobs, and do not keep the process alive.
    """

    def __init__(self, name: str, size: int) -> None:
        self._name, self._size = name, size
        self._changed = threading.Condition()
        self._waiting: deque[Job[Any]] = deque()
        self._running: set[Job[Any]] = set()
        self._threads = self._idle = 0
        self._closed = False

    def submit(self, act: Callable[[], T]) -> Job[T]:
        """Have a thread do the work as soon as one is free; after `close` the job is cancelled."""
        job = Job(act)
        with self._changed:
            if self._closed:
                job.result.cancel()
                return job
            self._waiting.append(job)
            try:
                self._staff()
            except RuntimeError:
                # No thread can be started now; one of those that there are does the job.
                if not self._threads:
                    self._waiting.remove(job)
                    raise
            self._changed.notify()
        return job

    def give_up(self, job: Job[Any]) -> bool:
        """Count the thread of a job no more, so that another can start; return False if nothing changed."""
        with self._changed:
            if job not in self._running or job.is_given_up:
                return False
            job.is_given_up = True
            self._threads -= 1
            self._staff()
            return True

    def close(self, wait_s: float | None = None) -> bool:
        """Cancel waiting jobs, wait for running ones not given up, and return whether all of these ended."""
        with self._changed:
            self._closed = True
            while self._waiting:
                self._waiting.popleft().result.cancel()
            running = [job.result for job in self._running if not job.is_given_up]
            self._changed.notify_all()
        return not wait(running, wait_s).not_done

    def _staff(self) -> None:
        """Start a thread if there is more work than idle threads, and one may be started."""
        if len(self._waiting) > self._idle and self._threads < self._size:
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
            self._threads += 1

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                job.result.set_result(job.act())
            except BaseException as error:
                job.result.set_exception(error)
            with self._changed:
                self._running.discard(job)
                if job.is_given_up:
                    # Another thread has taken the place of this one.
                    return

    def _next(self) -> Job[Any] | None:
        with self._changed:
            self._idle += 1
            while not self._waiting and not self._closed:
                self._changed.wait()
            self._idle -= 1
            if not self._waiting:
                self._threads -= 1
                return None
            job = self._waiting.popleft()
            job.thread = threading.get_native_id()
            job.began = time.monotonic()
            self._running.add(job)
            return job


def run_each(
    act: Callable[[S], T],
    of: Iterable[S],
    late: Callable[[S], T],
    threads: int,
    limit_s: float,
    on_wait: Callable[[], None] = lambda: None,
    stop: threading.Event | None = None,
) -> list[T]:
    """Return what `act` returns for each value, in the order of the values; at most `threads` run at once.

    A value that takes longer than `limit_s` seconds is not waited for: `late` returns its answer. No value is
    waited for any more once no call of `act` returned for twice as long, or `stop` is set. `on_wait`: called
    again and again while values are waited for.
    """
    pool, values = ThreadPool("tailbit-each", threads), list(of)
    jobs = [pool.submit(lambda value=value: act(value)) for value in values]  # type: ignore[misc]
    waiting, returned = set(jobs), time.monotonic()
    while waiting and time.monotonic() - returned <= 2 * limit_s and not (stop and stop.is_set()):
        on_wait()
        done = wait([job.result for job in waiting], _LOOK_S).done
        returned = time.monotonic() if done else returned
        for job in waiting:
            if job.seconds > limit_s:
                pool.give_up(job)
        waiting = {job for job in waiting if not job.result.done() and not job.is_given_up}
    pool.close(0.0)
    return [
        job.result.result() if job.result.done() and not job.result.cancelled() else late(value)
        for job, value in zip(jobs, values, strict=True)
    ]
