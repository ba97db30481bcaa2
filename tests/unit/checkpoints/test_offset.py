"""Offsets: what Spark remembers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailbit.checkpoints.offset import Offset, log_start, short_fingerprint, snapshot_start
from tailbit.tables.model import Fingerprint

PROOF = Fingerprint(7, "ab" * 32, "some-table")

offsets = st.builds(
    Offset,
    round=st.integers(1, 5),
    version=st.integers(0, 100),
    file=st.none() | st.integers(0, 50),
    fp=st.sampled_from(["", "ab" * 8]),
)


@given(offsets)
def test_an_offset_survives_spark_as_json_text(offset: Offset) -> None:
    assert Offset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


def test_the_json_text_has_a_fixed_key_order_since_spark_compares_texts() -> None:
    assert json.dumps(Offset(1, 2, 3, "f").to_json()) == '{"round": 1, "version": 2, "file": 3, "fp": "f"}'


@given(offsets, offsets)
def test_offsets_are_ordered_by_round_first(one: Offset, two: Offset) -> None:
    if one.round < two.round:
        assert one.key < two.key


def test_a_round_goes_from_its_snapshot_to_the_log_without_going_back() -> None:
    start = snapshot_start(2, PROOF, 7)
    part = Offset(2, 7, 12, start.fp)
    assert start.key < part.key < part.after_snapshot().key < Offset(2, 9).key
    assert [o.stands_at for o in (start, part, part.after_snapshot())] == [7, 7, 7]


def test_a_log_start_is_where_the_snapshot_of_that_version_would_end() -> None:
    assert log_start(2, PROOF, 7) == snapshot_start(2, PROOF, 7).after_snapshot()


@pytest.mark.parametrize(("fingerprint", "short"), [(None, ""), (PROOF, "ab" * 8)])
def test_an_offset_carries_the_short_hash_of_its_last_commit(
    fingerprint: Fingerprint | None, short: str
) -> None:
    assert short_fingerprint(fingerprint) == short
