from __future__ import annotations

from tailbit.index.parquet.cache import Cache


def test_the_cache_forgets_what_was_used_least_recently() -> None:
    cache = Cache(100)
    loads: list[int] = []

    def load(at: int) -> tuple[int, int]:
        loads.append(at)
        return at, 40

    for at in (1, 2, 1, 3, 1, 2):
        assert cache.get(("f", at), lambda at=at: load(at)) == at
    assert loads == [1, 2, 3, 2]


def test_the_cache_keeps_a_value_larger_than_itself_until_the_next() -> None:
    cache = Cache(1)
    assert cache.get(("f", 1), lambda: ("large", 500)) == "large"
    assert cache.get(("f", 1), lambda: ("never", 500)) == "large"


def test_what_is_held_of_a_file_that_is_gone_makes_room_for_others() -> None:
    cache = Cache(100)
    for name in ("gone", "kept"):
        cache.get((name, 1), lambda: ("first", 50))
    cache.forget("gone")
    cache.get(("new", 1), lambda: ("first", 50))
    assert cache.get(("kept", 1), lambda: ("again", 1)) == "first"
    assert cache.get(("gone", 1), lambda: ("again", 1)) == "again"
