"""Columns of a few rows are laid out together: postings and counts are those of each column by itself."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap

import tailbit
from support.contents import contents_of
from support.definitions import define
from support.delta_builder import DeltaBuilder
from support.drive import Drive
from support.tables import VECTORS, index_files, index_of
from tailbit.index.kinds.kind import NAMED_FORMAT
from tailbit.index.kinds.settings import may_share
from tailbit.index.kinds.value_counts import Tally
from tailbit.index.maintenance.merge import merge_all
from tailbit.index.model import RAISED_KEY, raised_id
from tailbit.index.store.table import MetadataTable
from tailbit.index.write import posting, run
from tailbit.index.write.posting import Claim, DataFiles
from tailbit.index.write.work import TaskColumn
from tailbit.tables import open_table

SCHEMA = pa.schema(
    [("k", pa.int64()), ("name", pa.string()), ("tags", pa.list_(pa.string())), ("text", pa.string())]
)
INDEXES = [
    ["k"],
    ["name"],
    ["tags"],
    ["lower(name)"],
    ["k % 3"],
    ["CAST(text AS INT)"],
    ["lower(name)", "k % 3"],
    ["length(text)"],
]


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "k": [None if n % 11 == 0 else n % 40 for n in numbers],
            "name": [None if n % 7 == 0 else f"{'nN'[n % 2]}{n % 5}" for n in numbers],
            "tags": [None if n % 13 == 0 else [f"t{m}" for m in range(n % 4)] for n in numbers],
            "text": ["x" if n % 17 == 0 else str(n % 9) for n in numbers],
        },
        schema=SCHEMA,
    )


@pytest.fixture
def table(tmp_path: Path) -> DeltaBuilder:
    """A table of no rows, with an index of each of `INDEXES`."""
    builder = DeltaBuilder(str(tmp_path / "t")).create(SCHEMA, **VECTORS)
    opened = tailbit.open(builder.path)
    for number, terms in enumerate(INDEXES):
        opened.create_index(f"i{number}", terms)
    return builder


def drained(path: str) -> MetadataTable:
    drive = Drive(path, f"{path}/_tailbit")
    drive.drain()
    return MetadataTable.open(f"{path}/_tailbit")


def raised_rows(index: MetadataTable) -> dict[str, BitMap]:
    """The rows of each file where `CAST(text AS INT)` raises."""
    id_ = next(raised_id(d.id) for d in index.state.settings.definitions if d.label == "CAST(text AS INT)")
    rows: dict[str, BitMap] = {}
    for record in index.state.recorded.live():
        for segment in index.state.segments_of(record.space or ""):
            claim = BitMap(range(record.base or 0, (record.base or 0) + (record.rows or 0)))
            own = (segment.lookup(id_, RAISED_KEY) or BitMap()) & claim
            rows[record.path] = rows.get(record.path, BitMap()) | own.shift(-(record.base or 0))
    return rows


def test_columns_laid_out_together_have_the_postings_and_counts_of_each_by_itself(
    table: DeltaBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.commit([table.data_file(rows(0, 300), "a"), table.data_file(rows(300, 50), "b")])
    (vector,) = table.stored_vectors([0, 17, 40])
    table.commit(table.hide("b", vector))
    other = str(tmp_path / "other")
    shutil.copytree(table.path, other)
    index = drained(table.path)
    monkeypatch.setattr(run, "FEW_ROWS", 0)
    alone = drained(other)
    assert contents_of(index.path) == contents_of(alone.path)
    assert raised_rows(index) == raised_rows(alone)
    assert raised_rows(index)["a"] == BitMap(range(0, 300, 17))


def test_a_file_whose_row_space_has_other_files_is_laid_out_at_its_own_rows(table: DeltaBuilder) -> None:
    table.commit([table.data_file(rows(0, 100), "a"), table.data_file(rows(100, 100), "b")])
    drained(table.path)
    opened = tailbit.open(table.path)
    opened.create_index("later", "concat(name, text)")
    opened.create_index("last", "k + 1")
    drained(table.path)
    assert opened.verify().sound
    for where in ("k + 1 = 4", "concat(name, text) = 'n41'", "lower(name) = 'n1' AND k % 3 = 2"):
        assert opened.where(where).count() == len(opened.where(where).read(["k"]))


def test_a_small_commit_has_one_row_group_of_counts_and_one_of_postings_for_all_plain_columns(
    table: DeltaBuilder,
) -> None:
    table.commit([table.data_file(rows(0, 100), "a")])
    drained(table.path)
    (segment,), (counts,) = (index_files(table.path, kind) for kind in ("bitmap_index", "value_counts"))
    # Arrays are laid out by themselves.
    assert pq.read_metadata(segment).num_row_groups == 1
    assert pq.read_metadata(counts).num_row_groups == 1


@pytest.mark.parametrize("number", range(3, NAMED_FORMAT))
def test_in_an_index_of_an_older_format_no_two_columns_share_a_row_group_of_postings(
    table: DeltaBuilder, number: int
) -> None:
    index = MetadataTable.open(f"{table.path}/_tailbit")
    assert may_share(index.state.settings)
    older = replace(index.state.settings, format=number)
    index.commit([], [], None, settings=older)
    assert not may_share(older)
    for at in range(9):
        table.commit([table.data_file(rows(100 * at, 100), f"f{at}")])
        drained(table.path)
    assert merge_all(MetadataTable.open(index.path)) > 0
    segments = index_files(table.path, "bitmap_index")
    live = {file.path.rpartition("/")[2] for file in MetadataTable.open(index.path).state.files.values()}
    for segment in segments:
        if segment.name in live:
            file = pq.ParquetFile(segment)
            for group in range(file.num_row_groups):
                assert len(set(file.read_row_group(group, columns=["column"])["column"].to_pylist())) == 1


def test_files_in_another_order_than_that_of_their_row_space_have_their_rows(table: DeltaBuilder) -> None:
    table.commit([table.data_file(rows(0, 100), "a"), table.data_file(rows(100, 50), "b")])
    source = open_table(table.path)
    snapshot = source.snapshot()
    columns = [TaskColumn.of(column) for column in snapshot.schema.columns if column.label in ("k", "name")]
    ids, data = frozenset(c.column.id for c in columns), DataFiles(source.storage, [])
    slices = {slice_.path: slice_ for slice_ in snapshot.files}
    claims = [Claim(slices["a"], "s", 0, 100, ids), Claim(slices["b"], "s", 100, 50, ids)]
    tallies = [Tally(), Tally()]
    straight, turned = (
        [(part.owners, part.keys, part.cardinality, part.sparse) for part in parts]
        for parts in (
            run.post_all(data, columns, claims, {}, lambda _: tallies[0]),
            run.post_all(data, columns, claims[::-1], {}, lambda _: tallies[1]),
        )
    )
    assert straight[0][1].equals(turned[0][1])
    assert straight[0][3].equals(turned[0][3])
    assert straight[0][2].tolist() == turned[0][2].tolist()


def test_a_row_group_without_rows_does_not_end_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posting, "_ROWS_AT_ONCE", 4)
    monkeypatch.setattr(posting, "_LARGEST_GROUP", 8)
    rows = pa.table({"a": [n % 5 for n in range(28)], "b": [n % 3 for n in range(28)]})
    table = DeltaBuilder(str(tmp_path / "t")).create(rows.schema)
    add = table.data_file(rows, "f")
    with pq.ParquetWriter(tmp_path / "t" / "f", rows.schema) as writer:
        for start, size in ((0, 5), (5, 0), (5, 20), (25, 3)):
            writer.write_table(rows.slice(start, size))
    add["add"]["size"] = (tmp_path / "t" / "f").stat().st_size
    table.commit([add])
    index_of(table.path, ["a"])
    define(table.path, "a + b")
    opened = tailbit.open(table.path)
    sums = [a + b for a, b in zip(*rows.to_pydict().values(), strict=True)]
    assert [opened.where(f"a + b = {n}").count() for n in range(7)] == [sums.count(n) for n in range(7)]
    assert opened.where().facets("a + b") == {n: sums.count(n) for n in set(sums)}
    assert opened.verify(derive=1).sound
