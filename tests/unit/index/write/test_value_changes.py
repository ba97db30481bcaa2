from __future__ import annotations

import numpy as np
import pyarrow as pa

from tailbit.index.write.value_changes import ABSENT, ValueChanges, entering, leaving

KEYS = pa.array([None, b"a", b"b"], pa.binary())
AT = np.array([4, 7, 9], dtype=np.uint32)
CODES = np.array([0, 1, 1], dtype=np.uint8)


def test_absent_is_not_null() -> None:
    changes = entering(KEYS, CODES, AT)
    assert changes.old.tolist() == [ABSENT] * 3
    assert changes.new.tolist() == [0, 1, 1]
    assert changes.counts().tolist() == [1, 2, 0]


def test_leaving_is_entering_backwards() -> None:
    there, back = entering(KEYS, CODES, AT), leaving(KEYS, CODES, AT)
    assert np.array_equal(there.new, back.old)
    assert np.array_equal(there.counts(), -back.counts())


def test_a_new_value_at_the_same_position_moves_one_row() -> None:
    one = np.array([1], dtype=np.int32)
    assert ValueChanges(AT[:1], one, one + 1, KEYS).counts().tolist() == [0, -1, 1]


def test_nothing_changed_is_nothing() -> None:
    assert entering(KEYS, CODES[:0], AT[:0]).counts().tolist() == [0, 0, 0]


def test_the_eight_rows_of_the_docstring_change_as_it_says() -> None:
    codes = np.array([1, 1, 2, 0, 1, 2, 0, 2], dtype=np.uint8)
    at = np.array([1, 3, 5], dtype=np.uint32)
    changes = leaving(KEYS, codes[at], at)
    assert changes.old.tolist() == [1, 0, 2]
    assert changes.new.tolist() == [ABSENT] * 3
    assert changes.counts().tolist() == [-1, -1, -1]
