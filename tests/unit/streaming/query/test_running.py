"""Why a query ended is known at every moment after its end."""

from __future__ import annotations

import threading
from collections.abc import Callable

from support.waiting import HANG_S
from tailbit.errors import StreamError, TailbitError
from tailbit.streaming.job import Running

FAILURE = StreamError(reason="it ended", checkpoint="c")


class Ended:
    """A job that has ended with a failure; `ask` is called once in each step of its being closed."""

    def __init__(self, failure: TailbitError | None, ask: Callable[[], object]) -> None:
        self._failure, self._ask = failure, ask
        self.seen: list[object] = []
        self.closed = 0
        self._asked = False

    def failure(self) -> TailbitError | None:
        if not self._asked:
            self._asked = True
            self.seen.append(self._ask())
        return self._failure

    def close(self) -> None:
        self.closed += 1
        self.seen.append(self._ask())
        self._failure = None


def test_a_failure_is_known_before_while_and_after_its_job_is_closed() -> None:
    running: Running[Ended] = Running()
    job = Ended(FAILURE, lambda: running.failure_of("1"))
    running.add("1", job)
    running.end("1")
    assert (job.seen, running.failure_of("1"), running.jobs()) == ([FAILURE, FAILURE], FAILURE, [])


def test_a_job_that_is_closed_while_it_is_asked_still_names_its_failure() -> None:
    running: Running[Ended] = Running()
    job = Ended(FAILURE, lambda: running.end("1"))
    running.add("1", job)
    assert running.failure_of("1") is FAILURE


def test_a_job_that_ended_twice_is_closed_once() -> None:
    running: Running[Ended] = Running()
    job = Ended(None, lambda: running.end("1"))
    running.add("1", job)
    running.end("1")
    running.give_up("1")
    assert (job.closed, running.failure_of("1")) == (1, None)


def test_who_comes_second_waits_until_the_job_is_closed() -> None:
    running: Running[Ended] = Running()
    begins, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    class Slow(Ended):
        def close(self) -> None:
            begins.set()
            assert may_end.wait(HANG_S)
            super().close()
            ended.set()

    running.add("1", Slow(None, lambda: None))
    first = threading.Thread(target=running.end, args=("1",))
    first.start()
    assert begins.wait(HANG_S)
    seen: list[bool] = []

    def come_second() -> None:
        for run, _ in running.jobs():
            running.end(run)
        seen.append(ended.is_set())

    second = threading.Thread(target=come_second)
    second.start()
    second.join(0.2)
    assert second.is_alive()
    may_end.set()
    for thread in (first, second):
        thread.join(HANG_S)
    assert (seen, running.jobs()) == ([True], [])


def test_another_run_of_a_query_does_not_inherit_the_failure_of_the_one_before() -> None:
    running: Running[Ended] = Running()
    for run, failure in (("1", FAILURE), ("2", None)):
        running.add(run, Ended(failure, lambda: None))
        running.end(run)
    assert (running.failure_of("1"), running.failure_of("2")) == (FAILURE, None)
