"""Sorted keys in which many wanted keys are found at once, whatever their lengths and bytes."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from tailbit.index.keys import encode_array, ordered_of
from tailbit.index.postings.paged_forms import sixteen_of
from tailbit.index.postings.sorted_keys import LookupKeys, SortedKeys, ascending, keys_at, order_of

SHAPES = {
    "one byte": lambda r: r.randbytes(1),
    "one length": lambda r: r.randbytes(5),
    "a prefix and an end in common": lambda r: b"https://shop.example/" + r.randbytes(12) + b"-eu",
    "few bytes that differ": lambda r: b"order-" + r.randbytes(2) + bytes(30) + r.randbytes(1),
    "zeros at the end": lambda r: b"a" + bytes(r.randrange(12)),
    "zeros within": lambda r: bytes(r.choices([0, 1, 255], k=r.randrange(9))),
    "lengths alike": lambda r: r.randbytes(r.randrange(6, 9)),
    "a few very long": lambda r: r.randbytes(272 if r.random() < 0.02 else r.randrange(4)),
    "long with a long prefix": lambda r: b"x" * 200 + r.randbytes(r.randrange(3)),
}


def binary(keys: list[bytes]) -> pa.BinaryArray:
    return pa.array(keys, pa.binary())


@pytest.mark.parametrize("held", [0, 1, 2, 700])
@pytest.mark.parametrize("shape", SHAPES)
def test_just_the_keys_that_are_there_are_found_where_they_are(shape: str, held: int) -> None:
    rng = random.Random(shape)
    every = sorted({SHAPES[shape](rng) for _ in range(2 * held + 2)})
    keys = sorted(rng.sample(every, min(held, len(every))))
    others = {other(rng) for other in SHAPES.values() for _ in range(9)} | {b""}
    wanted = sorted({*every, *others})
    low, high = 1, len(wanted) - 1
    owners, at = SortedKeys.of(binary(keys)).find(LookupKeys(binary(wanted)), low, high)
    found = sorted(
        (wanted[owner], keys[row]) for owner, row in zip(owners.tolist(), at.tolist(), strict=True)
    )
    assert found == [(key, key) for key in keys if key in wanted[low:high]]


def test_the_bytes_that_all_keys_share_take_no_memory() -> None:
    keys = binary([b"https://shop.example/o/%06d-eu" % number for number in range(1000)])
    assert SortedKeys.of(keys).size == 8 * len(keys)


def test_a_few_long_keys_do_not_make_all_keys_long() -> None:
    keys = sorted({*(b"%04d" % number for number in range(2000)), bytes(272), b"z" * 272})
    assert SortedKeys.of(binary(keys)).size < 20 * len(keys)


def test_integers_are_found_as_the_numbers_that_are_stored() -> None:
    stored = np.array([-(2**63), -5, 0, 7, 2**63 - 1])
    wanted = encode_array(pa.array([-(2**63), -6, 0, 1, 2**63 - 1]), "integer")
    owners, at = SortedKeys.of(ordered_of(encode_array(pa.array(stored), "integer"))).find(
        LookupKeys(wanted), 0, 5
    )
    assert (owners.tolist(), at.tolist()) == ([0, 2, 4], [0, 2, 4])


def test_uuids_are_found_as_sixteen_bytes_and_other_texts_are_not() -> None:
    texts = binary([b"6f9619ff-8b86-d011-b42d-00c04fc964ff", b"6f9619ff-8b86-d011-b42d-00c04fc96500"])
    packed, _ = sixteen_of(texts)
    keys = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), 2, [None, pa.py_buffer(packed)])
    wanted = binary([b"", b"6f9619ff-8b86-d011-b42d-00c04fc964fe", texts[1].as_py(), b"zz"])
    owners, at = SortedKeys.of(keys).find(LookupKeys(wanted), 0, 4)
    assert (owners.tolist(), at.tolist()) == ([2], [1])


@pytest.mark.parametrize(
    "shape", ["integers", "one length", "lengths alike", "a prefix and an end in common"]
)
def test_a_filter_lets_every_key_pass_that_is_there(shape: str) -> None:
    rng = random.Random(shape)
    if shape == "integers":
        every = encode_array(pa.array(sorted(rng.sample(range(-(2**40), 2**40), 12_000))), "integer")
    else:
        every = binary(sorted({SHAPES[shape](rng) for _ in range(12_000)}))
    there = np.sort(np.random.default_rng(1).permutation(len(every))[:5_000])
    own = every.take(pa.array(there))
    keys = SortedKeys.of(ordered_of(own) if shape == "integers" else own).with_filters()
    assert all(part.filter is not None for part in keys.groups)
    owners, at = keys.find(LookupKeys(every), 0, len(every))
    assert np.array_equal(np.sort(owners), there)
    assert np.array_equal(there[at], owners)


@pytest.mark.parametrize("shape", [*SHAPES, "integers"])
@pytest.mark.parametrize("stored", [1, 40, 800])
def test_keys_are_found_whether_fewer_are_stored_or_fewer_are_asked_for(shape: str, stored: int) -> None:
    rng = random.Random(shape)
    if shape == "integers":
        every = encode_array(pa.array(sorted(rng.sample(range(-(2**40), 2**40), 1_000))), "integer")
    else:
        every = binary(sorted({SHAPES[shape](rng) for _ in range(1_000)}))
    there = np.sort(np.random.default_rng(2).permutation(len(every))[:stored])
    own = every.take(pa.array(there))
    keys = SortedKeys.of(ordered_of(own) if shape == "integers" else own)
    low, high = len(every) // 10, len(every) - len(every) // 10
    owners, rows = keys.find(LookupKeys(every), low, high)
    assert sorted(owners.tolist()) == [row for row in there.tolist() if low <= row < high]
    assert np.array_equal(there[rows], owners)


@pytest.mark.parametrize("shape", SHAPES)
def test_keys_are_ordered_as_their_bytes_and_equal_ones_as_they_were_given(shape: str) -> None:
    rng = random.Random(shape)
    keys = [SHAPES[shape](rng) for _ in range(300)]
    keys += rng.sample(keys, 50)
    order, same = ascending(binary(keys))
    assert order.tolist() == sorted(range(len(keys)), key=lambda at: (keys[at], at))
    listed = [keys[at] for at in order.tolist()]
    assert same.tolist() == [at > 0 and listed[at] == listed[at - 1] for at in range(len(listed))]


def test_no_key_has_no_order() -> None:
    order, same = ascending(binary([]))
    assert (order.tolist(), same.tolist()) == ([], [])


@pytest.mark.parametrize("bits", [0, 1, 24, 56, 63, 64])
@pytest.mark.parametrize("unused", [0, 5, 40])
def test_integers_of_any_range_are_ordered_and_equal_ones_stay_in_their_order(bits: int, unused: int) -> None:
    rng = random.Random(bits)
    numbers = [(rng.getrandbits(bits) if bits else 7) << unused & (1 << 64) - 1 for _ in range(500)]
    values = np.array(numbers + rng.sample(numbers, 200), np.uint64)
    assert order_of(values).tolist() == np.argsort(values, kind="stable").tolist()


@pytest.mark.parametrize("shape", SHAPES)
def test_keys_of_any_lengths_are_taken_in_the_order_asked_for(shape: str) -> None:
    rng = random.Random(shape)
    keys = binary([SHAPES[shape](rng) for _ in range(50)])
    rows = np.array(rng.choices(range(40), k=60))
    for some in (keys, keys.slice(7)):
        assert keys_at(some, rows).equals(some.take(pa.array(rows)))
    assert keys_at(keys.slice(0, 0), rows[:0]).equals(keys.slice(0, 0))
