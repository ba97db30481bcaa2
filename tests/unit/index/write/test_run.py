from __future__ import annotations

import datetime
import os
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from support.built import Built
from support.delta_builder import DeltaBuilder
from tailbit.errors import CommitConflictError, CorruptIndexError, DataFileError
from tailbit.index.kinds.kind import kind_of
from tailbit.index.model import IndexFile
from tailbit.index.postings.postings import Postings, write_segment
from tailbit.index.store.table import MetadataTable
from tailbit.index.write import counting
from tailbit.index.write import counting as hidden_rows
from tailbit.index.write.run import run_task
from tailbit.tables.cache import Cache
from tailbit.tables.parquet.data_file import footer_hash
from tailbit.tables.parquet.layout import CACHES
from tailbit.tables.storage import LocalStorage

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


def rows(first: int, count: int = 30) -> pa.Table:
    keys = range(first, first + count)
    return pa.table(
        {"k": pa.array(keys, pa.int64()), "v": [None if k % 7 == 0 else f"v{k % 3}" for k in keys]}
    )


@pytest.fixture
def table(tmp_path: Path) -> DeltaBuilder:
    return DeltaBuilder(str(tmp_path / "t")).create(SCHEMA, features=["deletionVectors"])


@pytest.fixture
def built(table: DeltaBuilder, tmp_path: Path) -> Built:
    """Three files indexed: a, b and c."""
    table.commit([table.data_file(rows(at * 30), name) for at, name in enumerate(("a", "b", "c"))])
    built = Built(table.path, str(tmp_path / "i"), ["k", "v"])
    built.run()
    return built


def hide(table: DeltaBuilder, path: str, hidden: Iterable[int]) -> None:
    (vector,) = table.stored_vectors(hidden)
    table.commit(table.hide(path, vector))


def kinds(files: Iterable[IndexFile]) -> list[str]:
    return [kind_of(file.path) for file in files]


def delete(table: DeltaBuilder, *paths: str) -> None:
    """The data files are gone from disk, as after VACUUM."""
    for path in paths:
        (Path(table.path) / path).unlink()


def test_files_of_a_task_share_one_row_space_end_to_end(built: Built) -> None:
    built.check()
    records = built.results[0].records
    assert [(r.path, r.base, r.rows) for r in records] == [("a", 0, 30), ("b", 30, 30), ("c", 60, 30)]
    assert len({r.space for r in records}) == 1
    assert kinds(built.results[0].files) == ["bitmap_index", "value_counts"]


def test_nothing_is_left_to_do_once_it_is_done(built: Built) -> None:
    assert built.task().works == ()


def test_rows_that_come_back_are_counted_again(built: Built, table: DeltaBuilder) -> None:
    hide(table, "a", range(20))
    built.run()
    hide(table, "a", [3, 25])
    built.run()
    built.check()
    table.commit(table.hide("a", None))
    built.run()
    built.check()


@pytest.mark.parametrize("keys_a_file", [0, 1 << 20])
@pytest.mark.parametrize("gone", ["", "a", "b", "ab"])
def test_files_that_leave_together_take_their_visible_rows_with_them(
    built: Built, table: DeltaBuilder, gone: str, keys_a_file: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "_KEYS_A_FILE", keys_a_file)
    hide(table, "b", [5, 6])
    built.run()
    table.commit([table.remove("a"), table.remove("b")])
    delete(table, *gone)
    assert built.run().rows == 58
    built.check()


@pytest.mark.parametrize("hidden", [[], [5, 6]])
@pytest.mark.parametrize("before", ["", "a", "b"])
@pytest.mark.parametrize("leaving", ["ab", "abc"])
def test_files_whose_postings_have_few_keys_leave_without_being_read(
    built: Built,
    table: DeltaBuilder,
    hidden: list[int],
    before: str,
    leaving: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []
    fetch = counting.fetch
    monkeypatch.setattr(
        counting, "fetch", lambda *given, **more: (read.append("x"), fetch(*given, **more))[1]
    )
    if hidden:
        hide(table, "b", hidden)
        built.run()
    if before:
        table.commit([table.remove(before)])
        built.run()
    table.commit([table.remove(path) for path in leaving if path != before])
    read.clear()
    built.run()
    built.check()
    assert read == []


def test_only_files_that_stay_are_cached_when_their_rows_are_counted(
    built: Built, table: DeltaBuilder
) -> None:
    hide(table, "a", [1, 2])
    table.commit([table.remove("b")])
    assert {record.path for record in built.run().records} == {"a", "b"}
    cached = [Path(name).name for storage, name, _ in dict(CACHES[0].items()) if storage.root == table.path]
    built.check()
    assert cached == ["a"]


def test_hidden_rows_of_a_file_that_is_gone_are_counted_by_its_postings(
    built: Built, table: DeltaBuilder
) -> None:
    hide(table, "b", [5, 6])
    version = table.version
    table.commit([table.remove("b")])
    delete(table, "b")
    built.run(version=version)
    built.run()
    built.check()


def test_a_file_that_comes_back_keeps_its_postings(built: Built, table: DeltaBuilder) -> None:
    add = {"add": table.live["b"]}
    table.commit([table.remove("b")])
    built.run()
    table.commit([add])
    result = built.run()
    built.check()
    assert kinds(result.files) == ["value_counts"]
    assert (result.records[0].left, result.records[0].entered) == (None, 3)


def test_a_file_without_rows_is_recorded_and_never_done_again(table: DeltaBuilder, tmp_path: Path) -> None:
    table.commit([table.data_file(rows(0, 0), "a")])
    built = Built(table.path, str(tmp_path / "i"), ["k"])
    assert built.run().files == ()
    assert built.task().works == ()


def test_rows_of_a_dropped_column_leave_its_counts_with_their_file(built: Built, table: DeltaBuilder) -> None:
    table.commit([{"metaData": table.metadata_action(SCHEMA.remove(1))}, table.remove("a")])
    built.run()
    assert sum(n for (column, _), n in built.found().counts.items() if column == "v") == 60


def test_a_file_put_back_under_its_old_name_is_another_file(built: Built, table: DeltaBuilder) -> None:
    table.commit([table.remove("a")])
    table.commit([table.data_file(rows(500), "a")])
    built.lineage = 2
    record = built.run().records[0]
    built.check()
    assert record.space != built.results[0].records[0].space


@pytest.mark.parametrize("lineage", [1, 2])
@pytest.mark.supports(
    "Histories", "a file that comes back with the same name and size, other contents", "exact"
)
def test_a_file_that_came_back_with_the_same_size_and_footer_is_another_file(
    tmp_path: Path, lineage: int
) -> None:
    table = DeltaBuilder(str(tmp_path / "t")).create(SCHEMA, features=["deletionVectors"])
    plain: dict[str, Any] = {"compression": "none", "use_dictionary": False}
    table.commit([table.data_file(rows(0), "a", **plain)])
    (vector,) = table.stored_vectors([1])
    table.commit(table.hide("a", vector))
    built = Built(table.path, str(tmp_path / "i"), ["k", "v"])
    built.run()
    storage = LocalStorage(table.path)
    before = (os.path.getsize(storage.resolve("a")), footer_hash(storage, "a"))
    table.commit([table.remove("a")])
    again = table.data_file(rows(0).take([0, 2, 1, *range(3, 30)]), "a", **plain)
    again["add"]["modificationTime"] += 1
    table.commit([again])
    assert before == (os.path.getsize(storage.resolve("a")), footer_hash(storage, "a"))
    built.lineage = lineage
    built.run()
    built.check()


def test_the_same_files_in_another_lineage_keep_their_postings(built: Built) -> None:
    built.lineage = 2
    result = built.run()
    assert result.files == ()
    assert [r.lineage for r in result.records] == [2, 2, 2]
    built.check()


@pytest.mark.parametrize("groups", [1000, 70_000, 200_000])
def test_files_larger_than_a_block_and_of_many_row_groups(tmp_path: Path, groups: int) -> None:
    table = DeltaBuilder(str(tmp_path / "t")).create(pa.schema([("d", pa.date32()), ("n", pa.int64())]))
    rng = np.random.default_rng(groups)
    names = ("a", "b")
    for name in names:
        days = [datetime.date(2013, 1, 1) + datetime.timedelta(int(d)) for d in rng.integers(0, 30, 100_000)]
        data = pa.table({"d": pa.array(days), "n": rng.integers(0, 40, 100_000) ** 7})
        table.commit([table.data_file(data, name, row_group_size=groups)])
    built = Built(table.path, str(tmp_path / "i"), ["d", "n"])
    built.run()
    built.check()


def leftovers(index: str) -> list[Path]:
    return [p for p in Path(index).rglob("*") if p.is_file() and p.name.endswith((".tmp", ".parquet.tmp"))]


@pytest.mark.parametrize("damage", ["missing", "text", "cut"])
def test_a_data_file_that_cannot_be_read_is_named_and_nothing_is_left_behind(
    built: Built, table: DeltaBuilder, damage: str
) -> None:
    table.commit([table.data_file(rows(90), "d")])
    target = Path(table.path) / "d"
    if damage == "missing":
        target.unlink()
    else:
        data = target.read_bytes()
        target.write_bytes(b"#" * len(data) if damage == "text" else data[: len(data) // 2])
    with pytest.raises(DataFileError) as caught:
        built.run()
    assert caught.value.fields["file"] == "d"
    assert leftovers(built.index) == []


def test_a_damaged_page_is_a_named_error_and_nothing_is_left_behind(
    built: Built, table: DeltaBuilder
) -> None:
    table.commit([table.data_file(rows(90), "d", compression="none", use_dictionary=False)])
    target = Path(table.path) / "d"
    data = bytearray(target.read_bytes())
    data[4:60] = b"\xff" * 56
    target.write_bytes(bytes(data))
    with pytest.raises(DataFileError):
        built.run()
    assert leftovers(built.index) == []


def test_lost_postings_of_a_lost_file_are_a_named_error(built: Built, table: DeltaBuilder) -> None:
    table.commit([table.remove("a")])
    delete(table, "a")
    shutil.rmtree(Path(built.index) / "kind=bitmap_index")
    with pytest.raises(CorruptIndexError):
        built.run()


def test_lost_hidden_rows_are_a_named_error_to_who_does_not_know_them(
    built: Built, table: DeltaBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(table, "a", [1])
    built.run()
    table.commit([table.remove("a")])
    shutil.rmtree(Path(built.index) / "kind=hidden_rows")
    monkeypatch.setattr(hidden_rows, "_LATEST", Cache(1))
    with pytest.raises(CorruptIndexError):
        built.run()


def test_postings_that_another_writer_has_moved_are_a_conflict(built: Built, table: DeltaBuilder) -> None:
    table.commit([table.remove("a")])
    delete(table, "a")
    stale = built.task()
    _move(built, "b" * 32)
    with pytest.raises(CommitConflictError):
        run_task(stale)
    built.run()
    built.check()


def _move(built: Built, space: str) -> None:
    """What a merge does: the same postings in another row space, in one commit."""
    index = MetadataTable.open(built.index)
    (segment,) = next(iter(index.state.spaces.values()))
    parts: list[Any] = []
    for column, key_type in segment.columns.items():
        for keys, bitmaps in segment.postings(column):
            sizes = np.array([len(b) for b in bitmaps])
            parts.append(Postings(column, key_type, keys, sizes, pa.array([b.serialize() for b in bitmaps])))
    written = write_segment(index.storage, space, segment.rows, parts)
    records = [replace(record, space=space) for record in index.state.recorded.live()]
    index.commit(records, [written], None, removes=[segment.path])
