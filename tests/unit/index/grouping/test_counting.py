"""Rows are counted by key in several ways, and every way counts the same."""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.function_cells import rows
from support.tables import LONG, index_of
from tailbit.errors import ColumnTypeError, UnknownColumnError
from tailbit.index.evaluation.costs import SPENT
from tailbit.index.grouping import counting
from tailbit.index.grouping.choice import CountingWay
from tailbit.index.grouping.counting import COUNTED, Tally
from tailbit.index.grouping.dictionary import Dictionary, first_in_order, full_keys
from tailbit.index.grouping.facets import as_facets, is_counted
from tailbit.index.grouping.grouping import Groups, count_groups
from tailbit.index.grouping.rows import Rows
from tailbit.index.postings import codes
from tailbit.index.postings.segment import POSTINGS
from tailbit.index.roaring.coding import order_with_nulls
from tailbit.tables.model import Column, DataType


def counted(path: str, where: str | None, column: str, way: CountingWay | None = None) -> Groups:
    selection = tailbit.open(path).where(where)._selection
    return count_groups(Rows.of(selection), [selection.schema.resolve(column)], way)


@pytest.fixture(scope="module")
def many_values(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two row spaces: of 3,000 numbers, texts of which some are long, and few colours."""
    path = str(tmp_path_factory.mktemp("values") / "t")
    rng = np.random.default_rng(5)
    for _ in range(2):
        numbers = rng.integers(0, 3000, 20_000)
        texts = [None if n % 7 == 0 else (LONG if n % 50 == 0 else "t") + str(n % 211) for n in numbers]
        colours = [("red", "green", "blue", None)[n % 4] for n in numbers]
        rows = pa.table({"k": np.arange(20_000), "n": numbers, "t": texts, "c": colours})
        write_deltalake(path, rows, mode="append")
        index_of(path, ["k", "n", "t", "c"])
    return path


def test_all_rows_of_a_row_space_are_counted_by_cardinalities(many_values: str) -> None:
    found = counted(many_values, None, "n")
    assert {step.method for step in found.steps} == {CountingWay.RECORDED}
    assert as_facets(found) == dict(Counter(tailbit.open(many_values).where().read(["n"])["n"].to_pylist()))


@pytest.mark.parametrize("where", ["k > 10", "k > 4000 OR n < 2000"])
def test_where_most_rows_match_the_others_are_subtracted_from_all(many_values: str, where: str) -> None:
    opened = tailbit.open(many_values)
    selection = opened.where(where)._selection
    for names in (["n"], ["t"], ["t", "c"], ["c", "n", "t"]):
        expected = Counter(zip(*opened.where(where).read(names).to_pydict().values(), strict=True))
        for asked in range(2):
            COUNTED.clear() if asked == 0 else None
            found = count_groups(Rows.of(selection), selection.schema.resolve_all(names), CountingWay.CODES)
            values = zip(*map(found.values_of, range(len(names))), strict=True)
            assert dict(zip(values, found.counts.tolist(), strict=True)) == expected
            assert COUNTED.size(lambda key: True) > 0


def test_codes_are_made_once_other_ways_have_cost_their_part(many_values: str) -> None:
    for cache in (POSTINGS, codes.CODES, SPENT):
        cache.clear()
    ways = [counted(many_values, "c = 'red'", "n").steps[0].method for _ in range(30)]
    assert ways[-1] is CountingWay.CODES
    made = ways.index(CountingWay.CODES)
    assert set(ways[made:]) == {CountingWay.CODES}


def test_a_predicate_on_the_column_itself_asks_only_its_keys(many_values: str) -> None:
    for cache in (POSTINGS, codes.CODES, SPENT):
        cache.clear()
    found = counted(many_values, "n IN (77, 1000000) AND k > 3", "n")
    assert {step.method for step in found.steps} == {CountingWay.INTERSECTIONS}
    assert list(as_facets(found)) == [77]


@pytest.mark.parametrize(
    "where", ["n = 77 AND k > 3", "k > 3 AND n <=> 77", "n IN (77, 77)", "n = 77 AND c = 'none'"]
)
def test_a_column_that_the_condition_leaves_one_value_is_not_looked_at(many_values: str, where: str) -> None:
    found = counted(many_values, where, "n")
    rows = tailbit.open(many_values).where(where).count()
    assert [step.method for step in found.steps] == [CountingWay.RECORDED]
    assert as_facets(found) == ({77: rows} if rows else {})


DAY, NOON = datetime.date(2024, 2, 29), datetime.datetime(1969, 12, 31, 12, 0, 0, 1)  # noqa: DTZ001
TYPED = [
    (pa.int8(), "integer", [127, -128, None, 3, 127]),
    (pa.int32(), "integer", [3, -1, None, 3]),
    (pa.int64(), "integer", [1 << 62, -1, None, 3, 1 << 62]),
    (pa.int64(), "integer", [(1 << 63) - 1, None, -(1 << 63), 0, -(1 << 63)]),
    (pa.string(), "string", ["a", "", None, "ä", "a"]),
    (pa.binary(), "binary", [b"\xff", b"", None, b"\xff"]),
    (pa.bool_(), "boolean", [True, None, False, True]),
    (pa.date32(), "date", [DAY, None, datetime.date(1600, 1, 1), DAY]),
    (pa.timestamp("us"), "timestamp", [NOON, None, NOON]),
    (pa.timestamp("us", "UTC"), "timestamp", [NOON, None]),
    (pa.decimal128(10, 2), "decimal(2)", [Decimal("1.50"), None, Decimal("-99999999.99"), Decimal("1.50")]),
    (pa.decimal128(18, 6), "decimal(6)", [Decimal("-999999999999.999999"), None, Decimal(0)]),
    (pa.decimal128(38, 0), "decimal(0)", [Decimal(10**37), None, Decimal(-(10**37)), Decimal(10**37)]),
    (pa.float64(), "double", [0.0, -0.0, None, float("nan"), 1.5]),
    (pa.float32(), "double", [0.0, -0.0, None, float("nan"), 1.5]),
]


def expected(parts: list[tuple[pa.Array, Any]], key_type: str) -> dict[bytes | None, int]:
    out: Counter[bytes | None] = Counter()
    for values, counts in parts:
        for n, key in enumerate(full_keys(values, key_type).to_pylist()):
            out[key] += 1 if counts is None else int(counts[n])
    return dict(out)


@pytest.mark.parametrize("gathered", [0, 1 << 28], ids=["added up at each batch", "at the end"])
@pytest.mark.parametrize("counted", [True, False], ids=["some counted", "none counted"])
@pytest.mark.parametrize("close", [0, 100], ids=["apart", "by place"])
@pytest.mark.parametrize("many", [0, 1 << 62], ids=["polars", "pyarrow"])
@pytest.mark.parametrize(("type_", "key_type", "values"), TYPED, ids=[str(t[0]) for t in TYPED])
def test_each_key_has_the_rows_of_all_batches(
    type_: pa.DataType,
    key_type: str,
    values: list[Any],
    many: int,
    close: int,
    counted: bool,
    gathered: int,
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(counting, "_CLOSE", close)
    monkeypatch.setattr(counting, "_TABLE_SIZE", close << 15)
    monkeypatch.setattr(counting, "_MANY", many)
    monkeypatch.setattr(counting, "_GATHERED", gathered)
    whole = pa.array(values, type_)
    coded = pa.array(values[::-1], type_).dictionary_encode()
    counts = np.arange(1, len(values) + 1)
    found = Tally(key_type)
    found.add(whole)
    found.add(pa.chunked_array([whole.slice(1), whole.slice(0, 2)]))
    if counted:
        found.add(whole.slice(1), counts[1:])
    found.add(coded)
    keys, rows = found.keys()
    parts = [(whole, None), (whole.slice(1), None), (whole.slice(0, 2), None), (coded.cast(type_), None)]
    parts += [(whole.slice(1), counts[1:])] if counted else []
    assert len(set(keys.to_pylist())) == len(keys)
    assert dict(zip(keys.to_pylist(), rows.tolist(), strict=True)) == expected(parts, key_type)


def test_a_tally_of_nothing_is_empty() -> None:
    assert [len(part) for part in Tally("string").keys()] == [0, 0]


@pytest.mark.parametrize("seed", range(20))
def test_the_most_frequent_keys_are_found_without_order_as_with_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts = [None, *{str(n) for n in rng.integers(0, 500, rng.integers(1, 300))}]
    keys = pa.array(
        [None if t is None else t.encode() for t in texts[int(rng.integers(0, 2)) :]], pa.binary()
    )
    keys = keys.take(pa.array(rng.permutation(len(keys))))
    rows = rng.integers(1, 5, len(keys))
    column = Column(("s",), ("s",), DataType("string"), True, False)
    order = order_with_nulls(keys)
    every, in_order = [np.arange(len(keys))], Dictionary(keys.take(pa.array(order)), [])
    sorted_ = Groups([column], [in_order], every, rows[order])
    shuffled = Groups([column], [Dictionary(keys, [])], every, rows, ordered=False)
    whole = sorted_.keys_of().take(pa.array(sorted_.most_frequent()))
    assert shuffled.nulls == sorted_.nulls
    for n in (0, 1, 7, len(keys) - 1, len(keys), len(keys) + 1):
        for counts in (sorted_, shuffled):
            assert counts.keys_of().take(pa.array(counts.most_frequent(n))).equals(whole.slice(0, n))
        assert sorted(first_in_order(keys, n).tolist()) == sorted(order[:n].tolist())


NUMBERS = ["b", "sh", "i", "l", "f", "d", "p", "q"]
OTHERS = ["s", "n", "t", "x", "dt", "ts", "nt", "bo"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Every type in two files, an index of `row` alone."""
    table = rows()
    path = str(tmp_path_factory.mktemp("streamed") / "t")
    write_deltalake(path, table.slice(0, 7))
    write_deltalake(path, table.slice(7), mode="append")
    index_of(path, ["row"])
    return path


def same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)


@pytest.mark.parametrize("where", [None, "row < 9", "row % 3 = 0", "row = -1"])
@pytest.mark.parametrize("column", [*NUMBERS, *OTHERS])
def test_values_and_counts_by_key_give_the_same(path: str, column: str, where: str | None) -> None:
    answer = tailbit.open(path).where(where)
    assert not is_counted(answer._selection.coverage.spaces, answer._selection.schema.resolve(column))
    found = answer.summary(column)
    assert same((answer.min(column), answer.max(column)), (found.min, found.max))
    if column in NUMBERS:
        assert same((answer.sum(column), answer.avg(column)), (found.sum, found.avg))


def test_a_column_that_is_served_is_not_read(path: str) -> None:
    answer = tailbit.open(path).where("row < 9")
    assert is_counted(answer._selection.coverage.spaces, answer._selection.schema.resolve("row"))
    assert (answer.min("row"), answer.max("row"), answer.sum("row")) == (0, 8, 36)


def test_sums_of_texts_and_of_unknown_columns_are_refused(path: str) -> None:
    answer = tailbit.open(path).where()
    with pytest.raises(ColumnTypeError, match="avg takes integers"):
        answer.avg("s")
    with pytest.raises(UnknownColumnError):
        answer.max("nothing")
