"""What a Hudi table costs and what it refuses: idle looks, damaged files, files that may be wrong ones."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import tailbit
from support.drive import Drive
from support.hudi import unpack
from support.hudi_builder import BaseFile, HudiBuilder
from tailbit.errors import (
    CommitGapError,
    DataFileError,
    MalformedLogError,
    StorageError,
    TailbitError,
    UnsafePathError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tailbit.streaming.settings import StreamSettings
from tailbit.tables.hudi import files, timeline
from tailbit.tables.hudi.instants import Instant
from tailbit.tables.hudi.table import HudiTable
from tailbit.tables.model import after
from tailbit.tables.storage import Entry, LocalStorage, Storage, local, one_look, open_storage

ROWS = pa.table({"k": pa.array([1, 2, 3], pa.int64())})
CHANGES = 12
"""Changes of bytes per table and file."""


def opened(path: str | Path) -> HudiTable:
    return HudiTable.open(open_storage(str(path)))


def builder(folder: Path, version: int = 9) -> HudiBuilder:
    """Return a table with one file."""
    made = HudiBuilder(str(folder / "t"), version, random.Random(1))
    write(made, made.new_group())
    return made


def write(made: HudiBuilder, group: str) -> str:
    """Commit a base file of a group; return its path."""
    requested = made.timeline.request()
    file, _ = made.data_file(ROWS, requested, group, "p")
    made.commit(requested, [file], ROWS.schema, "UPSERT")
    return file.path


@pytest.mark.parametrize("version", [6, 9])
def test_a_quiet_table_is_looked_at_without_a_listing_until_something_completes(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = builder(tmp_path, version)
    long_ago = 1000
    for file in [*made.timeline.active.iterdir(), made.timeline.active]:
        os.utime(file, (long_ago, long_ago))
    table = opened(made.root)
    listed, listing = [], LocalStorage.list_again

    def counting(storage: LocalStorage, folder: str, known: Collection[Entry]) -> object:
        listed.append(folder)
        return listing(storage, folder, known)

    monkeypatch.setattr(LocalStorage, "list_again", counting)
    head = table.head()
    assert not table.moved_on(head)
    assert not listed
    write(made, made.new_group())
    assert table.moved_on(head)
    assert table.head() > head
    assert listed


def rest(made: HudiBuilder) -> None:
    """Let the folder of the timeline look as if nothing had changed for ten seconds."""
    before = time.time() - 10
    for file in [*made.timeline.active.iterdir(), made.timeline.active]:
        os.utime(file, (before, before))


def test_a_refused_action_is_refused_at_every_look(tmp_path: Path) -> None:
    made = builder(tmp_path)
    rest(made)
    table = opened(made.root)
    (made.timeline.active / "20991231235959998_20991231235959999.xyz").write_bytes(b"{}")
    rest(made)
    for _ in range(2):
        with pytest.raises(UnsupportedFeatureError, match="action xyz"):
            table.head()


def test_a_look_after_one_that_failed_sees_the_new_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = builder(tmp_path)
    rest(made)
    table = opened(made.root)
    head = table.head()
    write(made, made.new_group())
    rest(made)

    def refusing(storage: Storage, folder: str) -> list[Instant]:
        raise StorageError(path=folder, reason="it is busy")

    with monkeypatch.context() as patch:
        patch.setattr(timeline, "list_history", refusing)
        table._reader._earlier = None
        with pytest.raises(StorageError, match="busy"):
            table.head()
    assert table.head() > head


@pytest.mark.parametrize(("version", "some"), [(6, False), (9, True)])
def test_of_a_timeline_only_files_that_came_are_stated_where_names_tell_the_times(
    version: int, some: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = builder(tmp_path, version)
    for _ in range(4):
        write(made, made.new_group())
    table = opened(made.root)
    head = table.head()
    stated, entry = [], local._entry
    monkeypatch.setattr(local, "_entry", lambda item: stated.append(item.name) or entry(item))
    write(made, made.new_group())
    assert table.head() > head
    assert (len(stated) < 5) == some
    assert table.head() == opened(made.root).head()


def test_within_one_look_a_table_stays_as_it_was(tmp_path: Path) -> None:
    made = builder(tmp_path)
    table = opened(made.root)
    with one_look():
        head = table.head()
        write(made, made.new_group())
        assert table.head() == head
    assert table.head() > head


@pytest.mark.supports_hudi("Schema and types", "schema evolution on read, which renames columns", "refused")
def test_columns_that_are_known_by_numbers_are_refused_by_name(tmp_path: Path) -> None:
    made = builder(tmp_path)
    requested = made.timeline.request()
    extra = {"schema": "{}", "latest_schema": json.dumps({"version_id": 1})}
    made.timeline.complete(
        requested, "commit", {"partitionToWriteStats": {}, "compacted": False, "extraMetadata": extra}
    )
    with pytest.raises(UnsupportedFeatureError, match="schema evolution on read"):
        opened(made.root).snapshot()


@pytest.mark.parametrize(
    ("folder", "path"),
    [("..", "../f.parquet"), ("p", "../f.parquet"), ("/etc", "/etc/f"), ("p", "q/f.parquet")],
)
def test_a_path_that_leaves_the_folder_is_refused(folder: str, path: str, tmp_path: Path) -> None:
    made = builder(tmp_path)
    metadata = {
        "partitionToWriteStats": {folder: [{"fileId": "f", "path": path}]},
        "compacted": False,
        "extraMetadata": {},
    }
    table = opened(made.root)
    before = table.snapshot()
    made.timeline.complete(made.timeline.request(), "commit", metadata)
    with pytest.raises(UnsafePathError):
        table.changes(after(before.version), table.head())


def test_of_two_files_of_one_group_and_instant_the_one_that_the_commit_names_is_shown(tmp_path: Path) -> None:
    made = builder(tmp_path)
    path = write(made, "twice-0")
    right = made.root / path
    wrong, other = (right.with_name(right.name.replace("twice-0_", f"twice-0_{n}")) for n in (8, 9))
    shutil.copy(right, wrong)
    shown = {slice_.path for slice_ in opened(made.root).snapshot().files}
    assert {name for name in shown if "twice" in name} == {path}
    right.rename(other)
    with pytest.raises(MalformedLogError, match="leaves open which file is right") as damage:
        opened(made.root).snapshot()
    assert damage.value.hint.endswith("restore the table to a savepoint before it.")


@pytest.mark.parametrize("version", [6, 9])
def test_a_file_of_the_newest_commit_that_is_lost_is_named_and_no_older_one_is_read_for_it(
    version: int, tmp_path: Path
) -> None:
    made = builder(tmp_path, version)
    write(made, "group-0")
    lost = write(made, "group-0")
    (made.root / lost).unlink()
    answer = tailbit.open(str(made.root)).where("k > 1")
    with pytest.raises(DataFileError, match="the file is missing") as raised:
        answer.count()
    assert raised.value.fields["file"] == lost
    Drive(made.root, tmp_path / "index", ["k"]).drain()
    with pytest.raises(DataFileError, match="the file is missing"):
        tailbit.open(str(made.root), tmp_path / "index").where("k > 1").count()


def test_a_file_of_a_group_that_an_archived_instant_replaced_is_not_missed(tmp_path: Path) -> None:
    made = builder(tmp_path)
    path = write(made, "group-0")
    for old, new in (("group-0", "group-1"), ("group-1", "group-2")):
        requested = made.timeline.request("replacecommit")
        file, _ = made.data_file(ROWS, requested, new, "p")
        made.commit(requested, [file], ROWS.schema, "CLUSTER", {"p": [old]})
    (made.root / path).unlink()
    made.timeline.archive(made.timeline.instants[:3])
    shown = opened(made.root).snapshot().files.paths.to_pylist()
    assert [name for name in shown if "group-" in name] == [file.path]


def test_a_folder_of_data_may_be_a_link_to_one_elsewhere(tmp_path: Path) -> None:
    table = unpack("cow_v9_late", tmp_path)
    before = opened(table.path).snapshot().files.paths
    (Path(table.path) / "p0").rename(tmp_path / "elsewhere")
    (Path(table.path) / "p0").symlink_to(tmp_path / "elsewhere")
    assert opened(table.path).snapshot().files.paths == before


def test_a_second_name_of_a_folder_of_data_doubles_no_rows(tmp_path: Path) -> None:
    table = unpack("cow_v9_late", tmp_path)
    before = opened(table.path).snapshot().files.paths
    (Path(table.path) / "latest").symlink_to("p0")
    assert opened(table.path).snapshot().files.paths == before


def test_a_range_whose_files_before_are_gone_begins_anew(tmp_path: Path) -> None:
    table = unpack("cow_v9_cleaned", tmp_path)
    numbers = opened(table.path).versions(0, opened(table.path).head())
    with pytest.raises(CommitGapError):
        opened(table.path).changes(after(numbers[0]), numbers[-1])


@pytest.mark.parametrize(
    "name", ["cow_v6_cleaned", "cow_v6_archived", "cow_v9_archived", "cow_v9_late", "cow_v9_cleaned"]
)
def test_changed_bytes_give_an_answer_or_a_named_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_PATIENCE_S", 0)
    table, rng = unpack(name, tmp_path), random.Random(name)
    hoodie = Path(table.path, ".hoodie")
    stored = [f for f in hoodie.rglob("*") if f.is_file() and "metadata" not in f.parts and f.stat().st_size]
    for file in stored:
        whole, times = file.read_bytes(), file.stat()
        for _ in range(CHANGES):
            damaged = bytearray(whole)
            for _ in range(rng.choice((1, 1, 4))):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            file.write_bytes(damaged[: rng.randint(1, len(damaged))] if rng.random() < 0.2 else damaged)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
            try:
                read = opened(table.path)
                earliest = read.earliest()
                assert read.snapshot(earliest).schema.columns
                assert read.changes(after(earliest), read.head()).last == read.head()
            except TailbitError:
                pass
        file.write_bytes(whole)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize(("what", "tries"), [("commit", 1), ("clean", 2)])
def test_folders_are_listed_again_if_files_may_have_been_deleted_meanwhile(
    what: str, tries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = builder(tmp_path)
    group = made.new_group()
    first = write(made, group)
    table = opened(made.root)
    walks, walk = [], LocalStorage.walk

    def interrupted(storage: LocalStorage, folder: str = "", skip: Collection[str] = ()) -> object:
        walks.append(folder)
        if len(walks) == 1 and what == "clean":
            write(made, group)
            (made.root / first).unlink()
            made.timeline.request("clean")
        elif len(walks) == 1:
            write(made, made.new_group())
        return walk(storage, folder, skip)

    monkeypatch.setattr(LocalStorage, "walk", interrupted)
    snapshot = table.snapshot()
    assert len(walks) == tries
    assert len(snapshot.files) == 2
    assert snapshot.files.get(first) is None if what == "clean" else snapshot.files.get(first) is not None


@pytest.mark.supports_hudi("Histories", "savepoints that the cleaner has passed", "exact")
def test_an_instant_that_a_savepoint_keeps_can_be_read_when_later_ones_are_cleaned(tmp_path: Path) -> None:
    made = builder(tmp_path)
    group, files, instants = made.new_group(), [], []
    for _ in range(3):
        requested = made.timeline.request()
        previous = files[-1].path if files else None
        files.append(made.data_file(ROWS, requested, group, "p", previous)[0])
        instants.append(made.commit(requested, files[-1:], ROWS.schema, "UPSERT"))
    table = opened(made.root)
    saved = [slice_.path for slice_ in table.snapshot(table.version_named(instants[0].requested)).files]
    kept = [file for file in files if file.path in saved]
    other = next(path for path in saved if path != files[0].path)
    made.savepoint(instants[0], [*kept, replace(files[0], path=other)])
    made.clean(files[1:2], instants[2].requested)
    read = opened(made.root)
    assert read.earliest() == read.head()
    snapshot = read.snapshot(read.version_named(instants[0].requested))
    assert [slice_.path for slice_ in snapshot.files] == saved
    with pytest.raises(VersionNotFoundError, match="the cleaner has deleted files of it"):
        opened(made.root).snapshot(read.version_named(instants[1].requested))


def test_an_index_of_whose_version_the_cleaner_took_a_file_begins_a_new_round(tmp_path: Path) -> None:
    made = builder(tmp_path)
    group = made.new_group()
    first = write(made, group)
    index = tmp_path / "index"
    Drive(made.root, index, ["k"]).drain()
    write(made, group)
    made.clean([base_of(first)], "20250101000000000")
    drive = Drive(made.root, index)
    drive.drain()
    ledger = drive.index.state.ledger
    assert ledger is not None
    assert ledger.round > 1
    assert ledger.covered == opened(made.root).head()
    answered = tailbit.open(made.root, index)
    assert (answered.count("k = 2"), answered.verify().sound) == (2, True)


def test_an_index_that_covers_a_savepoint_passes_over_versions_that_the_cleaner_took_after_it(
    tmp_path: Path,
) -> None:
    made, index = builder(tmp_path), tmp_path / "index"
    group, files, instants = made.new_group(), [], []
    for number in range(3):
        requested = made.timeline.request()
        previous = files[-1].path if files else None
        files.append(made.data_file(ROWS, requested, group, "p", previous)[0])
        instants.append(made.commit(requested, files[-1:], ROWS.schema, "UPSERT"))
        if number == 0:
            Drive(made.root, index, ["k"]).drain()
            saved = [slice_.path for slice_ in opened(made.root).snapshot().files]
    other = next(path for path in saved if path != files[0].path)
    made.savepoint(instants[0], [files[0], replace(files[0], path=other)])
    made.clean(files[1:2], instants[2].requested)
    drive = Drive(made.root, index, settings=StreamSettings(poll_ms=1, versions=1))
    drive.drain()
    ledger = drive.index.state.ledger
    assert ledger is not None
    assert ledger.covered == opened(made.root).head()
    answered = tailbit.open(made.root, index)
    assert (answered.count("k = 2"), answered.verify().sound) == (2, True)


def base_of(path: str) -> BaseFile:
    """Return a base file of the helper's kind that stands for a path."""
    name = Path(path).name
    return BaseFile(name.split("_")[0], str(Path(path).parent), path, name[-25:-8], None, len(ROWS), 1)


NULL = "__HIVE_DEFAULT_PARTITION__"


def test_an_empty_text_in_the_folder_of_null_is_null_by_scan_and_by_index(tmp_path: Path) -> None:
    fields = {"hoodie.table.partition.fields": "region,city"}
    builder = HudiBuilder(str(tmp_path / "table"), 9, random.Random(1), **fields)
    requested, files = builder.timeline.request(), []
    for folder, region, city in (
        ("EU/Oslo", "EU", "Oslo"),
        (f"{NULL}/Oslo", "", "Oslo"),
        (f"region={NULL}/city=Oslo", None, "Oslo"),
        (f"EU/{NULL}", "EU", ""),
        (f"{NULL}/{NULL}", "", ""),
    ):
        rows = pa.table({"region": pa.array([region], pa.string()), "city": [city]})
        files.append(builder.data_file(rows, requested, builder.new_group(), folder)[0])
    builder.commit(requested, files, rows.schema, "INSERT")
    Drive(tmp_path / "table", tmp_path / "index", ["region", "city"]).drain()
    for place in (None, tmp_path / "index"):
        opened = tailbit.open(str(tmp_path / "table"), place)
        assert opened.where().facets("region") == {None: 3, "EU": 2}
        assert opened.where("region IS NULL AND city = 'Oslo'").count() == 2
        assert opened.where("region = '' OR city = ''").count() == 0
        assert opened.where("city IS NULL").read(["region", "city"]).to_pylist() == [
            {"region": "EU", "city": None},
            {"region": None, "city": None},
        ]
