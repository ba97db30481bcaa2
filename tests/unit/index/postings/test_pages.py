"""Whether a row group is decoded whole or by page, by what lookups have cost so far."""

from __future__ import annotations

from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

import tailbit
from support.tables import index_files
from tailbit.index.postings.layout import PAGE_ROWS
from tailbit.index.postings.paged_forms import sixteen_of, stored, with_keys
from tailbit.index.postings.pages import Group

PAGES = 40


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("places") / "t")
    write_deltalake(path, pa.table({"id": pa.array(range(PAGES * PAGE_ROWS))}))
    tailbit.sql(f"CREATE INDEX k ON '{path}' USING record_key (id)")
    return path


@pytest.fixture
def group(path: str) -> Group:
    (file,) = index_files(path, "bitmap_index")
    return Group(pq.read_metadata(file).row_group(0), "integer")


def test_a_lookup_in_many_pages_decodes_the_row_group_whole(group: Group) -> None:
    assert not group.pays_whole(PAGES // 2, False)
    assert group.pays_whole(PAGES // 2 + 1, False)


def test_many_lookups_decode_a_row_group_whole_and_seldom_again_if_the_cache_does_not_keep_it(
    group: Group,
) -> None:
    whole = [lookup for lookup in range(200) if group.pays_whole(1, True)]
    assert whole == [11, 33, 75, 157]


def test_lookups_of_few_keys_go_by_page_if_the_cache_has_no_room_for_row_groups(group: Group) -> None:
    assert not any(group.pays_whole(1, False) for _ in range(200))


def test_the_second_lookup_of_several_pages_decodes_the_row_group(group: Group) -> None:
    assert [group.pays_whole(pages, True) for pages in (3, 1, 3, 3)] == [False, False, True, False]


def test_lookups_of_several_pages_go_by_page_if_the_cache_has_no_room_for_row_groups(group: Group) -> None:
    assert not any(group.pays_whole(3, False) for _ in range(9))


def test_positions_of_keys_are_found_by_page_and_by_row_group_with_one_answer(path: str) -> None:
    opened = tailbit.open(path)
    for _ in range(15):
        found = opened.locate([7, 8_000, -1], on="id")
        assert found["position"].to_pylist() == [7, 8_000, None]


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
