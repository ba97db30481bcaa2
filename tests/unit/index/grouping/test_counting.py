"""Rows are counted by key in several ways, and every way counts the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.tables import DAMAGES, LONG, index_files, index_of, with_vectors
from tailbit.index.evaluation.costs import SPENT
from tailbit.index.grouping.choice import CountingWay
from tailbit.index.grouping.counting import COUNTED
from tailbit.index.grouping.facets import as_facets
from tailbit.index.grouping.grouping import count_groups
from tailbit.index.grouping.groups import Groups
from tailbit.index.grouping.rows import Rows
from tailbit.index.postings import codes
from tailbit.index.postings.segment import POSTINGS

WAYS = [CountingWay.CODES, CountingWay.INTERSECTIONS, CountingWay.DATA]


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


@pytest.mark.parametrize("harm", DAMAGES)
def test_codes_of_a_damaged_segment_are_read_from_the_data_instead(tmp_path: Path, harm: object) -> None:
    path = str(tmp_path / "t")
    with_vectors(path)
    for file in index_files(path, "bitmap_index"):
        harm(file)  # type: ignore[operator]
    for way in WAYS:
        assert as_facets(counted(path, "k < 100", "v", way)) == {"v0": 6, "v1": 6, "v2": 6}
