"""Conditions on the first parts of tuples select exactly the keys of the tuples that meet them."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from support.tuples import encode_tuples
from tailbit.index.keys import KeyRange, encode_value, is_truncated, part_types
from tailbit.index.predicate.key_ranges import key_ranges, tuple_set
from tailbit.index.predicate.value_sets import Interval, ValueSet
from tailbit.index.tuple_keys import join_part, join_parts, split_parts, truncated

_BASE = b"\0ab" * 100
_TEXTS = [
    b"",
    b"\0",
    b"\0\xff",
    b"a",
    b"a\0",
    b"b",
    _BASE[:256],
    _BASE[:257],
    _BASE,
    _BASE + b"z",
    b"ab" * 200,
]
VALUES: dict[str, list[Any]] = {
    "boolean": [False, True],
    "integer": [-(2**63), -1, 0, 1, 2, 2**63 - 1],
    "double": [-math.inf, -0.0, 0.0, 1.5, math.nan],
    "decimal(2)": [1 - 10**38, -1, 0, 250, 10**38 - 1],
    "binary": _TEXTS,
    "string": _TEXTS,
}


@st.composite
def value_sets(draw: st.DrawFn, key_type: str) -> ValueSet:
    """Return a set of values: a few points, ranges, or all others."""
    values = st.sampled_from(VALUES[key_type])
    nulls, complement = draw(st.booleans()), draw(st.integers(0, 4)) == 0
    if draw(st.booleans()):
        return ValueSet.points(draw(st.lists(values, max_size=3)), complement, nulls)
    ends, closed = st.none() | values, st.booleans()
    ranges = draw(st.lists(st.builds(Interval, ends, closed, ends, closed), min_size=1, max_size=2))
    return ValueSet.of(ranges, complement, nulls)


@st.composite
def questions(draw: st.DrawFn) -> tuple[str, list[list[Any]], list[ValueSet]]:
    """Return a key type of tuples, some tuples of it, and conditions on the first parts."""
    types = draw(st.lists(st.sampled_from(list(VALUES)), min_size=2, max_size=4))
    row = st.tuples(*(st.none() | st.sampled_from(VALUES[type_]) for type_ in types)).map(list)
    conditions = [draw(value_sets(type_)) for type_ in types[: draw(st.integers(1, len(types)))]]
    return f"tuple({','.join(types)})", draw(st.lists(row, min_size=1, max_size=30)), conditions


def inside(key: bytes, ranges: tuple[KeyRange, ...]) -> bool:
    for low, low_closed, high, high_closed in ranges:
        above = low is None or low < key or (low_closed and low == key)
        below = high is None or key < high or (high_closed and high == key)
        if above and below:
            return True
    return False


def key_of(row: list[Any], key_type: str) -> bytes:
    types = part_types(key_type) or []
    keys = [
        None if value is None else encode_value(value, type_) for value, type_ in zip(row, types, strict=True)
    ]
    return b"".join(join_part(key, place, key_type) for place, key in enumerate(keys))


@given(questions())
@example(
    ("tuple(string,integer)", [[_BASE, 1], [_BASE, 2]], [ValueSet.points([_BASE]), ValueSet.points([1])])
)
@example(
    (
        "tuple(string,string,string)",
        [[_BASE, _BASE, b"a"], [_BASE, _BASE, _BASE], [_BASE, _BASE[:257], b"a"]],
        [ValueSet.points([_BASE]), ValueSet.points([_BASE]), ValueSet.points([b"a", _BASE])],
    )
)
def test_keys_are_sure_or_possible_as_the_values_meet_the_conditions(
    case: tuple[str, list[list[Any]], list[ValueSet]],
) -> None:
    key_type, rows, conditions = case
    values, used = tuple_set(conditions, key_type)
    assert 1 <= used <= len(conditions)
    ranges = key_ranges(values, key_type, key_type)
    keys = pa.array([key_of(row, key_type) for row in rows], pa.binary())
    short = truncated(keys, key_type)
    for place, (row, key) in enumerate(zip(rows, keys.to_pylist(), strict=True)):
        true = all(wanted.contains(value) for wanted, value in zip(conditions[:used], row, strict=False))
        if short is None or not short[place]:
            assert (inside(key, ranges.sure), inside(key, ranges.maybe)) == (true, False)
        assert true or not inside(key, ranges.sure)
        assert not true or inside(key, ranges.sure + ranges.maybe)


@given(questions())
def test_a_condition_behind_values_is_used_and_one_behind_ranges_is_not(
    case: tuple[str, list[list[Any]], list[ValueSet]],
) -> None:
    key_type, _, conditions = case
    types = part_types(key_type) or []

    def listed(values: ValueSet, type_: str) -> bool:
        ends = [
            [end is not None and encode_value(end, type_) for end in (i.lo, i.hi)] for i in values.intervals
        ]
        return not values.complement and all(low is not False and low == high for low, high in ends)

    before = [listed(values, type_) for values, type_ in zip(conditions, types, strict=False)]
    wanted = next((place for place, few in enumerate(before, 1) if not few), len(conditions))
    assert tuple_set(conditions, key_type)[1] == wanted


def test_equalities_of_long_texts_ask_for_the_key_of_the_text_alone() -> None:
    key_type = "tuple(string,integer)"
    values, _ = tuple_set([ValueSet.points([_BASE]), ValueSet.points([7])], key_type)
    key = key_of([_BASE, 7], key_type)
    assert is_truncated(split_parts(pa.array([key]), key_type)[0][0].as_py())
    ranges = key_ranges(values, key_type, key_type)
    assert (ranges.sure, ranges.maybe) == ((), ((key, True, key, True),))


def test_no_more_combinations_are_listed_than_a_list_may_have() -> None:
    many = ValueSet.points(range(0, 2_000, 2))
    values, used = tuple_set([many, many, many], "tuple(integer,integer,integer)")
    assert used == 1
    assert len(values.intervals) == 1_000


def test_the_worked_example_of_keys_is_right() -> None:
    columns = [pa.array(["ab", "a", None]), pa.array([True, None, False]), pa.array(["c\0d", "", None])]
    rows = pa.StructArray.from_arrays(columns, list("123"))
    expected = ["02 6162 00 02 01 02 630064", "02 61 00 01 02", "01 02 00 01"]
    keys = encode_tuples(rows, "tuple(string,boolean,string)")
    assert keys.to_pylist() == [bytes.fromhex(text) for text in expected]
    assert (
        join_parts(split_parts(keys, "tuple(string,boolean,string)"), "tuple(string,boolean,string)") == keys
    )
