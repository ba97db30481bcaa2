"""Pieces of work that wait for a store run at once: bounded, in order, however calls are nested."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from support.waiting import HANG_S
from tailbit.tables.storage import LocalStorage, Storage, at_once, one_look
from tailbit.tables.storage.requests import MOST, SEEN


class Afar(LocalStorage):
    """A store of which each access counts as a request."""

    remote = True


@pytest.fixture
def afar(tmp_path: Path) -> Storage:
    return Afar(str(tmp_path))


class Meeting:
    """Work that ends when as many pieces have begun as are expected; `most` had begun at the same time."""

    def __init__(self, expected: int) -> None:
        self._gate = threading.Barrier(expected, timeout=HANG_S)
        self._lock = threading.Lock()
        self.running = self.most = 0

    def piece(self, number: int) -> Callable[[], int]:
        def work() -> int:
            with self._lock:
                self.running += 1
                self.most = max(self.most, self.running)
            self._gate.wait()
            with self._lock:
                self.running -= 1
            return number

        return work


def test_pieces_run_at_the_same_time_and_their_results_come_in_order(afar: Storage) -> None:
    meeting = Meeting(8)
    assert list(at_once(afar, map(meeting.piece, range(8)))) == list(range(8))


def test_no_more_pieces_run_ahead_than_the_bound(afar: Storage) -> None:
    begun: list[int] = []

    def piece(number: int) -> Callable[[], int]:
        begun.append(number)
        return lambda: number

    results = at_once(afar, map(piece, range(10 * MOST)))
    assert next(results) == 0
    assert len(begun) <= MOST + 1
    assert list(results) == list(range(1, 10 * MOST))


def test_nested_calls_end_though_the_outer_ones_take_all_threads(afar: Storage) -> None:
    meeting = Meeting(1)

    def outer(number: int) -> Callable[[], list[int]]:
        return lambda: list(at_once(afar, [meeting.piece(10 * number + n) for n in range(10)]))

    found = list(at_once(afar, map(outer, range(3 * MOST))))
    assert [n for part in found for n in part] == list(range(30 * MOST))
    assert meeting.most <= MOST + 1


def test_an_error_is_raised_in_the_place_of_its_piece_and_later_pieces_are_cancelled(afar: Storage) -> None:
    ran: list[int] = []

    def piece(number: int) -> Callable[[], int]:
        def work() -> int:
            if number == 2:
                raise KeyError(number)
            ran.append(number)
            return number

        return work

    results = at_once(afar, map(piece, range(1000)))
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(KeyError):
        next(results)
    count = len(ran)
    assert count <= MOST + 3
    assert len(ran) == count


def test_no_thread_is_left_when_the_last_call_has_ended(afar: Storage) -> None:
    before = set(threading.enumerate())
    list(at_once(afar, map(Meeting(4).piece, range(4))))
    for thread in set(threading.enumerate()) - before:
        thread.join(HANG_S)
    assert set(threading.enumerate()) <= before


def test_pieces_share_the_look_of_their_caller(afar: Storage) -> None:
    with one_look():
        mine = SEEN.stats
        assert all(seen is mine for seen in at_once(afar, [lambda: SEEN.stats] * 5))
        assert SEEN.stats is mine
    assert list(at_once(afar, [lambda: SEEN.stats] * 5)) == [None] * 5


def test_on_local_disk_each_piece_runs_in_the_callers_thread_when_its_result_is_wanted(
    tmp_path: Path,
) -> None:
    ran: list[int] = []

    def piece(number: int) -> Callable[[], int]:
        return lambda: ran.append(number) or threading.get_ident()

    results = at_once(LocalStorage(str(tmp_path)), map(piece, range(3)))
    assert ran == []
    assert next(results) == threading.get_ident()
    assert ran == [0]
