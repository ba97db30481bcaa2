"""Keys of paged row groups come back from the form in which they are stored as they were."""

from __future__ import annotations

from uuid import UUID

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tailbit.index.postings.paged_forms import sixteen_of, stored, with_keys

CANONICAL = st.uuids().map(str)
KEYS = st.one_of(
    CANONICAL,
    CANONICAL.map(str.upper),
    st.tuples(CANONICAL, st.integers(0, 35), st.sampled_from("-gG0_ \0")).map(
        lambda parts: parts[0][: parts[1]] + parts[2] + parts[0][parts[1] + 1 :]
    ),
    st.text(max_size=40),
).map(str.encode)


def rows_of(keys: pa.BinaryArray) -> pa.Table:
    return pa.table({"key_type": ["string"] * len(keys), "key": keys})


@given(st.lists(KEYS, min_size=1, max_size=8, unique=True), st.booleans(), st.booleans())
def test_texts_come_back(texts: list[bytes], null: bool, packs: bool) -> None:
    keys = pa.array(([None] if null else []) + sorted(texts), pa.binary())
    form = stored(rows_of(keys), packs)
    assert with_keys(form)["key"].combine_chunks() == keys
    if packs and form["uuid"].null_count < len(form):
        assert form["key"].null_count == len(form)
        assert [str(UUID(bytes=key)) for key in form["uuid"].drop_null().to_pylist()] == [
            text.decode() for text in sorted(texts)
        ]


@given(st.lists(KEYS, min_size=1, max_size=8))
def test_a_key_is_taken_for_a_uuid_only_as_uuids_are_written(texts: list[bytes]) -> None:
    keys = pa.array([b"", *texts], pa.binary()).slice(1)
    packed, are = sixteen_of(keys)
    for text, value, is_uuid in zip(texts, packed.view("V16").tolist(), are.tolist(), strict=True):
        try:
            same = str(UUID(text.decode())).encode() == text
        except ValueError:
            same = False
        assert is_uuid == same
        assert not same or str(UUID(bytes=value)).encode() == text


def test_sixteen_bytes_order_as_the_texts() -> None:
    packed = np.random.default_rng(0).bytes(16 * 500)
    texts = sorted(str(UUID(bytes=packed[at : at + 16])).encode() for at in range(0, len(packed), 16))
    values, _ = sixteen_of(pa.array(texts, pa.binary()))
    assert np.array_equal(values, np.sort(values))
