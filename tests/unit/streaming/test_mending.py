"""A damaged file of the index costs time: it goes, and its data files are scanned until posted again."""

from __future__ import annotations

import copy
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.contents import contents_of
from support.delta_builder import DeltaBuilder
from support.drive import Drive
from support.tables import (
    DAMAGES,
    VECTORS,
    break_bitmaps,
    flipped_pages,
    gone,
    index_files,
    index_of,
    rows,
    three_commits,
    truncated,
)
from tailbit.errors import CorruptIndexError, IndexLogError, StorageError
from tailbit.index.kinds.hidden_rows import HIDDEN_ROWS
from tailbit.index.kinds.kind import Blame, Problem
from tailbit.index.maintenance.repair import why_damaged
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.merging import Merger
from tailbit.streaming.opening import Mender
from tailbit.streaming.sweeping import Upkeep
from tailbit.tables import open_table
from tailbit.upkeep.repairs import repair
from tailbit.upkeep.status import status_of

KINDS = ("bitmap_index", "value_counts", "hidden_rows", "files", "ledger", "settings")
FILES = 9


@pytest.fixture
def builder(template: DeltaBuilder, tmp_path: Path) -> DeltaBuilder:
    """Nine files in nine row spaces, in three of them rows are hidden; the index has files of every kind."""
    shutil.copytree(template.path, tmp_path / "t")
    return replace(copy.deepcopy(template), path=str(tmp_path / "t"))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> DeltaBuilder:
    path = str(tmp_path_factory.mktemp("template") / "t")
    builder = DeltaBuilder(path).create(pa.schema([("k", pa.int64()), ("v", pa.string())]), **VECTORS)
    for number in range(FILES):
        builder.commit([builder.data_file(rows(10 * number), f"f{number}.parquet")])
        index_of(path, ["k", "v"])
        if number % 3 == 0:
            (vector,) = builder.stored_vectors([number % 10, 4])
            builder.commit(builder.hide(f"f{number}.parquet", vector))
            index_of(path, ["k", "v"])
    return builder


def answers(path: str) -> list[int]:
    opened = tailbit.open(path)
    return [opened.where(p).count() for p in ("v = 'v1'", "k >= 10 AND v <> 'v0'", "k = 14")]


def append(builder: DeltaBuilder, number: int) -> None:
    builder.commit([builder.data_file(rows(10 * number), f"f{number}.parquet")])


def healed(path: str, tmp_path: Path) -> None:
    """The index says what one says that was built in one go, and no file is scanned any more."""
    Drive(path, tmp_path / "whole", ["k", "v"]).drain()
    assert contents_of(f"{path}/_tailbit") == contents_of(str(tmp_path / "whole"))
    opened = tailbit.open(path)
    assert opened.verify().problems == []
    answer = opened.where("v = 'v1'")
    assert (answer.count() > 0, answer.files_scanned) == (True, 0)


def running(path: str, told: list[str]) -> tuple[Drive, Callable[[], None]]:
    """A stream that goes on in this process, and what merges after its batches."""
    drive = Drive(path, f"{path}/_tailbit")
    mender = Mender(drive.table, drive.index, told.append)
    drive.indexer._mender = mender
    drive.drain()
    drive.index.state.recorded.table()
    no_spark_is_needed = cast(Any, None)
    merger = Merger(drive.table, drive.index, no_spark_is_needed, mender=mender)
    return drive, merger.after_batch


@pytest.mark.by_thirds
@pytest.mark.parametrize("damage", [gone, flipped_pages])
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_index_file_met_while_the_stream_goes_on_costs_time_and_never_ends_it(
    builder: DeltaBuilder, tmp_path: Path, kind: str, damage: Callable[[Path], None]
) -> None:
    path, told = builder.path, list[str]()
    drive, merge = running(path, told)
    damage(index_files(path, kind)[0])
    for number in range(FILES, FILES + 3):
        append(builder, number)
        right = answers(path)
        drive.drain()
        assert answers(path) == right
        merge()
        assert answers(path) == right
    Upkeep(drive.indexer._mender).look()
    merge()
    drive.drain()
    healed(path, tmp_path)
    assert len(told) == (0 if kind == "ledger" else 1), told


@pytest.mark.parametrize("damage", [truncated])
@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_that_starts_on_a_damaged_index_builds_again_what_is_lost(
    builder: DeltaBuilder, tmp_path: Path, kind: str, damage: Callable[[Path], None]
) -> None:
    path = builder.path
    damage(index_files(path, kind)[0])
    append(builder, FILES)
    drive, merge = running_anew(path)
    drive.drain()
    merge()
    Upkeep(drive.indexer._mender).look()
    drive.drain()
    healed(path, tmp_path)


def running_anew(path: str) -> tuple[Drive, Callable[[], None]]:
    drive = Drive(path, f"{path}/_tailbit", ["k", "v"])
    no_spark_is_needed = cast(Any, None)
    return drive, Merger(drive.table, drive.index, no_spark_is_needed).after_batch


def test_a_damaged_segment_is_named_in_status_until_its_files_are_posted_again(builder: DeltaBuilder) -> None:
    path = builder.path
    drive, merge = running(path, [])
    segment = index_files(path, "bitmap_index")[0]
    gone(segment)
    append(builder, FILES)
    drive.drain()
    merge()
    (named,) = status_of(path)["not_covered"]
    assert segment.name in named
    assert status_of(path)["files_to_post"] == {"k": 1, "v": 1}
    drive.drain()
    assert status_of(path)["not_covered"] == {}
    assert status_of(path)["files_to_post"] == {}


def test_bitmaps_that_do_not_decode_are_mended_though_every_checksum_is_right(
    builder: DeltaBuilder, tmp_path: Path
) -> None:
    path = builder.path
    break_bitmaps(path)
    drive, merge = running(path, [])
    merge()
    Upkeep(drive.indexer._mender).look()
    drive.drain()
    healed(path, tmp_path)


def test_an_index_that_lost_files_of_every_kind_at_once_is_healed(
    builder: DeltaBuilder, tmp_path: Path
) -> None:
    path, chance = builder.path, random.Random(7)
    for kind in ("bitmap_index", "value_counts", "hidden_rows", "files"):
        for file in index_files(path, kind):
            if chance.random() < 0.5:
                chance.choice(DAMAGES)(file)
    append(builder, FILES)
    drive, merge = running_anew(path)
    drive.drain()
    Upkeep(drive.indexer._mender).look()
    drive.drain()
    merge()
    healed(path, tmp_path)


def test_a_file_that_is_gone_when_its_counts_are_taken_back_has_all_counted_again(
    builder: DeltaBuilder, tmp_path: Path
) -> None:
    path = builder.path
    drive, merge = running(path, [])
    gone(index_files(path, "bitmap_index")[0])
    append(builder, FILES)
    drive.drain()
    merge()
    (bare,) = [record for record in drive.index.state.recorded.live() if record.space is None]
    builder.commit([builder.remove(bare.path)])
    Path(path, bare.path).unlink()
    drive.drain()
    healed(path, tmp_path)


def test_a_file_that_can_be_read_after_all_stays_in_the_index(builder: DeltaBuilder) -> None:
    index = MetadataTable.open(f"{builder.path}/_tailbit")
    mender = Mender(Drive(builder.path, index.path).table, index)
    before = index.version
    for file in index_files(builder.path, "bitmap_index"):
        error = CorruptIndexError(file=f"kind=bitmap_index/{file.name}", reason="it was away for a moment")
        mender.mend(error)
    assert (index.version, mender.mended) == (before, 0)


def test_a_process_out_of_handles_is_no_damage(builder: DeltaBuilder) -> None:
    import resource

    index = MetadataTable.open(f"{builder.path}/_tailbit")
    (path, *_) = index.state.files
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = [open("/dev/null", "rb") for _ in range(8)]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(f.fileno() for f in held), hard))
        with pytest.raises(StorageError):
            why_damaged(index.storage, path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for file in held:
            file.close()
    assert why_damaged(index.storage, path) is None


def test_an_index_whose_settings_are_lost_asks_for_the_columns_by_name(builder: DeltaBuilder) -> None:
    gone(index_files(builder.path, "settings")[0])
    with pytest.raises(CorruptIndexError, match="settings cannot be read") as told:
        Drive(builder.path, f"{builder.path}/_tailbit")
    assert "--columns" in told.value.hint


def test_a_log_of_the_index_that_could_not_be_read_for_a_moment_costs_no_count(builder: DeltaBuilder) -> None:
    drive = index_of(builder.path)
    torn = IndexLogError(file=drive.index.path, reason="a writer is in the middle of a commit")
    before = drive.index.version
    mender = Mender(drive.table, drive.index)
    mender.note(torn)
    mender.mend_noted()
    assert (drive.index.version, mender.mended) == (before, 0)


@pytest.mark.parametrize("damage", [gone, truncated])
def test_two_damaged_files_of_hidden_rows_cost_these_rows_alone(
    builder: DeltaBuilder, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    path, told = builder.path, list[str]()
    drive, _ = running(path, told)
    before = drive.index.state.index_id
    files = index_files(path, "hidden_rows")
    assert len(files) > 1
    for file in files:
        damage(file)
    Upkeep(drive.indexer._mender).look()
    drive.index.refresh()
    assert (drive.index.state.index_id, told != []) == (before, True)
    healed(path, tmp_path)


def test_a_repair_told_of_one_of_two_damaged_files_of_hidden_rows_makes_nothing_else_anew(
    builder: DeltaBuilder,
) -> None:
    path = builder.path
    index = MetadataTable.open(f"{path}/_tailbit")
    first, second, *_ = sorted(index.state.paths_of(HIDDEN_ROWS))
    truncated(Path(index.path, first))
    truncated(Path(index.path, second))
    told = Problem("hidden rows", "it is truncated", Blame.FILE, first)
    done = repair(open_table(path), index, [told])
    assert (done.anew, set(done.mended.removed)) == ((), {first, second})
    assert tailbit.open(path).verify().problems == []


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = Path(three_commits(str(tmp_path / "here" / "orders")))
    Drive(path, path / "_tailbit", ["v"]).drain()
    return path


def goes_on(table: Path, index: Path) -> None:
    """One more commit is indexed, and no row of those before; answers come from bitmaps alone."""
    write_deltalake(str(table), rows(1000, 10), mode="append")
    assert sum(outcome.rows for outcome in Drive(table, index).drain()) == 10
    opened = tailbit.open(str(table), index=str(index))
    answer = opened.where("v = 'v1'")
    values = DeltaTable(str(table)).to_pyarrow_table(columns=["v"])["v"].to_pylist()
    assert (answer.count(), answer.files_scanned) == (values.count("v1"), 0)
    assert opened.verify().sound


def test_a_table_that_is_moved_with_its_index_is_gone_on_with(table: Path, tmp_path: Path) -> None:
    there = tmp_path / "there" / "orders"
    shutil.move(table.parent, there.parent)
    goes_on(there, there / "_tailbit")


def test_an_index_that_is_copied_to_another_place_serves_its_table_from_there(
    table: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "indexes" / "orders"
    shutil.copytree(table / "_tailbit", copy)
    shutil.rmtree(table / "_tailbit")
    goes_on(table, copy)


def test_a_copy_of_a_table_with_its_index_goes_its_own_way(table: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(table, copy)
    write_deltalake(str(table), rows(500, 10), mode="append")
    Drive(table, table / "_tailbit").drain()
    goes_on(copy, copy / "_tailbit")
    goes_on(table, table / "_tailbit")


def test_an_index_that_is_given_to_another_table_is_built_anew_for_that(table: Path, tmp_path: Path) -> None:
    other = Path(three_commits(str(tmp_path / "other")))
    write_deltalake(str(other), rows(500, 7), mode="append")
    assert tailbit.open(str(other), index=str(table / "_tailbit")).where("v = 'v1'").files_scanned > 0
    Drive(other, table / "_tailbit").drain()
    goes_on(other, table / "_tailbit")
