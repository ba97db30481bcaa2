"""The law of value changes: live(after) = live(before) - {p : old = v} + {p : new = v}; counting pairs is
counting bits.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from support.profiles import examples
from tailbit.index.roaring.coding import CodedColumn, Coding
from tailbit.index.write.counting import ABSENT, ValueChanges, entering, leaving

Values = list[str | None]


@st.composite
def change(draw: st.DrawFn) -> tuple[Values, BitMap, BitMap]:
    """Values of a file's rows, and the rows hidden before and after."""
    values = draw(st.lists(st.none() | st.sampled_from("abc"), max_size=60))
    positions = st.frozensets(st.integers(0, max(len(values) - 1, 0)) if values else st.nothing())
    return values, BitMap(draw(positions)), BitMap(draw(positions))


def coded(values: Values) -> CodedColumn:
    coding = Coding(pa.string(), "string")
    coding.add(0, pa.chunked_array([pa.array(values, pa.string())]))
    return coding.finish()


def pairs(values: Values, before: BitMap, after: BitMap) -> list[ValueChanges]:
    """Rows that left, rows that came."""
    column = coded(values)
    codes = column.codes(0, len(values))
    made = []
    for bits, form in ((after - before, leaving), (before - after, entering)):
        at = np.array(bits.to_array(), dtype=np.uint32)
        made.append(form(column.keys, codes[at], at))
    return made


def live(values: Values, hidden: BitMap) -> dict[bytes | None, BitMap]:
    """Per key, the visible rows that show it."""
    out: dict[bytes | None, BitMap] = {}
    for position, value in enumerate(values):
        if position not in hidden:
            out.setdefault(value.encode() if value is not None else None, BitMap()).add(position)
    return out


@examples(300)
@given(change())
def test_rows_that_show_a_value_after_are_those_before_less_the_old_plus_the_new(
    made: tuple[Values, BitMap, BitMap],
) -> None:
    values, before, after = made
    found = live(values, before)
    for part in pairs(values, before, after):
        keys = part.keys.to_pylist()
        for position, old, new in zip(
            part.positions.tolist(), part.old.tolist(), part.new.tolist(), strict=True
        ):
            if old != ABSENT:
                found[keys[old]].remove(position)
            if new != ABSENT:
                found.setdefault(keys[new], BitMap()).add(position)
    assert {key: bits for key, bits in found.items() if bits} == live(values, after)


@examples(300)
@given(change())
def test_counting_the_pairs_equals_counting_bits(made: tuple[Values, BitMap, BitMap]) -> None:
    values, before, after = made
    counts = Counter({key: len(bits) for key, bits in live(values, before).items()})
    for part in pairs(values, before, after):
        for key, delta in zip(part.keys.to_pylist(), part.counts().tolist(), strict=True):
            counts[key] += delta
    assert {k: n for k, n in counts.items() if n} == {k: len(b) for k, b in live(values, after).items()}


@examples(100)
@given(change())
def test_there_and_back_again_is_nothing(made: tuple[Values, BitMap, BitMap]) -> None:
    values, before, after = made
    there, back = pairs(values, before, after), pairs(values, after, before)
    assert not (sum(p.counts() for p in there) + sum(p.counts() for p in back)).any()
