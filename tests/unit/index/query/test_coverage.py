"""Every live file is covered in exactly one row space, or uncovered; visible rows are masked by claims."""

from __future__ import annotations

import random
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
from support.tables import DAMAGES, VECTORS, half_built, index_files, index_of, with_vectors
from tailbit.index.evaluation.row_space import PartitionTexts, SpaceView
from tailbit.index.predicate.tree import Leaf
from tailbit.index.query.coverage import Coverage, cover
from tailbit.index.sql.bind import bind
from tailbit.index.store.table import MetadataTable
from tailbit.tables import open_table
from tailbit.tables.delta.files import DeltaFiles
from tailbit.tables.model import Column, DataType, FileSlice
from tailbit.tables.schema import Schema


def rows(first: int, count: int = 10) -> pa.Table:
    keys = list(range(first, first + count))
    return pa.table({"k": pa.array(keys, pa.int64()), "p": [f"p{k % 2}" for k in keys]})


def covered(path: str, version: int | None = None, before: Coverage | None = None) -> Coverage:
    table = open_table(path)
    return cover(
        table.snapshot(version), table.storage, MetadataTable.open(f"{path}/_tailbit").state, True, before
    )


def divided(coverage: Coverage) -> list[int]:
    """Every file number that is anywhere, sorted."""
    return sorted([*coverage.uncovered.tolist(), *(n for s in coverage.spaces for n in s.files.tolist())])


@pytest.fixture
def path(tmp_path: Path) -> str:
    where = str(tmp_path / "t")
    for first in (0, 10, 20):
        write_deltalake(where, rows(first), mode="append")
    return where


def test_every_live_file_is_in_exactly_one_row_space_or_uncovered(path: str) -> None:
    drive = half_built(path, ["k"])
    assert divided(covered(path)) == [0, 1, 2]
    assert len(covered(path).uncovered) == 2
    drive.drain()
    write_deltalake(path, rows(30), mode="append")
    DeltaTable(path).delete("k < 10")
    for version in range(DeltaTable(path).version() + 1):
        found = covered(path, version)
        assert divided(found) == list(range(len(found.snapshot.files)))


def test_an_index_that_is_not_trusted_covers_nothing(path: str) -> None:
    index_of(path, ["k"])
    table, index = open_table(path), MetadataTable.open(f"{path}/_tailbit")
    found = cover(table.snapshot(), table.storage, index.state, trusted=False)
    assert (len(found.spaces), found.uncovered.tolist()) == (0, [0, 1, 2])


@pytest.mark.parametrize("other", [{"size": 1}, {"mtime": 1}, {"lineage": 9}, {"space": None, "base": None}])
def test_a_file_recorded_with_another_size_time_or_lineage_is_uncovered(
    path: str, other: dict[str, int]
) -> None:
    index_of(path, ["k"])
    index = MetadataTable.open(f"{path}/_tailbit")
    first = next(index.state.recorded.live())
    index.commit([replace(first, **other)], [], None)
    found = covered(path)
    assert [found.snapshot.files[n].path for n in found.uncovered.tolist()] == [first.path]
    assert divided(found) == [0, 1, 2]


def test_hidden_rows_and_bits_outside_claims_are_not_visible(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    with_vectors(path)
    (space,) = covered(path).spaces
    assert space.visible == BitMap(range(20)) - BitMap([0, 4])
    index = MetadataTable.open(f"{path}/_tailbit")
    index.commit([replace(index.state.recorded.get("f1.parquet"), space=None, base=None)], [], None)
    (space,) = covered(path).spaces
    assert space.visible == BitMap(range(10)) - BitMap([0, 4])


@pytest.mark.parametrize("harm", DAMAGES)
def test_damaged_hidden_rows_are_read_from_the_source(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    path = str(tmp_path / "t")
    with_vectors(path)
    (file,) = index_files(path, "hidden_rows")
    harm(file)
    answer = tailbit.open(path).where("v = 'v0'")
    assert answer.count() == 6
    assert answer.files_scanned == 0
    assert [d.fields["file"] for d in answer.damaged] == [f"kind=hidden_rows/{file.name}"]


@pytest.mark.parametrize("harm", DAMAGES)
def test_where_the_records_cannot_be_read_everything_is_scanned(
    path: str, harm: Callable[[Path], None]
) -> None:
    index_of(path, ["k"])
    (file,) = index_files(path, "files")
    harm(file)
    answer = tailbit.open(path).where("k >= 15")
    assert answer.count() == 15
    assert len(answer.damaged) == 1
    assert file.name in str(answer.damaged[0])


def test_hidden_rows_of_another_number_than_the_descriptor_says_are_read_from_the_source(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "t")
    builder = with_vectors(path)
    (short,) = builder.stored_vectors([0, 4, 5])
    short["pathOrInlineDv"], short["offset"] = (
        builder.live["f0.parquet"]["deletionVector"]["pathOrInlineDv"],
        builder.live["f0.parquet"]["deletionVector"]["offset"],
    )
    table = open_table(path)
    found = cover(table.snapshot(), table.storage, MetadataTable.open(f"{path}/_tailbit").state, True)
    assert found.hidden_of(0) == BitMap([0, 4])
    assert found.hidden_of(1) is None


def test_a_file_without_rows_does_not_take_the_positions_of_its_neighbour(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    builder = DeltaBuilder(path).create(rows(0).schema)
    builder.commit([builder.data_file(rows(0), "a.parquet"), builder.data_file(rows(0, 0), "z.parquet")])
    builder.commit([builder.data_file(rows(10), "b.parquet")])
    index_of(path, ["k"])
    index = MetadataTable.open(f"{path}/_tailbit")
    empty = index.state.recorded.get("z.parquet")
    b = index.state.recorded.get("b.parquet")
    index.commit([replace(empty, space=b.space, base=b.base)], [], None)
    assert {p: at.tolist() for p, at in tailbit.open(path).where("k IN (3, 12)").positions().items()} == {
        "a.parquet": [3],
        "b.parquet": [2],
    }


def view(
    files: list[tuple[int, int, str]],
    hidden: dict[str, set[int]],
    asked: list[str],
    before: SpaceView | None = None,
) -> SpaceView:
    """A row space of files (base, rows, identity of hidden rows)."""

    def hidden_of(number: int) -> BitMap:
        asked.append(files[number][2])
        return BitMap(hidden[files[number][2]])

    columns = list(zip(*files, strict=True)) or [(), (), ()]
    return SpaceView(
        space="s",
        files=np.arange(len(files)),
        bases=np.array(columns[0], dtype=np.int64),
        rows=np.array(columns[1], dtype=np.int64),
        posted=np.zeros(len(files), dtype=np.int64),
        column_sets=[frozenset({"c"})],
        hidden_ids=np.array(columns[2], dtype=object),
        hidden_of=hidden_of,
        segments=[],
        partitions=PartitionTexts(DeltaFiles.of([], "a log")),
        before=None if before is None else before.origin,
    )


def test_visible_rows_taken_over_from_another_version_are_those_computed_anew() -> None:
    rng = random.Random(3)
    hidden = {f"h{n}": set(rng.sample(range(12), 4)) for n in range(5)} | {"": set()}
    before: SpaceView | None = None
    for _ in range(200):
        sizes = [(100 * n, (5, 12, 0)[n % 3]) for n in range(20) if rng.random() < 0.7]
        files = [(base, size, rng.choice(["", "", *hidden])) for base, size in sizes]
        found = view(files, hidden, [], before)
        if rng.random() < 0.7:
            assert found.visible == view(files, hidden, []).visible
        before = found


def test_only_hidden_rows_that_changed_are_loaded_anew() -> None:
    hidden = {f"h{n}": {n} for n in range(9)} | {"": set()}
    files = [(10 * n, 10, f"h{n}") for n in range(8)]
    first = view(files, hidden, [])
    assert len(first.visible) == 72
    asked: list[str] = []
    files[3] = (30, 10, "h8")
    second = view(files, hidden, asked, first)
    third = view(files[1:], hidden, asked, second)
    assert len(third.visible) == 63
    assert asked == ["h8"]
    assert third.before is None


PARTITION = Column(("p",), ("p",), DataType("string"), partition=True)
SCHEMA = Schema((PARTITION,))


def test_a_partition_leaf_gives_the_claims_of_whole_files() -> None:
    slices = [FileSlice(f"f{n}", 1, 1, 10, {"p": None if n % 3 == 2 else f"p{n % 3}"}) for n in range(9)]
    space = view([(10 * n, 10, "") for n in range(9)], {"": set()}, [])
    space.partitions = PartitionTexts(DeltaFiles.of(slices, "a log"))
    leaf = bind("p <> 'p0' OR p IS NULL", SCHEMA)
    assert isinstance(leaf, Leaf)
    claimed = space.where_partition(leaf)
    assert claimed == BitMap(at for n in range(9) if n % 3 for at in range(10 * n, 10 * n + 10))
    assert space.where_partition(leaf) is claimed


def test_conditions_on_partition_columns_are_remembered_up_to_a_bound() -> None:
    space = view([(0, 10, "")], {"": set()}, [])
    space.partitions = PartitionTexts(DeltaFiles.of([FileSlice("f", 1, 1, 10, {"p": "x"})], "a log"))
    for number in range(1000):
        leaf = bind(f"p = 'p{number}'", SCHEMA)
        assert isinstance(leaf, Leaf)
        assert not space.where_partition(leaf)
    assert len(space._leaves["p"].bounds.items()) < 1000


def by_partition(path: str) -> DeltaBuilder:
    """Two files of ten rows, p = a and p = b, at version 1; indexed."""
    schema = pa.schema([("k", pa.int64()), ("p", pa.string()), ("q", pa.string())])
    builder = DeltaBuilder(path).create(schema, partition_by=["p", "q"])
    keys = pa.table({"k": pa.array(range(10), pa.int64())})
    builder.commit([builder.data_file(keys, f"{p}.parquet", {"p": p, "q": "x"}) for p in ("a", "b")])
    index_of(path, ["k"])
    return builder


def again(builder: DeltaBuilder, name: str, **values: str | None) -> int:
    """Add a live file again with other partition values; the version."""
    return builder.commit([{"add": {**builder.live[name], "partitionValues": {"q": "x", **values}}}])


def test_a_file_added_again_with_another_partition_value_is_found_by_that_of_each_version(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "t")
    builder = by_partition(path)
    opened = tailbit.open(path)
    counts = {1: {"a": 10, "b": 10, "c": 0}}
    assert {p: opened.where(f"p = '{p}'", version=1).count() for p in "abc"} == counts[1]
    counts[again(builder, "a.parquet", p="c")] = {"a": 0, "b": 10, "c": 10}
    counts[again(builder, "b.parquet", p="a")] = {"a": 10, "b": 0, "c": 10}
    counts[again(builder, "a.parquet", p=None)] = {"a": 10, "b": 0, "c": 0}
    for version in (2, 1, 3, 4, 2, 1):
        answers = {p: opened.where(f"p = '{p}'", version=version) for p in "abc"}
        assert {p: answer.count() for p, answer in answers.items()} == counts[version]
        assert all(answer.files_scanned == 0 for answer in answers.values())


@pytest.mark.parametrize(
    ("on", "kind"), [(["p", "k"], "bitmap"), ("upper(p)", "bitmap"), ("concat(p, k)", "column_stats")]
)
def test_an_index_that_reads_partition_columns_says_nothing_of_other_values_than_it_was_built_of(
    tmp_path: Path, on: str | list[str], kind: str
) -> None:
    path = str(tmp_path / "t")
    builder = by_partition(path)
    newest = again(builder, "a.parquet", p="c")
    tailbit.open(path).create_index("i", on, kind=kind)
    index_of(path)
    opened = tailbit.open(path)
    for version, rows in ((1, {"a": 5, "b": 5, "c": 0}), (newest, {"a": 0, "b": 5, "c": 5})):
        for p, count in rows.items():
            for condition in (f"p = '{p}' AND k < 5", f"upper(p) = '{p.upper()}' AND k < 5"):
                assert opened.where(condition, version=version).count() == count
        wanted = [f"{p}3" for p, count in rows.items() if count]
        for p in "abc":
            found = opened.where(f"concat(p, k) = '{p}3'", version=version).count()
            assert found == wanted.count(f"{p}3")


def test_conditions_on_a_partition_column_whose_values_are_the_same_are_taken_over(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    builder = by_partition(path)
    opened = tailbit.open(path)
    for column in ("p", "q"):
        opened.where(f"{column} = 'x'").count()
    (before,) = opened.where("p = 'a'")._selection.coverage.spaces
    builder.commit([{"add": {**builder.live["a.parquet"], "partitionValues": {"p": "a", "q": "y"}}}])
    assert (opened.where("p = 'x'").count(), opened.where("q = 'x'").count()) == (0, 10)
    (after,) = opened.where("p = 'a'")._selection.coverage.spaces
    assert after is not before
    assert [after._leaves[c] is before._leaves[c] for c in ("p", "q")] == [True, False]


def test_a_later_version_takes_over_what_is_known_of_a_row_space(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    builder = with_vectors(path)
    opened = tailbit.open(path)
    assert opened.where("v = 'v1'").count() == 6
    (first,) = opened.where()._selection.coverage.spaces
    (vector,) = builder.stored_vectors([0, 4, 1])
    builder.commit(builder.hide("f0.parquet", vector))
    answer = opened.where("v = 'v1'")
    (second,) = answer._selection.coverage.spaces
    assert second.before is first
    assert answer.count() == 5
    assert opened.where("v = 'v1'")._selection.coverage is answer._selection.coverage


def test_inline_hidden_rows_are_served(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    builder = DeltaBuilder(path).create(rows(0).schema, **VECTORS)
    builder.commit([builder.data_file(rows(0), "f.parquet")])
    builder.commit(builder.hide("f.parquet", builder.inline_vector([1, 2])))
    index_of(path, ["k"])
    assert tailbit.open(path).where("k < 5").positions()["f.parquet"].tolist() == [0, 3, 4]
