from __future__ import annotations

from tailbit.tables.cache import Cache


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


def test_who_makes_room_is_told_so_that_an_open_file_can_be_closed() -> None:
    closed: list[str] = []
    cache: Cache[int, str] = Cache(2, dropped=closed.append)
    for number in (1, 2):
        cache.hold(number, f"file {number}")
    assert cache.held(1) == "file 1"
    cache.hold(3, "file 3")
    assert closed == ["file 2"]
    assert cache.items() == [(1, "file 1"), (3, "file 3")]


def test_of_two_threads_that_read_the_same_the_first_is_held() -> None:
    cache: Cache[int, str] = Cache(2)
    cache.hold(1, "first")
    assert cache.hold(1, "second") == "second"
    assert cache.held(1) == "first"
    assert cache.held(2) is None
