"""None"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.waiting import HANG_S
from tailbit.errors import UsageError
from tailbit.tables import ahead
from tailbit.tables.ahead import in_order, shared_out
from tailbit.tables.cache import VARIABLE, Cache, memory


def test_the_cache_forgets_what_was_used_least_recently() -> None:
    cache: Cache[tuple[str, int], int] = Cache(100)
    loads: list[int] = []

    def load(at: int) -> tuple[int, int]:
        loads.append(at)
        return at, 40

    for at in (1, 2, 1, 3, 1, 2):
        assert cache.get(("f", at), lambda at=at: load(at)) == at
    assert loads == [1, 2, 3, 2]


def test_the_cache_keeps_a_value_larger_than_itself_until_the_next() -> None:
    cache: Cache[tuple[str, int], str] = Cache(1)
    assert cache.get(("f", 1), lambda: ("large", 500)) == "large"
    assert cache.get(("f", 1), lambda: ("never", 500)) == "large"


def test_what_is_held_of_a_file_that_is_gone_makes_room_for_others() -> None:
    cache: Cache[tuple[str, int], str] = Cache(100)
    for name in ("gone", "kept"):
        cache.get((name, 1), lambda: ("first", 50))
    cache.forget(lambda key: key[0] == "gone")
    cache.get(("new", 1), lambda: ("first", 50))
    assert cache.get(("kept", 1), lambda: ("again", 1)) == "first"
    assert cache.get(("gone", 1), lambda: ("again", 1)) == "again"


def test_what_is_taken_from_the_cache_makes_room_for_others() -> None:
    cache: Cache[str, str] = Cache(100)
    for name in ("taken", "kept"):
        cache.hold(name, name, 50)
    assert (cache.take("taken"), cache.take("taken")) == ("taken", None)
    cache.hold("new", "new", 50)
    assert [key for key, _ in cache.items()] == ["kept", "new"]


def test_who_makes_room_is_told_so_that_an_open_file_can_be_closed() -> None:
    closed: list[str] = []
    cache: Cache[int, str] = Cache(2, dropped=closed.append)
    for number in (1, 2):
        cache.hold(number, f"file {number}")
    assert cache.cached(1) == "file 1"
    cache.hold(3, "file 3")
    assert closed == ["file 2"]
    assert cache.items() == [(1, "file 1"), (3, "file 3")]


def test_of_two_threads_that_read_the_same_the_first_is_held() -> None:
    cache: Cache[int, str] = Cache(2)
    cache.hold(1, "first")
    assert cache.hold(1, "second") == "second"
    assert cache.cached(1) == "first"
    assert cache.cached(2) is None


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ("", 1 << 30),
        ("512MB", 512_000_000),
        ("4 GiB", 4 << 30),
        ("1.5g", 1_500_000_000),
        ("64k", 64_000),
        ("123456", 123_456),
    ],
)
def test_the_limit_of_all_caches_is_a_setting(given: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, given)
    assert memory() == size


@pytest.mark.parametrize("given", ["much", "-1", "1 EB", "GB"])
def test_a_limit_that_is_no_size_is_refused_by_name(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, given)
    with pytest.raises(UsageError, match=VARIABLE):
        memory()


SHARES = """
import importlib, pkgutil, sys
import tailbit.index, tailbit.tables
from tailbit.tables import cache
shares, share = [cache.HANDLES_BYTES], cache.share
def told(of):
    shares.append(0 if sys._getframe(1).f_globals["__name__"].endswith("write.posting") else share(of))
    return share(of)
cache.share = told
for room in (tailbit.index, tailbit.tables):
    for module in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
        importlib.import_module(module.name)
print(sum(shares))
"""
"""Adds up the shares of all caches of a process that asks; what a task sorts in memory is none."""

PER_INDEX = """
import gc, sys, tailbit
from tailbit.tables.cache import Cache
def limits():
    return sum(made._limit for made in gc.get_objects() if isinstance(made, Cache) and made._limit > 1 << 20)
counts = []
for path in sys.argv[1:]:
    assert tailbit.open(path).where("k = 1").count() == 2
    counts.append(limits())
print(counts[0], counts[-1])
"""
"""The limits of all caches that count bytes, after questions to one table and to several."""


def of_process(program: str, *arguments: str) -> list[int]:
    environment = {**os.environ, VARIABLE: "256MiB"}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd="/")
    return [int(word) for word in done.stdout.split()]


def test_the_caches_of_a_process_share_exactly_the_limit() -> None:
    assert of_process(SHARES) == [256 << 20]


def test_more_tables_of_every_kind_of_index_hold_no_more_than_one(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in "ab"]
    for path in paths:
        write_deltalake(path, pa.table({"k": [1, 2, 1, 3]}))
        write_deltalake(path, pa.table({"k": [5]}), mode="append")
        for kind in ("bloom_filter", "column_stats"):
            tailbit.sql(f"CREATE INDEX {kind} ON '{path}' USING {kind} (k)")
    one, several = of_process(PER_INDEX, *paths)
    assert 0 < one == several


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
