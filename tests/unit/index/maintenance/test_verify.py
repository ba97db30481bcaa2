"""Verification finds what is not as it must be, and names it; a sound index in any state is found sound."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyroaring import BitMap

import tailbit
from support.delta_builder import DeltaBuilder
from support.drive import Drive
from support.index_records import unchecked_segment
from support.tables import (
    DAMAGES,
    EVERY_TYPE,
    PLAIN_TYPES,
    half_built,
    index_files,
    index_of,
    moved,
    rewrite,
    tamper,
    with_vectors,
)
from tailbit.errors import NoIndexError
from tailbit.index.kinds.schemas import BITMAP_INDEX, FILES, HIDDEN_ROWS, VALUE_COUNTS
from tailbit.index.maintenance.verify import Problem, Report
from tailbit.index.postings.postings import Postings
from tailbit.index.postings.segment import POSTINGS
from tailbit.index.store.table import MetadataTable


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Two files of ten rows, v0 v1 v2 v0 ..., two rows of the first hidden; indexed."""
    with_vectors(str(tmp_path / "t"))
    return str(tmp_path / "t")


def found(path: str, samples: int = 0) -> list[str]:
    report = tailbit.open(path).verify(samples=samples)
    assert report.sound is not bool(report.problems)
    return [f"{p.where}: {p.found}" for p in report.problems]


def test_every_type_is_found_sound(table_path: str) -> None:
    write_deltalake(table_path, EVERY_TYPE)
    index_of(table_path, [*PLAIN_TYPES, "place.city", "place.at.x"])
    write_deltalake(table_path, EVERY_TYPE, mode="append")
    index_of(table_path)
    assert found(table_path, samples=300) == []


def test_an_index_that_is_absent_empty_mid_build_or_behind_is_not_wrong(table_path: str) -> None:
    for first in (0, 10, 20):
        write_deltalake(table_path, pa.table({"v": list(range(first, first + 10))}), mode="append")
    with pytest.raises(NoIndexError):
        tailbit.open(table_path).verify()
    Drive(table_path, f"{table_path}/_tailbit", ["v"])
    empty = tailbit.open(table_path).verify()
    assert (empty.state, empty.problems, empty.spaces) == ("empty", [], 0)
    drive = half_built(table_path, ["v"])
    building = tailbit.open(table_path).verify()
    assert (building.state, building.problems, building.spaces, building.counts) == ("building", [], 1, 10)
    drive.drain()
    DeltaTable(table_path).delete("v < 3")
    behind = tailbit.open(table_path).verify()
    assert (behind.state, behind.problems, behind.version, behind.positions) == ("complete", [], 2, 30)
    drive.drain()
    assert tailbit.open(table_path).verify().problems == []


def test_the_index_of_another_history_is_checked_against_itself(table_path: str) -> None:
    write_deltalake(table_path, pa.table({"v": [1, 2]}))
    elsewhere = f"{table_path}_2"
    write_deltalake(elsewhere, pa.table({"v": [3]}))
    index_of(table_path, ["v"])
    report = tailbit.open(elsewhere, index=f"{table_path}/_tailbit").verify()
    assert (report.state, report.problems, report.postings, report.sampled) == ("other history", [], 2, 0)


def test_what_has_left_the_table_is_checked_as_long_as_it_is_kept(table_path: str) -> None:
    write_deltalake(table_path, pa.table({"v": ["a", "b"]}))
    drive = index_of(table_path, ["v"])
    write_deltalake(table_path, pa.table({"v": ["c"]}), mode="overwrite")
    drive.drain()
    assert found(table_path) == []
    tamper(table_path, lambda column, key, bits: BitMap() if key == b"a" else bits)
    assert any("1 of 2 rows are posted" in problem for problem in found(table_path))


def test_a_lost_bit_is_named_by_row_space_column_and_file(path: str) -> None:
    tamper(path, lambda column, key, bits: bits - BitMap([12]))
    problems = found(path)
    assert any("column v, file f1.parquet: 9 of 10 rows are posted" in p for p in problems)
    assert any("value counts of v, key 7630: 6 recorded, 5 by bits" in p for p in problems)


def test_a_bit_under_two_values_is_named(path: str) -> None:
    tamper(path, lambda column, key, bits: bits | BitMap([12]))
    assert any("postings overlap: 22 positions, 20 distinct" in p for p in found(path))


def test_a_bit_under_the_wrong_value_is_named_by_the_counts_and_by_the_sample(path: str) -> None:
    tamper(path, moved)
    counts = [p for p in found(path) if "value counts" in p]
    assert len(counts) == 2
    sampled = [p for p in found(path, samples=400) if "the value in the data file" in p]
    assert sampled == [
        "file f1.parquet, column v, position 1: the value in the data file is not the one posted"
    ]


@pytest.mark.parametrize(
    ("backwards", "cardinalities", "what"),
    [(True, [7, 7, 6], "keys do not rise"), (False, [6, 7, 9], "file f1.parquet|bitmap_index/")],
)
def test_keys_out_of_order_and_cardinalities_of_other_bitmaps_are_named(
    path: str, backwards: bool, cardinalities: list[int], what: str
) -> None:
    index = MetadataTable.open(f"{path}/_tailbit")
    (segment,) = next(iter(index.state.spaces.values()))
    ((keys, bitmaps),) = segment.postings("v")
    data = pa.array([b.serialize() for b in bitmaps], pa.binary())
    if backwards:
        keys, data, cardinalities = keys[::-1], data[::-1], [len(b) for b in reversed(bitmaps)]
    parts = [Postings("v", "string", keys, np.array(cardinalities), data)]
    new = unchecked_segment(index.storage, segment.space, segment.rows, *parts)
    index.commit([], [new], None, removes=[segment.path])
    assert any(re.search(what, problem) for problem in found(path))


def test_bits_outside_of_claims_are_nobodys_and_no_problem(path: str) -> None:
    index = MetadataTable.open(f"{path}/_tailbit")
    index.commit(
        [replace(index.state.recorded.get("f1.parquet"), space=None, base=None, built=(), counted=False)],
        [],
        None,
    )
    assert not any("row space" in p for p in found(path))


def test_claims_that_overlap_are_named(path: str) -> None:
    index = MetadataTable.open(f"{path}/_tailbit")
    index.commit([replace(index.state.recorded.get("f1.parquet"), base=9)], [], None)
    assert any("claims of f0.parquet and f1.parquet overlap" in p for p in found(path))


def test_a_wrong_value_count_is_named(path: str) -> None:
    one_more = pa.array([1, 0, 0], pa.int64())

    def change(rows: pa.Table) -> pa.Table:
        deltas = pa.compute.add(rows["delta"], one_more) if len(rows) == 3 else rows["delta"]
        return rows.set_column(rows.schema.get_field_index("delta"), "delta", deltas)

    rewrite(path, VALUE_COUNTS, change)
    assert found(path) == ["value counts of v, key 7630: 7 recorded, 6 by bits"]


def test_wrong_hidden_rows_are_named(path: str) -> None:
    def change(rows: pa.Table) -> pa.Table:
        return rows.set_column(2, "bitmap", pa.array([BitMap([1, 4]).serialize()], pa.binary()))

    rewrite(path, HIDDEN_ROWS, change)
    problems = found(path)
    assert any("the rows in the index are not those that the source hides" in p for p in problems)
    assert any("value counts of v" in p for p in problems)


def test_lost_hidden_rows_are_named(path: str) -> None:
    rewrite(path, HIDDEN_ROWS, lambda rows: rows.slice(0, 0))
    assert any("are lost" in p for p in found(path))


def test_a_live_file_that_is_not_recorded_is_named(path: str) -> None:
    rewrite(path, FILES, lambda rows: rows.filter(pa.compute.equal(rows["path"], "f0.parquet")))
    assert any(p.startswith("file f1.parquet: it is live and not recorded") for p in found(path))


def test_a_file_recorded_as_live_that_is_not_in_the_table_is_named(path: str) -> None:
    index = MetadataTable.open(f"{path}/_tailbit")
    ghost = replace(
        index.state.recorded.get("f1.parquet"),
        path="ghost.parquet",
        space=None,
        base=None,
        counted=False,
        built=(),
    )
    index.commit([ghost], [], None)
    assert found(path) == ["file ghost.parquet: it is recorded as live and is not in the table"]


def test_a_data_file_that_is_gone_is_named_by_the_sample(path: str) -> None:
    Path(path, "f1.parquet").unlink()
    assert all("f1.parquet: the file is missing" in p for p in found(path, samples=20))
    assert found(path, samples=20)


def test_a_data_file_that_vacuum_took_while_the_index_is_behind_is_no_problem(path: str) -> None:
    table = DeltaTable(path)
    table.delete()
    Path(path, "f1.parquet").unlink()
    assert tailbit.open(path).verify(samples=50).problems == []


def test_hidden_rows_that_vacuum_took_while_the_index_is_behind_are_no_problem(table_path: str) -> None:
    builder = with_vectors(table_path)
    (old,) = Path(table_path).glob("deletion_vector_*.bin")
    (vector,) = builder.stored_vectors([0, 4, 5])
    builder.commit(builder.hide("f0.parquet", vector))
    old.unlink()
    assert tailbit.open(table_path).verify(samples=50).problems == []
    index_of(table_path)
    (new,) = Path(table_path).glob("deletion_vector_*.bin")
    new.unlink()
    assert any("the file is missing" in problem for problem in found(table_path))


@pytest.mark.parametrize("kind", [BITMAP_INDEX, FILES, HIDDEN_ROWS, VALUE_COUNTS, "ledger", "settings"])
@pytest.mark.parametrize("harm", DAMAGES)
def test_a_damaged_file_of_the_index_is_named(path: str, kind: str, harm: Callable[[Path], None]) -> None:
    victims = index_files(path, kind)
    for file in victims:
        harm(file)
    problems = found(path, samples=5)
    assert any(file.name in problem for file in victims for problem in problems)
    assert tailbit.open(path).where("v = 'v0'").count() == 6


def test_a_verification_does_not_fill_the_cache_that_questions_share(path: str) -> None:
    POSTINGS.clear()
    assert found(path) == []
    assert not POSTINGS.items()


def test_a_sample_is_repeatable(path: str) -> None:
    tamper(path, moved)
    opened = tailbit.open(path)
    assert opened.verify(samples=50, seed=4) == opened.verify(samples=50, seed=4)


def test_progress_goes_from_nothing_to_all(path: str) -> None:
    steps: list[tuple[int, int]] = []
    tailbit.open(path).verify(samples=1, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(0, 1), (1, 1)]


def test_a_problem_is_noted_once() -> None:
    report = Report()
    report.note(Problem("here", "this"))
    report.note(Problem("here", "this"))
    assert len(report.problems) == 1


def test_a_widened_column_is_sampled_in_the_type_that_is_posted(table_path: str) -> None:
    builder = DeltaBuilder(table_path).create(pa.schema([("v", pa.int32())]), features=["typeWidening"])
    builder.commit([builder.data_file(pa.table({"v": pa.array([1, 2, None], pa.int32())}), "a.parquet")])
    drive = index_of(table_path, ["v"])
    wider = builder.metadata_action(pa.schema([("v", pa.float64())]), table_id=builder.metadata["id"])
    builder.commit([{"metaData": wider}])
    drive.drain()
    report = tailbit.open(table_path).verify(samples=30)
    assert (report.problems, report.sampled) == ([], 30)


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "written anew"])
def test_a_data_file_that_went_while_the_index_is_behind_is_no_problem_to_an_index_of_any_kind(
    table_path: str, again: bool
) -> None:
    rows = pa.table({"k": pa.array(range(20), pa.int64()), "s": ["x", "y"] * 10})
    builder = DeltaBuilder(table_path).create(rows.schema)
    builder.commit([builder.data_file(rows, "a.parquet"), builder.data_file(rows.slice(3), "b.parquet")])
    table = tailbit.open(table_path)
    for name, on, kind in (("k", "k", "bitmap"), ("i", ["s", "k"], "bitmap"), ("e", "k % 5", "bitmap")):
        table.create_index(name, on, kind)
    table.create_index("stats", ["k", "k + 1"], "column_stats")
    builder.commit([builder.remove("a.parquet")])
    Path(table_path, "a.parquet").unlink()
    if again:
        builder.commit([builder.data_file(pa.concat_tables([rows] * 9), "a.parquet")])
    assert table.verify(derive=20).problems == []
    assert table.where("k = 3").count() == (10 if again else 1)
