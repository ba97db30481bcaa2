"""Results come in the order of the work, however many threads do it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from support.waiting import HANG_S
from tailbit.tables import ahead
from tailbit.tables.ahead import in_order, shared_out


def test_results_come_in_the_order_of_the_work() -> None:
    second_done = threading.Event()

    def first(alone: bool) -> int:
        second_done.wait(HANG_S)
        return 1

    def second(alone: bool) -> int:
        second_done.set()
        return 2

    assert list(in_order([first, second, lambda alone: 3])) == [1, 2, 3]


def test_no_work_has_no_results() -> None:
    assert list(in_order([])) == []


def test_a_piece_is_told_whether_it_is_alone() -> None:
    assert list(in_order([lambda alone: alone])) == [True]
    assert list(in_order([lambda alone: alone] * 3)) == [False] * 3


def test_an_error_is_raised_at_its_place() -> None:
    def refuse(alone: bool) -> int:
        raise ValueError("no")

    found = in_order([lambda alone: 1, refuse, lambda alone: 3])
    assert next(found) == 1
    with pytest.raises(ValueError, match="no"):
        next(found)


def test_work_is_not_begun_long_before_it_is_asked_for() -> None:
    begun: list[int] = []

    def work() -> Iterator[Callable[[bool], int]]:
        for number in range(1000):
            begun.append(number)
            yield lambda alone, number=number: number

    found = in_order(work())
    assert [next(found), next(found)] == [0, 1]
    assert len(begun) < 20
    found.close()  # type: ignore[attr-defined]
    assert len(begun) < 20


def test_work_is_shared_out_to_cores_in_parts_that_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead.os, "cpu_count", lambda: 3)
    assert list(shared_out([], [], 10)) == []
    assert list(shared_out("abc", [9, 9, 9], 30)) == ["abc"]
    assert list(shared_out("abcdef", [10] * 6, 20)) == ["ab", "cd", "ef"]
    assert list(shared_out("abcdef", [10] * 6, 1)) == ["ab", "cd", "ef"]
    assert list(shared_out("ab", [100, 1], 1)) == ["a", "b"]
    assert list(shared_out("abcd", [0, 0, 0, 0], 1)) == ["abcd"]


def test_an_iteration_that_stops_cancels_what_has_not_begun_and_waits_for_the_rest() -> None:
    ended: list[int] = []
    may_end = threading.Event()

    def piece(number: int, alone: bool) -> int:
        if number:
            may_end.wait(HANG_S)
        ended.append(number)
        return number

    results = in_order(partial(piece, number) for number in range(1000))
    assert next(results) == 0
    threading.Timer(0.05, may_end.set).start()
    results.close()  # type: ignore[attr-defined]
    at_its_end = len(ended)
    assert 1 <= at_its_end < 20
    assert len(ended) == at_its_end


def test_an_iteration_that_nobody_ends_keeps_no_process_alive() -> None:
    question = "rows = in_order([lambda alone: 7] * 20); print(next(rows))"
    program = f"from tailbit.tables.ahead import in_order; {question}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=HANG_S)
    assert (done.returncode, done.stdout, done.stderr) == (0, "7\n", "")
