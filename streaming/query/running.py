"""The queries that run in this process, and the reasons why ended queries ended.

Invariant: at every moment either the job of a query is registered or its failure is known. Queries are
identified by run id: a query that is restarted from a Spark checkpoint keeps its query id.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tailbit.base.errors import TailbitError

if TYPE_CHECKING:
    from tailbit.streaming.query.launch import Job


class Running:
    """The jobs by the run id of their query; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closing = threading.RLock()
        self._closed: set[str] = set()
        self._jobs: dict[str, Job] = {}
        self._failures: dict[str, TailbitError] = {}

    def add(self, run: str, job: Job) -> None:
        """Register a started job."""
        with self._lock:
            self._jobs[run] = job

    def jobs(self) -> list[tuple[str, Job]]:
        """Return the jobs that are not closed yet, with their run ids."""
        with self._lock:
            return list(self._jobs.items())

    def end(self, run: str) -> None:
        """Close a job that has ended, or wait until another caller has closed it.

        The reason of its end is kept.
        """
        with self._lock:
            job = self._jobs.get(run)
        if job is not None:
            self._close(run, job, job.failure())

    def give_up(self, run: str) -> None:
        """Close a job whose Spark is gone: the reason for the end of its query can no longer be known."""
        with self._lock:
            job = self._jobs.get(run)
        if job is not None:
            self._close(run, job, None)

    def _close(self, run: str, job: Job, failure: TailbitError | None) -> None:
        with self._lock:
            if failure is not None:
                self._failures.setdefault(run, failure)
        with self._closing:
            with self._lock:
                is_closed = run in self._closed
                self._closed.add(run)
            if is_closed:
                return
            try:
                job.close()
            finally:
                with self._lock:
                    self._jobs.pop(run, None)

    def failure_of(self, run: str) -> TailbitError | None:
        """Return the named error that ended a query; None while the query runs or if it ended well."""
        with self._lock:
            job = None if run in self._closed else self._jobs.get(run)
        failure = None if job is None else job.failure()
        with self._lock:
            # If another thread closed the job meanwhile, it recorded the failure before.
            return self._failures.get(run, failure)
