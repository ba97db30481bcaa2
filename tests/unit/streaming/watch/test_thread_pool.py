"""Threads for work that may never end: one job that hangs holds up no other."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from support.waiting import HANG_S, wait_until
from tailbit.streaming.watch.thread_pool import ThreadPool, run_each


@pytest.fixture
def answer() -> Iterator[threading.Event]:
    """What a hanging job waits for."""
    event = threading.Event()
    yield event
    event.set()


def test_of_two_threads_two_are_at_work_and_the_third_job_waits(answer: threading.Event) -> None:
    pool = ThreadPool("pool", 2)
    jobs = [pool.submit(lambda: answer.wait(HANG_S)) for _ in range(3)]
    wait_until(lambda: jobs[1].began is not None)
    assert jobs[2].began is None
    answer.set()
    assert [job.result.result(HANG_S) for job in jobs] == [True, True, True]


def test_a_job_that_is_given_up_holds_up_no_other_and_may_still_end(answer: threading.Event) -> None:
    pool = ThreadPool("pool", 1)
    stuck, other = pool.submit(lambda: answer.wait(HANG_S)), pool.submit(lambda: 5)
    wait_until(lambda: stuck.began is not None)
    assert other.began is None
    assert pool.give_up(stuck)
    assert other.result.result(HANG_S) == 5
    assert not pool.give_up(stuck)
    answer.set()
    assert stuck.result.result(HANG_S) is True


def test_a_thread_that_was_replaced_ends_with_its_job(answer: threading.Event) -> None:
    pool = ThreadPool("pool that shrinks", 1)
    stuck = pool.submit(lambda: answer.wait(HANG_S))
    wait_until(lambda: stuck.began is not None)
    pool.give_up(stuck)
    pool.submit(lambda: 1).result.result(HANG_S)

    def threads() -> int:
        return sum(thread.name == "pool that shrinks" for thread in threading.enumerate())

    assert threads() == 2
    answer.set()
    wait_until(lambda: threads() == 1)


def test_an_error_of_a_job_is_its_result_and_the_thread_goes_on() -> None:
    pool = ThreadPool("pool", 1)

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        pool.submit(fail).result.result(HANG_S)
    assert pool.submit(lambda: 1).result.result(HANG_S) == 1


def test_a_pool_that_is_closed_waits_for_work_that_goes_on_and_not_for_what_was_given_up(
    answer: threading.Event,
) -> None:
    pool = ThreadPool("pool", 1)
    stuck = pool.submit(lambda: answer.wait(HANG_S))
    wait_until(lambda: stuck.began is not None)
    assert not pool.close(0.0)
    pool.give_up(stuck)
    assert pool.close(HANG_S)
    assert pool.submit(lambda: 1).result.cancelled()


def test_of_many_values_those_that_take_too_long_have_another_answer(answer: threading.Event) -> None:
    def act(value: int) -> str:
        if value % 2:
            answer.wait(HANG_S)
        return f"{value}"

    assert run_each(act, range(6), lambda value: "late", 2, 0.2) == ["0", "late", "2", "late", "4", "late"]


def test_where_no_value_is_answered_the_others_are_not_waited_for_one_after_the_other(
    answer: threading.Event,
) -> None:
    waits: list[int] = []
    begun: list[int] = []

    def act(value: int) -> str:
        begun.append(value)
        answer.wait(HANG_S)
        return "answered"

    found = run_each(act, range(100), str, 2, 0.2, lambda: waits.append(1))
    assert found == [str(value) for value in range(100)]
    assert 2 < len(begun) < 20
    assert waits


def test_values_are_not_waited_for_once_all_is_to_stop(answer: threading.Event) -> None:
    stop = threading.Event()
    found = run_each(lambda value: answer.wait(HANG_S), range(3), str, 2, HANG_S, stop.set, stop)
    assert found == ["0", "1", "2"]
