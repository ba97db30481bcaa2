"""Offsets, which Spark remembers; lag: versions, files, bytes and seconds behind the head."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from support.drive import indexed_by
from tailbit.checkpoints.lag import Backlog, Lag
from tailbit.checkpoints.offset import Offset, log_start, short_fingerprint, snapshot_start
from tailbit.index.store.place import index_path
from tailbit.tables import open_table
from tailbit.tables.model import Fingerprint
from tailbit.upkeep.status import status_of


@pytest.fixture
def path(tmp_path: Path) -> str:
    for _ in range(4):
        write_deltalake(tmp_path / "t", pa.table({"a": [1]}), mode="append")
    return str(tmp_path / "t")


def test_an_index_at_the_head_does_not_lag_however_old_the_head_is(path: str) -> None:
    assert Backlog(open_table(path), clock=lambda: 1e12).lag(3, 3) == Lag(3, 3)


def test_lag_counts_the_commits_that_are_not_covered(path: str) -> None:
    table = open_table(path)
    oldest = table.commit_timestamp(2) / 1000
    sizes = sum(action["size_bytes"] for action in _adds(path)[2:])
    lag = Backlog(table, clock=lambda: oldest + 7).lag(1, 3)
    assert (lag.versions, lag.files, lag.bytes, lag.counted) == (2, 2, sizes, 2)
    assert lag.seconds == pytest.approx(7)


def _adds(path: str) -> list[dict[str, int]]:
    rows = pa.table(DeltaTable(path).get_add_actions(flatten=True)).to_pylist()
    return sorted(rows, key=lambda row: row["modification_time"])


def test_lag_shrinks_as_versions_are_covered_and_grows_as_they_come(path: str) -> None:
    backlog = Backlog(open_table(path))
    assert [backlog.lag(covered, 3).files for covered in (-1, 0, 2, 3)] == [4, 3, 1, 0]
    write_deltalake(path, pa.table({"a": [1]}), mode="append")
    assert backlog.lag(3, 4).files == 1


def test_a_far_off_head_costs_a_bounded_number_of_commits_a_look(path: str) -> None:
    backlog = Backlog(open_table(path), budget=2)
    assert [backlog.lag(-1, 3).counted for _ in range(3)] == [2, 4, 4]
    assert backlog.lag(-1, 3).versions == 4


def test_a_log_that_went_back_is_counted_anew(path: str) -> None:
    backlog = Backlog(open_table(path))
    assert backlog.lag(0, 3).files == 3
    assert backlog.lag(0, 1).files == 1


def test_commits_that_are_gone_count_as_versions_alone(path: str) -> None:
    (Path(path) / "_delta_log" / f"{1:020d}.json").unlink()
    lag = Backlog(open_table(path), clock=lambda: 0.0).lag(0, 3)
    assert (lag.versions, lag.files, lag.seconds) == (3, 0, 0.0)


def test_where_early_commits_were_cleaned_up_an_index_of_nothing_lags_by_the_live_files_as_status_says(
    path: str,
) -> None:
    DeltaTable(path).create_checkpoint()
    write_deltalake(path, pa.table({"a": [2]}), mode="append")
    for version in range(3):
        (Path(path) / "_delta_log" / f"{version:020d}.json").unlink()
    table = open_table(path)
    indexed_by(table, index_path(path), ["a"])
    told, lag = status_of(path)["lag"], Backlog(table).lag(-1, 4)
    assert (lag.versions, lag.files, lag.bytes) == (5, 5, sum(add["size_bytes"] for add in _adds(path)))
    assert (told["versions"], told["files"], told["bytes"]) == (lag.versions, lag.files, lag.bytes)
    assert lag.seconds == pytest.approx(told["seconds"], abs=60)
    assert lag.text.startswith("5 versions, 5 files, ")


def test_where_not_even_the_commit_of_the_log_checkpoint_is_left_the_files_are_counted_all_the_same(
    path: str,
) -> None:
    DeltaTable(path).create_checkpoint()
    for version in range(4):
        (Path(path) / "_delta_log" / f"{version:020d}.json").unlink()
    lag = Backlog(open_table(path)).lag(-1, 3)
    assert (lag.versions, lag.files) == (4, 4)


def test_lag_reads_as_the_job_description_shows_it() -> None:
    assert Lag(124, 131, 7, 12, seconds=3.21).text == "7 versions, 12 files, 3.2 s behind"
    assert Lag(130, 131, 1, 1, seconds=0.04).text == "1 version, 1 file, 0.0 s behind"
    assert Lag(131, 131).text == "up to date"


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
