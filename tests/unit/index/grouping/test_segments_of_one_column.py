"""A column of one row space in two segments, the first of which is about fewer rows than there are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import tailbit
from support.delta_builder import DeltaBuilder
from support.tables import index_of
from tailbit.index.grouping.choice import CountingWay
from tailbit.index.grouping.facets import as_facets
from tailbit.index.grouping.grouping import count_groups
from tailbit.index.grouping.rows import Rows
from tailbit.index.postings.codes import codes_of
from tailbit.tables.positions import positions_in

VALUES = [n % 3 for n in range(15)]


@pytest.fixture
def grown(tmp_path: Path) -> tailbit.IndexedTable:
    """Column v came to the index while the second of two files was not live; RESTORE has put it back."""
    path = str(tmp_path / "t")
    builder = DeltaBuilder(path).create(pa.schema([("k", pa.int64()), ("v", pa.int64())]))
    rows = pa.table({"k": list(range(15)), "v": VALUES})
    builder.commit([builder.data_file(rows[:10], "a.parquet"), builder.data_file(rows[10:], "b.parquet")])
    index_of(path, ["k"])
    kept = builder.live["b.parquet"]
    builder.commit([builder.remove("b.parquet")])
    index_of(path, ["k"])
    tailbit.open(path).alter(add=["v"])
    drive = index_of(path, ["k", "v"])
    builder.commit([{"add": kept}])
    drive.drain()
    return tailbit.open(path)


def test_rows_beyond_those_of_a_segment_are_counted_by_another(grown: tailbit.IndexedTable) -> None:
    selection = grown.where("k <> 3")._selection
    v, k = (selection.schema.resolve(name) for name in ("v", "k"))
    (space,) = selection.coverage.spaces
    assert sorted(s.rows for s in space.serving(v)) == [10, 15]
    expected = dict(Counter(VALUES[:3] + VALUES[4:]))
    assert as_facets(count_groups(Rows.of(selection), [v], CountingWay.CODES)) == expected
    assert count_groups(Rows.of(selection), [v, k], CountingWay.CODES).counts.tolist() == [1] * 14


def test_rows_of_a_file_that_has_left_the_table_are_in_no_group(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    builder = DeltaBuilder(path).create(pa.schema([("a", pa.string()), ("b", pa.int64())]))
    for name in ("x", "y"):
        rows = pa.table({"a": [name] * 10, "b": [n % 2 for n in range(10)]})
        builder.commit([builder.data_file(rows, f"{name}.parquet")])
    index_of(path, ["a", "b"])
    both = {(name, n): 5 for name in ("x", "y") for n in (0, 1)}
    before = builder.version
    builder.commit([builder.remove("x.parquet")])
    left = {("y", 0): 5, ("y", 1): 5}
    opened = tailbit.open(path)
    for _ in range(2):
        assert dict(opened.where().facets("a", "b")) == left
        assert dict(opened.where("b <> 7").facets("a", "b")) == left
        assert dict(opened.where(version=before).facets("a", "b")) == both
    assert opened.where().count_distinct("a", "b") == 2


def test_rows_beyond_those_of_a_segment_are_within_no_span_of_its_codes(grown: tailbit.IndexedTable) -> None:
    (space,) = grown.where()._selection.coverage.spaces
    v = grown.where()._selection.schema.resolve("v")
    every = positions_in(space.visible)
    within = {s.rows: codes_of(s, v.id).count_within([(1, 4)], every) for s in space.serving(v)}
    assert within == {10: 10, 15: 5}
