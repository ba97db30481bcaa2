"""The queries that this process runs, and why those that have ended did.

Invariant: a query is known by its job until its failure is known, so there is no moment at which neither is.
Queries are told apart by their run: one that starts again from a Spark checkpoint keeps its id.
"""

from __future__ import annotations

import threading
from typing import Generic, Protocol, TypeVar

from tailbit.errors import TailbitError


class Ending(Protocol):
    """What runs, and ends once."""

    def failure(self) -> TailbitError | None:
        """Why the job ended, as a named error; None while the job runs or if it ended well."""

    def close(self) -> None:
        """Release what the job holds."""


J = TypeVar("J", bound=Ending)


class Running(Generic[J]):
    """Jobs by the run of their query; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, J] = {}
        self._failures: dict[str, TailbitError] = {}

    def add(self, run: str, job: J) -> None:
        """A job has started."""
        with self._lock:
            self._jobs[run] = job

    def jobs(self) -> list[tuple[str, J]]:
        """The jobs that are not closed yet, by run."""
        with self._lock:
            return list(self._jobs.items())

    def end(self, run: str) -> None:
        """Close a job that has ended; of several callers one does it. Why it ended stays known."""
        with self._lock:
            job = self._jobs.get(run)
        if job is not None:
            self._close(run, job, job.failure())

    def give_up(self, run: str) -> None:
        """Close a job whose Spark is gone and cannot be asked why."""
        with self._lock:
            job = self._jobs.get(run)
        if job is not None:
            self._close(run, job, None)

    def _close(self, run: str, job: J, failure: TailbitError | None) -> None:
        with self._lock:
            if failure is not None:
                self._failures.setdefault(run, failure)
            mine = self._jobs.pop(run, None) is not None
        if mine:
            job.close()

    def failure_of(self, run: str) -> TailbitError | None:
        """Why a query ended, by name; None while it runs or where it ended well."""
        with self._lock:
            job = self._jobs.get(run)
        found = None if job is None else job.failure()
        with self._lock:
            # A job that was closed while it was asked had named its failure before that.
            return self._failures.get(run, found)
