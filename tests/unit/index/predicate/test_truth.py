"""Rows, partition values and statistics judged by the same sets of values."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from support.truth import matches
from tailbit.errors import MalformedLogError
from tailbit.index.predicate import truth
from tailbit.index.predicate.pruning import FileTruths
from tailbit.index.predicate.tree import negate
from tailbit.index.predicate.truth import partition_value_matches
from tailbit.index.predicate.value_sets import ValueSet, closed, meets
from tailbit.index.sql.bind import bind
from tailbit.tables.delta.schema import parse_schema
from tailbit.tables.delta.statistics import DeltaStatistics
from tailbit.tables.model import FileSlice
from tailbit.tables.schema import Schema


def schema(*columns: tuple[str, Any], partition: tuple[str, ...] = ()) -> Schema:
    fields = [{"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in columns]
    return parse_schema(json.dumps({"type": "struct", "fields": fields}), partition, {}, "test")


SCHEMA = schema(
    ("x", "integer"),
    ("d", "double"),
    ("s", "string"),
    ("p", "decimal(10,2)"),
    ("t", "timestamp"),
    ("b", "boolean"),
    ("region", "string"),
    ("day", "date"),
    partition=("region", "day"),
)


def hits(text: str, table: pa.Table, **partition: str | None) -> list[bool]:
    found: list[bool] = matches(bind(text, SCHEMA), table, partition).tolist()
    return found


def file_slice(stats: dict[str, Any] | None = None, **partition: str | None) -> FileSlice:
    text = None if stats is None else json.dumps(stats)
    stats = DeltaStatistics(text) if text else None
    return FileSlice("f", 1, 0, None, partition, stats=stats)


def can(text: str, stats: dict[str, Any] | None, **partition: str | None) -> bool:
    return bool(FileTruths(bind(text, SCHEMA), [file_slice(stats, **partition)]).can_match[0])


def test_chunks_slices_and_dictionaries_are_judged_like_plain_columns() -> None:
    plain = pa.table({"x": pa.array([1, None, 2, 3], pa.int32()), "s": ["a", None, "b", "c"]})
    coded = plain.set_column(1, "s", plain["s"].dictionary_encode())
    parted = pa.concat_tables([plain.slice(0, 1), plain.slice(1, 2), plain.slice(3)])
    for table in (plain, coded, parted):
        assert hits("x >= 2 AND s <> 'c'", table) == [False, False, True, False]
        assert hits("x IS NULL OR s = 'a'", table) == [True, True, False, False]
    assert hits("x = 1", plain.slice(0, 0)) == []
    assert hits("x = 1", pa.table({"x": pa.chunked_array([], pa.int32())})) == []


def test_a_partition_column_is_judged_by_the_text_of_the_log() -> None:
    table = pa.table({"x": pa.array([1, 2], pa.int32())})
    assert hits("region = 'EU' AND x = 2", table, region="EU") == [False, True]
    assert hits("region = 'EU' OR x = 2", table, region=None) == [False, True]
    assert hits("region IS NULL", table) == [True, True]
    assert hits("day >= '2020-01-01'", table, day="2020-01-02") == [True, True]
    assert hits("region <=> s", table.append_column("s", pa.array(["EU", None])), region="EU") == [
        True,
        False,
    ]


def test_a_partition_text_that_is_no_value_is_refused() -> None:
    leaf: Any = bind("day = '2020-01-01'", SCHEMA)
    with pytest.raises(MalformedLogError):
        partition_value_matches(leaf, "yesterday")


def test_the_empty_partition_text_is_the_empty_string_for_strings_alone() -> None:
    table = pa.table({"x": pa.array([1], pa.int32())})
    assert hits("region = ''", table, region="") == [True]
    assert hits("day IS NULL", table, day="") == [True]


def test_partition_values_decide_a_whole_file() -> None:
    def whole(text: str, region: str | None = "EU") -> str:
        truths = FileTruths(bind(text, SCHEMA), [file_slice(region=region)])
        return "every row" if truths.all_rows[0] else "no row" if truths.no_row[0] else "unknown"

    truths = [
        whole(text)
        for text in (
            "region = 'EU'",
            "region = 'US'",
            "x = 1",
            "region = 'EU' AND x = 1",
            "region = 'US' AND x = 1",
        )
    ]
    assert truths == ["every row", "no row", "unknown", "unknown", "no row"]
    assert whole("region = 'EU' OR x = 1") == "every row"
    assert whole("CAST(NULL AS BOOLEAN)", None) == "no row"
    assert whole("x = x", None) == "unknown"


STATS = {
    "numRecords": 10,
    "minValues": {"x": 5, "s": "b", "t": "2020-01-01T00:00:00.000Z", "d": 1.0},
    "maxValues": {"x": 9, "s": "d", "t": "2020-01-01T00:00:00.123Z", "d": 2.0},
    "nullCount": {"x": 0, "s": 3, "p": 10, "t": 0, "d": 0},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 4", False),
        ("x = 5", True),
        ("x > 9", False),
        ("x <> 5", True),
        ("x IS NULL", False),
        ("s IS NULL", True),
        ("s = 'a'", False),
        ("s = 'c'", True),
        ("s IN ('a', 'e')", False),
        ("s <=> NULL", True),
        ("p IS NULL", True),
        ("p = 2", False),
        ("p IS NOT NULL", False),
        ("t > '2020-01-01 00:00:00.123999'", False),
        ("t > '2020-01-01 00:00:00.123998'", True),
        ("d > 2", True),
        ("d < 1", False),
        ("b", True),
        ("x = 4 OR s = 'c'", True),
        ("x = 4 OR s = 'a'", False),
        ("x = 5 AND s = 'a'", False),
        ("FALSE", False),
        ("CAST(NULL AS BOOLEAN)", False),
        ("x = x", True),
        ("x = 4 AND x = x", False),
    ],
)
def test_a_file_is_pruned_only_where_statistics_prove_it(text: str, expected: bool) -> None:
    assert can(text, STATS) is expected


def test_a_file_without_statistics_is_kept_even_if_it_is_said_to_have_no_rows() -> None:
    assert can("x = 1", None)
    assert can("x = 1", {})
    assert can("x = 1", {"numRecords": 0})
    assert can("x = 1", {"numRecords": 0, "nullCount": {"x": 0}})


def test_null_counts_that_are_not_tight_prove_nothing() -> None:
    loose = {**STATS, "tightBounds": False, "nullCount": {"x": 4}}
    assert can("x IS NULL", loose)
    assert can("x = 5", loose)
    assert not can("x = 4", loose)


def test_a_list_of_many_values_costs_one_search_a_row() -> None:
    listed = ", ".join(str(n) for n in range(0, 20_000, 2))
    table = pa.table({"x": pa.array(np.arange(50_000) % 20_000, pa.int32())})
    node = bind(f"x IN ({listed})", SCHEMA)
    assert matches(node, table, {}).sum() == 25_000
    assert matches(negate(node), table, {}).sum() == 25_000


def test_extreme_integers_stay_within_their_type() -> None:
    longs = schema(("x", "long"))
    table = pa.table({"x": pa.array([-(2**63), 0, 2**63 - 1], pa.int64())})
    for text, expected in (
        ("x > 9223372036854775807", [False, False, False]),
        ("x < -9223372036854775808", [False, False, False]),
        ("x >= 9223372036854775807", [False, False, True]),
        ("x > 9.3e18D", [False, False, False]),
        ("x < 9223372036854775807D", [True, True, False]),
    ):
        assert matches(bind(text, longs), table, {}).tolist() == expected, text


def test_many_alternatives_are_met_by_the_rows_that_meet_one_of_them() -> None:
    rng = np.random.default_rng(3)
    x, d = rng.integers(0, 50, 300), rng.integers(0, 50, 300)
    table = pa.table({"x": pa.array(x, pa.int32(), mask=x == 7), "d": pa.array(d, pa.float64())})
    pairs = [(n % 60, n % 41) for n in range(0, 900, 13)]
    text = " OR ".join(f"(x = {a} AND d > {b})" for a, b in pairs)
    wanted = [any(n == a and v > b and n != 7 for a, b in pairs) for n, v in zip(x, d, strict=True)]
    assert hits(text, table) == wanted
    assert hits(f"{text} OR x IS NULL AND d >= 0", table) == [
        w or n == 7 for w, n in zip(wanted, x, strict=True)
    ]
    assert hits(text, table.slice(0, 0)) == []


def test_many_conditions_that_exclude_a_value_are_met_by_the_rows_that_meet_all_of_them() -> None:
    rng = np.random.default_rng(4)
    x, d = rng.integers(0, 50, 300), rng.integers(0, 50, 300)
    table = pa.table({"x": pa.array(x, pa.int32(), mask=x == 7), "d": pa.array(d, pa.float64())})
    pairs = [(n % 60, n % 41) for n in range(0, 900, 13)]
    text = " AND ".join(f"(x <> {a} OR d > {b})" for a, b in pairs)
    wanted = [
        all((n != 7 and n != a) or v > b for a, b in pairs)
        for n, v in zip(x.tolist(), d.tolist(), strict=True)
    ]
    assert hits(text, table) == wanted
    known = table.filter(pa.array(x != 7))
    assert hits(text, known) == [w for w, n in zip(wanted, x.tolist(), strict=True) if n != 7]
    either = " AND ".join(f"(NOT (x <=> {a}) OR d > {b})" for a, b in pairs)
    assert hits(either, table) == [
        all((n == 7 or n != a) or v > b for a, b in pairs)
        for n, v in zip(x.tolist(), d.tolist(), strict=True)
    ]
    raising = f"{text} AND (x <> 1000 OR 1 / (x - x) > 0)"
    assert hits(raising, known) == hits(text, known)
    assert hits(text, table.slice(0, 0)) == []


def test_conditions_that_every_row_meets_by_one_leaf_are_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    before = truth.in_values

    def counted(values: Any, wanted: ValueSet, type_: Any) -> Any:
        asked.append(wanted)
        return before(values, wanted, type_)

    monkeypatch.setattr(truth, "in_values", counted)
    text = " AND ".join(f"(x <> {n * 100 + 5} OR s <> 'k{n}')" for n in range(300))
    table = pa.table({"x": pa.array(range(100, 110), pa.int32()), "s": ["k1"] * 10})
    assert hits(text, table).count(False) == 1
    assert len(asked) == 2


@pytest.mark.parametrize("text", ["x IN ({})", "x NOT IN ({})", "s IN ('{}')", "s < 'a' OR s IN ('{}')"])
def test_a_list_is_made_ready_once_for_all_files_and_sought_by_bisection(text: str) -> None:
    long = text.format(("', '" if "'" in text else ", ").join(map(str, range(0, 40_000, 2))))
    low, high = ("1", "3") if "'" in text else (1, 3)
    stats = {"numRecords": 2, "minValues": {"x": low, "s": low}, "maxValues": {"x": high, "s": high}}
    pieces = [file_slice(stats) for _ in range(50)]
    node: Any = bind(long, SCHEMA)
    assert FileTruths(node, pieces).can_match.all()
    spans, gaps = node.true.prepared.spans, node.true.prepared.gaps
    assert FileTruths(node, pieces).can_match.all()
    assert node.true.prepared.spans is spans
    assert node.true.prepared.gaps is gaps


def test_a_span_is_sought_in_no_more_steps_than_bisection_takes() -> None:
    class Counted(list):  # type: ignore[type-arg]
        asked = 0

        def __getitem__(self, at: Any) -> Any:
            Counted.asked += 1
            return super().__getitem__(at)

    spans = Counted(ValueSet.points(range(0, 200_000, 2)).spans())
    assert meets(spans, closed(99_998, 99_998))
    assert not meets(spans, closed(99_999, 99_999))
    assert 0 < Counted.asked < 50


def test_alternatives_that_no_row_of_a_file_can_meet_are_left_out_of_its_scan() -> None:
    node = bind(" OR ".join(f"(x = {n} AND s = 'a')" for n in range(100)), SCHEMA)
    stats = [{"numRecords": 9, "minValues": {"x": n}, "maxValues": {"x": n + 1}} for n in (0, 50, 500)]
    truths = FileTruths(node, [file_slice(found) for found in stats])
    assert truths.can_match.tolist() == [True, True, False]
    assert [len(getattr(truths.narrowed(n), "children", ())) for n in range(3)] == [2, 2, 0]
