"""Row spaces on one core or on all: the same, in the same order."""

from __future__ import annotations

import threading

import pytest

from tailbit.errors import CorruptIndexError
from tailbit.index.evaluation import side_by_side
from tailbit.index.evaluation.side_by_side import each_space

MUCH = side_by_side._WORTH_A_THREAD


@pytest.mark.parametrize("sizes", [[0, 0, 0], [MUCH, 0, 0], [MUCH, 0, MUCH]])
def test_row_spaces_come_in_order_with_the_damage_of_each(sizes: list[int]) -> None:
    def work(space: int) -> int:
        if space == 1:
            raise CorruptIndexError(file="f", reason="damaged")
        return 10 * space

    first, damage, last = each_space(range(3), work, sizes.__getitem__)
    assert (first, last) == (0, 20)
    assert isinstance(damage, CorruptIndexError)


def test_threads_are_started_where_two_row_spaces_have_much_to_read_and_not_before() -> None:
    def where(sizes: list[int]) -> set[int]:
        return set(each_space(range(len(sizes)), lambda _: threading.get_ident(), sizes.__getitem__))

    here = threading.get_ident()
    assert where([MUCH - 1, MUCH, 0]) == {here}
    assert where([10 * MUCH]) == {here}
    assert here not in where([MUCH, 0, MUCH])


def test_no_row_space_is_looked_at_once_two_have_much_to_read() -> None:
    looked = []

    def size(space: int) -> int:
        looked.append(space)
        return MUCH

    assert list(each_space(range(5), lambda space: space, size)) == [0, 1, 2, 3, 4]
    assert looked == [0, 1]
