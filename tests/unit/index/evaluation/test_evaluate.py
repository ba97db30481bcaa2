"""Bounds of a predicate enclose where it is TRUE, and are equal where every leaf is exact."""

from __future__ import annotations

import re
import threading
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyroaring import BitMap

import tailbit
from support.delta_builder import DeltaBuilder
from support.tables import EVERY_TYPE, LONG, eight_flights, index_of
from tailbit.errors import CorruptIndexError
from tailbit.index.evaluation import evaluate as evaluating
from tailbit.index.evaluation import side_by_side
from tailbit.index.evaluation.access import (
    count_by_cardinalities,
    count_by_keys,
    count_of_nulls,
    count_true,
)
from tailbit.index.evaluation.evaluate import evaluate
from tailbit.index.evaluation.row_space import Bounds, PartitionTexts, SpaceView, claims, widens
from tailbit.index.evaluation.side_by_side import each_space
from tailbit.index.store.table import MetadataTable
from tailbit.tables.delta.files import DeltaFiles
from tailbit.tables.model import DataType


@pytest.fixture(scope="module")
def every_type(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("t") / "every_type")
    write_deltalake(path, EVERY_TYPE)
    index_of(
        path,
        ["flag", "small", "score", "amount", "price", "name", "raw", "day", "moment", "local", "place.city"],
    )
    return path


def exact(path: str, predicate: str) -> bool:
    found = tailbit.open(path).where(predicate)._selection
    return all(evaluate(found.node, space).exact for space in found.coverage.spaces)


WORKED = re.findall(r"^    (\S.*?) +\{([\d ]*)\} +\{([\d ]*)\}  ", str(evaluating.__doc__), re.MULTILINE)
"""Predicate, sure and maybe positions, as the module's docstring says."""


@pytest.mark.parametrize(("predicate", "sure", "maybe"), WORKED)
def test_bounds_are_those_of_the_worked_example(
    table_path: str, predicate: str, sure: str, maybe: str
) -> None:
    builder = eight_flights(table_path)
    builder.commit(builder.hide("a.parquet", builder.inline_vector([2])))
    ((_, bounds),) = tailbit.open(table_path).where(predicate)._selection.bounds
    assert [list(bounds.sure), list(bounds.maybe)] == [list(map(int, s.split())) for s in (sure, maybe)]
    assert bounds.exact == (sure == maybe)


def test_the_worked_example_has_exact_and_open_bounds() -> None:
    assert [sure == maybe for _, sure, maybe in WORKED] == [True, True, False, False, False]


def test_bounds_that_turn_out_equal_are_exact() -> None:
    assert Bounds.between(BitMap([1, 2]), BitMap([1, 2])).exact
    assert not Bounds.between(BitMap([1]), BitMap([1, 2])).exact
    assert Bounds.exactly(BitMap([1])).maybe == BitMap([1])


@pytest.mark.parametrize(
    "predicate",
    [
        "flag",
        "NOT flag OR small = 1",
        "score IS NULL AND amount IS NOT NULL",
        "amount = CAST('NaN' AS DOUBLE)",
        "score = 0.0D",
        "price IN (9.99, NULL)",
        "NOT (price IN (9.99, NULL))",
        "name <=> NULL",
        "name < 'b' AND raw <> X'61'",
        "day BETWEEN DATE'0001-01-01' AND DATE'2013-12-31'",
        "moment > TIMESTAMP'2000-01-01' OR local IS NULL",
        "place.city = 'Oslo'",
        "place.city IS NULL",
        f"name = '{'x' * 256}'",
    ],
)
def test_every_leaf_over_an_indexed_column_is_exact(every_type: str, predicate: str) -> None:
    assert exact(every_type, predicate)


@pytest.mark.parametrize("predicate", [f"name = '{LONG}'", "id = 3", "id = small", f"name < '{LONG}a'"])
def test_a_truncated_key_a_plain_column_and_two_columns_leave_rows_open(
    every_type: str, predicate: str
) -> None:
    assert not exact(every_type, predicate)
    answer = tailbit.open(every_type).where(predicate)
    assert answer.count() == len(answer.read())
    assert answer.files_scanned == 1


def test_a_leaf_that_decides_leaves_nothing_open(every_type: str) -> None:
    assert exact(every_type, "id = 3 AND small = 99")
    assert exact(every_type, "id = 3 OR small IS NULL OR small IS NOT NULL")


def test_rows_of_a_file_that_lacks_a_column_in_its_row_space_are_open(table_path: str) -> None:
    builder = DeltaBuilder(table_path).create(pa.schema([("k", pa.int64()), ("v", pa.int64())]))
    for n in range(2):
        rows = pa.table({"k": [n, n], "v": [5, n]})
        builder.commit([builder.data_file(rows, f"f{n}.parquet")])
    index_of(table_path, ["k", "v"])
    index = MetadataTable.open(f"{table_path}/_tailbit")
    index.commit([replace(index.state.recorded.get("f1.parquet"), built=("k",))], [], None)
    answer = tailbit.open(table_path).where("v = 5 AND k >= 0")
    assert answer.positions() == {"f0.parquet": [0], "f1.parquet": [0]}
    assert answer.files_scanned == 1
    assert tailbit.open(table_path).where("NOT (v = 5)").count() == 2


def test_postings_of_a_narrower_type_serve_a_widened_column(table_path: str) -> None:
    builder = widened(table_path, pa.int32(), pa.float64(), [1, 2, 2**31 - 1, None], [1.5, 2.0, None])
    for predicate, count in (
        ("v = 2", 2),
        ("v > 1.25D", 4),
        ("v IS NULL", 2),
        ("NOT (v <= 2)", 1),
        ("v = 1.5D", 1),
    ):
        answer = tailbit.open(table_path).where(predicate)
        assert (answer.count(), answer.files_scanned) == (count, 0), predicate
        before = tailbit.open(table_path).where("v = 2", version=1)
        assert (before.count(), before.files_scanned) == (1, 0)
    assert builder.version == 3


def test_postings_of_a_type_that_does_not_widen_are_not_asked(table_path: str) -> None:
    """An index whose records say more than its bits can serve: the rows are read."""
    builder = DeltaBuilder(table_path).create(pa.schema([("v", pa.string())]))
    builder.commit([builder.data_file(pa.table({"v": ["1", "2"]}), "old.parquet")])
    index_of(table_path, ["v"])
    builder.commit(
        [{"metaData": builder.metadata_action(pa.schema([("v", pa.int64())]))}, builder.remove("old.parquet")]
    )
    builder.commit([builder.data_file(pa.table({"v": [1, 2]}), "new.parquet")])
    assert tailbit.open(table_path).where("v = 2").count() == 1
    index_of(table_path)
    assert tailbit.open(table_path).where("v = 2").files_scanned == 0
    index = MetadataTable.open(f"{table_path}/_tailbit")
    old, new = index.state.recorded.get("old.parquet"), index.state.recorded.get("new.parquet")
    index.commit([replace(new, space=old.space, base=old.base)], [], None)
    answer = tailbit.open(table_path).where("v = 2")
    assert (answer.count(), answer.files_scanned) == (1, 1)
    assert answer.facets("v") == {2: 1}


def widened(
    path: str, narrow: pa.DataType, wide: pa.DataType, old: list[object], new: list[object]
) -> DeltaBuilder:
    """A table whose column v was widened between two files, and its index, kept up to date throughout."""
    builder = DeltaBuilder(path).create(pa.schema([("v", narrow)]), features=["typeWidening"])
    builder.commit([builder.data_file(pa.table({"v": pa.array(old, narrow)}), "a.parquet")])
    drive = index_of(path, ["v"])
    builder.commit(
        [{"metaData": builder.metadata_action(pa.schema([("v", wide)]), table_id=builder.metadata["id"])}]
    )
    builder.commit([builder.data_file(pa.table({"v": pa.array(new, wide)}), "b.parquet")])
    drive.drain()
    return builder


COUNTED = (
    "a IN (1, 2)",
    "b BETWEEN 10 AND 30 AND a = 3",
    "b < 40 AND c <> 1",
    "b IN (1, 2) AND a IN (3, 4) AND c IS NULL",
)


def test_every_count_without_bounds_is_the_number_of_rows_of_the_bounds(table_path: str) -> None:
    numbers = list(range(4000))
    columns = {"a": [n % 7 for n in numbers], "b": [n % 1000 for n in numbers]}
    write_deltalake(table_path, pa.table(columns | {"c": [None if n % 9 == 0 else n % 3 for n in numbers]}))
    index_of(table_path, ["a", "b", "c"])
    opened, serving = tailbit.open(table_path), set[str]()
    for text in (*COUNTED, "b < 700", "b < 700 AND a = 3", "b BETWEEN 5 AND 900 AND c IS NOT NULL"):
        for _ in range(4):
            # Codes are made once other paths have cost enough.
            for question in opened.where(text)._selection._questions:
                ways = {way.__name__: way for way in (count_of_nulls, count_by_cardinalities)}
                counts = {name: way(question.node, question.space) for name, way in ways.items()}
                counts["count_by_keys"] = count_by_keys(question)
                assert question.evaluated is None
                assert set(counts.values()) <= {None, len(question.bounds.sure)}, (text, counts)
                serving |= {name for name, counted in counts.items() if counted is not None}
                assert count_true(question) == len(question.bounds.sure)
    assert serving == {"count_by_cardinalities", "count_by_keys"}


def test_bounds_of_rows_that_are_not_visible_do_not_make_other_bounds_exact() -> None:
    """Rows 0 and 4 are posted of a file that is gone. Rows 8 and 9 are left open by another index."""
    of_column = Bounds.between(BitMap([0, 4]), BitMap([0, 4, 8, 9, 10]))
    of_another = Bounds.between(BitMap(), BitMap([8, 9]))
    both = evaluating._combined(of_column, of_another)
    assert (both.sure, both.maybe, both.exact) == (BitMap([0, 4]), BitMap([0, 4, 8, 9]), False)


@pytest.fixture
def worked() -> SpaceView:
    """The view of the module's worked example: a and b, with rows of a file c between that has left."""
    return SpaceView(
        space="s",
        files=np.array([0, 1]),
        bases=np.array([0, 5]),
        rows=np.array([3, 3]),
        posted=np.array([0, 1]),
        column_sets=[frozenset({"k"}), frozenset({"k", "v"})],
        hidden_ids=np.array(["h", ""], dtype=object),
        hidden_of=lambda number: BitMap([1]) if number == 0 else None,
        segments=[],
        partitions=PartitionTexts(DeltaFiles.of([], "a log")),
    )


def test_positions_of_whole_files_are_shared_and_cannot_be_changed(worked: SpaceView) -> None:
    split = worked.split(BitMap([0, 1, 2, 5, 6, 7]), shared=True)
    assert [(number, at.tolist(), at.dtype) for number, at in split] == [
        (0, [0, 1, 2], np.dtype(np.uint64)),
        (1, [0, 1, 2], np.dtype(np.uint64)),
    ]
    with pytest.raises(ValueError, match="read-only"):
        split[0][1][0] = 7
    worked.split(BitMap([0, 1, 2]))[0][1][0] = 7


@pytest.mark.parametrize(
    ("bases", "rows", "expected"),
    [
        ([], [], []),
        ([0, 4], [4, 4], [(0, 8)]),
        ([4, 0], [4, 4], [(0, 8)]),
        ([0, 5], [3, 3], [(0, 3), (5, 8)]),
        ([0, 0, 3], [0, 3, 1], [(0, 4)]),
        ([7], [0], []),
        ([(1 << 32) - 2], [2], [((1 << 32) - 2, 1 << 32)]),
    ],
)
def test_claims_are_the_union_of_their_ranges(
    bases: list[int], rows: list[int], expected: list[tuple[int, int]]
) -> None:
    found = claims(np.array(bases, dtype=np.int64), np.array(rows, dtype=np.int64))
    assert found == BitMap([at for low, high in expected for at in range(low, high)])


def test_keys_serve_a_column_of_their_type_or_a_wider_one() -> None:
    assert widens("integer", DataType("long"))
    assert not widens("long", DataType("integer"))
    assert not widens("string", DataType("long"))
    assert not widens("string", DataType("struct"))


MUCH = side_by_side._WORTH_A_THREAD


@pytest.mark.parametrize("sizes", [[0, 0, 0], [MUCH, 0, 0], [MUCH, 0, MUCH]])
def test_row_spaces_come_in_order_with_the_damage_of_each(sizes: list[int]) -> None:
    def work(space: int) -> int:
        if space == 1:
            raise CorruptIndexError(file="f", reason="damaged")
        return 10 * space

    first, damage, last = each_space(range(3), work, sizes.__getitem__)
    assert (first, last) == (0, 20)
    assert isinstance(damage, CorruptIndexError)


def test_threads_are_started_where_two_row_spaces_have_much_to_read_and_not_before() -> None:
    def where(sizes: list[int]) -> set[int]:
        return set(each_space(range(len(sizes)), lambda _: threading.get_ident(), sizes.__getitem__))

    here = threading.get_ident()
    assert where([MUCH - 1, MUCH, 0]) == {here}
    assert where([10 * MUCH]) == {here}
    assert here not in where([MUCH, 0, MUCH])


def test_no_row_space_is_looked_at_once_two_have_much_to_read() -> None:
    looked = []

    def size(space: int) -> int:
        looked.append(space)
        return MUCH

    assert list(each_space(range(5), lambda space: space, size)) == [0, 1, 2, 3, 4]
    assert looked == [0, 1]
